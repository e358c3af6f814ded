"""Our sorts give what np.sort gives, on every kind of data, and no result depends on which of them is used."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from quantide import History, Monitor, RecentWindow, SlidingWindow, StreamSketch, Summaries, Summary
from quantide.errors import InvalidArgumentError
from quantide.kernels import block_sort, radix_sort
from quantide.kernels.block_samples import sample_blocks, sorted_positions
from quantide.kernels.block_sort import as_bits, layout_of, radix_sort_segments, select_rows, sort, sort_rows
from quantide.kernels.run_merge import merge_runs

CARRIERS = [np.dtype(name) for name in block_sort.CARRIERS]
SIZES = [1, 2, 31, 33, 64, 1000, 8192, 20_000, 65_537, 200_000]


def clusters(rng: np.random.Generator, n: int) -> Any:
    return rng.choice([-1e9, 0.0, 1e9, 1e300 if n % 2 else 3.0], n) + rng.random(n) * 1e-3


def nested(rng: np.random.Generator, n: int) -> Any:
    """Groups within groups: keys that differ in few bits, far apart, so that every pass leaves long groups."""
    bits = sum(rng.integers(0, 8, n).astype(np.uint64) << np.uint64(shift) for shift in (0, 17, 34, 55))
    return np.asarray(bits).view(np.float64)


def lowest_bits(rng: np.random.Generator, n: int) -> Any:
    return (np.full(n, 1.5).view(np.uint64) + rng.integers(0, 5, n).astype(np.uint64)).view(np.float64)


def all_equal_but_one(rng: np.random.Generator, n: int) -> Any:
    return np.where(np.arange(n) == rng.integers(n), -7.0, 2.5)


SHAPES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "lognormal": lambda rng, n: rng.lognormal(0, 3, n),
    "cents": lambda rng, n: np.round(rng.lognormal(3, 1, n), 2),
    "clusters": clusters,
    "nested": nested,
    "lowest_bits": lowest_bits,
    "few": lambda rng, n: rng.integers(0, 3, n) * 1.0,
    "constant": lambda rng, n: np.full(n, -0.0),
    "all_equal_but_one": all_equal_but_one,
    "sorted": lambda rng, n: np.arange(n) * 1.0,
    "reversed": lambda rng, n: -np.arange(n) * 1.0,
    "denormal": lambda rng, n: rng.integers(-1000, 1000, n) * 5e-324,
    "infinities": lambda rng, n: rng.choice([-np.inf, np.inf, 0.0, -0.0, 1.0], n),
}


def of_carrier(values: Any, carrier: np.dtype[Any]) -> Any:
    """Values of a carrier type; floats that an integer cannot hold become the nearest ones that it can."""
    if carrier.kind == "f":
        with np.errstate(over="ignore", under="ignore"):
            return values.astype(carrier)
    return np.clip(np.nan_to_num(values * 1000), -(2.0**62), 2.0**62).astype(carrier)


def radix(values: Any) -> Any:
    out = values.copy()
    radix_sort_segments(out, np.array([0, len(out)]), np.array([0]))
    return out


def check_sorted(out: Any, values: Any) -> None:
    np.testing.assert_array_equal(out, np.sort(values))
    assert not (out.dtype.kind == "f" and np.signbit(out[out == 0]).any())


@pytest.mark.parametrize("carrier", CARRIERS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_data(shape: str, carrier: np.dtype[Any], rng: np.random.Generator) -> None:
    for n in SIZES:
        values = of_carrier(SHAPES[shape](rng, n), carrier)
        check_sorted(radix(values), values)


@pytest.mark.parametrize("carrier", CARRIERS, ids=str)
@given(data=st.data())
def test_any_values(carrier: np.dtype[Any], data: st.DataObject) -> None:
    bits = data.draw(hnp.arrays(f"u{carrier.itemsize}", st.integers(0, 300)))
    check_sorted(radix(bits.view(carrier)), bits.view(carrier))


@pytest.mark.parametrize("carrier", [c for c in CARRIERS if c.kind == "f"], ids=str)
def test_nan_come_last(carrier: np.dtype[Any], rng: np.random.Generator) -> None:
    for n in SIZES:
        values = rng.choice(np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 1.0], dtype=carrier), n)
        check_sorted(radix(values), values)


@pytest.mark.parametrize("setting", ["radix", "numpy"])
@pytest.mark.parametrize("carrier", CARRIERS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_selected_ranks(
    setting: str, shape: str, carrier: np.dtype[Any], rng: np.random.Generator, force: Callable[[str], None]
) -> None:
    force(setting)
    for n, count in ((1, 3), (2, 1), (700, 2), (4096, 3), (16_384, 2)):
        blocks = of_carrier(SHAPES[shape](rng, n * count), carrier).reshape(count, n)
        before = blocks.copy()
        for part in (5, 100):
            ranks = np.unique(np.concatenate(([1, n], rng.integers(1, n + 1, n // part))))
            rows = select_rows(blocks, ranks)
            assert rows is not None
            np.testing.assert_array_equal(rows, np.sort(blocks, axis=1)[:, ranks - 1])
            np.testing.assert_array_equal(as_bits(blocks), as_bits(before))  # input is not changed
            assert not (carrier.kind == "f" and np.signbit(rows[rows == 0]).any())


@pytest.mark.parametrize("setting", ["radix", "numpy"])
@pytest.mark.parametrize("nan", [np.nan, -np.nan])
def test_a_nan_is_found(setting: str, nan: float, rng: np.random.Generator, force: Callable[[str], None]) -> None:
    force(setting)
    for shape in SHAPES:
        blocks = SHAPES[shape](rng, 4 * 4096).reshape(4, 4096).copy()
        blocks[rng.integers(4), rng.integers(4096)] = nan
        assert select_rows(blocks, np.array([1, 4096])) is None


def test_rows_and_views(rng: np.random.Generator, force: Callable[[str], None]) -> None:
    for setting in ("radix", "numpy", "auto"):
        force(setting)
        values = rng.normal(size=(6, 3000))
        for view in (values, values[:, ::2], values[::2], values.T):
            expected = np.sort(view, axis=1)
            copy = view.copy(order="K")
            sort_rows(copy)
            np.testing.assert_array_equal(copy, expected)
        strided = values[0, ::3]
        expected = np.sort(strided)
        sort(strided)
        np.testing.assert_array_equal(strided, expected)


def test_only_chosen_segments(rng: np.random.Generator) -> None:
    values = rng.normal(size=10_000)
    bounds = np.array([0, 0, 50, 5000, 5000, 9000, 10_000])
    out = values.copy()
    radix_sort_segments(out, bounds, np.array([2, 4]))
    for s in range(6):
        part = slice(bounds[s], bounds[s + 1])
        np.testing.assert_array_equal(out[part], np.sort(values[part]) if s in (2, 4) else values[part])


@given(st.lists(hnp.arrays(np.int64, st.integers(0, 20), elements=st.integers(0, 30)), min_size=1, max_size=13))
def test_merged_runs(runs: list[Any]) -> None:
    runs = [np.sort(run) for run in runs]
    np.testing.assert_array_equal(merge_runs(runs), np.sort(np.concatenate(runs)))


@pytest.mark.parametrize("distinct", [1, 3, 1 << 40])
def test_merged_runs_of_many_pieces(rng: np.random.Generator, distinct: int) -> None:
    for sizes in ([1_500_000, 1, 0, 40_000], [70_000] * 11, [513], [0, 600_000, 600_000]):
        runs = [np.sort(rng.integers(0, distinct, size)) for size in sizes]
        np.testing.assert_array_equal(merge_runs(runs), np.sort(np.concatenate(runs)))


@pytest.mark.parametrize("carrier", CARRIERS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_samples_of_blocks(shape: str, carrier: np.dtype[Any], rng: np.random.Generator) -> None:
    for n in (1, 2, 64, 1024, 8192, 65_536, 131_072):
        values = of_carrier(SHAPES[shape](rng, n), carrier)
        positions = sorted_positions(as_bits(values), layout_of(carrier.name))
        np.testing.assert_array_equal(np.sort(positions), np.arange(n))
        np.testing.assert_array_equal(values[positions], np.sort(values))
        for size, spacing in ((1, 1), (2, 2), (64, 1), (64, 2), (64, 16), (1024, 64), (1024, 1024), (n, min(n, 32))):
            if size <= n:
                rows = sample_blocks(values, positions, size, spacing)
                blocks = np.sort(values.reshape(-1, size), axis=1)
                expected = np.concatenate((blocks[:, :1], blocks[:, spacing - 1 :: spacing]), axis=1)
                np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("carrier", CARRIERS, ids=str)
@given(data=st.data())
def test_positions_of_any_values(carrier: np.dtype[Any], data: st.DataObject) -> None:
    values = data.draw(hnp.arrays(f"u{carrier.itemsize}", st.integers(1, 300))).view(carrier)
    values = values[values == values] if np.any(values == values) else np.zeros(1, dtype=carrier)
    positions = sorted_positions(as_bits(values), layout_of(carrier.name))
    np.testing.assert_array_equal(values[positions], np.sort(values))


# The choice


@pytest.fixture
def force(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that forces a way to sort for this test."""
    caches = (block_sort.radix_from, block_sort.selects_by_radix)

    def force(setting: str) -> None:
        monkeypatch.setenv(block_sort.VARIABLE, setting)
        for cache in caches:
            cache.cache_clear()

    yield force
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()


