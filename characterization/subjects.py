"""What is characterized, in the order in which it is run and listed."""

from benchmarks.family import DOCS, Family
from benchmarks.part import Part
from characterization import history, page_history, page_queries, page_spark, page_windows, queries, spark, windows

SUBJECTS = {
    "spark": Part(
        "percentiles of a lake, with more rows, more files and more keys; what a task holds",
        spark,
        page_spark,
        page_spark.figures,
    ),
    "queries": Part(
        "standing queries, the experiment of the paper: eager, SU, CSU, CASU, clusters, re-evaluations",
        queries,
        page_queries,
        page_queries.figures,
    ),
    "history": Part(
        "history and stream, the figures of the paper: memory, kappa, updates, questions, windows, growth",
        history,
        page_history,
        page_history.figures,
    ),
    "windows": Part(
        "windows, the figures of two papers: error and space by eps, data, size and span of time",
        windows,
        page_windows,
        page_windows.figures,
    ),
}
CHARACTERIZATION = Family(
    name="characterization",
    title="Characterization",
    about="""How error, time and memory grow, beside the bounds that are stated (`make characterize`). The pages are
        made from the JSON beside them (`python -m characterization results`). Speed against peers:
        [results](../results/index.md).""",
    folder=DOCS / "characterization",
    parts=SUBJECTS,
)
