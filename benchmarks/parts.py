"""What the benchmarks measure, in the order in which it is run and listed."""

from benchmarks import (
    breaks,
    compare,
    dashboard,
    fast_paper,
    figures_peers,
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
    page_partitions,
    page_peers,
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

PARTS = {
    "stream": Part("update speed of whole-stream sketches beside peers", stream, page_stream),
    "fast": Part("the figures of the FAST paper", fast_paper, page_fast, page_fast.figures),
    "keys": Part("summaries of many keys at once", keys, page_keys),
    "queries": Part("a million standing queries beside a bare sketch", queries, page_queries),
    "history": Part("a billion values on disk and a stream, asked together", history, page_history),
    "windows": Part("the most recent values: speed, space, peers", windows, page_windows),
    "live": Part("a reader beside the writer: questions, lag, starts, memory", live, page_live, page_live.figures),
    "ingest": Part("files into history, through Spark: speed, lag, memory", ingest, page_ingest, page_ingest.figures),
    "serve": Part("the server: questions over HTTP, events to many clients", serve, page_serve),
    "dashboard": Part("the page in a browser: start, frames, memory", dashboard, page_dashboard),
    "spark": Part("percentiles of a lake, beside Spark's own functions", spark, page_spark),
    "peers": Part("the same questions to today's peers", compare, page_peers, figures_peers.figures),
    "partitions": Part("what many partitions cost on Spark", spark_partitions, page_partitions),
    "breaks": Part(
        "accuracy where others break: t-digests, merges, types, threads", breaks, page_breaks, page_breaks.figures
    ),
}
BENCHMARKS = Family(
    name="benchmarks",
    title="Results",
    about="""Speed, error and size beside peers, each in one run (`make bench`; `make evidence` runs this and
        [characterization](../characterization/index.md)). The pages are made from the JSON beside them
        (`python -m benchmarks results`).""",
    folder=DOCS / "results",
    parts=PARTS,
    beside=(
        "- [papers](papers.md): every headline of five papers beside what is measured here",
        "- [evidence](evidence.md): the last run of everything",
    ),
)