def all_bytes(folder: Path) -> list[bytes]:
    """The bytes of everything that sorts, fed with the same values."""
    rng = np.random.default_rng(7)
    values = np.round(rng.normal(size=120_000), 3) * np.where(rng.random(120_000) < 0.5, 1, -0.0 + 1e-9)
    values[::97], values[::89] = -0.0, 0.0
    keys = pa.array([f"k{i}" for i in rng.integers(0, 40, len(values))])
    sketch, sliding, recent, monitor = (
        StreamSketch(0.001),
        SlidingWindow(50_000, 0.01),
        RecentWindow(0.01, max_items=40_000),
        Monitor(0.01),
    )
    monitor.register_many([0.1, 0.5], [0.02, 0.02])
    for part in np.array_split(values, 7):
        for structure in (sketch, sliding, recent, monitor):
            structure.update(part)
        sketch.quantile(0.5)
    history = History(str(folder), eps=0.01, keys="k")
    for start in range(3):
        history.append(values[start::3], key=keys.take(pa.array(range(start, len(values), 3))))
    history.close()
    runs = [(folder / "runs" / run.name).read_bytes() for run in sorted((folder / "runs").iterdir())]
    by_key = Summaries.of(keys, values, 0.01)
    grouped = [by_key[key].to_bytes() for key in by_key]
    structures = (sketch, sliding, recent, monitor)
    return [*(s.to_bytes() for s in structures), Summary.of(values).to_bytes(), *grouped, *runs]


