"""Exact percentiles as expressions of Spark SQL: Spark collects and sorts the values of a group, and picks ranks.

Values never leave the JVM. Every type that Spark can sort keeps its type and all its digits, such as decimal(38, 10).
Answers are slices of the sorted array, because slices have the nullability of the results of Spark's own functions.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, WindowSpec
from pyspark.sql import functions as F

# typeof() is a constant: before a query runs, Spark removes the branch for other types.
NUMBERS = "tinyint|smallint|int|bigint|float|double|decimal.*"
IS_NUMBER = f"RLIKE '^({NUMBERS})$'"
IS_SUPPORTED = f"RLIKE '^({NUMBERS}|date|timestamp|timestamp_ntz|interval .*)$'"
UNSUPPORTED = "TypeMismatchError: percentile_approx of Quantide needs numbers, dates, timestamps or intervals, not "
RANK = "CAST(greatest(1D, ceil(phi * size(s) - 1e-9D)) AS INT)"  # as summary.ranks.target_ranks
LOW, HIGH = "CAST(floor(i) AS INT)", "CAST(ceil(i) AS INT)"
SHARE = f"coalesce(i - {LOW}, 0D)"  # floor() may be null for Spark, and coalesce() is not
BETWEEN = f"IF({LOW} = {HIGH} OR a = b, a * 1D, a * 1D + (b * 1D - a * 1D) * {SHARE})"

NUMBER = r"[-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?[dD]?"
LITERAL = re.compile(rf"(?P<one>{NUMBER})|array\((?P<list>\s*{NUMBER}(?:\s*,\s*{NUMBER})*\s*)\)", re.I)


def read_literal(text: str) -> tuple[list[float], bool] | None:
    """Return the numbers of a literal of Spark SQL, and True if it is an array; None if the text is no literal.

    >>> read_literal("array(0.5, 9.9E-1D)"), read_literal("0.5"), read_literal("0.4 + 0.1")
    (([0.5, 0.99], True), ([0.5], False), None)
    """
    match = LITERAL.fullmatch(text.strip())
    if match is None:
        return None
    listed = match["list"]
    return [float(number.strip(" \n\t\rdD")) for number in (listed or match["one"]).split(",")], listed is not None


@dataclass(frozen=True)
class PercentileQuery:
    """Percentages of a percentile function; the result is an array if there are `several`."""

    phis: Sequence[float]
    several: bool

    def approx_sql(self, value: str, distinct: str = "", suffix: str = "") -> str:
        """Return SQL for percentile_approx of a value; `suffix` is its FILTER and OVER."""
        refusal = f"raise_error(concat('{UNSUPPORTED}', typeof({value})))"
        supported = f"IF(typeof({value}) {IS_SUPPORTED}, {value}, {refusal})"
        picked = f"transform(array(sort_array(collect_list({distinct}{supported}) {suffix})), {self._rank_lambda()})"
        return self._first_sql(f"element_at({picked}, 1)")

    def exact_sql(self, value: str, distinct: str = "", suffix: str = "") -> str:
        """Return SQL for percentile of a value; Spark's own function computes other types than numbers."""
        number = f"typeof({value}) {IS_NUMBER}"
        collected = f"collect_list({distinct}IF({number}, {value}, NULL)) {suffix}"
        ours = f"element_at(transform(array(sort_array({collected})), {self._interpolation_lambda()}), 1)"
        own = f"percentile({distinct}IF({number}, NULL, {value}), {self._percentage_sql()}) {suffix}"
        return f"coalesce({self._first_sql(ours)}, {own})"

    def approx_column(self, value: Column, over: WindowSpec | None = None) -> Column:
        """Return a Column for percentile_approx of a value, of a group or of a window."""
        refusal = F.raise_error(F.concat(F.lit(UNSUPPORTED), F.typeof(value)))
        supported = F.typeof(value).rlike(IS_SUPPORTED.removeprefix("RLIKE '").removesuffix("'"))
        collected = _over(F.collect_list(F.when(supported, value).otherwise(refusal)), over)
        return self._first_column(_apply(self._rank_lambda(), F.sort_array(collected)))

    def exact_column(self, value: Column) -> Column:
        """Return a Column for percentile of a value of a group."""
        number = F.typeof(value).rlike(IS_NUMBER.removeprefix("RLIKE '").removesuffix("'"))
        collected = F.collect_list(F.when(number, value))
        ours = self._first_column(_apply(self._interpolation_lambda(), F.sort_array(collected)))
        percentage: Sequence[float] | float = self.phis if self.several else self.phis[0]
        return F.coalesce(ours, F.percentile(F.when(~number, value), percentage))

    def _rank_lambda(self) -> str:
        """Return a SQL lambda from a sorted array to the values of the target ranks."""
        return _unless_empty(f"flatten(transform({self._array_sql()}, phi -> slice(s, {RANK}, 1)))")

    def _interpolation_lambda(self) -> str:
        """Return a SQL lambda from a sorted array to interpolated values, by the arithmetic of Spark's percentile."""
        pairs = f"transform(slice(s, {LOW} + 1, 1), a -> transform(slice(s, {HIGH} + 1, 1), b -> {BETWEEN}))"
        positions = f"transform({self._array_sql()}, phi -> phi * (size(s) - 1))"
        return _unless_empty(f"flatten(flatten(transform({positions}, i -> {pairs})))")

    def _array_sql(self) -> str:
        return f"array({', '.join(f'{phi!r}D' for phi in self.phis)})"

    def _percentage_sql(self) -> str:
        return self._array_sql() if self.several else f"{self.phis[0]!r}D"

    def _first_sql(self, answers: str) -> str:
        return answers if self.several else f"element_at({answers}, 1)"

    def _first_column(self, answers: Column) -> Column:
        return answers if self.several else F.element_at(answers, 1)


def _unless_empty(answers: str) -> str:
    return f"s -> IF(size(s) = 0, NULL, {answers})"


def _apply(lambda_sql: str, array: Column) -> Column:
    """Apply a SQL lambda to a Column; with transform(), Spark evaluates the Column once."""
    return F.element_at(F.call_function("transform", F.array(array), F.expr(lambda_sql)), 1)


def _over(column: Column, window: WindowSpec | None) -> Column:
    return column if window is None else column.over(window)
