"""Stored summaries: rolled up to coarser keys (hours to days), and queried for quantiles."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import BinaryType, DoubleType, LongType, StructField, StructType

from quantide.errors import InvalidArgumentError
from quantide.spark.batch_quantiles import QUANTILE_COLUMNS, Names, arrow_type, as_names, quantile_fields
from quantide.spark.partial_summaries import (
    PARTIAL_SCHEMA,
    SummaryRequest,
    bucket_count,
    merge_partials,
    row_keys,
    split_keys,
    to_partial_rows,
)
from quantide.spark.row_source import Batches, quote_name, to_batches
from quantide.spark.spark_session import check_workers, count_cores
from quantide.summary.ranks import DEFAULT, check_eps, check_phis, check_tail
from quantide.summary.summaries import Summaries
from quantide.summary.summary import Summary

SUMMARY = "summary"


def merge_summaries(
    df: DataFrame, by: Names | None = None, eps: float | None = None, tail: float | None = DEFAULT
) -> DataFrame:
    """Merge the summaries of a DataFrame's column `summary` by the columns `by`, or all into one.

    The certified error and the certified tail never grow. The number of tuples grows with the number of merged
    summaries, unless eps is given: then they are compressed as far as certified errors within eps and certified tails
    within `tail` allow (by default 10 * eps for eps up to 0.01, and no tail above; None for no tail).

    Columns: those of `by`, `summary`, `n`, `nulls`, `error`.
    """
    check_workers(df.sparkSession)
    keys = as_names(by)
    check_columns(df, (SUMMARY, *keys))
    fields = [df.schema[name] for name in keys]
    renamed = [F.col(quote_name(name)).alias(f"key{i}") for i, name in enumerate(keys)]
    stored = df.where(F.col(SUMMARY).isNotNull())
    buckets = bucket_count(0, count_cores(df.sparkSession))

    def read(batches: Batches) -> Batches:
        for batch in batches:
            if len(batch):
                table = pa.Table.from_batches([batch]).rename_columns([*keys, SUMMARY]).sort_by(SUMMARY)
                summaries = Summaries.from_binary(row_keys(table, keys), table[SUMMARY])
                for rows in to_partial_rows(SUMMARY, summaries, buckets):
                    yield from to_batches(rows)

    partials = stored.select(*renamed, SUMMARY).mapInArrow(read, PARTIAL_SCHEMA)
    schema = StructType(
        [
            *fields,
            StructField(SUMMARY, BinaryType(), False),
            StructField("n", LongType(), False),
            StructField("nulls", LongType(), False),
            StructField("error", DoubleType(), False),
        ]
    )

    def to_rows(_: str, merged: Summaries) -> Iterator[dict[str, Any]]:
        columns = dict(zip(keys, split_keys(merged.keys, keys), strict=True))
        blobs = merged.to_binary().cast(pa.binary())
        yield columns | {SUMMARY: blobs, "n": merged.n, "nulls": merged.nulls, "error": merged.error}

    error = 0.0 if eps is None else check_eps(eps)
    request = SummaryRequest((SUMMARY,), ("float64",), keys, error, "refuse", check_tail(tail, error))
    return merge_partials(partials, 0, buckets, request, to_rows, schema)


def quantiles_of(df: DataFrame, phis: Any) -> DataFrame:
    """Return every row of a DataFrame with a column `summary` once for each phi, with the answer of its summary.

    Columns: those of the DataFrame but `summary`, `n`, `nulls`, `min`, `max` and `error`, then `phi`, `value`,
    `rank_lo`, `rank_hi`, `n`, `error`. One summary is read at once, for the type of the values.
    """
    check_workers(df.sparkSession)
    check_columns(df, [SUMMARY])
    phi_array = np.atleast_1d(check_phis(phis))
    stored = df.where(F.col(SUMMARY).isNotNull())
    first = stored.select(SUMMARY).first()
    kind = from_arrow_type(Summary.from_bytes(bytes(first[0])).type.arrow if first else pa.float64())
    dropped = {SUMMARY, "n", "nulls", "min", "max", "error"}
    labels = [field for field in df.schema.fields if field.name not in dropped]
    values = arrow_type(kind)

    def answer(batches: Batches) -> Batches:
        for batch in batches:
            if not len(batch):
                continue
            table = pa.Table.from_batches([batch]).rename_columns([*(field.name for field in labels), SUMMARY])
            answers = Summaries.from_binary(np.arange(len(batch)), table[SUMMARY]).answer(phi_array)
            row = pa.array(np.repeat(np.arange(len(batch)), len(phi_array)))
            columns = {field.name: table[field.name].take(row) for field in labels}
            for name in QUANTILE_COLUMNS:
                columns[name] = answers[name]
            columns["value"] = columns["value"].cast(values)
            yield from to_batches(columns)

    renamed = [F.col(quote_name(field.name)).alias(f"c{i}") for i, field in enumerate(labels)]
    return stored.select(*renamed, SUMMARY).mapInArrow(answer, StructType([*labels, *quantile_fields(kind)]))


def check_columns(df: DataFrame, names: Iterable[str]) -> None:
    """Raise if the DataFrame lacks one of these columns."""
    for name in names:
        if name not in df.columns:
            raise InvalidArgumentError(f"there is no column {name!r}; there are {', '.join(df.columns)}")
