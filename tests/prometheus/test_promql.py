"""The parser of PromQL: every text gives an expression or a named error, and its grammar is that of Prometheus."""

import math
import re
from contextlib import suppress
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide.config.stream_metrics import StreamMetrics
from quantide.errors import InvalidArgumentError
from quantide.server.prometheus import series_selection
from quantide.server.prometheus.label_listing import list_label_names, list_label_values
from quantide.server.prometheus.label_matchers import LabelMatcher
from quantide.server.prometheus.metric_catalog import StreamMetric
from quantide.server.prometheus.prometheus_json import read_step
from quantide.server.prometheus.promql_evaluation import QueryEvaluation
from quantide.server.prometheus.promql_parser import RowRate, VectorSelector, parse_query, parse_selectors
from quantide.server.prometheus.query_labels import choose_quantiles
from quantide.typing import Bools

PIECES = [*"(){}[]+-*/%^,=@#", "=~", "!=", "!~", "==", "5m", "1", "0x1F", "1e9", ".5", "inf", "\\", "é"]
PIECES += ["latency", "rate", "offset", "sum", "by", "window"]
PIECES += ['"x"', "'(a'", "`b`", "\n"]
TOKENS = st.lists(st.sampled_from(PIECES))


@given(st.one_of(st.text(), TOKENS.map(" ".join), TOKENS.map("".join)))
def test_every_text_is_parsed_or_refused(query: str) -> None:
    with suppress(InvalidArgumentError):
        parse_query(query)


NUMBERS = st.recursive(
    st.integers(0, 20).map(str) | st.sampled_from(["0.5", "1e2", "0x10", ".25"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(" ".join),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"-({text})"),
    ),
    max_leaves=12,
)


@given(NUMBERS)
def test_arithmetic_is_that_of_python(query: str) -> None:
    found = QueryEvaluation([], [0], 10).evaluate(parse_query(query))
    assert isinstance(found, float)
    try:
        expected = eval(query.replace("0x10", "16"), {"__builtins__": {}})
    except ZeroDivisionError:
        return  # inf or nan, whichever the rest makes of it
    assert math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-300) or not math.isfinite(found)


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("-2 ^ 2", -4.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("7 % 4", 3.0),
        ("-7 % 4", -3.0),
        ("1 / 0", math.inf),
        ("2 - 3 - 4", -5.0),
    ],
)
def test_operators_group_as_in_prometheus(query: str, value: float) -> None:
    assert QueryEvaluation([], [0], 10).evaluate(parse_query(query)) == value


def test_selectors() -> None:
    text = r"""latency{endpoint='/p"ay', quantile=~"0.5|0.9", host!="\u00e9\x41",} offset -1h30m # end"""
    found = parse_query(text)
    assert isinstance(found, VectorSelector)
    assert [(one.label, one.operator, one.text) for one in found.matchers] == [
        ("__name__", "=", "latency"),
        ("endpoint", "=", '/p"ay'),
        ("quantile", "=~", "0.5|0.9"),
        ("host", "!=", "éA"),
    ]
    assert found.offset == -5_400_000
    rate = parse_query("increase({__name__='x_rows_total'}[1d] offset 5m)")
    assert isinstance(rate, RowRate)
    assert (rate.function, rate.span, rate.offset) == ("increase", 86_400_000, 300_000)


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("sum(latency)", r"sum\(\) is not supported"),
        ("latency[5m]", r"'\[' at character 8"),
        ("latency > 5", "'>' at character 9"),
        ("latency @ 5", "'@'"),
        ('"text"', "at character 1"),
        ("", "the end of the query"),
        ("{}", "needs a name"),
        ('{a=~".*"}', "needs a name"),
        ("rate(latency_rows_total)", "'\\)'"),
        ("latency{a=~'('}", "RE2"),
        ("latency{a=~'x)|(y'}", "RE2"),
        ("latency{a=~'((a{1000}){1000}){1000}'}", "RE2"),
        ("latency{a='\\q'}", "escape"),
        ("latency{a='\\ud800'}", "half of a character"),
        ("(" * 100 + "1" + ")" * 100, "nested"),
        ("1+" * 20_000 + "1", "characters"),
        ("1+" * 9_000 + "1", "more than 100 operators"),
        ("latency*" + "1*" * 100 + "1", "more than 100 operators"),
        ("rate(x_rows_total[0s])", "not above zero"),
        ("latency{" + 'a=~"x",' * 21 + "}", "more than 20 regular expressions"),
        ("latency{" + 'a="x",' * 101 + "}", "more than 100 matchers"),
    ],
)
def test_everything_else_is_refused_by_name(query: str, named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named):
        parse_query(query)


