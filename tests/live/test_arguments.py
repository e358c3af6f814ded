"""Wrong arguments: each raises a named error with advice, and changes nothing."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from quantide import History
from quantide.errors import (
    EmptyError,
    InvalidArgumentError,
    QuantideError,
    SettingsError,
    SpanError,
    StorageError,
    TypeMismatchError,
    UnknownKeyError,
)
from quantide.live import LiveStream

Wrong = tuple[dict[str, Any], type[QuantideError], str]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    with History(tmp_path_factory.mktemp("live") / "store", eps=0.05, keys="host", filters=["f"]) as found:
        found.append(np.arange(100.0), key="a", times=np.arange(100.0), filters={"f": True})
        yield found


@pytest.fixture(scope="module")
def live(history: History) -> LiveStream:
    return LiveStream(history.path, follow=False)


QUESTIONS: list[Wrong] = [
    ({"phi": -0.1, "last": 5}, InvalidArgumentError, "phi"),
    ({"phi": "a", "last": 5}, InvalidArgumentError, "phi"),
    ({"phi": [0.5], "last": 5}, InvalidArgumentError, "one number"),
    ({"phi": np.nan}, InvalidArgumentError, "phi"),
    ({"last": 0}, InvalidArgumentError, "at least 1"),
    ({"last": True}, InvalidArgumentError, "whole number"),
    ({"last": 2.0}, InvalidArgumentError, "whole number"),
    ({"last": [1]}, InvalidArgumentError, "whole number"),
    ({"within": "soon"}, InvalidArgumentError, "length of time"),
    ({"within": [5]}, InvalidArgumentError, "length of time"),
    ({"within": -1}, InvalidArgumentError, "above zero"),
    ({"within": True}, InvalidArgumentError, "length of time"),
    ({"within": float("inf")}, InvalidArgumentError, "length of time"),
    ({"within": "25 hours"}, SpanError, "1 d that are kept"),
    ({"within": 5, "now": -1e6}, SpanError, "kept"),
    ({"within": 5, "now": 1e9}, EmptyError, "longer"),
    ({"within": 5, "now": "noon"}, TypeMismatchError, "read"),
    ({"within": 5, "now": [1, 2]}, InvalidArgumentError, "one time"),
    ({"within": 5, "now": np.datetime64("2020-01-01")}, TypeMismatchError, "seconds before"),
    ({"within": 5, "now": float("nan")}, InvalidArgumentError, "nan"),
    ({"now": 5}, InvalidArgumentError, "together with within="),
    ({"now": 5, "last": 5}, InvalidArgumentError, "together with within="),
    ({"filter": "g"}, InvalidArgumentError, "declared are f"),
    ({"filter": ["f"]}, InvalidArgumentError, "declared are f"),
    ({"filter": 1}, InvalidArgumentError, "declared are f"),
    ({"last": 5, "last_steps": 1}, InvalidArgumentError, "one of the two"),
    ({"last_steps": -1}, InvalidArgumentError, "at least 0"),
    ({"key": "b"}, UnknownKeyError, "'b'"),
    ({"key": "b", "last": 5}, UnknownKeyError, "'b'"),
    ({"key": 1.5, "within": 5}, UnknownKeyError, "1.5"),
    ({"key": ("a", "b"), "last": 5}, InvalidArgumentError, "1 part: host"),
    ({"key": [], "last": 5}, InvalidArgumentError, "1 part: host"),
    ({"key": {}, "last": 5}, UnknownKeyError, "no key"),
    ({"key": object(), "last": 5}, UnknownKeyError, "no key"),
    ({"mode": "fast"}, InvalidArgumentError, "quick"),
    ({"mode": "fast", "last": 5}, InvalidArgumentError, "quick"),
    ({"mode": [1], "last": 5}, InvalidArgumentError, "quick"),
]


def named(wrong: object) -> str:
    """The same in every process: no addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(wrong))[:60]


