"""Stored summaries: rolled up to coarser keys (hours to days), and queried for quantiles."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import BinaryType, DoubleType, LongType, StructField, StructType

from quantide.errors import InvalidArgumentError, TypeMismatchError
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
from quantide.summary.summary_bytes import binary_array, rows_by_type
from quantide.summary.value_types import type_named

SUMMARY = "summary"


def merge_summaries(
    df: DataFrame, by: Names | None = None, eps: float | None = None, tail: float | None = DEFAULT
) -> DataFrame:
    """Merge the summaries of a DataFrame's column `summary` by the columns `by`, or all into one.

    The certified error and the certified tail never grow. The number of tuples grows with the number of merged
    summaries, unless eps is given: then they are compressed as far as certified errors within eps and certified tails
    within `tail` allow (by default 10 * eps for eps up to 0.01, and no tail above; None for no tail).

    Columns: those of `by`, `summary`, `n`, `nulls`, `error`. Different keys may have values of different types.
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
                for indexes in rows_by_type(binary_array(table[SUMMARY])).values():
                    of_type = table.take(pa.array(indexes))
                    summaries = Summaries.from_binary(row_keys(of_type, keys), of_type[SUMMARY])
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
    of_first = Summary.from_bytes(bytes(first[0])).type if first else type_named("float64")
    kind = from_arrow_type(of_first.arrow)
    dropped = {SUMMARY, "n", "nulls", "min", "max", "error"}
    labels = [field for field in df.schema.fields if field.name not in dropped]
    values = arrow_type(kind)

    def answer(batches: Batches) -> Batches:
        for batch in batches:
            table = pa.Table.from_batches([batch]).rename_columns([*(field.name for field in labels), SUMMARY])
            for own, indexes in rows_by_type(binary_array(table[SUMMARY])).items():
                summaries = Summaries.from_binary(indexes, table[SUMMARY].take(pa.array(indexes)))
                if own != of_first and summaries.n.any():
                    raise TypeMismatchError(
                        f"there are summaries with values of types {of_first} and {own}, which cannot share the column "
                        "`value`; select those of one type first"
                    )
                answers = summaries.answer(phi_array)
                row = pa.array(np.repeat(indexes, len(phi_array)))
                columns = {field.name: table[field.name].take(row) for field in labels}
                columns |= {name: answers[name] for name in QUANTILE_COLUMNS}
                columns["value"] = columns["value"].cast(values)
                yield from to_batches(columns)

    renamed = [F.col(quote_name(field.name)).alias(f"c{i}") for i, field in enumerate(labels)]
    return stored.select(*renamed, SUMMARY).mapInArrow(answer, StructType([*labels, *quantile_fields(kind)]))


def check_columns(df: DataFrame, names: Iterable[str]) -> None:
    """Raise if the DataFrame lacks one of these columns."""
    for name in names:
        if name not in df.columns:
            raise InvalidArgumentError(f"there is no column {name!r}; there are {', '.join(df.columns)}")
