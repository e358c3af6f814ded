"""Batch quantiles: summaries and quantiles of files or of a DataFrame."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.spark.exact_quantiles import ValueBrackets, count_brackets, resolve_brackets
from quantide.spark.partial_summaries import (
    PARTIAL_SCHEMA,
    SummaryRequest,
    ToRows,
    bucket_count,
    from_partial_rows,
    merge_partials,
    split_keys,
    summarise_in_one_task,
    summarise_source,
    to_partial_rows,
)
from quantide.spark.row_source import Batches, FileRows, FrameRows, RowSource, concat_batches, to_batches
from quantide.spark.source_files import find_files, plan_splits
from quantide.spark.spark_session import active_session, check_workers, count_cores
from quantide.spark.sql_expressions import parse_condition
from quantide.store.location import StorageOptions
from quantide.summary.ranks import DEFAULT, check_eps, check_phis, check_tail
from quantide.summary.summaries import Summaries
from quantide.summary.value_column import check_nan_policy
from quantide.summary.value_types import type_of_arrow

Source = Any  # a path, glob, folder, Delta table, list of those, or a DataFrame
Names = str | Sequence[str]

ONE_TASK_BYTES = 64 << 20  # files of at most this size are read by one task, if there are no keys
QUANTILE_COLUMNS = ("phi", "value", "rank_lo", "rank_hi", "n", "error")


def summarize(
    source: Source,
    column: Names,
    by: Names | None = None,
    eps: float = 0.001,
    where: Any = None,
    nan: str = "refuse",
    storage_options: dict[str, str] | None = None,
    tail: float | None = DEFAULT,
    weights: str | None = None,
) -> DataFrame:
    """Return one row for each key (and column, if `column` is a list): its summary, ready to be stored and merged.

    Columns: the keys, `column` if it is a list, `summary` (binary, docs/format.md), `n`, `nulls`, `min`,
    `max`, `error` (certified, at most eps). Towards the ends, the error of an answer is at most `tail` times its
    distance from the end, and half a rank: by default 10 * eps for eps up to 0.01; None for eps alone.
    `weights` names a column of whole numbers: a row of weight w counts as w equal rows, in `n`, too; 0 leaves it out.
    """
    query = _BatchQuery.of(source, column, by, eps, where, nan, storage_options, tail, weights)
    values = query.value_type
    fields = [
        *query.row_fields(),
        StructField("summary", BinaryType(), False),
        StructField("n", LongType(), False),
        StructField("nulls", LongType(), False),
        StructField("min", values),
        StructField("max", values),
        StructField("error", DoubleType(), False),
    ]
    return query.run(_summary_rows(query.request.by, query.several, arrow_type(values)), StructType(fields))


def quantiles(
    source: Source,
    column: Names,
    phis: float | Sequence[float],
    by: Names | None = None,
    eps: float = 0.001,
    where: Any = None,
    exact: bool = False,
    nan: str = "refuse",
    storage_options: dict[str, str] | None = None,
    tail: float | None = DEFAULT,
    weights: str | None = None,
) -> DataFrame:
    """Return one row for each key (and column) and phi: `phi`, `value`, `rank_lo`, `rank_hi`, `n`, `error`.

    Towards the ends, errors are at most `tail` times the distance from the end: see summarize.
    With exact=True a first pass runs at once, and a second one reads the values that may be answers: error is then 0.
    A key (or a column) that has only nulls has a null value and n = 0.
    `weights` names a column of whole numbers: a row of weight w counts as w equal rows, in `n`, too; 0 leaves it out.
    """
    phi_list = np.atleast_1d(check_phis(phis)).tolist()
    query = _BatchQuery.of(source, column, by, eps, where, nan, storage_options, tail, weights)
    schema = StructType([*query.row_fields(), *quantile_fields(query.value_type)])
    kind = arrow_type(query.value_type)
    if not exact:
        return query.run(_quantile_rows(query.request.by, query.several, phi_list, kind), schema)
    return _exact_quantiles(query, phi_list, kind, schema)


def _exact_quantiles(query: "_BatchQuery", phis: list[float], kind: pa.DataType, schema: StructType) -> DataFrame:
    """Compute brackets in a first pass, answers in a second; keys without values have null answers."""
    by, several = query.request.by, query.several
    summaries = query.collect_summaries()
    brackets = {name: ValueBrackets.of(one.with_values(), phis) for name, one in summaries.items() if one.n.any()}
    to_rows = _quantile_rows(by, several, phis, kind)
    empty = [(name, one.without_values()) for name, one in summaries.items() if not one.n.all()]
    nulls = [pa.table(rows) for name, one in empty for rows in to_rows(name, one)]
    parts = [query.session.createDataFrame(pa.concat_tables(nulls), schema)] if nulls else []
    if brackets or not parts:
        counts = count_brackets(query.rows, query.request, brackets)
        by_slot = counts.repartition("column", "slot") if by else counts.repartition(1)
        parts.append(by_slot.mapInArrow(_bracket_resolver(by, several, phis, brackets, kind), schema))
    return functools.reduce(lambda a, b: a.unionByName(b), parts)


def quantile_fields(values: DataType) -> list[StructField]:
    return [
        StructField("phi", DoubleType(), False),
        StructField("value", values),
        StructField("rank_lo", LongType()),
        StructField("rank_hi", LongType()),
        StructField("n", LongType(), False),
        StructField("error", DoubleType()),
    ]


@dataclass(frozen=True)
class _BatchQuery:
    """A validated query: the rows, the columns to summarise, and their types."""

    session: SparkSession
    rows: RowSource
    request: SummaryRequest
    several: bool
    schema: pa.Schema

    @classmethod
    def of(
        cls,
        source: Source,
        column: Names,
        by: Names | None,
        eps: float,
        where: Any,
        nan: str,
        storage_options: dict[str, str] | None,
        tail: float | None,
        weights: str | None,
    ) -> "_BatchQuery":
        columns, keys = as_names(column), as_names(by)
        eps, nan, several = check_eps(eps), check_nan_policy(nan), not isinstance(column, str)
        tail = check_tail(tail, eps)
        used = tuple(dict.fromkeys((*keys, *columns, *as_names(weights))))
        if hasattr(source, "mapInArrow"):
            session = source.sparkSession
            check_workers(session)
            frame = source if where is None else source.where(where)
            full = pa.schema([pa.field(f.name, arrow_type(f.dataType)) for f in frame.schema.fields])
            schema = _select_fields(full, used)
            rows: RowSource = FrameRows(frame, schema)
        else:
            session, storage = active_session(), StorageOptions.of(storage_options)
            paths = [str(path) for path in ([source] if isinstance(source, (str, Path)) else source)]
            files = find_files(paths, storage)
            schema = _select_fields(files.schema, used)
            condition = parse_condition(where, files.schema, session.conf.get("spark.sql.session.timeZone") or "UTC")
            splits = tuple(plan_splits(files, used, count_cores(session), storage))
            rows = FileRows(session, splits, used, files.schema, condition, storage)
        types = tuple(type_of_arrow(schema.field(name).type).name for name in columns)
        return cls(session, rows, SummaryRequest(columns, types, keys, eps, nan, tail, weights), several, schema)

    @property
    def value_type(self) -> DataType:
        """Return the type of values in the result: the column's, or double for several columns of different types."""
        kinds = {self.schema.field(name).type for name in self.request.columns}
        if len(kinds) == 1:
            return from_arrow_type(kinds.pop())
        if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
            return DoubleType()
        raise TypeMismatchError(
            f"columns of different types {sorted(map(str, kinds))} cannot share a result; query them one by one"
        )

    def row_fields(self) -> list[StructField]:
        name = [StructField("column", StringType(), False)] if self.several else []
        return [*self.key_fields(), *name]

    def run(self, to_rows: ToRows, schema: StructType) -> DataFrame:
        """Summarise all rows, and return the rows that `to_rows` makes of the merged summaries.

        One task reads small files: a second stage, which merges, takes longer than it does.
        """
        if isinstance(self.rows, FileRows) and not self.request.by and self.rows.size <= ONE_TASK_BYTES:
            return summarise_in_one_task(self.rows.in_one_task(), self.request, to_rows, schema)
        buckets = bucket_count(self.rows.tasks, count_cores(self.session))
        partials = summarise_source(self.rows, self.request, buckets)
        return merge_partials(partials, self.rows.tasks, buckets, self.request, to_rows, schema)

    def collect_summaries(self) -> dict[str, Summaries]:
        """Bring the merged summaries of every column to the driver."""
        table = self.run(lambda name, summaries: to_partial_rows(name, summaries, 1), PARTIAL_SCHEMA).toArrow()
        parts = {name: from_partial_rows(table, name) for name in self.request.columns}
        return {name: Summaries.merge(*of_column) for name, of_column in parts.items() if of_column}

    def key_fields(self) -> list[StructField]:
        return [StructField(name, from_arrow_type(self.schema.field(name).type)) for name in self.request.by]