@pytest.mark.parametrize(("arguments", "error", "match"), QUESTIONS, ids=named)
def test_questions(arguments: dict[str, Any], error: type[QuantideError], match: str, live: LiveStream) -> None:
    """Query invalid arguments twice, to find cached faults, then valid ones."""
    given = {"phi": 0.5, **arguments}
    for _ in range(2):
        with pytest.raises(error, match=match):
            live.answer(**given)
    phi = given.pop("phi")
    if "phi" not in arguments:
        with pytest.raises(error, match=match):
            live.quantiles([phi], **given)
        with pytest.raises(error, match=match):
            live.rank(3.0, **given)
        with pytest.raises(error, match=match):
            live.cdf([3.0], **given)
        if "mode" not in given:
            with pytest.raises(error, match=match):
                live.compare(phi, **given)
            with pytest.raises(error, match=match):
                live.compare(phi, against=given)
    assert live.answer(0.5, last=5, key="a").value == 97


@pytest.mark.parametrize(
    ("arguments", "error"),
    [(arguments, error) for arguments, error, _ in QUESTIONS if not {"phi", "mode"} & set(arguments)],
    ids=named,
)
def test_monitors(arguments: dict[str, Any], error: type[QuantideError], live: LiveStream) -> None:
    """A monitor is refused like a query; but its key may be new later, and its window may be empty for now."""
    before = live.stats()["monitors"]
    accepted = error in (UnknownKeyError, EmptyError) and arguments.get("key") != {}  # which cannot be a key
    with nullcontext() if accepted else pytest.raises(QuantideError):
        live.monitor(**arguments)
    assert live.stats()["monitors"] == before + accepted


@pytest.mark.parametrize(
    "call",
    [
        lambda live: live.monitor(bogus=1),
        lambda live: live.summary(bogus=1),
        lambda live: live.compare(0.5, bogus=1),
        lambda live: live.compare(0.5, against={"bogus": 1}),
        lambda live: live.compare(0.5, against="last week"),
        lambda live: live.compare(0.5, against={1: 2}),
        lambda live: live.monitor(eps=2, last=5),
        lambda live: live.monitor(eps="x", last=5),
        lambda live: live.monitor(eps=[0.1], last=5),
        lambda live: live.monitor(last=[5]),
        lambda live: live.rank(None, last=5),
        lambda live: live.rank("a", last=5),
        lambda live: live.rank(np.nan, last=5),
    ],
    ids=range(13),
)
def test_invalid_arguments(call: Any, live: LiveStream) -> None:
    with pytest.raises(QuantideError):
        call(live)


@pytest.mark.parametrize(
    ("other", "against", "match"),
    [
        ({"last_steps": 0}, None, "dict is for against="),
        (0.5, "last week", "type str is not a window; give a dict"),
        (0.5, {"bogus": 1}, "bogus= is not an argument of a window; use key, last"),
    ],
)
def test_comparisons_name_what_is_given_instead(other: Any, against: Any, match: str, live: LiveStream) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        live.compare(other, against=against)


APPENDS: list[tuple[dict[str, Any], str]] = [
    ({"times": [1.0]}, "1 times for 2 values"),
    ({"times": [1.0, 2.0, 3.0]}, "3 times for 2 values"),
    ({"times": []}, "0 times for 2 values"),
    ({"times": np.zeros((1, 2))}, "one-dimensional"),
    ({"times": ["a", "b"]}, "read"),
    ({"times": "now"}, "read"),
    ({"times": [np.nan, 1]}, "nan"),
    ({"times": [np.inf, 1]}, "infinite"),
    ({"times": [None, 1]}, "null"),
    ({"times": None}, "earlier values came with times"),
    ({"times": np.array([1, 2], "M8[s]")}, "were seconds before"),
    ({"times": np.datetime64("2020-01-01")}, "were seconds before"),
    ({"times": np.timedelta64(1, "s")}, "not supported"),
    ({"times": pa.array([1, 2], pa.duration("s"))}, "not supported"),
    ({"times": [True, False]}, "True"),
    ({"times": [10**17, 1]}, "timestamps"),
    ({"times": {}}, "read"),
    ({"times": object()}, "read"),
    ({"filters": None}, "declared are f"),
    ({"filters": {}}, "declared are f"),
    ({"filters": {"f": True, "g": True}}, "declared are f"),
    ({"filters": {"f": [1, 0]}}, "true or false"),
    ({"filters": {"f": [True]}}, "true or false"),
    ({"filters": {"f": "x"}}, "true or false"),
    ({"filters": {"f": None}}, "true or false"),
    ({"filters": {"f": np.ones((2, 2), bool)}}, "true or false"),
    ({"filters": ["f"]}, "filters"),
    ({"filters": 5}, "filters"),
    ({"filters": "f"}, "filters"),
    ({"values": [1.0, np.nan]}, "nan"),
    ({"values": ["a", "b"]}, "read"),
    ({"key": None}, "need a key"),
    ({"key": ["a"]}, "keys"),
]


