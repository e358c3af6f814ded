"""Pages rendered from reports: Jinja templates with filters for numbers and a function for tables.

A template begins with the headlines of its subject, one in a line, up to a line of `=====`; the page follows.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Undefined

from bench import tables
from bench.report import Report, Row

TEMPLATES = Path(__file__).parent / "templates"
RULE = "\n=====\n"
RENDERED = "<!-- Rendered by `python -m bench {command}` from the stored JSON. Do not edit. -->\n\n"


def _thousands(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}"


def _dashed(function: Callable[..., str]) -> Callable[..., str]:
    """Format None and missing values as a dash."""

    def run(value: Any, *arguments: Any) -> str:
        return tables.DASH if value is None or isinstance(value, Undefined) else function(value, *arguments)

    return run


_SAME = (tables.ratio, tables.millions, tables.size, tables.seconds, tables.duration, tables.minutes, tables.power)
FILTERS: dict[str, Callable[..., str]] = {function.__name__: function for function in _SAME}
FILTERS |= {"plain": tables.plain, "short": tables.short, "amount": tables.amount, "cores": tables.count}
FILTERS |= {"ms": tables.milliseconds, "us": tables.microseconds, "milli": lambda value: f"{value * 1e3:.1f} ms"}
FILTERS |= {"n": _thousands, "f": format, "yes": lambda value: "yes" if value else "NO"}


@cache
def environment() -> Environment:
    """Return the environment of all templates."""
    found = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.filters |= {name: _dashed(function) for name, function in FILTERS.items()}
    found.globals |= {"table": table, "max": max, "min": min, "sum": sum, "zip": zip, "group": group}
    return found


@cache
def expression(text: str) -> Callable[..., Any]:
    return environment().compile_expression(text)


def table(rows: Iterable[Row], columns: str, **more: Any) -> str:
    """Return a Markdown table: `columns` are lines (or parts between `;`) of HEADER: EXPRESSION over a row's fields.

    Headers may repeat. A missing value is a dash.
    """
    pairs = [part.strip().partition(": ") for part in re.split(r"[;\n]", columns) if part.strip()]
    body = [
        [_cell(expression(formula or head)(**{**row, "row": row, **more})) for head, _, formula in pairs]
        for row in rows
    ]
    return tables.markdown([head for head, _, _ in pairs], body)


def _cell(value: Any) -> str:
    return tables.DASH if value is None else str(value)


def group(rows: Iterable[Row], name: str) -> dict[Any, list[Row]]:
    """Return rows by the value of a field, in the order of its first occurrences."""
    out: dict[Any, list[Row]] = {}
    for row in rows:
        out.setdefault(row[name], []).append(row)
    return out


def render(template: str, **context: Any) -> str:
    text = environment().get_template(template).render(context)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def page(template: str, report: Report, more: Mapping[str, Any], footer: str) -> tuple[list[str], str]:
    """Return the headlines and the page of a report: `s` are its settings, `r` its rows by name."""
    rows = {name: rows for name, rows in report.rows.items() if rows}
    context = {"s": report.settings, "r": SimpleNamespace(**rows), "about": report.about, **more}
    head, _, body = f"\n{render(template, **context)}".partition(RULE)
    return [line for line in head.splitlines() if line.strip()], f"{body.strip()}\n\n{footer}\n"


def environment_section(report: Report, command: str) -> str:
    """Describe date, command, processor and versions, and peers that were not installed."""
    machine, missing = report.about["machine"], report.about["not_installed"]
    units = f" ({', '.join(machine['vector_units'])})" if machine["vector_units"] else ""
    packages = [f"{name} {version}" for name, version in machine["packages"].items() if version]
    taken = f" ({tables.seconds(report.about['seconds'])})" if "seconds" in report.about else ""
    facts = [f"{report.about['date']}, `{command}`{taken}"]
    facts += [f"{machine['cpu']}{units}, {machine['cores']} cores, {machine['memory_gib']} GiB", machine["system"]]
    facts.append(", ".join([f"Python {machine['python']}", *packages]))
    facts += [f"not installed, so not measured: {', '.join(missing)}"] * bool(missing)
    facts += [f"**joined from several runs**: {report.about['joined']}"] if "joined" in report.about else []
    return f"## Environment\n\n{'; '.join(facts)}."
