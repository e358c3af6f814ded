"""The pages under docs/results, made from the JSON beside them and from nothing else."""

from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    page_dashboard,
    page_fast,
    page_history,
    page_ingest,
    page_keys,
    page_live,
    page_queries,
    page_readme,
    page_serve,
    page_spark,
    page_stream,
    page_windows,
)
from benchmarks.page import about, page, prose
from benchmarks.report import FOLDER, Report, say

README = FOLDER.parent.parent / "README.md"

PARTS: dict[str, tuple[Callable[[Report], str], Callable[[Report], list[str]], str]] = {
    "stream": (
        page_stream.render,
        page_stream.headlines,
        "update speed of whole-stream sketches beside peers",
    ),
    "fast": (page_fast.render, page_fast.headlines, "the figures of the FAST paper"),
    "keys": (page_keys.render, page_keys.headlines, "summaries of many keys at once"),
    "queries": (page_queries.render, page_queries.headlines, "a million standing queries beside a bare sketch"),
    "history": (page_history.render, page_history.headlines, "a billion values on disk and a stream, asked together"),
    "windows": (page_windows.render, page_windows.headlines, "the most recent values: speed, space, peers"),
    "live": (page_live.render, page_live.headlines, "a reader beside the writer: questions, lag, starts, memory"),
    "ingest": (page_ingest.render, page_ingest.headlines, "files into history, through Spark: speed, lag, memory"),
    "serve": (page_serve.render, page_serve.headlines, "the server: questions over HTTP, events to many clients"),
    "dashboard": (
        page_dashboard.render,
        page_dashboard.headlines,
        "the page in a browser: start, frames, memory",
    ),
    "spark": (page_spark.render, page_spark.headlines, "percentiles of a lake, beside Spark's own functions"),
    "partitions": (page_spark.render_partitions, page_spark.headlines_partitions, "what many partitions cost on Spark"),
}


def render(folder: Path) -> dict[str, str]:
    """File name to text, for every part whose JSON is in the folder."""
    paths = {part: folder / f"{part}.json" for part in PARTS}
    reports = {part: Report.read(path) for part, path in paths.items() if path.exists()}
    if not reports:
        return {}
    pages = {f"{part}.md": PARTS[part][0](report) for part, report in reports.items()}
    if "fast" in reports:
        pages["fast.svg"] = page_fast.figure(reports["fast"])
    if "live" in reports and "restart" in reports["live"].rows:
        pages["live.svg"] = page_live.figure(reports["live"])
    if "ingest" in reports and "over_time" in reports["ingest"].rows:
        pages["ingest.svg"] = page_ingest.figure(reports["ingest"])
    return {"index.md": _index(reports), **pages}


def write(folder: Path) -> None:
    for name, text in render(folder).items():
        (folder / name).write_text(text, encoding="utf-8")
        say(f"wrote {name}")
    if folder == FOLDER:
        README.write_text(readme(), encoding="utf-8")
        say(f"wrote {README.name}")


def readme() -> str:
    """README.md as it should be by the results that are stored."""
    text = README.read_text(encoding="utf-8")
    paths = {part: FOLDER / f"{part}.json" for part in page_readme.PARTS}
    return page_readme.insert(text, {part: Report.read(path) for part, path in paths.items() if path.exists()})


def headlines(reports: dict[str, Report]) -> str:
    """The few numbers to remember, one a line."""
    return "\n".join(f"- {line}" for part, report in reports.items() for line in PARTS[part][1](report))


def _index(reports: dict[str, Report]) -> str:
    links = [f"- [{part}]({part}.md): {PARTS[part][2]} ([JSON]({part}.json))" for part in reports]
    made = """Measured by `make bench`. The pages are made from the JSON beside them
        (`python -m benchmarks results`)."""
    machine = about(next(iter(reports.values())))
    return page(["# Results", prose(made), headlines(reports), "\n".join(links), *machine])
