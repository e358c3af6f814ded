"""The pages under docs/characterization, made from the JSON beside them and from nothing else."""

from pathlib import Path

from benchmarks.page import about, page, prose
from benchmarks.report import Report, say
from characterization.subjects import SUBJECTS

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "characterization"
MAKER = "characterization/pages.py"

INDEX = """How time and memory grow, measured by `make characterize`, beside the bounds that are stated. The pages are
    made from the JSON beside them (`python -m characterization results`). Speed against peers:
    [docs/results](../results/index.md)."""


def render(folder: Path) -> dict[str, str]:
    """File name to text, for every subject whose JSON is in the folder."""
    paths = {name: folder / f"{name}.json" for name in SUBJECTS}
    reports = {name: Report.read(path) for name, path in paths.items() if path.exists()}
    if not reports:
        return {}
    made = {"index.md": _index(reports)}
    for name, report in reports.items():
        made[f"{name}.md"] = subject_page(name, report)
        made |= SUBJECTS[name].figures(report)
    return made


def write(folder: Path) -> None:
    for name, text in render(folder).items():
        (folder / name).write_text(text, encoding="utf-8")
        say(f"wrote {name}")


def subject_page(name: str, report: Report) -> str:
    return page([SUBJECTS[name].render(report), *about(report)], MAKER)


def headlines(reports: dict[str, Report]) -> str:
    """The few numbers to remember, one a line."""
    return "\n".join(f"- {line}" for name, report in reports.items() for line in SUBJECTS[name].headlines(report))


def _index(reports: dict[str, Report]) -> str:
    links = [f"- [{name}]({name}.md): {SUBJECTS[name].about} ([JSON]({name}.json))" for name in reports]
    machine = about(next(iter(reports.values())))
    return page(["# Characterization", prose(INDEX), headlines(reports), "\n".join(links), *machine], MAKER)
