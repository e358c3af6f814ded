"""Processors side by side: docs/results/processors.md, and the slowest one, whose figures README.md shows.

A folder in docs/results/processors is a column: the newest results of a processor.
"""

import re
import shutil
from pathlib import Path

from bench import environment, rendering, tables
from bench.collection import DOCS, NotMeasuredError, Reports, select
from bench.papers import measure
from bench.report import Report

FOLDER = DOCS / "results" / "processors"
SUBJECTS = ("stream", "windows", "queries", "ingest", "history", "serve", "spark")  # of README.md and this page


def store() -> None:
    """Copy the results in docs/results that are of this processor to its folder."""
    machine = environment.describe()
    for path in (FOLDER.parent / f"{name}.json" for name in SUBJECTS):
        measured_on = Report.read(path).about["machine"]
        if all(measured_on.get(name) == machine[name] for name in ("cpu", "numpy_disabled")):
            (FOLDER / folder_name(machine["cpu"], machine["numpy_disabled"])).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, FOLDER / folder_name(machine["cpu"], machine["numpy_disabled"]))


def folder_name(cpu: str, numpy_disabled: str | None) -> str:
    """Return the name of a processor's folder.

    >>> folder_name("AMD EPYC (Zen 4)", None), folder_name("Intel(R) Xeon(R) Processor", "X86_V4")
    ('amd-epyc-zen-4', 'intel-xeon-no-avx512')
    """
    plain = re.sub(r"\(R\)| Processor", "", cpu).lower()
    return "-".join([*re.findall(r"[a-z0-9]+", plain), *["no-avx512"] * bool(numpy_disabled)])


def slowest(reports: Reports) -> tuple[Reports, list[str]]:
    """Return the results of the slowest processor that has all SUBJECTS, and the names of such processors.

    Without one, these are `reports`, each of its own processor. Results with a note are of an earlier version. The
    slowest has the lowest rate of StreamSketch.
    """
    whole = [one for one in map(read, sorted(FOLDER.iterdir())) if _is_whole(one)]
    whole.sort(key=_rate)
    names = [str(one["results/stream"].about["machine"]["cpu"]) for one in whole]
    return (whole[0] if whole else reports), names


def _is_whole(reports: Reports) -> bool:
    abouts = [reports[f"results/{name}"].about for name in SUBJECTS if f"results/{name}" in reports]
    usual = [about for about in abouts if "note" not in about and not about["machine"]["numpy_disabled"]]
    return len(usual) == len(SUBJECTS)


def _rate(reports: Reports) -> float:
    rows = select(reports, "results/stream", "rows", type="float64", order="random", method="StreamSketch", eps=0.001)
    return float(rows[0]["values_per_s"])


def read(folder: Path) -> dict[str, Report]:
    return {f"results/{path.stem}": Report.read(path) for path in sorted(folder.glob("*.json"))}


def column(reports: Reports) -> str:
    """Return the head of a column: the processor and the date of its first result."""
    first = reports["results/stream"].about
    off = ", np.sort without AVX-512" if first["machine"].get("numpy_disabled") else ""
    return f"{first['machine']['cpu']}{off}, {first['date'][:10]}"


COLD = "Spark's own functions ran once, without a warm-up, which makes these ratios too high"


def notes(reports: Reports) -> list[str]:
    """Return each note of a column, with its subjects if it is not about all of them."""
    noted = [(report.about["note"], report.part) for report in reports.values() if "note" in report.about]
    subjects = {note: [part for other, part in noted if other == note] for note, _ in noted}
    named = {note: f" ({', '.join(parts)})" if len(parts) < len(reports) else "" for note, parts in subjects.items()}
    if "results/spark" in reports and not reports["results/spark"].settings.get("warm_up"):
        named[COLD] = " (spark)"
    return [f"{column(reports)}{some}: {note}" for note, some in named.items()]


def page() -> str:
    columns = [read(folder) for folder in sorted(FOLDER.iterdir())]
    body = []
    for line in (rendering.TEMPLATES / "processors.txt").read_text(encoding="utf-8").splitlines():
        text, bar, *formula = line.split(" | ")
        body.append([text, bar, *(cell(reports, *formula) for reports in columns)])
    table = tables.markdown(["", "bar", *map(column, columns)], body)
    noted = [line for reports in columns for line in notes(reports)]
    text = rendering.render("results/processors.md", table=table, notes=noted)
    return rendering.RENDERED.format(command="results") + text


def cell(reports: Reports, rows: str, value: str, shown: str) -> str:
    try:
        return measure(rows, value, shown, more=True, reports=reports)[1]
    except NotMeasuredError:
        return tables.DASH
