"""LRU cache bounded by bytes or entries, and a value that expires."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from threading import Lock
from time import monotonic
from typing import Any, Generic, TypeVar

T = TypeVar("T")

ENTRY_BYTES = 400  # overhead of one entry


class ByteLRU:
    """Thread-safe LRU cache of at most `max_bytes` and `max_entries`; entries belong to groups invalidated together.

    The newest entry stays even if it alone exceeds `max_bytes`, unless that is 0: then nothing is cached. None means
    no limit. Concurrent misses of one key may compute the value twice; one result is cached.
    """

    def __init__(self, max_bytes: int | None, max_entries: int | None = None) -> None:
        self.max_bytes, self.max_entries = max_bytes, max_entries
        self.nbytes = 0
        self._entries: OrderedDict[tuple[Hashable, Hashable], tuple[Any, int]] = OrderedDict()
        self._groups: dict[Hashable, set[Hashable]] = {}
        self._lock = Lock()

    def get(self, group: Hashable, key: Hashable, compute: Callable[[], T], size: Callable[[T], int]) -> T:
        """Return the cached value; compute and cache it on a miss."""
        with self._lock:
            entry = self._entries.get((group, key))
            if entry is not None:
                self._entries.move_to_end((group, key))
                value: T = entry[0]
                return value
        value = compute()
        self.put(group, key, value, size(value))
        return value

    def peek(self, group: Hashable, key: Hashable) -> Any:
        """Return the cached value, or None; do not mark it as used."""
        with self._lock:
            entry = self._entries.get((group, key))
        return None if entry is None else entry[0]

    def lookup(self, group: Hashable, key: Hashable) -> Any:
        """Return the cached value and mark it as used; None on a miss."""
        with self._lock:
            entry = self._entries.get((group, key))
            if entry is None:
                return None
            self._entries.move_to_end((group, key))
            return entry[0]

    def put(self, group: Hashable, key: Hashable, value: Any, size: int) -> None:
        """Cache a value of `size` bytes, unless the key is cached already; evict the least recently used entries."""
        with self._lock:
            if (group, key) not in self._entries:
                self._entries[group, key] = (value, size + ENTRY_BYTES)
                self._groups.setdefault(group, set()).add(key)
                self.nbytes += size + ENTRY_BYTES
            while self._is_full():
                self._remove(*next(iter(self._entries)))

    def pop(self, group: Hashable, key: Hashable) -> Any:
        """Remove an entry and return its value, or None."""
        with self._lock:
            return self._remove(group, key) if (group, key) in self._entries else None

    def invalidate(self, groups: Iterable[Hashable]) -> None:
        """Remove all entries of these groups."""
        with self._lock:
            for group in groups:
                for key in list(self._groups.get(group, ())):
                    self._remove(group, key)

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
            self._groups.clear()
            self.nbytes = 0

    def _is_full(self) -> bool:
        if self.max_entries is not None and len(self._entries) > self.max_entries:
            return True
        if self.max_bytes is None or self.nbytes <= self.max_bytes:
            return False
        return len(self._entries) > 1 or self.max_bytes == 0

    def _remove(self, group: Hashable, key: Hashable) -> Any:
        value, size = self._entries.pop((group, key))
        self.nbytes -= size
        keys = self._groups[group]
        keys.discard(key)
        if not keys:
            del self._groups[group]
        return value


class ExpiringValue(Generic[T]):
    """Thread-safe cached value, computed again when it is older than `seconds`; an error is cached likewise.

    While one thread computes it, others get the last one.
    """

    def __init__(self, compute: Callable[[], T], seconds: float) -> None:
        self._compute, self._seconds, self._lock = compute, seconds, Lock()
        self._last: tuple[float, T | None, Exception | None] | None = None  # when, the value, or the error

    def get(self) -> T:
        if self._last is None or monotonic() - self._last[0] >= self._seconds:
            self._refresh()
        assert self._last is not None
        _, value, error = self._last
        if error is not None:
            raise error.with_traceback(None)
        return value  # type: ignore[return-value]

    def _refresh(self) -> None:
        if not self._lock.acquire(blocking=self._last is None or not self._seconds):
            return
        try:
            self._last = monotonic(), self._compute(), None
        except Exception as error:
            self._last = monotonic(), None, error
        finally:
            self._lock.release()
