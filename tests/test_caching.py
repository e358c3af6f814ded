"""ByteLRU: limits in bytes and entries, groups, eviction order."""

from quantide.caching import ENTRY_BYTES, ByteLRU


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
