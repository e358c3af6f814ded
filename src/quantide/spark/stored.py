"""Stored summaries: rolled up, hours to days, any subset, any keys; and asked."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import BinaryType, DoubleType, LongType, StructField, StructType

from quantide.errors import InvalidArgumentError
from quantide.spark.aggregate import buckets_for, merge_parts
from quantide.spark.batch import Names, arrow_type, names, quantile_fields
from quantide.spark.partials import Request, key_columns, keys_of
from quantide.spark.parts import SCHEMA, to_parts
from quantide.spark.rows import Batches, quoted, to_batches
from quantide.spark.session import check_workers, cores
from quantide.summary.ranks import check_eps, check_phis
from quantide.summary.summaries import Summaries
from quantide.summary.summary import Summary

SUMMARY = "summary"


def merge_summaries(df: DataFrame, by: Names | None = None, eps: float | None = None) -> DataFrame:
    """One summary for each value of `by`, or one of all, out of a DataFrame with a column `summary`.

    The certified error never grows. The number of tuples does, with the number of summaries merged, unless eps is
    given: then they are thinned as far as certified errors within eps allow.

    Columns: those of `by`, `summary`, `n`, `nulls`, `error`.
    """
    check_workers(df.sparkSession)
    keys = names(by)
    _check(df, keys)
    fields = [df.schema[name] for name in keys]
    named = [F.col(quoted(name)).alias(f"key{i}") for i, name in enumerate(keys)]
    some = df.where(F.col(SUMMARY).isNotNull())
    buckets = buckets_for(0, cores(df.sparkSession))

    def read(batches: Batches) -> Batches:
        for batch in batches:
            if len(batch):
                table = pa.Table.from_batches([batch]).rename_columns([*keys, SUMMARY]).sort_by(SUMMARY)
                held = Summaries.from_binary(keys_of(table, keys), table[SUMMARY])
                for rows in to_parts(SUMMARY, held, buckets):
                    yield from to_batches(rows)

    found = some.select(*named, SUMMARY).mapInArrow(read, SCHEMA)
    schema = StructType(
        [
            *fields,
            StructField(SUMMARY, BinaryType(), False),
            StructField("n", LongType(), False),
            StructField("nulls", LongType(), False),
            StructField("error", DoubleType(), False),
        ]
    )

    def emit(_: str, held: Summaries) -> Iterator[dict[str, Any]]:
        columns = dict(zip(keys, key_columns(held.keys, keys), strict=True))
        blobs = held.to_binary().cast(pa.binary())
        yield columns | {SUMMARY: blobs, "n": held.n, "nulls": held.nulls, "error": held.error}

    request = Request((SUMMARY,), ("float64",), keys, 0.0 if eps is None else check_eps(eps), "refuse")
    return merge_parts(found, 0, buckets, request, emit, schema)


def quantiles_of(df: DataFrame, phis: Any) -> DataFrame:
    """Every row of a DataFrame with a column `summary`, once for each phi, with what its summary answers.

    Columns: those of the DataFrame but `summary`, `n`, `nulls`, `min`, `max` and `error`, then `phi`, `value`,
    `rank_lo`, `rank_hi`, `n`, `error`. One summary is read at once, to know the type of the values.
    """
    check_workers(df.sparkSession)
    _check(df, ())
    asked = np.atleast_1d(check_phis(phis))
    some = df.where(F.col(SUMMARY).isNotNull())
    first = some.select(SUMMARY).first()
    kind = from_arrow_type(Summary.from_bytes(bytes(first[0])).type.arrow if first else pa.float64())
    dropped = {SUMMARY, "n", "nulls", "min", "max", "error"}
    kept = [field for field in df.schema.fields if field.name not in dropped]
    values = arrow_type(kind)

    def run(batches: Batches) -> Batches:
        for batch in batches:
            if not len(batch):
                continue
            table = pa.Table.from_batches([batch]).rename_columns([*(field.name for field in kept), SUMMARY])
            answers = Summaries.from_binary(np.arange(len(batch)), table[SUMMARY]).answer(asked)
            row = pa.array(np.repeat(np.arange(len(batch)), len(asked)))
            columns = {field.name: table[field.name].take(row) for field in kept}
            for name in ("phi", "value", "rank_lo", "rank_hi", "n", "error"):
                columns[name] = answers[name]
            columns["value"] = columns["value"].cast(values)
            yield from to_batches(columns)

    wanted = some.select(*[F.col(quoted(field.name)).alias(f"c{i}") for i, field in enumerate(kept)], SUMMARY)
    return wanted.mapInArrow(run, StructType([*kept, *quantile_fields(kind)]))


def _check(df: DataFrame, keys: tuple[str, ...]) -> None:
    for name in (SUMMARY, *keys):
        if name not in df.columns:
            raise InvalidArgumentError(f"there is no column {name!r}; there are {', '.join(df.columns)}")
