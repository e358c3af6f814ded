"""Rounds of timed jobs: each job is first as often as it is last, and may run once before it is timed."""

from functools import partial

from bench.timing import interleave


def test_the_order_alternates() -> None:
    calls: list[str] = []
    timed = interleave({name: partial(calls.append, name) for name in "abc"}, {"a": 2, "b": 2, "c": 3})
    assert "".join(calls) == "abc" + "cba" + "c"
    assert list(timed) == ["a", "b", "c"]
    assert [len(one.seconds) for one in timed.values()] == [2, 2, 3]


def test_a_warm_up_is_not_timed() -> None:
    calls: list[str] = []
    timed = interleave({name: partial(calls.append, name) for name in "ab"}, 1, warm_up=True)
    assert "".join(calls) == "ab" + "ab"
    assert [len(one.seconds) for one in timed.values()] == [1, 1]
