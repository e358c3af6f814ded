"""The subjects, in the order they are run and listed. A new one is a module that measures, one for its page, a line."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.report import Report
from characterization import history, page_history, page_queries, page_spark, page_windows, queries, spark, windows


@dataclass(frozen=True)
class Subject:
    """`run(quick, command)` measures; the rest is made from the report and from nothing else.

    `figures` gives SVG by the name of its file.
    """

    about: str
    run: Callable[[bool, str], Report]
    render: Callable[[Report], str]
    figures: Callable[[Report], dict[str, str]]
    headlines: Callable[[Report], list[str]]


SUBJECTS = {
    "spark": Subject(
        "percentiles of a lake, with more rows, more files and more keys; what a task holds",
        spark.run,
        page_spark.render,
        page_spark.figures,
        page_spark.headlines,
    ),
    "queries": Subject(
        "standing queries, the experiment of the paper: eager, SU, CSU, CASU, clusters, re-evaluations",
        queries.run,
        page_queries.render,
        page_queries.figures,
        page_queries.headlines,
    ),
    "history": Subject(
        "history and stream, the figures of the paper: memory, kappa, updates, questions, windows, growth",
        history.run,
        page_history.render,
        page_history.figures,
        page_history.headlines,
    ),
    "windows": Subject(
        "windows, the figures of two papers: error and space by eps, data, size and span of time",
        windows.run,
        page_windows.render,
        page_windows.figures,
        page_windows.headlines,
    ),
}
