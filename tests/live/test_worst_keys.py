"""Worst keys against brute force: every bound of every key, every position, and every claim about the order."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide.errors import EmptyError, InvalidArgumentError, SpanError
from quantide.live import LiveStream
from quantide.summary import keyed_merge
from quantide.summary.answer import Answer
from quantide.summary.key_ranking import KeyRankingAsOf
from tests import oracle
from tests.live.live_model import Beyond, Grown, Key, Model, Rng, scope_arguments, small, some_window

KINDS = ("float64", "float32", "int64", "decimal[2]", "timestamp[us, tz=UTC]", "duration[ms]")
SHAPES: dict[str, Any] = {
    "random": lambda rng, n: rng.integers(-1000, 1000, n),
    "ties": lambda rng, n: rng.choice([-5, 0, 7], n),
    "constant": lambda rng, n: np.full(n, 3),
    "sorted": lambda rng, n: np.sort(rng.integers(0, 500, n)),
    "reversed": lambda rng, n: np.sort(rng.integers(0, 500, n))[::-1],
}


def data_by_key(model: Model, scope: dict[str, Any]) -> dict[Key, Any]:
    """All values of a scope, sorted, by key. `last` counts the rows of all keys."""
    last, out = scope.get("last"), {}
    rows = [
        (key, *row)
        for batch in model.batches[_first_batch(model, scope) :]
        for key, *row in zip(batch.keys, batch.values, _times(batch), *batch.filters.values(), strict=True)
    ]
    selected = rows if last is None else rows[max(0, len(rows) - last) :]
    inside = [row for row in selected if _is_inside(model, scope, row)]
    for key in {row[0] for row in inside}:
        out[key] = sorted(row[1] for row in inside if row[0] == key)
    return out


def _first_batch(model: Model, scope: dict[str, Any]) -> int:
    steps = scope.get("last_steps")
    return 0 if steps is None or steps >= len(model.ends) else model.ends[len(model.ends) - steps - 1]


def _times(batch: Any) -> Any:
    return batch.times if batch.times is not None else [None] * len(batch.values)


def _is_inside(model: Model, scope: dict[str, Any], row: Any) -> bool:
    if scope.get("filter") is not None and not row[3 + model.filters.index(scope["filter"])]:
        return False
    if scope.get("within") is None:
        return True
    until = model.newest if scope.get("now") is None else scope["now"]
    return bool(model.times.threshold(until, scope["within"]) < row[2] <= until)


def check_ranking(ranking: KeyRankingAsOf, data: dict[Key, Any], phi: float) -> None:
    """Check a ranking against the values of every key."""
    most, smallest = ranking.most, ranking.smallest
    true = {key: oracle.exact_quantile(values, phi) for key, values in data.items() if len(values) >= ranking.min_n}
    assert ranking.keys == len(true)
    assert ranking.too_few == len(data) - len(true)
    assert len(ranking.listed) == min(most, len(true))

    def position(key: Key) -> int:
        return 1 + sum(bool(other < true[key] if smallest else other > true[key]) for other in true.values())

    keys = [_as_key(row.key) for row in ranking.listed]
    for i, (key, row) in enumerate(zip(keys, ranking.listed, strict=True)):
        values = data[key]
        assert row.n == len(values)
        assert row.low <= true[key] <= row.high
        assert row.low <= row.value <= row.high
        ranks = row.target, row.rank_lo, row.rank_hi, row.n, row.error, row.n, row.n
        assert oracle.bound_faults(values, Answer(row.value, phi, *ranks)) == []
        assert row.position_lo <= position(key) <= row.position_hi
        assert row.proved == (row.position_hi <= most)
        assert not row.proved or position(key) <= most
        rest = [other for other in true if other not in keys[: i + 1]]
        if row.above_rest:
            assert all(true[other] > true[key] if smallest else true[other] < true[key] for other in rest)
    unlisted = [key for key in true if key not in keys and position(key) <= most]
    assert len(unlisted) <= ranking.contenders <= len(true) - len(keys)
    if ranking.mode == "exact":
        assert all(row.low == row.value == row.high and row.position_lo == row.position_hi for row in ranking.listed)
        assert len(unlisted) == ranking.contenders
        order = sorted(true, key=lambda key: _sort_key(key))
        order.sort(key=lambda key: true[key], reverse=not smallest)
        assert keys == order[:most]


def _as_key(key: Any) -> Key:
    return key if isinstance(key, tuple) else (key,)


def _sort_key(key: Key) -> Any:
    return tuple((part is None, part) for part in key)


def check_questions(live: LiveStream, model: Model, scope: dict[str, Any], rng: Rng) -> None:
    arguments = scope_arguments(model, scope)
    try:
        if "last" in scope or "within" in scope or "filter" in scope:
            model.window(None, *(scope.get(name) for name in ("last", "within", "filter", "now")))
        data = data_by_key(model, scope)
    except Beyond:
        with pytest.raises(SpanError):
            live.worst_keys(0.5, **arguments)
        return
    if not data:
        with pytest.raises(EmptyError):
            live.worst_keys(0.5, **arguments)
        return
    phi = float(rng.choice([0.0, 0.5, 0.9, 1.0, rng.random()]))
    request: dict[str, Any] = {"most": int(rng.integers(1, 5)), "smallest": bool(rng.random() < 0.5)}
    request["min_n"] = int(rng.choice([1, 3]))
    is_window = bool(scope.keys() & {"last", "within", "filter"})
    for mode in (None, "exact") if is_window else (None,):
        ranking = live.worst_keys(phi, mode=mode, **request, **arguments)
        assert ranking.version == live.version
        check_ranking(ranking, data, phi)


@pytest.mark.parametrize("kind", KINDS)
def test_windows_and_history_of_every_type(kind: str, tmp_path: Path, rng: Rng, monkeypatch: Any) -> None:
    monkeypatch.setattr(keyed_merge, "MAX_RANGE", 40)
    with small():
        grown = Grown(tmp_path, kind, keys=("a", "b"), filters=("odd",), eps=0.2)
        names = [("x", 1), ("x", 2), ("y", 1), ("", 0), ("z", -3), ("y", 9)]
        for i, shape in enumerate([*SHAPES, *SHAPES]):
            rows = int(rng.integers(1, 60))
            chosen = [names[k] for k in rng.integers(0, len(names), rows)]
            odd = rng.random(rows) < 0.5
            grown.append(SHAPES[shape](rng, rows), rng.integers(0, 50, rows) + 20 * i, chosen, odd=odd)
            if i % 3 == 2:
                grown.end_step()
        grown.settle()
        with LiveStream(grown.path, follow=False) as live:
            for last_steps in [None, *(span.last_steps for span in live.spans())]:
                check_questions(live, grown.model, {"last_steps": last_steps} if last_steps else {}, rng)
            for _ in range(25):
                check_questions(live, grown.model, some_window(grown.model, rng, None), rng)
        grown.history.close()


def test_keys_of_many_rows_use_summaries_and_stay_right(tmp_path: Path, rng: Rng) -> None:
    """Stored summaries leave intervals that overlap: positions are ranges, and contenders exist."""
    with small(most=10**6, heavy=1):
        grown = Grown(tmp_path, keys=("a",), eps=0.2)
        names = [(f"k{i}",) for i in range(8)]
        for part in range(3):
            chosen = [names[k] for k in rng.integers(0, 8, 900)]
            grown.append(rng.integers(0, 200, 900), part, chosen)
        grown.settle()
        with LiveStream(grown.path, follow=False) as live:
            scope: dict[str, Any] = {"last": grown.model.n}
            ranking = live.worst_keys(0.5, most=3, **scope)
            assert any(row.low < row.high for row in ranking.listed)
            assert any(not row.proved for row in ranking.listed)
            assert ranking.contenders
            for _ in range(20):
                check_questions(live, grown.model, scope, rng)
        grown.history.close()


def test_ties_have_one_position_and_the_order_of_keys(tmp_path: Path) -> None:
    grown = Grown(tmp_path, keys=("a",))
    grown.append([5, 5, 5, 9, 1], 0, [("c",), ("a",), ("b",), ("d",), ("e",)])
    with LiveStream(grown.path, follow=False) as live:
        ranking = live.worst_keys(0.5, most=2, within=60)
        assert [row.key for row in ranking.listed] == ["d", "a"]
        assert [(row.position_lo, row.position_hi) for row in ranking.listed] == [(1, 1), (2, 2)]
        assert [row.above_rest for row in ranking.listed] == [True, False]
        assert ranking.contenders == 2, "b and c are as bad as a"
        smallest = live.worst_keys(0.5, most=2, smallest=True)
        assert [row.key for row in smallest.listed] == ["e", "a"]
        assert smallest.mode == "quick"
        assert smallest.last_steps == 0
    grown.history.close()


def test_infinities_null_keys_and_one_key(tmp_path: Path) -> None:
    grown = Grown(tmp_path, keys=("a",))
    grown.append([1], 0, [("x",)])
    grown.history.append([np.inf, -np.inf, 2.0], key=[None, "y", "x"], times=[0.0, 0.0, 0.0])
    with LiveStream(grown.path, follow=False) as live:
        assert [(row.key, row.value) for row in live.worst_keys(1.0, last=10**6).listed] == [
            (None, np.inf),
            ("x", 2.0),
            ("y", -np.inf),
        ]
        only = live.worst_keys(1.0, min_n=2)
        assert (only.keys, only.too_few, only.listed[0].above_rest) == (1, 2, True)
        assert live.worst_keys(1.0, min_n=9).listed == []
    grown.history.close()


def test_the_next_commit_is_counted(tmp_path: Path) -> None:
    grown = Grown(tmp_path, keys=("a",))
    grown.append([1, 2], 0, [("x",), ("y",)])
    with LiveStream(grown.path, follow=False) as live:
        scopes: list[dict[str, Any]] = [{}, {"within": 60}]
        for scope in scopes:
            assert live.worst_keys(0.5, **scope).listed[0].key == "y"
        grown.append([9], 0, [("x",)])
        live.poll()
        for scope in scopes:
            ranking = live.worst_keys(1, **scope)
            assert (ranking.listed[0].key, ranking.version) == ("x", live.version)
    grown.history.close()


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    grown = Grown(tmp_path / "keyed", keys=("a",))
    plain = Grown(tmp_path / "plain")
    for store in (grown, plain):
        store.append([1, 2], 0, [("x",), ("y",)] if store is grown else ())
    with LiveStream(plain.path, follow=False) as live, pytest.raises(InvalidArgumentError, match="no keys"):
        live.worst_keys(0.5)
    with LiveStream(grown.path, follow=False) as live:
        refusals: list[tuple[dict[str, Any], str]] = [
            ({"most": 0}, "most must be at least 1"),
            ({"min_n": 1.5}, "min_n must be a whole number"),
            ({"key": "x"}, "among all keys"),
            ({"mode": "exact"}, "mode='quick'"),
            ({"mode": "fast", "within": 60}, "not one of"),
            ({"filter": "slow"}, "not known"),
            ({"last": 3, "last_steps": 1}, "one of the two"),
        ]
        for arguments, text in refusals:
            with pytest.raises(InvalidArgumentError, match=text):
                live.worst_keys(0.5, **arguments)
        with pytest.raises(InvalidArgumentError, match="phi"):
            live.worst_keys(1.5)
        with pytest.raises(EmptyError):
            live.worst_keys(0.5, within=1, now=-(10**6))
    for store in (grown, plain):
        store.history.close()
