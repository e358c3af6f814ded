"""Headlines of five papers beside the stored results: docs/results/papers.md, from templates/papers.txt.

A line there has a headline's name, section, the paper's words, the number compared (with > where more is better), its
name, how the comparison is to be read, the rows of a stored result, expressions for the number and its text, and an
explanation of a miss, a template with `select`. The worst row
counts, or the last where the rows end with `last`; `field=A/B` pairs each row of A with its `other` of B.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from jinja2 import UndefinedError

from bench import rendering
from bench.collection import NotMeasuredError, Reports, select, settings
from bench.rendering import group
from bench.report import Report, Row
from bench.tables import DASH, ratio

VERDICTS, LEAST = ("passed", "equal", "missed", "not measured"), 1.1  # rates differ by as much from run to run
Found = tuple[float, str, str]  # the number that is compared, its text, and the rows it is from


@dataclass(frozen=True)
class Headline:
    """A headline: the paper's `number` is compared with `measure`; `more`: more is better; `why` explains a miss.

    `reading`: what exactly is compared, and why that is fair.
    """

    paper: str
    name: str
    where: str
    claim: str
    number: float
    against: str
    reading: str
    measure: Callable[[Reports], Found]
    more: bool = False
    why: str = ""

    def line(self, reports: Reports) -> Row:
        """Return the headline with the measured value, its ratio and a verdict."""
        try:
            value, text, rows = self.measure(reports)
            why = rendering.environment().from_string(self.why).render(select=partial(select, reports))
        except NotMeasuredError:
            return {**vars(self), "text": DASH, "rows": DASH, "number": None, "ratio": DASH, "verdict": VERDICTS[3]}
        times = value / self.number if self.more else self.number / value if value else math.inf
        verdict = "passed" if times >= LEAST else "missed" if times <= 1 / LEAST else "equal"
        shown = f"{times:.2g}" if times < 0.1 else ratio(times)
        return {
            **vars(self),
            "text": text,
            "rows": rows,
            "number": times,
            "ratio": shown,
            "verdict": verdict,
            "why": why,
        }


@cache
def read() -> tuple[dict[str, tuple[str, str]], list[Headline]]:
    """Return the papers, with citation and machine, and all headlines."""
    papers, headlines = dict[str, tuple[str, str]](), list[Headline]()
    for line in (rendering.TEMPLATES / "papers.txt").read_text(encoding="utf-8").splitlines():
        if " | " not in line:
            short, cited, machine = line.split(" = ")
            papers[short] = (cited, machine)
            continue
        name, where, claim, number, against, reading, rows, value, text, *why = line.split(" | ")
        more = number.startswith(">")
        found = partial(measure, rows, value, text, more)
        compared = float(number.lstrip(">")), against, reading
        headlines.append(Headline(short, name, where, claim, *compared, found, more, *why))
    return papers, headlines


def measure(rows: str, value: str, text: str, more: bool, reports: Reports) -> Found:
    subject, found = _rows(rows, reports)
    shared = {"rows": found, "s": settings(reports, subject), "max": max, "min": min}
    chosen = found[-1:] if rows.endswith(" last") else found
    try:
        pairs = [(float(rendering.expression(value)(**shared | row | {"row": row})), row) for row in chosen]
    except UndefinedError as error:
        raise NotMeasuredError(f"{rows}: {error}") from error  # stored before the field was measured
    worst, row = (min if more else max)(pairs, key=lambda pair: pair[0])
    return worst, rendering.expression(text)(**shared | row | {"row": row, "value": worst}), rows.removesuffix(", last")


def _rows(text: str, reports: Reports) -> tuple[str, list[Row]]:
    """Return the subject and the rows of "SUBJECT PART: FIELD=VALUE, FIELD=VALUE, last"."""
    head, _, filters = text.partition(": ")
    subject, part = head.split(" ")
    fields = dict(one.split("=", 1) for one in re.split(r", (?=\w+=|last$)", filters) if "=" in one)
    one, other = ({name: _value(value.split("/")[side]) for name, value in fields.items()} for side in (0, -1))
    pairs = zip(*(select(reports, subject, part, **chosen) for chosen in (one, other)), strict=True)
    return subject, [{**row, "other": beside} for row, beside in pairs]


def _value(text: str) -> Any:
    return json.loads(text) if re.fullmatch(r"\d+(\.\d+)?|null", text) else text


def render(reports: Reports) -> str:
    """Render docs/results/papers.md."""
    papers, headlines = read()
    lines = [headline.line(reports) for headline in headlines]
    counts, own = Counter(line["verdict"] for line in lines), group(lines, "paper")
    counted = ", ".join(f"{counts[word]} {word}" for word in VERDICTS if counts[word])
    named = [{"short": s, "cited": c, "machine": m, "lines": own[s]} for s, (c, m) in papers.items()]
    runs = [_run(name, report) for name, report in reports.items() if any(name in line["rows"] for line in lines)]
    shown: Row = {"lines": lines, "least": LEAST, "counted": counted, "papers": named, "runs": runs}
    return rendering.RENDERED.format(command="results") + rendering.render("results/papers.md", **shown)


def _run(name: str, report: Report) -> str:
    joined = f"; **joined from several runs**: {report.about['joined']}" if "joined" in report.about else ""
    return f"[{name}](../{name}.md): {report.about['date']}, {report.about['machine']['cpu']}{joined}"
