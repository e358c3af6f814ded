"""Pictures of summaries: the band that is drawn contains the exact curve, and nothing else is touched."""

import math
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from quantide import StreamSketch, Summary
from quantide.errors import EmptyError, InvalidArgumentError, MissingPackageError
from quantide.summary.cdf_curve import PLOT_POINTS, curve_of


@pytest.fixture(autouse=True)
def no_window() -> Iterator[None]:
    with mpl.rc_context({"backend": "agg"}):
        yield


def axes() -> Any:
    return Figure().subplots()


def exact(values: Any, points: Any) -> Any:
    """Return the number of values up to each given one."""
    return np.searchsorted(np.sort(values), points, side="right")


def between(values: Any) -> Any:
    """Return values to query: all of the data, and some between them."""
    values = np.unique(values)
    return np.unique(np.concatenate((values, values[:-1] / 2 + values[1:] / 2)))


def drawn_band(ax: Any, which: int = 0) -> tuple[Any, Any, Any]:
    """The corners of a band: where, its lower edge, its upper edge."""
    corners = ax.collections[which].get_paths()[0].vertices
    edge = (len(corners) - 3) // 2
    lower, upper = corners[1 : 1 + edge], corners[2 + edge : 2 + 2 * edge][::-1]
    assert np.array_equal(lower[:, 0], upper[:, 0])
    return lower[:, 0], lower[:, 1], upper[:, 1]


numbers = st.one_of(st.integers(-5, 5).map(float), st.floats(allow_nan=False, min_value=-1e12, max_value=1e12))


@given(
    st.lists(numbers, min_size=1, max_size=150), st.integers(1, 20), st.integers(1, 20), st.integers(0, 30), st.data()
)
def test_the_curve_contains_the_truth(values: list[float], first: int, second: int, missing: int, data: Any) -> None:
    cut = data.draw(st.integers(0, len(values)))
    summary = Summary.merge(*(Summary.of(part).compress(first) for part in (values[:cut], values[cut:])))
    never_seen = data.draw(st.lists(numbers, min_size=missing, max_size=missing))
    x, lo, hi = curve_of(summary.lift(missing), second)
    everything = np.array([*values, *never_seen])
    points = between(everything)
    at = np.searchsorted(x, points, side="right") - 1
    truth = exact(everything, points)
    inside = at >= 0
    assert (lo[at[inside]] <= truth[inside]).all()
    assert (truth[inside] <= hi[at[inside]]).all()
    assert (truth[~inside] <= hi[0]).all()
    assert (np.diff(lo) >= 0).all()
    assert (np.diff(hi) >= 0).all()
    assert len(x) <= second + 2


def test_infinite_values_are_counted() -> None:
    x, lo, hi = curve_of(Summary.of([-math.inf, -math.inf, 1.0, 2.0, math.inf]), 10)
    assert x.tolist() == [1, 1, 2]
    assert lo.tolist() == hi.tolist() == [2, 3, 4]
    assert len(curve_of(Summary.of([math.inf]), 10).x) == len(curve_of(Summary.of([]), 10).x) == 0


@pytest.mark.parametrize("rows", [1, 3, 100, 30_000])
def test_the_band_that_is_drawn_contains_the_exact_curve(rows: int, rng: np.random.Generator) -> None:
    values = np.round(rng.lognormal(3, 1, rows), 1)
    sketch = StreamSketch(eps=0.01)
    sketch.update(values)
    for summary in (Summary.of(values), Summary.of(values).compress(7), sketch.summary()):
        ax = axes()
        assert summary.plot(ax) is ax
        where, lower, upper = drawn_band(ax)
        points = between(values)
        at = np.searchsorted(where, points, side="right") - 1
        truth = exact(values, points) / rows
        assert (lower[at] <= truth + 1e-12).all()
        assert (truth <= upper[at] + 1e-12).all()
        assert (upper - lower).max() <= 2 * summary.error + 1 / PLOT_POINTS + 1e-12
        x, y = ax.lines[0].get_data()
        assert len(x) <= PLOT_POINTS + 2
        assert (x[0], x[-1], y[-1]) == (values.min(), values.max(), 1)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("value", "fraction of values at or below")
        ax.figure.canvas.draw()


