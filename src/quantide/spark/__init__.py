"""Quantide on Spark: percentiles of a lake, with proved errors, and summaries that can be stored and merged."""

from quantide.errors import MissingPackageError

try:
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:
    raise MissingPackageError.of("quantide.spark", "pyspark", "spark") from error

from quantide.spark.batch import quantiles, summarize
from quantide.spark.session import SparkSetupError
from quantide.spark.sql import register
from quantide.spark.stored import merge_summaries, quantiles_of

__all__ = ["SparkSetupError", "merge_summaries", "quantiles", "quantiles_of", "register", "summarize"]
