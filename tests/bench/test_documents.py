"""Figures in documents come from stored results, between marks; no other measured number is in the text."""

import math
import re
from pathlib import Path

import pytest

from bench import documents, papers, processes, rendering
from bench.collection import NotMeasuredError, select, stored
from bench.documents import FIGURES
from bench.papers import Headline
from bench.rendering import environment_section
from bench.report import Report
from tests.document_numbers import ALLOWED, FIGURE, prose_of, typed

WRITTEN = documents.handwritten()
TABLES = {"figures.md", "readme.md"}  # lines of expressions, whose text only names what is measured
TEMPLATES = [path for path in sorted(rendering.TEMPLATES.rglob("*.md")) if path.name not in TABLES]
TEMPLATES.append(rendering.TEMPLATES / "papers.txt")
PAPERS, HEADLINES = papers.read()
REMAKE = "differs from the stored results; run: python -m bench results"
ADVICE = """holds numbers with a unit that no script has put there:

{found}

A number that was measured: add it to bench/templates/figures.md, and write
    <!-- figure: NAME --><!-- /figure -->
for it; `python -m bench results` fills it in. In a template, write an expression. A setting, a limit or a definition:
list the words around it in tests/document_numbers.py. Anything else: leave the number out."""


def name(path: Path) -> str:
    return str(path.relative_to(processes.ROOT))


def prose(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return prose_of(path.name, text) if path in TEMPLATES else text


def test_documents_come_from_committed_json() -> None:
    for path, text in documents.render_all().items():
        assert path.read_text(encoding="utf-8") == text, f"{name(path)} {REMAKE}"


@pytest.mark.parametrize("path", [*WRITTEN, *TEMPLATES], ids=name)
def test_numbers_are_made_or_allowed(path: Path) -> None:
    found = typed(prose(path), ALLOWED.get(name(path), ()))
    assert not found, f"{name(path)} " + ADVICE.format(found="\n".join(f"    ...{words}..." for words in found))


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_marks_do_not_begin_a_line_of_a_paragraph(path: Path) -> None:
    """Such a line is HTML to Markdown and would end the paragraph; a figure on lines of its own may."""
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"^ *<!-- figure: [\w-]+ -->(?!\n)", text, re.M)
    assert (
        len(re.findall("<!-- figure: ", text)) == len(re.findall("<!-- /figure -->", text)) == len(FIGURE.findall(text))
    )


def test_allowed_phrases_are_still_used() -> None:
    assert set(ALLOWED) <= {name(path) for path in (*WRITTEN, *TEMPLATES)}
    for document, words in ALLOWED.items():
        text = prose(processes.ROOT / document)
        assert [some for some in words if len(typed(text, (some,))) == len(typed(text))] == [], document


def test_the_change_log_has_no_figures() -> None:
    assert "CHANGELOG.md" not in ALLOWED
    assert "<!-- figure" not in (processes.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "It takes 3 ms.",
        "some 50 MB that allocators keep",
        "hold 2.4 million at eps = 0.001",
        "a few milliseconds at most",
        "it is 12 times as fast",
        "ten times faster than before",
        "at 400 rows/s, and more",
        "after 20 seconds",
        "costs 5% of it",
        "`code` and 7 GB more",
        "it is five times slower there",
        "mean errors were seven times before",
        "enough for more than four of five queries",
        "it was less than a hundredth of the value",
        "a batch takes about half of the JVM's time",
        "holds less than two thirds of the memory",
    ],
)
def test_typed_numbers_are_found(text: str) -> None:
    assert len(typed(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "about <!-- figure: queries-ratio -->2 ms<!-- /figure --> more",
        "`wait=5 s`, `4 MB`",
        "```python\nsleep(3)  # 3 seconds\n```",
        "Python 3.11, p99, eps = 0.001, 2^53 values, sections 2 to 5",
        "a million standing queries of the last five minutes",
        "at most half of the values, and at least a tenth of them",
        "The time of the file. Bar: 1.5 s, median.",
    ],
)
def test_numbers_that_are_no_measurements_are_ignored(text: str) -> None:
    assert typed(text) == []


def test_every_figure_is_used() -> None:
    told = {found[2] for path in WRITTEN for found in documents.FIGURE.finditer(path.read_text(encoding="utf-8"))}
    assert told == set(FIGURES)


def test_figures_are_put_between_their_marks() -> None:
    text = "on <!-- figure: queries-ratio -->many<!-- /figure -->, <!-- figure: queries-ratio --><!-- /figure -->"
    made = documents.insert(text, stored())
    assert "many" not in made
    assert documents.insert(made, stored()) == made
    with pytest.raises(KeyError, match="speed"):
        documents.insert("<!-- figure: speed --><!-- /figure -->", stored())


def test_a_figure_without_its_results_is_refused() -> None:
    reports = {key: report for key, report in stored().items() if key != "results/queries"}
    with pytest.raises(NotMeasuredError, match="results/queries"):
        documents.insert("<!-- figure: queries-ratio --><!-- /figure -->", reports)


def test_every_headline_of_the_papers_is_measured() -> None:
    reports = stored()
    assert [one.name for one in HEADLINES if one.line(reports)["number"] is None] == []
    assert {headline.paper for headline in HEADLINES} == set(PAPERS)
    assert len({(headline.paper, headline.name) for headline in HEADLINES}) == len(HEADLINES)


def test_missed_headlines_are_explained() -> None:
    for line in (headline.line(stored()) for headline in HEADLINES):
        assert line["verdict"] != "missed" or line["why"], line["name"]
        assert "{" not in line["why"], line["name"]


def test_joined_runs_are_named() -> None:
    reports = stored()
    fast = reports["results/fast"]
    mixed = Report(fast.part, fast.settings, fast.rows, {**fast.about, "joined": "two of them"})
    assert "**joined from several runs**: two of them" in papers.render({**reports, "results/fast": mixed})
    assert "**joined from several runs**: two of them" in environment_section(mixed, "")


def test_papers_are_rendered_without_results() -> None:
    assert f"{len(HEADLINES)} not measured" in papers.render({})


@pytest.mark.parametrize(
    ("value", "more", "ratio", "verdict"),
    [
        (20.0, True, 2.0, "passed"),
        (20.0, False, 0.5, "missed"),
        (11.0, True, 1.1, "passed"),
        (10.5, True, 1.05, "equal"),
        (10.5, False, 1 / 1.05, "equal"),
        (0.0, False, math.inf, "passed"),
    ],
)
def test_verdicts_follow_a_rule(value: float, more: bool, ratio: float, verdict: str) -> None:
    headline = Headline("FAST", "n", "w", "s", 10.0, "10", "r", lambda reports: (value, "", ""), more)
    line = headline.line({})
    assert line["number"] == pytest.approx(ratio)
    assert line["verdict"] == verdict


def test_rows_that_are_not_there_are_named() -> None:
    report = Report("fast", {}, {"times": [{"n": 1}, {"n": 2}]}, {})
    assert select({"results/fast": report}, "results/fast", "times", n=2) == [{"n": 2}]
    for wanted in ({"n": 3}, {"n": 1, "part": "memory"}):
        part = str(wanted.pop("part", "times"))
        with pytest.raises(NotMeasuredError, match=part):
            select({"results/fast": report}, "results/fast", part, **wanted)