TEXTS = st.text("ab./|(", max_size=6)


@given(st.sampled_from(["a.*", "(a|b)+", "a|b/", "", "[^a]", ".+", "a{2}", "(?i)AB"]), st.lists(TEXTS, max_size=5))
def test_matchers_match_whole_texts(pattern: str, texts: list[str]) -> None:
    array = pa.array(texts, pa.string())
    expected = [re.fullmatch(pattern, text) is not None for text in texts]
    assert LabelMatcher("x", "=~", pattern).select(array).tolist() == expected
    assert LabelMatcher("x", "!~", pattern).select(array).tolist() == [not one for one in expected]
    assert LabelMatcher("x", "=", pattern).select(array).tolist() == [text == pattern for text in texts]
    assert LabelMatcher("x", "!=", pattern).select(array).tolist() == [text != pattern for text in texts]


def test_a_pattern_that_others_take_forever_for() -> None:
    matcher = LabelMatcher("x", "=~", "(a+)+b")
    assert not matcher.accepts("a" * 100_000)


def test_many_operators_are_evaluated() -> None:
    assert QueryEvaluation([], [0], 1).evaluate(parse_query("1" + "+1" * 100)) == 101


def test_thousands_of_alternatives_are_matched_with_one_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    quantiles = [f"0.{number:04}" for number in range(1, 2_500)]
    matcher, select, calls = LabelMatcher("quantile", "=~", "|".join(quantiles)), LabelMatcher.select, list[int]()

    def counted(self: LabelMatcher, texts: pa.Array) -> Bools:
        calls.append(len(texts))
        return select(self, texts)

    monkeypatch.setattr(LabelMatcher, "select", counted)
    metric = StreamMetric("latency", None, StreamMetrics())  # type: ignore[arg-type]
    assert set(choose_quantiles(metric, [matcher])) >= set(quantiles)
    assert len(calls) == 1


def test_match_takes_selectors_only() -> None:
    with pytest.raises(InvalidArgumentError):
        parse_selectors(["latency offset 5m"])
    with pytest.raises(InvalidArgumentError):
        parse_selectors(["1"])


def test_selectors_share_the_limit_of_patterns() -> None:
    """A pattern of a few characters may take RE2 a tenth of a second."""
    assert len(parse_selectors(['latency{a=~"x", b!~"y"}'] * 10)) == 10
    with pytest.raises(InvalidArgumentError, match="more than 20 regular expressions"):
        parse_selectors(['latency{a=~"x", b!~"y"}'] * 11)


@pytest.mark.parametrize(
    "step", ["9e999999", "1e999999999999999999", "1e-999999", "0", "-1", "nan", "sNaN", "inf", "x"]
)
def test_steps_that_are_no_length_of_time(step: str) -> None:
    with pytest.raises(InvalidArgumentError, match="step is"):
        read_step(step)


def test_keys_that_match_are_listed_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are matched by columns, without an object for each key: there may be millions."""
    monkeypatch.setattr(series_selection, "_key_at", None)
    live = KeyedStream()
    metric = StreamMetric("latency", live, StreamMetrics())  # type: ignore[arg-type]
    assert list_label_names([metric], []) == ["__name__", "bound", "quantile", "region", "stream", "window"]
    assert list_label_values([metric], "region", parse_selectors(['latency{region!="eu"}'])) == ["us"]
    assert list_label_values([metric], "zone", []) == []


class KeyedStream:
    """Keys of a stream with two columns, of which one is empty."""

    settings = SimpleNamespace(keys=["region", "zone"], filters=[])

    def key_columns(self) -> list[pa.Array]:
        return [pa.array(["eu", "us", "us", ""]), pa.array([None, None, "", ""], pa.string())]
