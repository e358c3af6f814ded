"""What a reader has made on demand, within a number of bytes: what was not used for the longest time goes first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")

EACH = 200  # bytes that anything costs beside what it holds


class Kept:
    """Safe to use from several threads; what two of them make at once is kept once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.nbytes = 0
        self._held: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, name: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """What is kept under a name; made now if it is not."""
        with self._lock:
            found = self._held.get(name)
            if found is not None:
                self._held.move_to_end(name)
                made: T = found[0]
                return made
        made = make()
        cost = size(made) + EACH
        with self._lock:
            if name not in self._held:
                self._held[name] = (made, cost)
                self.nbytes += cost
            while self.nbytes > self.most and len(self._held) > 1:
                self.nbytes -= self._held.popitem(last=False)[1][1]
        return made

    def forget(self, chosen: Callable[[Any], bool]) -> None:
        """Let go of everything whose name is chosen."""
        with self._lock:
            for name in [name for name in self._held if chosen(name)]:
                self.nbytes -= self._held.pop(name)[1]

    def __len__(self) -> int:
        return len(self._held)
