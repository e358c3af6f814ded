"""What a reader has made on demand, within a number of bytes: what was not used for the longest time goes first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")

EACH = 400  # bytes that anything costs beside what it holds


class Kept:
    """Things by the group they are of, a file say, and a name. Safe to use from several threads; what two of them make
    at once is kept once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.nbytes = 0
        self._held: OrderedDict[tuple[Hashable, Hashable], tuple[Any, int]] = OrderedDict()
        self._groups: dict[Hashable, set[Hashable]] = {}
        self._lock = Lock()

    def get(self, group: Hashable, name: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """What is kept under a name; made now if it is not."""
        with self._lock:
            found = self._held.get((group, name))
            if found is not None:
                self._held.move_to_end((group, name))
                made: T = found[0]
                return made
        made = make()
        cost = size(made) + EACH
        with self._lock:
            if (group, name) not in self._held:
                self._held[group, name] = (made, cost)
                self._groups.setdefault(group, set()).add(name)
                self.nbytes += cost
            while self.nbytes > self.most and len(self._held) > 1:
                (other, old), (_, freed) = self._held.popitem(last=False)
                self._groups[other].discard(old)
                self.nbytes -= freed
        return made

    def peek(self, group: Hashable, name: Hashable) -> Any:
        """What is kept under a name; None if nothing is."""
        with self._lock:
            found = self._held.get((group, name))
        return None if found is None else found[0]

    def forget(self, groups: Iterable[Hashable]) -> None:
        """Let go of everything in some groups."""
        with self._lock:
            for group in groups:
                for name in self._groups.pop(group, ()):
                    self.nbytes -= self._held.pop((group, name))[1]