def test_bytes_do_not_depend_on_the_choice(tmp_path: Path, force: Callable[[str], None]) -> None:
    force("radix")
    by_radix = all_bytes(tmp_path / "radix")
    force("numpy")
    assert all_bytes(tmp_path / "numpy") == by_radix
    assert len(by_radix) > 8


def test_the_choice_is_measured_once(force: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    force("auto")
    block_sort.sort_speeds.cache_clear()
    first = block_sort.radix_from("float64")
    monkeypatch.setattr(block_sort, "_fastest", lambda *_: pytest.fail("measured again"))
    assert block_sort.radix_from("float64") == first
    assert all(speed > 0 for speed in block_sort.sort_speeds("float64", block_sort.SIZES[0]))


def test_an_unknown_setting(force: Callable[[str], None]) -> None:
    force("bogo")
    with pytest.raises(InvalidArgumentError, match="QUANTIDE_SORT='bogo' is not a way to sort; set it to radix"):
        sort(np.arange(3.0))


def test_layout_of_keys() -> None:
    """Keys are in the order of the values; -0.0 and 0.0 have one key."""
    for values in (
        np.array([-np.inf, -1e300, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, np.inf]),
        np.array([-(2**63), -1, 0, 1, 2**63 - 1]),
        np.array([-np.inf, -1, 0, 1, np.inf], dtype=np.float32),
    ):
        keys = np.empty(len(values), dtype=f"u{values.itemsize}")
        counters = np.zeros((2, 1 << radix_sort.DIGIT), dtype=np.uint32)
        layout = layout_of(values.dtype.name)
        radix_sort.to_keys(as_bits(values), keys, np.uint64(0), layout, counters, 0, radix_sort.DIGIT)
        assert (np.diff(keys.astype(object)) == 0).sum() == (values.dtype == np.float64)
        assert (np.diff(keys.astype(object)) >= 0).all()
        back = np.empty_like(keys)
        radix_sort.to_bits(keys, back, np.uint64(0), layout)
        np.testing.assert_array_equal(back.view(values.dtype), values)


def test_nothing_to_sort(force: Callable[[str], None]) -> None:
    for setting in ("radix", "numpy"):
        force(setting)
        sort(np.empty(0))
        assert (Summary.of([]).n, StreamSketch(0.1).summary().n) == (0, 0)


def test_segments_of_very_different_size(rng: np.random.Generator) -> None:
    """Bits that one segment has in common may differ in the next."""
    values = rng.normal(size=40_000)
    bounds = np.array([0, 40, 80, 20_080, 20_120, 40_000])
    out = values.copy()
    radix_sort_segments(out, bounds, np.arange(5))
    for start, end in itertools.pairwise(bounds):
        np.testing.assert_array_equal(out[start:end], np.sort(values[start:end]))