def as_names(names: Names | None) -> tuple[str, ...]:
    """Return one name, several or none as a tuple."""
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type of a Spark type; timestamps are in UTC."""
    return to_arrow_type(kind, timezone="UTC")


def _select_fields(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Return some fields of a schema."""
    if not names:
        raise InvalidArgumentError("no column was named")
    for name in names:
        if name not in schema.names:
            raise InvalidArgumentError(f"there is no column {name!r}; there are {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in names])


def _row_labels(name: str, by: Sequence[str], several: bool, keys: pa.Array, rows_per_key: int = 1) -> dict[str, Any]:
    """Return the columns of keys and column names that label the rows of a result."""
    index = pa.array(np.repeat(np.arange(len(keys)), rows_per_key))
    columns = {key: column.take(index) for key, column in zip(by, split_keys(keys, by), strict=True)}
    return columns | ({"column": pa.repeat(name, len(index))} if several else {})


def _summary_rows(by: Sequence[str], several: bool, kind: pa.DataType) -> ToRows:
    def to_rows(name: str, summaries: Summaries) -> Iterator[dict[str, Any]]:
        ends = summaries.answer([0.0, 1.0])
        yield _row_labels(name, by, several, summaries.keys) | {
            "summary": summaries.to_binary().cast(pa.binary()),
            "n": summaries.n,
            "nulls": summaries.nulls,
            "min": ends["value"].take(pa.array(np.arange(len(summaries)) * 2)).cast(kind),
            "max": ends["value"].take(pa.array(np.arange(len(summaries)) * 2 + 1)).cast(kind),
            "error": summaries.error,
        }

    return to_rows


def _quantile_rows(by: Sequence[str], several: bool, phis: list[float], kind: pa.DataType) -> ToRows:
    def to_rows(name: str, summaries: Summaries) -> Iterator[dict[str, Any]]:
        answers = summaries.answer(phis)
        columns = {column: answers[column] for column in QUANTILE_COLUMNS}
        columns["value"] = columns["value"].cast(kind)
        yield _row_labels(name, by, several, summaries.keys, len(phis)) | columns

    return to_rows


def _bracket_resolver(
    by: Sequence[str], several: bool, phis: list[float], brackets: dict[str, ValueBrackets], kind: pa.DataType
) -> Callable[[Batches], Batches]:
    """Return the function of a task that makes rows of exact answers from the counts of the second pass."""

    def resolve(batches: Batches) -> Batches:
        counts = concat_batches(batches)
        if counts is None:
            return
        for name, bracket in brackets.items():
            answers = resolve_brackets(counts, name, bracket)
            key, phi = np.divmod(answers["slot"], len(phis))
            rank = bracket.targets[key, phi]
            yield from to_batches(
                _row_labels(name, by, several, bracket.keys.take(pa.array(key)))
                | {
                    "phi": np.asarray(phis)[phi],
                    "value": bracket.kind.restore_arrow(answers["value"]).cast(kind),
                    "rank_lo": rank,
                    "rank_hi": rank,
                    "n": bracket.n[key],
                    "error": np.zeros(len(key)),
                }
            )

    return resolve
