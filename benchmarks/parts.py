"""What the benchmarks measure, in the order in which it is run and listed."""

from benchmarks import (
    breaks,
    breaks_settings,
    dashboard,
    fast_paper,
    history,
    ingest,
    keys,
    live,
    page_breaks,
    page_dashboard,
    page_fast,
    page_history,
    page_ingest,
    page_keys,
    page_live,
    page_queries,
    page_serve,
    page_spark,
    page_stream,
    page_windows,
    queries,
    serve,
    spark,
    spark_partitions,
    stream,
    windows,
)
from benchmarks.family import DOCS, Family
from benchmarks.part import Part

STREAM = Part(
    "update speed of whole-stream sketches beside peers",
    stream.run,
    quick=stream.QUICK,
    hour=stream.HOUR,
    full=stream.Settings(),
    render=page_stream.render,
    headlines=page_stream.headlines,
)
FAST = Part(
    "the figures of the FAST paper",
    fast_paper.run,
    quick=fast_paper.QUICK,
    hour=fast_paper.HOUR,
    full=fast_paper.Settings(),
    render=page_fast.render,
    headlines=page_fast.headlines,
    figures=page_fast.figures,
)
KEYS = Part(
    "summaries of many keys at once",
    keys.run,
    quick=keys.QUICK,
    hour=keys.HOUR,
    full=keys.Settings(),
    render=page_keys.render,
    headlines=page_keys.headlines,
)
QUERIES = Part(
    "a million standing queries beside a bare sketch",
    queries.run,
    quick=queries.QUICK,
    hour=queries.HOUR,
    full=queries.Settings(),
    render=page_queries.render,
    headlines=page_queries.headlines,
)
HISTORY = Part(
    "a billion values on disk and a stream, asked together",
    history.run,
    quick=history.QUICK,
    hour=history.HOUR,
    full=history.Settings(),
    render=page_history.render,
    headlines=page_history.headlines,
)
WINDOWS = Part(
    "the most recent values: speed, space, peers",
    windows.run,
    quick=windows.QUICK,
    hour=windows.HOUR,
    full=windows.Settings(),
    render=page_windows.render,
    headlines=page_windows.headlines,
)
LIVE = Part(
    "a reader beside the writer: questions, lag, starts, memory",
    live.run,
    quick=live.QUICK,
    hour=live.HOUR,
    full=live.Settings(),
    render=page_live.render,
    headlines=page_live.headlines,
    figures=page_live.figures,
)
INGEST = Part(
    "files into history, through Spark: speed, lag, memory",
    ingest.run,
    quick=ingest.QUICK,
    hour=ingest.HOUR,
    full=ingest.Settings(),
    render=page_ingest.render,
    headlines=page_ingest.headlines,
    figures=page_ingest.figures,
)
SERVE = Part(
    "the server: questions over HTTP, events to many clients",
    serve.run,
    quick=serve.QUICK,
    hour=serve.HOUR,
    full=serve.Settings(),
    render=page_serve.render,
    headlines=page_serve.headlines,
)
DASHBOARD = Part(
    "the page in a browser: start, frames, memory",
    dashboard.run,
    quick=dashboard.QUICK,
    hour=dashboard.HOUR,
    full=dashboard.Settings(),
    render=page_dashboard.render,
    headlines=page_dashboard.headlines,
)
SPARK = Part(
    "percentiles of a lake, beside Spark's own functions",
    spark.run,
    quick=spark.QUICK,
    hour=spark.HOUR,
    full=spark.Settings(),
    render=page_spark.render,
    headlines=page_spark.headlines,
)
PARTITIONS = Part(
    "what many partitions cost on Spark",
    spark_partitions.run,
    quick=spark_partitions.QUICK,
    hour=spark_partitions.HOUR,
    full=spark_partitions.Settings(),
    render=page_spark.render_partitions,
    headlines=page_spark.headlines_partitions,
)
BREAKS = Part(
    "accuracy where others break: t-digests, merges, types, threads",
    breaks.run,
    quick=breaks_settings.QUICK,
    hour=breaks_settings.HOUR,
    full=breaks_settings.Settings(),
    render=page_breaks.render,
    headlines=page_breaks.headlines,
    figures=page_breaks.figures,
)

BENCHMARKS = Family(
    name="benchmarks",
    title="Results",
    about="""Speed, error and size beside peers, each in one run (`make bench`; `make evidence` runs this and
        [characterization](../characterization/index.md)). The pages are made from the JSON beside them
        (`python -m benchmarks results`).""",
    folder=DOCS / "results",
    parts={
        "stream": STREAM,
        "fast": FAST,
        "keys": KEYS,
        "queries": QUERIES,
        "history": HISTORY,
        "windows": WINDOWS,
        "live": LIVE,
        "ingest": INGEST,
        "serve": SERVE,
        "dashboard": DASHBOARD,
        "spark": SPARK,
        "partitions": PARTITIONS,
        "breaks": BREAKS,
    },
)
