"""Rewriting of SQL text: calls that are found, text that is left as it is, and parameters that are refused."""

import re

import pytest

from quantide.errors import InvalidArgumentError
from quantide.spark.percentile_rewrite import rewrite_percentiles
from quantide.spark.sorted_percentiles import PercentileQuery


def rewrite(text: str) -> str:
    return rewrite_percentiles(text, lambda percentage: PercentileQuery([float(percentage)], False))


@pytest.mark.parametrize(
    "text",
    [
        "WITH percentile(a, b) AS (SELECT 1, 2) SELECT * FROM percentile",
        "WITH x AS (SELECT 1), percentile(a, b) AS (SELECT 1, 2) SELECT * FROM percentile",
        "SELECT percentile.a FROM VALUES (1, 2) AS percentile(a, b)",
        "SELECT percentile.a FROM VALUES (1, 2) percentile(a, b)",
        "SELECT a FROM t percentile(a, b)",
        "CREATE VIEW percentile (a, b) AS SELECT 1, 2",
        "CREATE TABLE percentile (a INT, b INT)",
        "SELECT system.builtin.percentile(a, 0.5)",
        "SELECT 'percentile' (a, 0.5)",
        "SELECT 'it\\'s percentile(a, 0.5)'",
    ],
)
def test_names_and_texts_stay(text: str) -> None:
    assert rewrite(text) == text


@pytest.mark.parametrize("mark", ["(", ")", ",", "[", "{", "?", "OVER", "FILTER", "percentile("])
def test_marks_in_quotes_are_text(mark: str) -> None:
    """A bracket in a string closes no call."""
    for quote in ("'", '"', "`"):
        text = f"{quote}{mark}{quote}"
        found = rewrite(f"SELECT percentile_approx(IF(s = {text}, v, 0), 0.5) FILTER (WHERE s <> {text}) AS p")
        assert f"IF(s = {text}, v, 0))" in found
        assert f") FILTER (WHERE s <> {text})" in found
        assert found.endswith(" AS p")
        assert "percentile_approx(IF" not in found


def test_an_alias_that_is_called_filter() -> None:
    assert rewrite("SELECT percentile_approx(a, 0.5) filter FROM t").endswith(" filter FROM t")


def test_pipe_syntax() -> None:
    assert "collect_list" in rewrite("FROM t |> AGGREGATE percentile(a, 0.5) AS p")


@pytest.mark.parametrize(
    "call", ["percentile(a, ?)", "percentile_approx(a, 0.5, ?)", "percentile(a + ?, 0.5)", "percentile(?, 0.5)"]
)
def test_parameters_without_a_name_are_refused(call: str) -> None:
    """Unnamed parameters are refused: later ones would get the values of others."""
    with pytest.raises(InvalidArgumentError, match=re.escape("write :name for ?")):
        rewrite(f"SELECT {call} FROM t WHERE b > ?")
