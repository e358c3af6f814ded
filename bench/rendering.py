"""Pages rendered from reports: Jinja templates with filters for numbers and a function for tables.

A template begins with the headlines of its subject, one in a line, up to a line of `=====`; the page follows.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bench import tables
from bench.report import Report, Row

TEMPLATES = Path(__file__).parent / "templates"
RENDERED = "<!-- Rendered by `python -m bench {command}` from the stored JSON. Do not edit. -->\n\n"


@cache
def environment() -> Environment:
    """Return the environment of all templates."""
    loader = FileSystemLoader(TEMPLATES)
    found = Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    found.filters |= tables.FILTERS
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
    cell, formulas = tables.dashed(str), [expression(formula or head) for head, _, formula in pairs]
    body = [[cell(formula(**{**row, "row": row, **more})) for formula in formulas] for row in rows]
    return tables.markdown([head for head, _, _ in pairs], body)


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
    rows = SimpleNamespace(**{name: rows for name, rows in report.rows.items() if rows})
    text = render(template, s=report.settings, r=rows, about=report.about, **more)
    head, _, body = f"\n{text}".partition("\n=====\n")
    return [line for line in head.splitlines() if line.strip()], f"{body.strip()}\n\n{footer}\n"


def environment_section(report: Report, command: str) -> str:
    """Describe date, command, processor and versions, and peers that were not installed."""
    about, machine = report.about, report.about["machine"]
    units = f" ({', '.join(machine['vector_units'])})" if machine["vector_units"] else ""
    units += f", numpy without {machine['numpy_disabled']}" if machine.get("numpy_disabled") else ""
    packages = [f"{name} {version}" for name, version in machine["packages"].items() if version]
    facts = [
        f"{about['date']}, `{command}`" + (f" ({tables.seconds(about['seconds'])})" if "seconds" in about else ""),
        f"commit {about['commit']}" if about.get("commit") else "",
        f"{machine['cpu']}{units}, {machine['cores']} cores, {machine['memory_gib']} GiB",
        machine["system"],
        ", ".join([f"Python {machine['python']}", *packages]),
        "not installed, so not measured: " + ", ".join(about["not_installed"]) if about["not_installed"] else "",
        f"**joined from several runs**: {about['joined']}" if "joined" in about else "",
    ]
    return f"## Environment\n\n{'; '.join(filter(None, facts))}."
