"""Worst keys of stored summaries: tasks compute the quantile of each key, the driver ranks them."""

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, LongType, StringType, StructField, StructType

from quantide.errors import EmptyError, InvalidArgumentError, TypeMismatchError
from quantide.spark.batch_quantiles import Names, as_names
from quantide.spark.partial_summaries import row_keys
from quantide.spark.row_source import Batches, quote_name, to_batches
from quantide.spark.spark_session import check_workers
from quantide.spark.stored_summaries import SUMMARY, merge_summaries
from quantide.summary.key_encoding import encode_keys, key_array
from quantide.summary.key_quantiles import KeyQuantiles
from quantide.summary.key_ranking import MOST, KeyRanking, RankingRequest
from quantide.summary.ranks import check_phi
from quantide.summary.summaries import Summaries
from quantide.summary.value_types import type_named

COUNTS = ("n", "target", "rank_lo", "rank_hi")
VALUES = ("value", "low", "high")


def worst_keys(
    df: DataFrame, by: Names, phi: float, most: int = MOST, *, smallest: bool = False, min_n: int = 1
) -> KeyRanking:
    """Return the keys with the largest (or smallest) phi-quantile of a DataFrame with a column `summary`.

    Summaries of the same key, the columns `by`, are merged first. The driver receives eight numbers for each key.
    """
    check_workers(df.sparkSession)
    keys, request = as_names(by), RankingRequest(check_phi(phi), most, smallest, min_n)
    if not keys:
        raise InvalidArgumentError("by= names the columns of the keys to compare; it is empty")
    table = _quantile_rows(merge_summaries(df, keys), keys, request.phi).toArrow()
    if not len(table):
        raise EmptyError("there is no summary with a value, so there are no keys to compare")
    return request.rank(_read_rows(table, keys))


def _quantile_rows(merged: DataFrame, keys: tuple[str, ...], phi: float) -> DataFrame:
    """Return a row for each key: its quantile and bounds as carried numbers, whole ones and others apart."""
    carried: list[tuple[str, DataType]] = [(f"{name}_{kind}", _carrier(kind)) for name in VALUES for kind in "if"]
    fields = [(f"key{i}", merged.schema[name].dataType) for i, name in enumerate(keys)]
    fields += [("value_type", StringType()), *((name, LongType()) for name in COUNTS), *carried]

    def compute(batches: Batches) -> Batches:
        for batch in batches:
            if len(batch):
                yield from to_batches(_columns(pa.Table.from_batches([batch]), len(keys), phi))

    renamed = [F.col(quote_name(name)).alias(f"key{i}") for i, name in enumerate(keys)]
    schema = StructType([StructField(name, kind) for name, kind in fields])
    return merged.where(F.col("n") > 0).select(*renamed, SUMMARY).mapInArrow(compute, schema)


def _carrier(kind: str) -> DataType:
    return LongType() if kind == "i" else DoubleType()


def _columns(table: pa.Table, keys: int, phi: float) -> dict[str, pa.Array]:
    rows = KeyQuantiles.of(Summaries.from_binary(np.arange(len(table)), table[SUMMARY]), phi)
    columns = {f"key{i}": table.column(i) for i in range(keys)}
    columns |= {"value_type": pa.repeat(rows.kind.name, len(rows))}
    columns |= {name: pa.array(getattr(rows, name)) for name in COUNTS}
    whole = np.issubdtype(rows.value.dtype, np.integer)
    for name in VALUES:
        numbers = pa.array(getattr(rows, name).astype(np.int64 if whole else np.float64))
        columns[f"{name}_i"] = numbers if whole else pa.nulls(len(rows), pa.int64())
        columns[f"{name}_f"] = pa.nulls(len(rows), pa.float64()) if whole else numbers
    return columns


def _read_rows(table: pa.Table, keys: tuple[str, ...]) -> KeyQuantiles:
    """Return the rows in the order of their keys; raise if their values have different types."""
    names = sorted(table["value_type"].unique().to_pylist())
    if len(names) > 1:
        raise TypeMismatchError(f"values of keys that are compared have one type, not {', '.join(names)}")
    kind = type_named(names[0])
    column = key_array(row_keys(table.rename_columns([*keys, *table.column_names[len(keys) :]]), keys))
    codes, distinct = encode_keys(column)
    ordered = table.take(pa.array(np.argsort(codes)))
    suffix = "f" if kind.is_float else "i"
    counts = {name: ordered[name].to_numpy() for name in COUNTS}
    values = {name: ordered[f"{name}_{suffix}"].to_numpy().astype(kind.carrier) for name in VALUES}
    return KeyQuantiles(kind, distinct, **counts, **values)
