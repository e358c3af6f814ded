"""Recent files and their manifest on their own: any rows, cut into any files, joined in any way, in any window."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantide.caching import ByteLRU
from quantide.errors import SpanError
from quantide.history import recent_writer as written
from quantide.history.recent_writer import next_recent_compaction
from quantide.live.recent_snapshot import RecentSnapshot, RowSelection, TimeInterval
from quantide.store.file_names import recent_name
from quantide.store.folder_storage import FolderStorage
from quantide.store.recent_file import RecentFile, write_recent
from quantide.store.recent_manifest import ManifestEntry, RecentManifest
from quantide.store.store_settings import ErrorProfile
from quantide.store.stored_rows import RecentRows
from quantide.summary.value_types import type_named
from tests import oracle
from tests.live.live_model import small

KIND = type_named("float64")
KEYS = ["a", "b", None]


@dataclass(frozen=True)
class Rows:
    """Rows in arrival order; `flags` has a bit for each of two filters."""

    values: Any
    times: Any
    keys: Any
    flags: Any

    def cut(self, part: slice) -> "Rows":
        return Rows(self.values[part], self.times[part], self.keys[part], self.flags[part])


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    """Few values, few times, so that they tie; or many."""
    n = draw(st.integers(1, 120))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    top, span = draw(st.sampled_from([2, 1000])), draw(st.sampled_from([1, 4, 500]))
    times = rng.integers(0, span, n).astype(float)
    if draw(st.booleans()):
        times = np.sort(times) + rng.integers(0, 2, n)
    keys = rng.choice(3, n, p=[0.7, 0.2, 0.1])
    return Rows(rng.integers(0, top, n).astype(float), times, keys, rng.integers(0, 4, n).astype(np.uint16))


@st.composite
def windows(draw: st.DrawFn) -> RowSelection:
    key = draw(st.none() | st.sampled_from([(key,) for key in KEYS]))
    last = draw(st.none() | st.integers(1, 130))
    times = st.integers(-1, 10).map(float) | st.integers(0, 500).map(float)
    span = draw(st.none() | st.builds(TimeInterval, times, st.none() | times))
    return RowSelection(key, last, span, draw(st.sampled_from([None, "f", "g"])))


CUTS = st.lists(st.integers(0, 120), max_size=8)


def as_stored(part: Rows, keyed: bool) -> RecentRows:
    keys = pa.array([KEYS[i] for i in part.keys], pa.string()) if keyed else None
    return RecentRows.of(KIND, "seconds", keys, part.values, part.times, part.flags)


def files(
    all_rows: Rows, cuts: list[int], joins: list[int], keyed: bool, profile: ErrorProfile
) -> tuple[RecentManifest, list[Any]]:
    """The rows cut into appends, of which some that follow each other were joined."""
    ends = sorted({min(cut, len(all_rows.values)) for cut in cuts} | {len(all_rows.values)} - {0})
    starts = [0, *ends[:-1]]
    parts = [as_stored(all_rows.cut(slice(a, b)), keyed) for a, b in zip(starts, ends, strict=True) if b > a]
    for join in joins:
        at = join % len(parts)
        if at + 1 < len(parts):
            parts[at : at + 3] = [RecentRows.concatenate(parts[at : at + 3])]
    manifest, out = RecentManifest(), []
    with tempfile.TemporaryDirectory() as folder:
        for number, part in enumerate(parts):
            name = recent_name(1, number)
            size, about = write_recent(FolderStorage(folder), name, part, ("f", "g"), profile)
            entry = ManifestEntry(name, 0, about.rows, about.oldest, about.newest, size)
            manifest = manifest.with_entries([entry], "seconds", True)
            out.append(RecentFile(Path(folder, name).read_bytes(), name))
            out[-1].check()
    return manifest, out


def chosen(all_rows: Rows, selection: RowSelection) -> Any:
    mine = np.arange(len(all_rows.values))
    if selection.key is not None:
        mine = mine[all_rows.keys == KEYS.index(selection.key[0])]
    if selection.last is not None:
        mine = mine[-selection.last :]
    if selection.interval is not None:
        mine = mine[all_rows.times[mine] > selection.interval.above]
        mine = mine if selection.interval.upto is None else mine[all_rows.times[mine] <= selection.interval.upto]
    if selection.filter is not None:
        mine = mine[all_rows.flags[mine] >> "fg".index(selection.filter) & 1 == 1]
    return np.sort(all_rows.values[mine])


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    with small(few=20, block=7, heavy=0.4):
        yield


PROFILES = [*(ErrorProfile(eps, None) for eps in (0.01, 0.1, 0.3)), ErrorProfile(0.1, 0.3), ErrorProfile(0.3, 0.5)]
ANY = given(
    rows(),
    CUTS,
    st.lists(st.integers(0, 7), max_size=3),
    st.booleans(),
    st.sampled_from(PROFILES),
    st.lists(windows(), min_size=1, max_size=12),
)


def check_windows(
    all_rows: Rows,
    cuts: list[int],
    joins: list[int],
    keyed: bool,
    profile: ErrorProfile,
    selections: list[RowSelection],
) -> None:
    """A summary of each window is valid, within eps/2 of its rows and half the tail, and exact on request."""
    manifest, recent_files = files(all_rows, cuts, joins, keyed, profile)
    assert manifest.arrived == len(all_rows.values)
    assert RecentManifest.from_json(manifest.to_json(), "x") == manifest
    recent = RecentSnapshot(1, manifest, recent_files, profile, ByteLRU(1000))
    for selection in selections if keyed else [replace(one, key=None) for one in selections]:
        data = chosen(all_rows, selection)
        for exact in (False, True):
            summary = recent.summary(selection, KIND, exact)
            assert oracle.summary_faults(summary, data) == []
            assert summary.error <= (0 if exact else profile.eps / 2)
            if profile.tail is not None:
                assert summary.tail is not None
                assert summary.tail <= (0 if exact else profile.tail / 2)
                assert not len(data) or not oracle.tail_faults(data, summary.quantiles, profile.eps, profile.tail)


@ANY
@settings(max_examples=50)
def test_any_window(
    all_rows: Rows,
    cuts: list[int],
    joins: list[int],
    keyed: bool,
    profile: ErrorProfile,
    selections: list[RowSelection],
) -> None:
    check_windows(all_rows, cuts, joins, keyed, profile, selections)


@pytest.mark.slow
@ANY
@settings(max_examples=5000)
def test_very_many_windows(
    all_rows: Rows,
    cuts: list[int],
    joins: list[int],
    keyed: bool,
    profile: ErrorProfile,
    selections: list[RowSelection],
) -> None:
    check_windows(all_rows, cuts, joins, keyed, profile, selections)


@given(rows(), CUTS, st.integers(0, 8), st.lists(windows(), min_size=1, max_size=8))
@settings(max_examples=30)
def test_any_gap(all_rows: Rows, cuts: list[int], place: int, selections: list[RowSelection]) -> None:
    """Remove a file: a window that counts back over it is refused, all others are right."""
    manifest, recent_files = files(all_rows, cuts, [], True, ErrorProfile(0.1, None))
    at = place % len(recent_files)
    lost = manifest.entries[at]
    there = np.r_[0 : lost.first, lost.first + lost.rows : manifest.arrived]
    less = replace(manifest, entries=manifest.entries[:at] + manifest.entries[at + 1 :])
    recent = RecentSnapshot(1, less, recent_files[:at] + recent_files[at + 1 :], ErrorProfile(0.1, None), ByteLRU(1000))
    remaining = Rows(all_rows.values[there], all_rows.times[there], all_rows.keys[there], all_rows.flags[there])
    for selection in selections:
        after = remaining.cut(slice(lost.first, None))
        mine = len(after.keys) if selection.key is None else int((after.keys == KEYS.index(selection.key[0])).sum())
        if selection.last is not None and selection.last > mine:
            with pytest.raises(SpanError):
                recent.summary(selection, KIND, False)
        else:
            assert oracle.summary_faults(recent.summary(selection, KIND, False), chosen(remaining, selection)) == []


@given(st.lists(st.tuples(st.integers(1, 3000), st.booleans()), min_size=5, max_size=60), st.sampled_from([2, 3, 8]))
@settings(max_examples=60)
def test_compaction_ends(sizes: list[tuple[int, bool]], fan: int) -> None:
    """Merged files are adjacent; in the end few are left, and no row has moved."""
    entries: list[ManifestEntry] = []
    at = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(written, "FANOUT", fan)
        patch.setattr(written, "SMALLEST_CLASS", 4)
        patch.setattr(written, "MAX_FILE_ROWS", 10_000)
        for number, (rows_of, gap) in enumerate(sizes):
            at += gap and number % 3 == 2
            entries.append(ManifestEntry(str(number), at, rows_of, 0, 0, 0))
            at += rows_of
        gaps = {e.first for i, e in enumerate(entries) if i and entries[i - 1].first + entries[i - 1].rows != e.first}
        manifest = RecentManifest(at, "seconds", True, 0, tuple(entries))
        for number in range(200):
            some = next_recent_compaction(manifest.entries)
            if not some:
                break
            assert len(some) >= fan
            assert not {entry.first for entry in some[1:]} & gaps
            rows_in = sum(entry.rows for entry in some)
            joined = ManifestEntry(f"j{number}", 0, rows_in, 0, 0, 0)
            manifest = manifest.with_compacted([entry.name for entry in some], joined)
            assert sum(entry.rows for entry in manifest.entries) == sum(entry.rows for entry in entries)
        assert not some
        small_ones = [entry for entry in manifest.entries if entry.rows <= 10_000 // fan]
        large = len(manifest.entries) - len(small_ones)
        assert len(small_ones) <= (large + len(gaps) + 1) * (fan - 1) * 8
        for before, after in zip(manifest.entries, manifest.entries[1:], strict=False):
            assert before.first + before.rows <= after.first
            assert (before.first + before.rows == after.first) == (after.first not in gaps)
