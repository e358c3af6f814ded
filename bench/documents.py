"""Documents written by hand, whose figures come from stored results, and pages about several subjects.

A figure stands between `<!-- figure: NAME -->` and `<!-- /figure -->`; templates/figures.md has its text by name.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import evidence, papers, processors, rendering, tables, tail_accuracy
from bench.collection import DOCS, FOLDERS, Reports, select, stored
from bench.processes import ROOT
from bench.report import Report, show

FIGURE = re.compile(r"(<!-- figure: ([\w-]+) -->)(.*?)(<!-- /figure -->)", re.S)
SCALE = DOCS / "scale.md"
_LINES = (rendering.TEMPLATES / "figures.md").read_text(encoding="utf-8").splitlines()
FIGURES = dict(line.split(": ", 1) for line in _LINES)


def handwritten() -> list[Path]:
    """Return every document written by hand."""
    rendered = [DOCS / folder for folder in FOLDERS]
    pages = [path for path in DOCS.rglob("*.md") if path.parent not in rendered and path != SCALE]
    return sorted([*ROOT.glob("*.md"), *pages])


def render_all() -> dict[Path, str]:
    """Return every document with its figures, and the pages about several subjects, from the stored results."""
    reports = stored()
    texts = {path: insert(path.read_text(encoding="utf-8"), reports) for path in handwritten()}
    texts[DOCS / "results" / "papers.md"] = papers.render(reports)
    texts[DOCS / "results" / "processors.md"] = processors.page()
    texts[DOCS / "results" / "evidence.md"] = evidence.page(reports["results/evidence"])
    return texts | {SCALE: scale(reports["characterization/scale"])}


def insert(text: str, reports: Reports) -> str:
    """Return the text with its figures rendered again."""
    return FIGURE.sub(lambda found: f"{found[1]}{figure(found[2], reports)}{found[4]}", text)


def figure(name: str, reports: Reports) -> str:
    context: Mapping[str, Any] = {
        "reports": reports,
        "select": lambda *names, **fields: select(reports, *names, **fields),
        "stream": lambda method: stream_row(reports, method),
        "readme": lambda: readme(processors.slowest(reports)[0]),
        "processor": lambda: processor(reports),
        "tails": lambda: tail_accuracy.worst(reports["results/tails"]),
        "buckets": buckets,
        "task": task,
    }
    return rendering.environment().from_string(FIGURES[name]).render(context)


def processor(reports: Reports) -> str:
    """Return where the table of README.md was measured."""
    measured, names = processors.slowest(reports)
    if not names:
        return "on several machines: each result names its own"
    machine, date = measured["results/stream"].about["machine"], measured["results/stream"].about["date"]
    others = f", the slower of {' and '.join(names)}" if len(names) > 1 else ""
    return f"on {machine['cpu']} with {machine['cores']} cores, {date}{others}"


def readme(reports: Reports) -> str:
    """Render the table of README.md; a line of its template is a row."""
    first = [stream_row(reports, method) for method in ("StreamSketch", "KLL k=2600")]
    chosen = {name: reports[f"results/{name}"] for name in processors.SUBJECTS}
    lines = rendering.render("readme.md", ours=first[0], peer=first[1], reports=chosen).splitlines()
    return f"\n\n{tables.markdown(('measured', 'Quantide'), [line.split(' | ') for line in lines if line])}\n"


def scale(report: Report) -> str:
    """Render docs/scale.md."""
    from bench import cost_pages

    text = rendering.render("scale.md", **cost_pages.limits_context(report, cost_pages.other_processors()))
    return rendering.RENDERED.format(command="characterize results") + text


def stream_row(reports: Reports, method: str) -> Any:
    rows = select(reports, "results/stream", "rows", type="float64", order="random", method=method)
    return next(row for row in rows if row["eps"] in (0.001, None))


def buckets(eps: float, n: int) -> str:
    """Return the range of tuples of buckets by the formula of docs/guarantees/windows.md, with two digits."""
    least = 2 / eps * math.log(eps * n / 2) * 0.67 / eps
    return " to ".join(f"{float(f'{value:.1e}'):,.0f}" for value in (least, 2 * least))


def task(name: str) -> str:
    """Return a constant of the memory bound of Spark tasks, which docs/spark.md states."""
    from bench import spark_task  # needs Spark

    value = int(getattr(spark_task, name))
    return f"{value / 1e6:.0f} MB" if value >= 1e6 else str(value)


def write() -> None:
    for path, text in render_all().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            show(f"wrote {path.relative_to(ROOT)}")
