"""ByteLRU: limits in bytes and entries, groups, eviction order. ExpiringValue: computed when it is too old."""

from threading import Event, Thread

import pytest

from quantide import caching
from quantide.caching import ENTRY_BYTES, ByteLRU, ExpiringValue


def fill(cache: ByteLRU, *keys: int, size: int = 100) -> None:
    for key in keys:
        assert cache.get(key % 2, key, lambda key=key: -key, lambda _: size) == -key  # type: ignore[misc]


def cached(cache: ByteLRU, *keys: int) -> list[int]:
    return [key for key in keys if cache.peek(key % 2, key) is not None]


def test_the_least_recently_used_entry_is_evicted_first() -> None:
    cache = ByteLRU(3 * (ENTRY_BYTES + 100))
    fill(cache, 1, 2, 3, 1, 4)
    assert cached(cache, 1, 2, 3, 4) == [1, 3, 4]
    assert cache.nbytes == 3 * (ENTRY_BYTES + 100)


def test_a_cached_value_is_not_computed_again() -> None:
    cache, numbers = ByteLRU(None), iter(range(9))
    for _ in range(2):
        assert cache.get("group", "key", lambda: next(numbers), lambda _: 0) == 0
    assert next(numbers) == 1


def test_a_limit_of_entries_counts_no_bytes() -> None:
    cache = ByteLRU(None, 2)
    fill(cache, 1, 2, 3, size=10**9)
    assert cached(cache, 1, 2, 3) == [2, 3]


def test_the_newest_entry_stays_unless_nothing_may_be_cached() -> None:
    for max_bytes, left in ((1, [2]), (0, [])):
        cache = ByteLRU(max_bytes)
        fill(cache, 1, 2)
        assert cached(cache, 1, 2) == left
        assert cache.nbytes == len(left) * (ENTRY_BYTES + 100)


def test_groups_are_invalidated_and_leave_nothing_behind() -> None:
    cache = ByteLRU(None, 100)
    fill(cache, *range(500))
    cache.invalidate([0, "unknown"])
    assert cached(cache, *range(500)) == list(range(401, 500, 2))
    assert cache.pop(1, 499) == -499
    assert cache.pop(1, 499) is None
    cache.invalidate([1])
    assert (cache.nbytes, cache._entries, cache._groups) == (0, {}, {})
    fill(cache, 1)
    cache.clear()
    assert (cache.nbytes, cached(cache, 1)) == (0, [])


def test_put_does_not_replace_a_value() -> None:
    cache = ByteLRU(None)
    cache.put("group", "key", 1, 10)
    cache.put("group", "key", 2, 20)
    assert cache.peek("group", "key") == 1
    assert cache.nbytes == ENTRY_BYTES + 10


def test_a_value_is_computed_again_once_it_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    now, numbers = [0.0], iter(range(9))
    monkeypatch.setattr(caching, "monotonic", lambda: now[0])
    value = ExpiringValue(lambda: next(numbers), 5.0)
    assert [value.get(), value.get()] == [0, 0]
    now[0] = 4.9
    assert value.get() == 0
    now[0] = 5.0
    assert value.get() == 1
    always = ExpiringValue(lambda: next(numbers), 0.0)
    assert [always.get(), always.get()] == [2, 3]


def test_an_error_expires_like_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    now, results = [0.0], iter(list[OSError | str]([OSError("gone"), "here"]))
    monkeypatch.setattr(caching, "monotonic", lambda: now[0])

    def compute() -> str:
        result = next(results)
        if isinstance(result, OSError):
            raise result
        return result

    value = ExpiringValue(compute, 5.0)
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            value.get()
    now[0] = 5.0
    assert value.get() == "here"


def test_the_last_value_is_returned_while_another_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    now, started, finish, numbers = [0.0], Event(), Event(), iter(range(9))
    monkeypatch.setattr(caching, "monotonic", lambda: now[0])

    def compute() -> int:
        number = next(numbers)
        if number:
            started.set()
            finish.wait(30)
        return number

    value = ExpiringValue(compute, 5.0)
    assert value.get() == 0
    now[0] = 5.0
    thread = Thread(target=value.get)
    thread.start()
    assert started.wait(30)
    assert value.get() == 0
    finish.set()
    thread.join()
    assert value.get() == 1
