"""What is characterized, in the order in which it is run and listed."""

from benchmarks.family import DOCS, Family
from benchmarks.part import Part
from characterization import (
    history,
    page_history,
    page_queries,
    page_scale,
    page_spark,
    page_windows,
    queries,
    scale,
    spark,
    windows,
)

SPARK = Part(
    "percentiles of a lake, with more rows, more files and more keys; what a task holds",
    spark.run,
    quick=spark.QUICK,
    hour=spark.HOUR,
    full=spark.Settings(),
    render=page_spark.render,
    headlines=page_spark.headlines,
    figures=page_spark.figures,
)
QUERIES = Part(
    "standing queries, the experiment of the paper: eager, SU, CSU, CASU, clusters, re-evaluations",
    queries.run,
    quick=queries.QUICK,
    hour=queries.HOUR,
    full=queries.Settings(),
    render=page_queries.render,
    headlines=page_queries.headlines,
    figures=page_queries.figures,
)
HISTORY = Part(
    "history and stream, the figures of the paper: memory, kappa, updates, questions, windows, growth",
    history.run,
    quick=history.QUICK,
    hour=history.HOUR,
    full=history.Settings(),
    render=page_history.render,
    headlines=page_history.headlines,
    figures=page_history.figures,
)
WINDOWS = Part(
    "windows, the figures of two papers: error and space by eps, data, size and span of time",
    windows.run,
    quick=windows.QUICK,
    hour=windows.HOUR,
    full=windows.Settings(),
    render=page_windows.render,
    headlines=page_windows.headlines,
    figures=page_windows.figures,
)
SCALE = Part(
    "what each part costs, a model of it, the merges of a year and 100,000 clients simulated",
    scale.run,
    quick=scale.QUICK,
    hour=scale.HOUR,
    full=scale.Settings(),
    render=page_scale.render,
    headlines=page_scale.headlines,
    figures=page_scale.figures,
)
CHARACTERIZATION = Family(
    name="characterization",
    title="Characterization",
    about="""How error, time and memory grow, beside the bounds that are stated (`make characterize`). The pages are
        made from the JSON beside them (`python -m characterization results`). Speed against peers:
        [results](../results/index.md).""",
    folder=DOCS / "characterization",
    parts={"spark": SPARK, "queries": QUERIES, "history": HISTORY, "windows": WINDOWS, "scale": SCALE},
)
