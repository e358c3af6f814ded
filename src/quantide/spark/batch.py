"""Batch: summaries and quantiles of a lake or of any DataFrame."""

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
from quantide.spark.aggregate import Emit, buckets_for, merge_parts, summarise_rows
from quantide.spark.condition import read_condition
from quantide.spark.exact import Brackets, count_rows, settle
from quantide.spark.files import find_files
from quantide.spark.partials import Request, key_columns
from quantide.spark.parts import SCHEMA, from_parts, to_parts
from quantide.spark.rows import Batches, FileRows, FrameRows, Rows, gather, to_batches
from quantide.spark.session import active_session, check_workers, cores
from quantide.spark.splits import plan
from quantide.store.storage import Storage
from quantide.summary.column import check_nan_policy
from quantide.summary.ranks import check_eps, check_phis
from quantide.summary.summaries import Summaries
from quantide.summary.types import type_of_arrow

Source = Any  # a path, glob, folder, Delta table, list of those, or a DataFrame
Names = str | Sequence[str]


def summarize(
    source: Source,
    column: Names,
    by: Names | None = None,
    eps: float = 0.001,
    where: Any = None,
    nan: str = "refuse",
    storage_options: dict[str, str] | None = None,
) -> DataFrame:
    """One row for each key (and column, when several are asked): its summary, ready to be stored and merged.

    Columns: the keys, `column` when `column` is a list, `summary` (binary, docs/format.md), `n`, `nulls`, `min`,
    `max`, `error` (certified, at most eps).
    """
    plan_ = _Plan.of(source, column, by, eps, where, nan, storage_options)
    values = plan_.value_type
    fields = [
        *plan_.row_fields(),
        StructField("summary", BinaryType(), False),
        StructField("n", LongType(), False),
        StructField("nulls", LongType(), False),
        StructField("min", values),
        StructField("max", values),
        StructField("error", DoubleType(), False),
    ]
    return plan_.run(_summary_rows(plan_.request.by, plan_.several, arrow_type(values)), StructType(fields))


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
) -> DataFrame:
    """One row for each key (and column) and phi: `phi`, `value`, `rank_lo`, `rank_hi`, `n`, `error`.

    With exact=True a first pass runs at once and a second reads what can still hold the answers: error is then 0.
    A key (or a column) that has only nulls has a null value and n = 0.
    """
    asked = np.atleast_1d(check_phis(phis)).tolist()
    plan_ = _Plan.of(source, column, by, eps, where, nan, storage_options)
    schema = StructType([*plan_.row_fields(), *quantile_fields(plan_.value_type)])
    request, kind = plan_.request, arrow_type(plan_.value_type)
    if not exact:
        return plan_.run(quantile_rows(request.by, plan_.several, asked, kind), schema)
    return _exact_quantiles(plan_, asked, kind, schema)


def _exact_quantiles(plan_: "_Plan", phis: list[float], kind: pa.DataType, schema: StructType) -> DataFrame:
    """Brackets from a first pass, answers from a second; keys without values have null answers."""
    by, several = plan_.request.by, plan_.several
    held = plan_.summaries()
    brackets = {name: Brackets.of(found.with_values(), phis) for name, found in held.items() if found.n.any()}
    emit = quantile_rows(by, several, phis, kind)
    bare = [(name, found.without_values()) for name, found in held.items() if not found.n.all()]
    nothing = [pa.table(rows) for name, found in bare for rows in emit(name, found)]
    parts = [plan_.session.createDataFrame(pa.concat_tables(nothing), schema)] if nothing else []
    if brackets or not parts:
        counts = count_rows(plan_.rows, plan_.request, brackets)
        together = counts.repartition("column", "slot") if by else counts.repartition(1)
        parts.append(together.mapInArrow(_settler(by, several, phis, brackets, kind), schema))
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
class _Plan:
    """A question understood: where the rows are, what is asked of them, of which types."""

    session: SparkSession
    rows: Rows
    request: Request
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
    ) -> "_Plan":
        columns, keys = names(column), names(by)
        eps, nan, several = check_eps(eps), check_nan_policy(nan), not isinstance(column, str)
        wanted = tuple(dict.fromkeys((*keys, *columns)))
        if hasattr(source, "mapInArrow"):
            session = source.sparkSession
            check_workers(session)
            frame = source if where is None else source.where(where)
            whole = pa.schema([pa.field(f.name, arrow_type(f.dataType)) for f in frame.schema.fields])
            schema = _choose(whole, wanted)
            rows: Rows = FrameRows(frame, schema)
        else:
            session, storage = active_session(), Storage(dict(storage_options or {}))
            paths = [str(path) for path in ([source] if isinstance(source, (str, Path)) else source)]
            files = find_files(paths, storage)
            schema = _choose(files.schema, wanted)
            condition = read_condition(where, files.schema, session.conf.get("spark.sql.session.timeZone") or "UTC")
            splits = tuple(plan(files, wanted, cores(session), storage))
            rows = FileRows(session, splits, wanted, files.schema, condition, storage)
        types = tuple(type_of_arrow(schema.field(name).type).name for name in columns)
        return cls(session, rows, Request(columns, types, keys, eps, nan), several, schema)

    @property
    def value_type(self) -> DataType:
        """The type of values in the result: that of the column, or double for several of different types."""
        kinds = {self.schema.field(name).type for name in self.request.columns}
        if len(kinds) == 1:
            return from_arrow_type(kinds.pop())
        if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
            return DoubleType()
        raise TypeMismatchError(
            f"columns of different types {sorted(map(str, kinds))} cannot share a result; ask for them one by one"
        )

    def row_fields(self) -> list[StructField]:
        name = [StructField("column", StringType(), False)] if self.several else []
        return [*self.key_fields(), *name]

    def run(self, emit: Emit, schema: StructType) -> DataFrame:
        buckets = buckets_for(self.rows.tasks, cores(self.session))
        found = summarise_rows(self.rows, self.request, buckets)
        return merge_parts(found, self.rows.tasks, buckets, self.request, emit, schema)

    def summaries(self) -> dict[str, Summaries]:
        """The merged summaries of every column, brought to the driver: one for each key."""
        table = self.run(lambda name, held: to_parts(name, held, 1), SCHEMA).toArrow()
        found = {name: from_parts(table, name) for name in self.request.columns}
        return {name: Summaries.merge(*held) for name, held in found.items() if held}

    def key_fields(self) -> list[StructField]:
        return [StructField(name, from_arrow_type(self.schema.field(name).type)) for name in self.request.by]