@pytest.mark.parametrize(("wrong", "match"), APPENDS, ids=named)
def test_appends(wrong: dict[str, Any], match: str, history: History) -> None:
    given = {"values": [1.0, 2.0], "key": "a", "times": [1.0, 2.0], "filters": {"f": True}, **wrong}
    before = history.n, history.version, history.table.manifest_number
    with pytest.raises(QuantideError, match=match):
        history.append(**given)
    assert (history.n, history.version, history.table.manifest_number) == before


def test_times_after_none(tmp_path: Path) -> None:
    with History(tmp_path) as history:
        history.append([1.0])
        with pytest.raises(InvalidArgumentError, match="without times; give none"):
            history.append([1.0], times=5.0)
        assert history.n == 1
        history.append([1.0])
    with History(tmp_path) as history:
        with pytest.raises(InvalidArgumentError, match="without times; give none"):
            history.append([1.0], times=5.0)
        assert LiveStream(tmp_path, follow=False).answer(1, last=9).n == 2


def test_no_filters_declared(tmp_path: Path) -> None:
    with History(tmp_path) as history:
        with pytest.raises(InvalidArgumentError, match="none are declared"):
            history.append([1.0], filters={"f": True})
        history.append([1.0])
        with pytest.raises(InvalidArgumentError, match="none is declared"):
            LiveStream(tmp_path, follow=False).answer(1, filter="f")


@pytest.mark.parametrize("window", ["0", "0/7", "5/0", -1, "soon", True, [1], b"", float("nan"), "", "0 s"], ids=str)
def test_windows_of_a_store(window: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError):
        History(tmp_path / "store", window=window)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("filters", [[1], "", ["a", "a"], [f"f{i}" for i in range(17)], 5, [None]], ids=str)
def test_filters_of_a_store(filters: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="filters"):
        History(tmp_path / "store", filters=filters)
    assert not (tmp_path / "store").exists()


def test_other_settings(history: History, tmp_path: Path) -> None:
    given: list[dict[str, Any]] = [{"window": "2 days"}, {"window": 0}, {"filters": ["g"]}, {"filters": ["f", "g"]}]
    for other in given:
        with pytest.raises((SettingsError, InvalidArgumentError)):
            History(history.path, **other)
    assert History(history.path, window="1 day", filters="f").n == 100
    with pytest.raises(InvalidArgumentError, match="window"):
        History(tmp_path / "store", window=0, filters="f")


OPENED: list[tuple[dict[str, Any], type[QuantideError]]] = [
    ({"memory": 0}, InvalidArgumentError),
    ({"memory": "much"}, InvalidArgumentError),
    ({"memory": None}, InvalidArgumentError),
    ({"memory": 1.5}, InvalidArgumentError),
    ({"window": 0}, InvalidArgumentError),
    ({"window": "soon"}, InvalidArgumentError),
    ({"window": -5}, InvalidArgumentError),
    ({"path": ""}, InvalidArgumentError),
    ({"path": "nowhere/at/all"}, StorageError),
]


@pytest.mark.parametrize(("wrong", "error"), OPENED, ids=str)
def test_opening(wrong: dict[str, Any], error: type[QuantideError], history: History) -> None:
    with pytest.raises(error):
        LiveStream(**{"path": history.path, "follow": False, **wrong})


def test_sixteen_filters(tmp_path: Path, rng: np.random.Generator) -> None:
    """Sixteen filters have a bit each, and are never confused."""
    names = [f"f{i}" for i in range(16)]
    with History(tmp_path, eps=0.05, filters=names) as history:
        masks = {name: rng.random(500) < rng.random() for name in names}
        history.append(np.arange(500.0), filters=masks)
        live = LiveStream(tmp_path, follow=False)
        for name, mask in masks.items():
            assert live.answer(1e-9, filter=name, mode="exact").value == np.flatnonzero(mask)[0]
            assert live.answer(0.5, filter=name).n == mask.sum()
