"""What each peer can do, as its documentation says and as was seen by running it; nothing here is measured."""

from benchmarks import table
from benchmarks.page import prose

WORDS = """*yes*, *no*; *99%*: holds with that probability for one answer; *values*: of values, not of ranks;
    *stated*: its documentation states it, for the accuracy that was chosen; *exact*: no error, from all rows; *rows*:
    can be asked, and is computed from all the rows concerned, which the engine keeps; *-*: does not apply. A number
    points to a note."""
COLUMNS = (
    "proved bound",
    "of each answer",
    "any order",
    "merge keeps it",
    "last n",
    "last T",
    "window chosen when asked",
    "filters",
    "history on disk",
    "standing queries",
    "exact on demand",
    "same bytes again",
    "types kept",
)
MEANT = """*Proved bound*: of the rank error. *Of each answer*: an answer brings a bound of its own. *Any order*: the
    bound needs nothing of the order in which values arrive. *Merge keeps it*: the bound, when sketches are merged.
    *Last n*, *last T*: of the most recent values, by number or by time, as they arrive. *Window chosen when asked*:
    not before. *History on disk*: everything that ever arrived, where only the part that is still live adds an error.
    *Standing queries*: kept up to date. *Same bytes again*: the same values in the same order give the same sketch.
    *Types kept*: integers beyond 2^53, timestamps and decimals go in and come out as such."""
_ROWS = ("rows",) * 5  # from "last n" to "history on disk"
_NONE = ("no",) * 7  # from "last n" to "exact on demand"
FEATURES = {
    "Quantide": (*("yes",) * 7, "yes [1]", "yes", "yes", "yes [2]", "yes", "yes"),
    "DataSketches KLL": ("99%", "no [3]", "yes", "99%", *_NONE, "no [4]", "yes"),
    "DataSketches REQ": ("99% [5]", "99%", "yes", "99%", *_NONE, "no [4]", "no float64 [5]"),
    "DataSketches t-digest": ("no [6]", "no", "-", "-", *_NONE, "yes", "floats"),
    "DDSketch": ("values", "no", "yes", "values", *_NONE, "yes", "floats"),
    "Spark percentile_approx": ("stated [7]", "no", "stated", "-", *_ROWS, "yes [8]", "yes [9]", "-", "yes"),
    "Spark KLL": ("99% [10]", "no", "yes", "99%", *_ROWS, "yes [8]", "yes [9]", "no [4]", "yes"),
    "DuckDB": ("exact [11]", "-", "yes", "no [11]", *_ROWS, "no", "yes", "-", "yes [12]"),
    "Polars": ("exact", "-", "yes", "-", *_ROWS, "no", "yes", "-", "timestamps [13]"),
    "ClickHouse": ("stated [14]", "no", "stated", "stated", *_ROWS, "yes [15]", "yes", "-", "yes [16]"),
    "river": ("no [17]", "no", "-", "no", "exact", "no [18]", "no", "no", "no", "yes [17]", "last n", "yes", "floats"),
    "pandas": ("exact", "-", "yes", "-", "rows", "rows", "rows", "rows", "no", "no", "yes", "-", "not rolling [19]"),
}
KLL_DOCS = "https://apache.github.io/datasketches-python/5.2.0/quantiles/kll.html"
QUANTILES_DOCS = "https://apache.github.io/datasketches-python/5.2.0/quantiles/index.html"
TDIGEST_DOCS = "https://datasketches.apache.org/docs/tdigest/tdigest.html"
SPARK_DOCS = "https://spark.apache.org/docs/latest/api/python/reference/pyspark.sql/api"
CLICKHOUSE_DOCS = "https://clickhouse.com/docs/sql-reference/aggregate-functions/reference"
NOTES = (
    "Filters of a live window are declared with it (`where(...)`); they cannot be made up when asking.",
    '`History.answer(mode="exact")` and `quantide.spark.quantiles(exact=True)`, of what is on disk.',
    f"One error for the sketch, from k: `normalized_rank_error` ([KLL]({KLL_DOCS})).",
    "It tosses coins: two sketches of the same values differ, and so do answers (seen in this run).",
    f"""Relative to the distance from one end of the ranks ([overview]({QUANTILES_DOCS})); bounds at 1, 2, 3 standard
    deviations for a rank. The Python package (5.2) has float32, integers and Python objects, no float64.""",
    f"""Its own documentation: empirical, no mathematical basis for an error; values are interpolated
    ([t-digest]({TDIGEST_DOCS})). That of ClickHouse and DuckDB, and fastdigest: the same.""",
    f"""1/accuracy "is the relative error of the approximation"
    ([percentile_approx]({SPARK_DOCS}/pyspark.sql.functions.percentile_approx.html)), a summary after Greenwald and
    Khanna that lives for one query.""",
    "As a streaming query of its own (Structured Streaming), which emits rows when they change.",
    "`percentile`, which keeps a count of every distinct value.",
    """`kll_sketch_agg_double`, `kll_merge_agg_double`: sketches of DataSketches as binary columns (since 4.1); error as
    there, for the same k.""",
    """`quantile_disc`. `approx_quantile` is a t-digest and promises nothing; its state can be exported and combined
    (`EXPORT_STATE`, `combine_aggr`, tried in this run).""",
    "`quantile_disc` keeps them; `approx_quantile` computes with floating point: 2^53 + 1 comes out as 2^53 (tried).",
    "Integers and decimals come out as float64: 2^53 + 1 as 2^53 (tried).",
    f"""`quantileGK`: error at most 1/accuracy "with high probability" ([quantileGK]({CLICKHOUSE_DOCS}/quantileGK)).
    `quantile` is a sample of 8,192 values, `quantileTDigest` a t-digest, `quantileDD` bounds values
    ([quantileDD]({CLICKHOUSE_DOCS}/quantileddsketch)); `quantileExact` is exact.""",
    "Materialized views, kept up to date with every insert from stored states; nobody is told.",
    "`quantileExact` and `quantileGK` keep them; `quantileTDigest` gives float32 and refuses decimals (tried).",
    "`Quantile` is P2: one phi, chosen beforehand, no bound. Each is kept up to date; nobody is told.",
    "`RollingQuantile` is by number, one phi; `TimeRolling` refuses `Quantile`, which cannot forget (tried).",
    "`quantile` keeps them, `rolling(...).quantile` gives float64 (tried); windows by number and by time, of a column.",
)


def features_table() -> str:
    return table.markdown(("", *COLUMNS), [(name, *cells) for name, cells in FEATURES.items()])


def features_notes() -> str:
    return "\n".join(f"{number}. {prose(note)}" for number, note in enumerate(NOTES, 1))