def names(given: Names | None) -> tuple[str, ...]:
    """One name, several or none, as a tuple."""
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type of a Spark type; instants are counted in UTC."""
    return to_arrow_type(kind, timezone="UTC")


def _choose(schema: pa.Schema, wanted: Sequence[str]) -> pa.Schema:
    """The wanted fields of a schema."""
    if not wanted:
        raise InvalidArgumentError("no column was named")
    for name in wanted:
        if name not in schema.names:
            raise InvalidArgumentError(f"there is no column {name!r}; there are {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in wanted])


def _row_keys(name: str, by: Sequence[str], several: bool, keys: pa.Array, times: int = 1) -> dict[str, Any]:
    """The columns that say what a row is about, each key as often as it has rows."""
    place = pa.array(np.repeat(np.arange(len(keys)), times))
    columns = {key: column.take(place) for key, column in zip(by, key_columns(keys, by), strict=True)}
    return columns | ({"column": pa.repeat(name, len(place))} if several else {})


def _summary_rows(by: Sequence[str], several: bool, kind: pa.DataType) -> Emit:
    def emit(name: str, held: Summaries) -> Iterator[dict[str, Any]]:
        ends = held.answer([1e-300, 1.0])
        yield _row_keys(name, by, several, held.keys) | {
            "summary": held.to_binary().cast(pa.binary()),
            "n": held.n,
            "nulls": held.nulls,
            "min": ends["value"].take(pa.array(np.arange(len(held)) * 2)).cast(kind),
            "max": ends["value"].take(pa.array(np.arange(len(held)) * 2 + 1)).cast(kind),
            "error": held.error,
        }

    return emit


def quantile_rows(by: Sequence[str], several: bool, phis: list[float], kind: pa.DataType) -> Emit:
    def emit(name: str, held: Summaries) -> Iterator[dict[str, Any]]:
        answers = held.answer(phis)
        wanted = ("phi", "value", "rank_lo", "rank_hi", "n", "error")
        columns = {column: answers[column] for column in wanted}
        columns["value"] = columns["value"].cast(kind)
        yield _row_keys(name, by, several, held.keys, len(phis)) | columns

    return emit


def _settler(
    by: Sequence[str], several: bool, phis: list[float], brackets: dict[str, Brackets], kind: pa.DataType
) -> Callable[[Batches], Batches]:
    """Exact answers, as rows, from what the second pass counted."""

    def run(batches: Batches) -> Batches:
        found = gather(batches)
        if found is None:
            return
        for name, bracket in brackets.items():
            answers = settle(found, name, bracket)
            key, phi = np.divmod(answers["slot"], len(phis))
            rank = bracket.targets[key, phi]
            yield from to_batches(
                _row_keys(name, by, several, bracket.keys.take(pa.array(key)))
                | {
                    "phi": np.asarray(phis)[phi],
                    "value": bracket.kind.restore_arrow(answers["value"]).cast(kind),
                    "rank_lo": rank,
                    "rank_hi": rank,
                    "n": bracket.n[key],
                    "error": np.zeros(len(key)),
                }
            )

    return run
