"""Arrays from outside, with true checksums and false content: refused before a kernel takes them for indexes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from quantide import GKSketch, Summaries, Summary, errors
from quantide.live.recent_snapshot import KeyRows
from quantide.store import index_file, recent_file
from quantide.store.folder_storage import FolderStorage
from quantide.store.index_builder import IndexBuilder
from quantide.store.index_file import IndexFile, IndexFileInfo
from quantide.store.recent_file import RecentFile, write_recent
from quantide.store.section_file import SectionFile, pack
from quantide.store.store_settings import ErrorProfile
from quantide.store.stored_rows import RecentRows, SortedRows
from quantide.summary.summary_bytes import SummaryTuples, check_tuples
from quantide.summary.value_types import type_named

KIND = type_named("float64")
WRAPS = 1 << 62  # four of these add up to 0 in 64 bits


def altered(data: bytes, magic: bytes, paged: tuple[str, ...], sections: dict[str, Any]) -> bytes:
    """The same file with other sections, and checksums that fit them."""
    held = SectionFile(data, magic, 1, "file", "file", "", paged)
    every = {name: held.read_section(name) for name in held.directory} | sections
    return b"".join(pack(magic, 1, held.info, every, paged))


def side_bytes() -> bytes:
    rows = SortedRows(KIND, pa.array(list(range(5))), np.arange(6), np.arange(5.0))
    builder = IndexBuilder(True, ErrorProfile(0.1, None), 4, None)
    builder.add(rows)
    return builder.finish(IndexFileInfo(5, "float64", 4, 1, 1))


def recent_bytes(tmp_path: Path) -> bytes:
    rng = np.random.default_rng(3)
    keys, values = pa.array(rng.integers(0, 2, 400)), rng.random(400)
    rows = RecentRows.of(KIND, "seconds", keys, values, np.arange(400.0), None)
    write_recent(FolderStorage(str(tmp_path)), "recent", rows, [], ErrorProfile(0.1, None))
    return (tmp_path / "recent").read_bytes()


@pytest.mark.parametrize("counts", [[7, -4, 1, 0, 1], [WRAPS, WRAPS, WRAPS, WRAPS, 5], [5, WRAPS, -WRAPS, 0, 0]])
def test_counts_of_a_side_file_that_fall(counts: list[int]) -> None:
    """Such counts add up to the number of rows, yet would send a kernel past the end of its output."""
    assert IndexFile(side_bytes()).counts.tolist() == [1] * 5
    data = altered(side_bytes(), index_file.MAGIC, ("values", "ranks"), {"counts": np.array(counts)})
    with pytest.raises(errors.CorruptBytesError, match="counts"):
        IndexFile(data)


@pytest.mark.parametrize("counts", [[500, -100], [-100, 500]])
def test_counts_of_a_recent_file_that_fall(counts: list[int], tmp_path: Path) -> None:
    data = recent_bytes(tmp_path)
    assert len(RecentFile(data, "file").rows()) == 400
    paged = ("values", "times", "numbers", "flags")
    with pytest.raises(errors.CorruptBytesError, match="counts"):
        RecentFile(altered(data, recent_file.MAGIC, paged, {"counts": np.array(counts)}), "file")


@pytest.mark.parametrize("name", ["values", "ranks"])
def test_a_stored_summary_whose_arrays_differ_in_length(name: str, tmp_path: Path) -> None:
    """A kernel reads all of them with one index."""
    data, paged = recent_bytes(tmp_path), ("values", "times", "numbers", "flags")
    held = SectionFile(data, recent_file.MAGIC, 1, "file", "file", "", paged)
    section = f"heavy0.{name}"
    cut = np.frombuffer(held.read_section(section), dtype=np.float64 if name == "values" else np.int64)[:2]
    file = RecentFile(altered(data, recent_file.MAGIC, paged, {section: cut}), "file")
    with pytest.raises(errors.CorruptBytesError):
        file.summary(0, None)


@pytest.mark.parametrize("numbers", [np.zeros(400), np.full(400, 2**32 - 1), np.arange(1, 401)])
def test_places_of_rows_that_are_no_permutation(numbers: Any, tmp_path: Path) -> None:
    """Positions that are no permutation are refused: a kernel would read memory that was never written."""
    paged = ("values", "times", "numbers", "flags")
    data = altered(recent_bytes(tmp_path), recent_file.MAGIC, paged, {"numbers": numbers.astype(np.uint32)})
    with pytest.raises(errors.CorruptBytesError, match="number"):
        KeyRows.read(RecentFile(data, "file"), None, None)


@pytest.mark.parametrize("inner", [-8, 10**12])
def test_an_arrow_array_whose_offsets_lie_outside(inner: int) -> None:
    """Arrow checks the first offset and the last one; the reader checks those between."""
    blob = Summary.of([1.0, 2.0]).to_bytes()
    buffers = [None, pa.py_buffer(np.array([0, inner, len(blob)])), pa.py_buffer(blob)]
    array = pa.Array.from_buffers(pa.large_binary(), 2, buffers)
    with pytest.raises(errors.CorruptBytesError, match=r"[Oo]ffset"):
        Summaries.from_binary([1, 2], array)


@pytest.mark.parametrize("bounds", [[], [0, WRAPS, -2 * WRAPS, -WRAPS, 4], [0, 5, 4], [-1, 4], [0, 3]])
def test_bounds_of_tuples_that_do_not_rise_to_their_end(bounds: list[int]) -> None:
    ranks, values = np.arange(1, 5), np.arange(4.0)
    n, none = np.full(max(0, len(bounds) - 1), 4), np.zeros(max(0, len(bounds) - 1), dtype=np.int64)
    with pytest.raises(errors.CorruptBytesError):
        check_tuples(SummaryTuples(KIND, values, ranks, ranks, np.array(bounds, dtype=np.int64), n, none, none))


@pytest.mark.parametrize("indexes", [[3], [-1, 0], [10**12], [1, 1], [2, 0]])
def test_indexes_out_of_range(indexes: list[int]) -> None:
    many = Summaries.of(["a", "b", "c"], [1.0, 2.0, 3.0], 0.1)
    assert list(many.take(np.array([0, 2]))) == ["a", "c"]
    assert list(many.take(np.array([], dtype=np.int64))) == []
    with pytest.raises(errors.InvalidArgumentError, match="indexes"):
        many.take(np.array(indexes))


def test_a_gk_sketch_stays_within_the_shortest_of_its_arrays() -> None:
    """A thread may replace one of the three arrays: the answer is then undefined, but every index is in bounds."""
    sketch = GKSketch(0.01)
    sketch.update([0.0])
    sketch._g = sketch._g[:40]  # as when one of three arrays has been replaced by a larger one
    sketch.update(np.arange(60.0))
    assert len(sketch._values) == len(sketch._g) == len(sketch._delta)
