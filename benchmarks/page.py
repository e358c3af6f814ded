"""What every result page has: a heading that says it is made, its sections, where it was measured."""

from collections.abc import Sequence

from benchmarks import table
from benchmarks.report import Report

MADE = "<!-- Made by `python -m {family} results` from the JSON beside it. Do not edit. -->"


def page(parts: Sequence[str], family: str) -> str:
    return sections([MADE.format(family=family), *parts]) + "\n"


def sections(parts: Sequence[str]) -> str:
    """Headings, paragraphs and tables, one below the other."""
    return "\n\n".join(part.strip("\n") for part in parts)


def prose(text: str) -> str:
    """One paragraph, whatever its lines in the source."""
    return " ".join(text.split())


def about(report: Report) -> list[str]:
    """Date, command, machine, versions, and what was not there to be measured."""
    machine, missing = report.about["machine"], report.about["not_installed"]
    units = f" ({', '.join(machine['vector_units'])})" if machine["vector_units"] else ""
    packages = [f"{name} {version}" for name, version in machine["packages"].items() if version]
    where = [
        f"{report.about['date']}, `{report.about['command']}`{_taken(report)}",
        f"{machine['cpu']}{units}, {machine['cores']} cores, {machine['memory_gib']} GiB",
        machine["system"],
        ", ".join([f"Python {machine['python']}", *packages]),
    ]
    if missing:
        where.append(f"not installed, so not measured: {', '.join(missing)}")
    if "joined" in report.about:
        where.append(f"**joined from several runs**: {report.about['joined']}")
    return ["## Where and when", "; ".join(where) + "."]


def _taken(report: Report) -> str:
    """How long it took, where the run was not joined from several."""
    return f" ({table.seconds(report.about['seconds'])})" if "seconds" in report.about else ""
