"""Output of notebooks: well-formed HTML with the values of the objects; the example notebook runs."""

import json
import math
import os
import sys
from datetime import date, datetime, timedelta
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbclient import NotebookClient

from quantide import Answer, RecentWindow, Summary
from quantide.summary.answer import AnswerAsOf
from quantide.summary.comparison import Comparison
from quantide.summary.outward_rounding import interval_texts

EXAMPLE = Path(__file__).parent.parent / "examples" / "quickstart.ipynb"
VOID = {"br"}
ALLOWED = {"div", "b", "br", "table", "tr", "td", "svg", "title", "rect", "line", "polygon", "polyline"}


class Reader(HTMLParser):
    """Checks that tags are balanced and harmless, and collects rows of cells, attributes and text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.text: list[str] = []
        self.attributes: dict[str, list[dict[str, str]]] = {}
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        assert not any(name.startswith("on") for name, _ in attrs)
        self.attributes.setdefault(tag, []).append({name: value or "" for name, value in attrs})
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        self.attributes.setdefault(tag, []).append({name: value or "" for name, value in attrs})

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] == "td":
            self.rows[-1][-1] += data
        self.text.append(data)

    @property
    def table(self) -> dict[str, list[str]]:
        return {row[0]: row[1:] for row in self.rows}

    def numbers(self, tag: str, name: str) -> list[float]:
        numbers = [float(x) for one in self.attributes.get(tag, []) for x in one[name].replace(",", " ").split()]
        assert all(math.isfinite(x) for x in numbers)
        return numbers


def read(shown: Any) -> Reader:
    return Reader(shown._repr_html_())


def ranks(text: str) -> tuple[int, int]:
    low, _, high = text.removeprefix("rank ").replace(",", "").partition(" to ")
    return int(low), int(high or low)


def check_answer(answer: Answer) -> Reader:
    html = read(answer)
    assert str(answer.value) in html.text
    assert html.table["asked for"] == [f"rank {answer.target:,} of {answer.n:,}"]
    assert ranks(html.table["proved"][0]) == (answer.rank_lo, answer.rank_hi)
    ranks_off, percent = html.table["off by at most"][0].removesuffix("%").split(", ")
    assert float(percent) / 100 == pytest.approx(answer.error, rel=1.1e-3)
    assert float(percent) / 100 >= answer.error * (1 - 1e-8)
    assert 0 <= int(ranks_off.split()[0].replace(",", "")) - answer.error * answer.n * (1 - 1e-8) <= 1
    low, high = min(answer.rank_lo, answer.target) - 1, max(answer.rank_hi, answer.target)
    for bar, (start, end) in enumerate([(0, answer.n), (low, high)]):
        left, width = (html.numbers("rect", name)[2 * bar + 1] for name in ("x", "width"))
        drawn = np.array([left, html.numbers("line", "x1")[bar], left + width])
        ranks_drawn = start + drawn / 240 * (end - start)
        expected = [answer.rank_lo - 1, answer.target - 0.5, answer.rank_hi]
        assert ranks_drawn == pytest.approx(expected, abs=(end - start) / 10_000)
        assert drawn.min() >= 0
        assert drawn.max() <= 240.01
    return html


def check_summary(summary: Summary) -> Reader:
    html = read(summary)
    if not summary.n:
        assert "".join(html.text).startswith("Summary: no values")
        return html
    assert f"n = {summary.n:,}, type {summary.type}" in "".join(html.text)
    assert html.table["min"] == [str(summary.min), f"{summary.rmin[0]:,}"]
    assert html.table["max"] == [str(summary.max), f"{summary.n:,}"]
    for name, phi in (("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.99", 0.9999)):
        answer = summary.answer(phi)
        value, proved = html.table[name]
        assert value == str(answer.value)
        assert ranks(proved) == (answer.rank_lo, answer.rank_hi)
    for tag in ("polygon", "polyline"):
        points = html.numbers(tag, "points")
        assert all(0 <= x <= 240 for x in points[::2])
        assert all(0 <= y <= 72 for y in points[1::2])
    return html


VALUES: dict[str, Any] = {
    "floats": [3.5, 1.25, 2.0, 8.0],
    "float32": np.array([0.1, 0.2, 0.3], dtype=np.float32),
    "integers": [-(2**63) + 1, 0, 2**63 - 1],
    "timestamps": [datetime(2026, 1, 1), datetime(2026, 1, 2, 12)],
    "durations": [timedelta(milliseconds=5), timedelta(seconds=1)],
    "decimals": [Decimal("1.50"), Decimal("2.25"), Decimal("-0.01")],
    "dates": [date(2026, 1, 1), date(1969, 2, 3)],
    "one": [1.0],
    "constant": [2.0] * 50,
    "none": [],
    "infinite": [math.inf, -math.inf, 1.0, 2.0],
    "only infinite": [math.inf, math.inf],
    "everything": [-sys.float_info.max, sys.float_info.max],
}


@pytest.mark.parametrize("name", VALUES)
def test_summaries_of_every_type_are_shown(name: str) -> None:
    html = check_summary(Summary.of(VALUES[name]))
    drawn = name not in ("one", "constant", "none", "only infinite")
    assert ("polyline" in html.attributes) == drawn


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=200), st.integers(1, 30), st.floats(0.001, 1.0))
def test_numbers_are_those_of_the_answer(values: list[float], size: int, phi: float) -> None:
    summary = Summary.of(values).compress(size)
    check_summary(summary)
    check_answer(summary.answer(phi))


def test_the_curve_that_is_shown_is_that_of_the_summary() -> None:
    html = read(Summary.of([1.0, 2.0, 2.0, 3.0]))
    line = html.numbers("polyline", "points")
    assert line == [0, 72, 0, 72, 0, 54, 120, 54, 120, 18, 240, 18, 240, 0]


def test_skipped_values_are_counted_in_html() -> None:
    assert "1 NaN skipped" in "".join(read(Summary.of([1.0, math.nan], nan="skip")).text)
    assert "2 null skipped" in "".join(read(Summary.of([None, None, 1.0])).text)


def test_huge_numbers_of_values() -> None:
    n = 2**53
    answer = Answer(np.float64(1.5), 0.99, n - 9, n - 50, n, n, 41 / n, n, n)
    assert check_answer(answer).table["proved"] == ["rank 9,007,199,254,740,942 to 9,007,199,254,740,992"]


def test_text_of_whatever_kind_is_escaped() -> None:
    bad = "<script>alert('x')</script>&\""
    answer = AnswerAsOf(bad, 0.5, 1, 1, 1, 1, 0.0, 1, 1, 7, bad, 3, None, bad, None)
    html = read(answer)
    assert bad in html.text
    assert html.table["mode"] == html.table["since"] == [bad]
    assert html.table["version"] == ["7"]
    assert "last steps" not in html.table


def test_a_window_tells_how_many_values_it_may_hold(rng: np.random.Generator) -> None:
    window = RecentWindow(eps=0.05, max_age=100)
    for second in range(100):
        part = Summary.of(rng.random(400)).compress(40)
        window.update_summary(part, first_time=float(second), last_time=second + 0.9)
    answer = window.answer(0.5, within=49.5)
    assert answer.n_lo < answer.n_hi
    html = read(answer)
    assert html.table["asked for"] == [f"rank {answer.target:,} of {answer.n_lo:,} to {answer.n_hi:,}"]
    assert html.table["missing"] == [str(answer.missing)]


def test_plain_text_has_the_same_numbers() -> None:
    summary = Summary.of(range(1000)).compress(10)
    assert repr(summary) == "Summary(n=1000, tuples=11, error=0.05, type=int64)"
    answer = summary.answer(0.5)
    for name in ("value", "phi", "target", "rank_lo", "rank_hi", "n", "error"):
        assert f"{name}={getattr(answer, name)!r}" in repr(answer)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel of this very Python that imports what these tests import, and writes nothing to the user's folders."""
    folder = tmp_path / "kernels" / "here"
    folder.mkdir(parents=True)
    start = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (folder / "kernel.json").write_text(json.dumps({"argv": start, "display_name": "here", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "TMPDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    return "here"


def test_the_example_notebook_runs(kernel: str, tmp_path: Path) -> None:
    notebook = nbformat.read(EXAMPLE, as_version=4)  # type: ignore[no-untyped-call]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    NotebookClient(notebook, kernel_name=kernel, timeout=120).execute()
    outputs = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in outputs} == {"execute_result", "display_data"}
    shown = [output.data for output in outputs]
    pages = [data["text/html"] for data in shown if "text/html" in data]
    assert len([Reader(page) for page in pages]) >= 6
    assert any("Summary" in page for page in pages)
    assert sum("image/png" in data for data in shown) == 2
    low, high = map(float, next(data["text/plain"] for data in shown if data["text/plain"][0] == "(")[1:-1].split(","))
    assert 0.99 < low <= high < 1  # Tuesday is slower than what was before
    assert list((tmp_path / "TMPDIR").iterdir()) == []


def test_a_comparison_shows_its_bounds_and_both_curves() -> None:
    rng = np.random.default_rng(5)
    change = Summary.of(rng.normal(1, 1, 500)).compress(50).compare(Summary.of(rng.normal(0, 1, 500)).compress(50))
    shown = Reader(change._repr_html_())
    cells = {row[0]: row[1:] for row in shown.rows}
    assert cells["KS distance"][:2] == [*interval_texts(*change.ks)]
    assert cells["shift of median"] == [*interval_texts(*change.shifts[0.5]), "yes"]
    assert len(shown.attributes["polyline"]) == 2
    assert len(shown.attributes["polygon"]) == 2


@pytest.mark.parametrize(
    "values", [[1.0], [math.inf], [-1.7e308, 1.7e308], [date(2026, 1, 1), date(2026, 1, 2)], [Decimal("1.5")]]
)
def test_comparisons_of_every_kind_have_html(values: list[Any]) -> None:
    change = Comparison(Summary.of(values), Summary.of(values[:1]))
    assert "KS distance" in "".join(cell for row in Reader(change._repr_html_()).rows for cell in row)