def test_an_exact_curve_is_drawn_exactly() -> None:
    ax = Summary.of([3, 1, 2, 2]).plot(axes())
    x, y = ax.lines[0].get_data()
    assert x.tolist() == [1, 1, 2, 3]
    assert y.tolist() == [0, 0.25, 0.75, 1]
    assert ax.lines[0].get_drawstyle() == "steps-post"


def test_two_summaries_over_each_other() -> None:
    ax = axes()
    Summary.of([1.0, 2.0]).plot(ax, label="today")
    Summary.of([2.0, 3.0]).plot(ax, label="before")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["today", "before"]
    assert len({line.get_color() for line in ax.lines}) == 2
    assert drawn_band(ax, 1)[0][0] == 2


@pytest.mark.parametrize(
    ("values", "first", "label"),
    [
        ([datetime(2026, 1, 1), datetime(2026, 1, 2)], np.datetime64("2026-01-01"), "value"),
        ([date(2026, 1, 1), date(2026, 1, 2)], np.datetime64("2026-01-01"), "value"),
        (np.array([1500, 2], dtype="m8[ms]"), 2.0, "value (ms)"),
        ([timedelta(seconds=1), timedelta(seconds=2)], 1e6, "value (us)"),
        ([Decimal("1.50"), Decimal("2.25")], 1.5, "value"),
        (np.array([0.5, 2], dtype=np.float32), 0.5, "value"),
        ([-(2**62), 2**62], -(2.0**62), "value"),
    ],
)
def test_values_of_every_type_are_drawn(values: Any, first: Any, label: str) -> None:
    ax = Summary.of(values).plot(axes())
    ax.figure.canvas.draw()
    assert ax.lines[0].get_xdata(orig=True)[0] == first
    assert ax.get_xlabel() == label


def test_a_logarithmic_axis() -> None:
    ax = Summary.of([0.1, 10.0, 1000.0]).plot(axes(), log=True)
    assert ax.get_xscale() == "log"
    assert Summary.of([0.1]).plot(axes()).get_xscale() == "linear"
    with pytest.raises(InvalidArgumentError, match=r"values above 0, and the least is -1\.50"):
        Summary.of([Decimal("-1.50"), Decimal("2.25")]).plot(axes(), log=True)
    with pytest.raises(InvalidArgumentError, match=r"times .* have no logarithm"):
        Summary.of([datetime(2026, 1, 1)]).plot(axes(), log=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([math.inf], "all values are infinite"),
        ([-1.7e308, 1.0], "too large for an axis"),
        (np.array([0, 10**15], dtype="M8[s]"), "years are 1 to 9999"),
    ],
)
def test_what_cannot_be_drawn_is_refused_and_leaves_no_trace(values: Any, message: str) -> None:
    ax = axes()
    with pytest.raises(InvalidArgumentError, match=message):
        Summary.of(values).plot(ax)
    with pytest.raises(EmptyError):
        Summary.of([]).plot(ax)
    assert (len(ax.lines), len(ax.collections), ax.get_xlabel()) == (0, 0, "")


def test_only_without_axes_a_figure_is_made() -> None:
    import matplotlib.pyplot as plt

    plt.close("all")
    settings = dict(mpl.rcParams)
    Summary.of([1.0, 2.0]).plot(axes())
    assert plt.get_fignums() == []
    ax = Summary.of([1.0, 2.0]).plot()
    assert plt.get_fignums() == [ax.figure.number]
    assert dict(mpl.rcParams) == settings
    plt.close("all")


def test_without_matplotlib_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingPackageError, match=r'pip install "quantide\[plot\]"') as error:
        Summary.of([1.0]).plot()
    assert isinstance(error.value, ImportError)
    assert error.value.code == "missing_package"


def test_asking_and_showing_import_no_matplotlib() -> None:
    script = "from quantide import Summary; s = Summary.of([1.0, 2.0]); s._repr_html_(); s.answer(1)._repr_html_()"
    loaded = subprocess.run(
        [sys.executable, "-c", f"{script}\nimport sys; print(*sys.modules)"], check=True, capture_output=True, text=True
    ).stdout.split()
    assert "quantide.summary.notebook" in loaded
    assert "matplotlib" not in loaded
