"""Quantide on Spark: quantiles of files and DataFrames with proved errors; summaries to store and merge."""

from quantide.errors import MissingPackageError, SparkSetupError

try:
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:
    raise MissingPackageError.of("quantide.spark", "pyspark", "spark") from error

from quantide.spark.batch_quantiles import quantiles, summarize
from quantide.spark.comparison_functions import compare_summaries
from quantide.spark.key_quantile_rows import worst_keys
from quantide.spark.session_functions import install, uninstall
from quantide.spark.sql import register
from quantide.spark.stored_summaries import merge_summaries, quantiles_of

__all__ = [
    "SparkSetupError",
    "compare_summaries",
    "install",
    "merge_summaries",
    "quantiles",
    "quantiles_of",
    "register",
    "summarize",
    "uninstall",
    "worst_keys",
]
