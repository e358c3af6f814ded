"""What every result page has: a heading that says it is made, its parts, where it was measured."""

from benchmarks.report import Report

MADE = "<!-- Made by {maker} from the JSON beside it. Do not edit. -->"


def page(parts: list[str], maker: str = "benchmarks/pages.py") -> str:
    return "\n\n".join(part.strip("\n") for part in (MADE.format(maker=maker), *parts)) + "\n"


def prose(text: str) -> str:
    """One paragraph, whatever its lines in the source."""
    return " ".join(text.split())


def about(report: Report) -> list[str]:
    """Date, command, machine, versions, and what was not there to be measured."""
    machine, missing = report.about["machine"], report.about["not_installed"]
    units = f" ({', '.join(machine['vector_units'])})" if machine["vector_units"] else ""
    packages = [f"{name} {version}" for name, version in machine["packages"].items() if version]
    where = [
        f"{report.about['date']}, `{report.about['command']}`",
        f"{machine['cpu']}{units}, {machine['cores']} cores, {machine['memory_gib']} GiB",
        machine["system"],
        ", ".join([f"Python {machine['python']}", *packages]),
    ]
    if missing:
        where.append(f"not installed, so not measured: {', '.join(missing)}")
    return ["## Where and when", "; ".join(where) + "."]
