"""The page that sets what five papers report beside what is measured here."""

import math
from collections import Counter
from dataclasses import dataclass

from benchmarks import plot_ratios, table
from benchmarks.page import page, prose, sections
from benchmarks.papers import measured_windows
from benchmarks.papers.headline import Headline
from benchmarks.papers.reported import HEADLINES, PAPERS, Paper
from benchmarks.report import Report
from benchmarks.stored import Found, NotMeasuredError, Reports

SOURCES = (
    "results/fast",
    "results/history",
    "characterization/windows",
    "characterization/queries",
    "characterization/history",
)
WORDS = ("passed", "equal", "missed", "not measured")
LEAST = 1.1  # a ratio nearer to 1 than that is called equal: rates differ by as much from run to run

HOW = """A line for each headline of the five papers that Quantide is built on: what the paper reports, and what the
    stored [results](index.md) and [characterization](../characterization/index.md) say for the same setting or the
    nearest there is. The ratio is how much better it is here: ours over the paper's where more is better, the paper's
    over ours where less is. {passed}. The rule: *passed* from a ratio of {least:g} on, *missed* from 1/{least:g} down,
    *equal* between. The papers' machines are those of their years, so a ratio of seconds to seconds says little; most
    lines compare ratios, errors, tuples or blocks, which no machine changes. *Figure only*: the text at hand has no
    number, its words are given, and what is measured is compared with the bound (or the growth) that they are about.
    Where several settings were measured, the worst of ours counts, against the least that the paper claims."""
ORDERS = """RECENT's seven orders one by one: errors in units of what eps allows, and the most values held."""
BEHIND = "Where it is behind:"


@dataclass(frozen=True)
class Line:
    """A headline, and what was found; None where nothing is stored."""

    headline: Headline
    found: Found | None

    @property
    def ratio(self) -> float | None:
        if self.found is None:
            return None
        ours, theirs = self.found.value, self.headline.number
        if self.headline.more:
            return ours / theirs
        return theirs / ours if ours else math.inf

    @property
    def verdict(self) -> str:
        if self.ratio is None:
            return "not measured"
        return "passed" if self.ratio >= LEAST else "missed" if self.ratio <= 1 / LEAST else "equal"


def lines(reports: Reports) -> list[Line]:
    return [Line(headline, _found(headline, reports)) for headline in HEADLINES]


def render(reports: Reports) -> dict[str, str]:
    """File name to text: the page, and its figure."""
    told = lines(reports)
    parts = [
        "# Five papers",
        prose(HOW.format(passed=_counted(told), least=LEAST)),
        "![How many times better than the paper, every headline](papers.svg)",
        *(part for paper in PAPERS for part in _paper(paper, told, reports)),
        "## Where and when",
        "\n".join(_run(name, reports[name]) for name in SOURCES if name in reports),
    ]
    return {"papers.md": page(parts, "benchmarks"), "papers.svg": _figure(told)}


def _run(name: str, report: Report) -> str:
    """When it was measured; a report that was joined from several runs says so here, too."""
    folder, part = name.split("/")
    link = f"{part}.md" if folder == "results" else f"../{name}.md"
    joined = f"; **joined from several runs**: {report.about['joined']}" if "joined" in report.about else ""
    return f"- [{name}]({link}): {report.about['date']}, `{report.about['command']}`{joined}"


def _found(headline: Headline, reports: Reports) -> Found | None:
    try:
        return headline.measure(reports)
    except NotMeasuredError:
        return None


def _counted(told: list[Line]) -> str:
    counts = Counter(line.verdict for line in told)
    return f"{len(told)} headlines: **" + ", ".join(f"{counts[word]} {word}" for word in WORDS if counts[word]) + "**"


def _paper(paper: Paper, told: list[Line], reports: Reports) -> list[str]:
    own = [line for line in told if line.headline.paper == paper.short]
    missed = [
        f"- {line.headline.name}: {prose(line.headline.why)}"
        for line in own
        if line.verdict == "missed" and line.headline.why
    ]
    behind = [BEHIND, "\n".join(missed)] if missed else []
    more = _orders(reports) if paper.short == "RECENT" else []
    return [f"## {paper.short}", f"{paper.cited}. Measured there on: {paper.machine}.", _table(own), *behind, *more]


def _table(own: list[Line]) -> str:
    header = ["headline", "where", "the paper", "compared with", "here", "setting", "ratio", "verdict"]
    return table.markdown(header, [_cells(line) for line in own])


def _cells(line: Line) -> list[str]:
    h = line.headline
    here = [line.found.told, line.found.setting] if line.found else [table.DASH, table.DASH]
    return [h.name, h.where, h.says, h.against, *here, _ratio(line.ratio), line.verdict]


def _ratio(ratio: float | None) -> str:
    """Two digits of small ones, too."""
    return f"{ratio:.2g}" if ratio is not None and ratio < 0.1 else table.ratio(ratio)


def _orders(reports: Reports) -> list[str]:
    try:
        found = measured_windows.by_order(reports)
    except NotMeasuredError:
        return []
    body = [
        [row["kind"], *(cell for name in ("SlidingWindow", "RecentWindow") for cell in _order(row[name]))]
        for row in found
    ]
    header = ["order", "SW: mean", "worst", "values", "bound", "n of N: mean", "worst", "values", "bound"]
    return [sections([ORDERS, table.markdown(header, body)])]


def _order(row: dict[str, float]) -> list[str]:
    return [f"{row['mean']:.3f}", f"{row['worst']:.3f}", f"{row['tuples']:,}", f"{row['paper_tuples']:,}"]


def _figure(told: list[Line]) -> str:
    dots = [
        plot_ratios.Dot(f"{line.headline.paper}: {line.headline.name}", line.ratio, line.verdict)
        for line in told
        if line.ratio is not None and math.isfinite(line.ratio)
    ]
    return plot_ratios.svg(dots, "How many times better than the paper, every headline, logarithmic axis")
