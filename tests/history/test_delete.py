"""Deletion: rows of a key or of the oldest steps leave the table, windows, and every copy; other rows stay."""

import shutil
import struct
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from quantide import History
from quantide.errors import EmptyError, InvalidArgumentError, SpanError, StorageError, UnknownKeyError
from quantide.history import HistoryReader
from quantide.history.compaction_tasks import CompactionOutput, LocalExecutor
from quantide.history.deletion import DeleteResult
from quantide.history.future_rows import repair_future_rows
from quantide.live import LiveStream
from quantide.store import fault_points
from quantide.store.file_names import FileName
from quantide.store.folder_storage import FolderStorage
from quantide.store.ingest_log import BatchRecord, IngestLog
from tests.history.forked_writers import Driver
from tests.history.history_model import Rng, everything, small
from tests.history.test_guarantee import Operations
from tests.history.writer_workload import leftovers, remove_store
from tests.live import live_model
from tests.object_servers.object_location import ObjectLocation
from tests.sampling import one_in

NOTHING = DeleteResult(0, 0, 0)

# --- any operations in any order ----------------------------------------------------------------------------


class Deletions(Operations):
    """Operations on a history, with deletions among them."""

    @rule(seed=st.integers(0, 2**32), dry_run=st.booleans())
    def delete_key(self, seed: int, dry_run: bool) -> None:
        if self.keys is None or not self.model.keys():
            return
        rng = np.random.default_rng(seed)
        key = self.model.keys()[rng.integers(len(self.model.keys()))]
        found = self.history.delete(key=key, dry_run=dry_run)
        if dry_run:
            assert found.rows == len(self.model.data(key=key))
            return
        assert found.rows == self.model.delete_key(key) > 0
        assert found.files > 0
        assert self.history.delete(key=key) == NOTHING
        with pytest.raises((EmptyError, UnknownKeyError)):
            self.history.answer(0.5, key=key)

    @rule(seed=st.integers(0, 2**32), dry_run=st.booleans())
    def delete_before(self, seed: int, dry_run: bool) -> None:
        step = int(np.random.default_rng(seed).integers(1, self.history.step + 1))
        cut = [run for run in self.history.runs() if run.id.first < step <= run.id.last]
        try:
            found = self.history.delete(before=step, dry_run=dry_run)
        except SpanError:
            assert cut or not self.settled  # a compaction may have ended in between
            return
        assert found.rows == sum(len(rows.values) for old in self.model.steps[: step - 1] for rows in old)
        if not dry_run:
            assert found.rows == self.model.delete_before(step)
            again = self.history.delete(before=step)
            assert (again.rows, again.files) == (0, 0)


def test_any_operations_with_deletions() -> None:
    run_state_machine_as_test(Deletions, settings=settings(max_examples=30, stateful_step_count=16))


@pytest.mark.slow
def test_very_many_operations_with_deletions() -> None:
    run_state_machine_as_test(Deletions, settings=settings(max_examples=400, stateful_step_count=30))


class Windows(RuleBasedStateMachine):
    """Live stream that follows a history with deletions; every window is compared with plain lists."""

    @initialize(fan=st.sampled_from([2, 3, 100]))
    def begin(self, fan: int) -> None:
        self.small = live_model.small(fan=fan)
        self.small.__enter__()
        self.folder = tempfile.mkdtemp(prefix="quantide-deletions-")
        self.history = History(self.folder, 0.1, kappa=2, keys="k", window="1 day")
        self.rows: list[tuple[int, int, float, float]] = []  # step, key, value, time
        self.now = 1e9
        self.history.append([0.0], key=0, times=[self.now])
        self.rows.append((1, 0, 0.0, self.now))
        self.live = LiveStream(self.folder, follow=False)

    @rule(seed=st.integers(0, 2**32), size=st.sampled_from([1, 3, 40]))
    def append(self, seed: int, size: int) -> None:
        rng = np.random.default_rng(seed)
        keys, values = rng.integers(0, 4, size), rng.integers(0, 50, size).astype(float)
        times = self.now + rng.integers(-5, 10, size)
        self.history.append(values, key=keys, times=times)
        self.now = max(self.now, times.max().item())
        new = zip(keys.tolist(), values.tolist(), times.tolist(), strict=True)
        self.rows += [(self.history.step, key, value, time) for key, value, time in new]

    @rule(wait=st.booleans())
    def end_step(self, wait: bool) -> None:
        self.history.end_step(wait)

    @rule(key=st.integers(0, 3))
    def delete_key(self, key: int) -> None:
        found = self.history.delete(key=key)
        assert found.rows == sum(own == key for _, own, _, _ in self.rows)
        self.rows = [row for row in self.rows if row[1] != key]

    @rule(back=st.integers(0, 3))
    def delete_before(self, back: int) -> None:
        step = max(1, self.history.step - back)
        try:
            found = self.history.delete(before=step)
        except SpanError:
            return
        assert found.rows == sum(row[0] < step for row in self.rows)
        self.rows = [row for row in self.rows if row[0] >= step]

    @rule()
    def vacuum(self) -> None:
        self.history.vacuum(0)

    @rule()
    def reopen(self) -> None:
        self.history.close()
        self.history = History(self.folder)

    @rule(
        last=st.sampled_from([1, 5, 60, 10**6]), within=st.sampled_from([1, 8, 60]), key=st.none() | st.integers(0, 3)
    )
    def query(self, last: int, within: int, key: int | None) -> None:
        self.live.poll()
        own = [row for row in self.rows if key is None or row[1] == key]
        assert self.live.n == len(self.rows)
        self._check([value for _, _, value, _ in own[-last:]], key, last=last)
        self._check([value for _, _, value, time in own if time > self.now - within], key, within=within)
        assert self.live.newest == self.now

    def _check(self, values: list[float], key: int | None, **window: Any) -> None:
        try:
            answer = self.live.answer(0.5, key=key, mode="exact", **window)
        except (EmptyError, UnknownKeyError):
            assert not values
            return
        assert (answer.n, answer.value) == (len(values), np.sort(values)[answer.target - 1])

    def teardown(self) -> None:
        if hasattr(self, "history"):
            self.query(last=10**6, within=60, key=None)
            self.live.close()
            self.history.close()
            self.small.__exit__(None, None, None)
            remove_store(self.folder)


def test_windows_follow_deletions() -> None:
    run_state_machine_as_test(Windows, settings=settings(max_examples=25, stateful_step_count=16))


# --- nothing is left ----------------------------------------------------------------------------------------

MARKER = "person-4711"
SECRET = struct.unpack("<d", b"\x17marker\x40")[0]  # its bytes are found wherever it is stored as it is


def fill(history: History, rng: Rng, steps: int = 4) -> None:
    """Append steps of other keys and of the marked one, and some rows to the open step."""
    for step in range(steps):
        for part in range(2):
            keys = [MARKER if i % 7 == 0 else f"other-{i % 5}" for i in range(60)]
            values = [SECRET if key == MARKER else float(rng.integers(100)) for key in keys]
            history.append(values, key=keys, batch_id=f"{step}-{part}")
        if step < steps - 1:
            history.end_step()


def places_of(folder: Path) -> list[str]:
    """Return the files of a store that have the marked key or the marked value."""
    found = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes()
        has_marker = MARKER.encode() in data or struct.pack("<d", SECRET) in data
        if path.suffix == ".parquet" and path.parent.name == "runs":  # pages are compressed, and bytes are split
            table = pq.read_table(path)
            has_marker |= SECRET in table["value"].to_pylist() or MARKER in table.column("host").to_pylist()
        if has_marker:
            found.append(str(path.relative_to(folder)))
    return found


@pytest.mark.parametrize("large", [False, True])
def test_a_deleted_key_is_gone_from_disk(large: bool, tmp_path: Path, rng: Rng) -> None:
    with small(files=1 if large else 64), History(tmp_path, 0.05, kappa=1, keys="host", retention=40) as history:
        fill(history, rng)
        stats = history.stats()
        assert any(name.startswith("runs") for name in places_of(tmp_path))
        assert any(name.startswith("_quantide/recent") for name in places_of(tmp_path))
        assert any(name.startswith("_quantide/side") for name in places_of(tmp_path))
        found = history.delete(key=MARKER)
        assert found.rows == 8 * 9
        assert history.vacuum(0).files > 0
        assert places_of(tmp_path) == []
        assert leftovers(tmp_path) == set()
        assert history.n == stats["values"] - found.rows == DeltaTable(tmp_path).to_pyarrow_table().num_rows
        assert history.verify().values == history.n
        history.end_step()
        history.append([1.0], key="other-1")
        assert history.verify().values == history.n


def test_deleted_steps_are_gone_from_disk(tmp_path: Path, rng: Rng) -> None:
    with small(), History(tmp_path, 0.05, kappa=1, keys="host") as history:
        fill(history, rng)
        history.end_step()
        for _ in range(2):
            history.append(rng.random(30), key="other-9")
        assert history.delete(before=history.step).rows == 4 * 120
        history.vacuum(0)
        assert places_of(tmp_path) == []
        assert leftovers(tmp_path) == set()
        assert sorted(everything(history)) == sorted(everything(HistoryReader(tmp_path)))  # type: ignore[arg-type]
        assert (history.n, history.stats()["runs"]) == (60, 0)


def test_only_files_with_the_key_are_written(tmp_path: Path, rng: Rng) -> None:
    with small(partition=10**6, rows=50), History(tmp_path, 0.05, kappa=1, keys="k") as history:
        for _ in range(4):
            history.append(rng.random(200), key=np.repeat(np.arange(20), 10))
            history.end_step()
        before = {part.name for run in history.runs() for part in run.parts}
        with_key = {file.name for run in history.runs() for file, _ in run.locate((3,))}
        assert 0 < len(with_key) < len(before) / 2
        assert history.delete(key=3).rows == 40
        after = {part.name for run in history.runs() for part in run.parts}
        assert before - after == with_key
        assert {name.rewrite != () for name in after - before} == {True}
        assert {(name.run, name.part) for name in after - before} <= {(name.run, name.part) for name in with_key}
        assert history.delete(key=5).rows == 40
        assert history.verify().values == 4 * 180


def test_a_rewritten_file_has_the_profile_of_its_level(tmp_path: Path, rng: Rng) -> None:
    """Summaries after a deletion are as good as promised, for every key and for all of them together."""
    with small(files=1), History(tmp_path, 0.05, kappa=1, keys="k", tail=0.2) as history:
        for _ in range(5):
            history.append(rng.normal(size=400), key=rng.integers(0, 6, 400))
            history.end_step()
        history.append(rng.normal(size=100), key=rng.integers(0, 6, 100))
        history.delete(key=2)
        for run in (*history.runs(), *history.snapshot.chunks):
            profile = history.settings.run_profile if run.id.level else history.settings.chunk_profile
            assert profile.tail is not None
            for key in range(6):
                summary = run.summary((key,))
                assert (summary is None) == (key == 2)
                if summary is not None:
                    assert summary.rank_error <= profile.eps * summary.n + 0.5
                    assert (summary.tail or 0.0) <= profile.tail * (1 + 1e-9)
            total = run.summary(None)
            assert total is not None
            assert total.error <= 2 * profile.eps + 0.5 / total.n
            assert (total.tail or 0.0) <= 1.5 * profile.tail * (1 + 1e-9)


def objects(store: ObjectLocation) -> dict[str, bytes]:
    """Return all objects of a store in a bucket."""
    bucket: Any = store.open()
    names = [str(meta["path"]) for page in obstore.list(bucket) for meta in page]
    return {name: bytes(obstore.get(bucket, name).bytes()) for name in names}


def test_a_key_is_deleted_in_an_object_store(s3_store: ObjectLocation, rng: Rng) -> None:
    with History(s3_store.uri, 0.05, kappa=1, keys="host", retention=4, storage_options=s3_store.options) as history:
        fill(history, rng, 7)
        n, live = history.n, LiveStream(s3_store.uri, follow=False, storage_options=s3_store.options)
        assert any(MARKER.encode() in data for data in objects(s3_store).values())
        assert any(name.startswith("_quantide/retired") for name in objects(s3_store))
        found = history.delete(key=MARKER)
        assert history.n == n - found.rows < n
        live.poll()
        keys = live.keys()
        assert MARKER not in keys
        assert live.n == history.n
        history.vacuum(0)
        left = [name for name, data in objects(s3_store).items() if MARKER.encode() in data]
        assert left == []
        history.restore()
        live.poll()
        assert live.keys() == keys
        assert history.verify().values == history.n
        assert history.delete(before=history.runs()[0].id.last + 1).rows > 0
        live.close()


# --- nothing comes back -------------------------------------------------------------------------------------


def retired(path: Path) -> History:
    """Return a store whose first steps expired and can be restored."""
    history = History(path, 0.05, kappa=2, keys="k", retention=3)
    for step in range(6):
        history.append([float(step), 100.0 + step], key=["a", "b"])
        history.end_step()
    assert len(list((path / "_quantide" / "retired").glob("*.parquet"))) > 0
    return history


def test_a_deleted_key_is_not_restored(tmp_path: Path) -> None:
    history = retired(tmp_path)
    dry = history.delete(key="a", dry_run=True)
    found = history.delete(key="a")
    assert (dry.rows, dry.files) == (found.rows, found.files)
    assert found.files > found.rows > 0  # some files are retired
    history.restore()
    assert all(value >= 100 for value in everything(history))
    assert history.delete(key="a") == NOTHING
    history.close()


def test_deleted_steps_are_not_restored(tmp_path: Path) -> None:
    history = retired(tmp_path)
    first = history.runs()[0].id.first
    found = history.delete(before=first + 1)
    assert found.rows == 2
    assert history.restore().files == 0
    assert sorted({value % 100 for value in everything(history)}) == [float(step) for step in range(first, 6)]
    assert history.delete(before=first + 1) == NOTHING
    history.close()


def test_a_file_that_was_restored_before_a_crash_is_not_restored_again(tmp_path: Path) -> None:
    """restore() leaves out retired files of deleted steps, also those that were put back."""
    history = retired(tmp_path)
    folder = tmp_path / "_quantide" / "retired"
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    history.delete(before=history.step)
    for path in copy.iterdir():
        shutil.copy(path, folder / path.name)
    assert history.restore().files == 0
    assert history.n == 0
    history.close()


def test_batches_of_deleted_rows_are_seen(tmp_path: Path) -> None:
    with History(tmp_path, keys="k") as history:
        history.append([1.0, 2.0], key=["a", "b"], batch_id="x")
        history.append([3.0], key="a", batch_id=("source", 4))
        history.end_step()
        history.delete(key="a")
        history.delete(before=2)
        history.append([1.0, 2.0], key=["a", "b"], batch_id="x")
        history.append([3.0], key="a", batch_id=("source", 4))
        assert history.batch_seen("x")
        assert history.n == 0
    with History(tmp_path) as history:
        history.append([3.0], key="a", batch_id=("source", 3))
        assert history.n == 0


def test_rows_in_quarantine_and_files_set_aside(tmp_path: Path) -> None:
    """A deletion removes rows of the key from quarantine, and reports files that may have more of them."""
    with History(tmp_path, keys=["host", "port"]) as history:
        history.append([1.0, 2.0], key=[("a", 1), ("b", 2)])
        folders = {name: tmp_path / "_quantide" / name for name in ("quarantine", "aside")}
        for folder in folders.values():
            folder.mkdir(exist_ok=True)
        columns = {"host": ["a", "a", "b", "a"], "port": ["1", "2", "1", "1"], "value": ["x", "y", "z", "u"]}
        bad = folders["quarantine"] / "ab-1-0-0.parquet"
        unclear = folders["quarantine"] / "ab-2-0-0.parquet"
        aside = folders["aside"] / "L0-S1-1-E1-9-P0.parquet"
        pq.write_table(pa.table(columns), bad)
        pq.write_table(pa.table({"host": ["a", "c"], "port": [None, "1"], "value": ["x", "y"]}), unclear)
        pq.write_table(pa.table({"host": ["a", "b"], "port": [1, 1], "value": [1.0, 2.0]}), aside)
        dry = history.delete(key=("a", 1), dry_run=True)
        assert len(pq.read_table(bad)) == 4
        found = history.delete(key=("a", 1))
        assert dry == found
        assert pq.read_table(bad)["value"].to_pylist() == ["y", "z"]
        assert pq.read_table(aside)["value"].to_pylist() == [2.0]
        assert found.unchecked == ("_quantide/quarantine/ab-2-0-0.parquet",)
        assert history.delete(key=("a", 1)) == DeleteResult(0, 0, 0, found.unchecked)
        history.end_step()
        assert history.delete(before=2).files >= 2
        assert not aside.exists()


# --- arguments and errors -----------------------------------------------------------------------------------


def test_arguments(tmp_path: Path) -> None:
    with History(tmp_path / "plain") as history:
        history.append([1.0])
        history.end_step()
        with pytest.raises(InvalidArgumentError, match="no keys"):
            history.delete(key="a")
        wrong: list[dict[str, Any]] = [{}, {"key": "a", "before": 1}]
        for arguments in wrong:
            with pytest.raises(InvalidArgumentError, match="give one of them"):
                history.delete(**arguments)
        times: list[Any] = [0, -1, 3, True, 1.5, "soon", "", [1, 2], b"1", float("nan")]
        for before in times:
            with pytest.raises(InvalidArgumentError, match="before="):
                history.delete(before=before)
        with pytest.raises(InvalidArgumentError, match="number of a step"):
            history.delete(before=datetime.now(UTC))
        assert history.delete(before=1) == NOTHING
        assert history.delete(before="2").rows == 1
    with History(tmp_path / "keyed", keys="k") as history:
        with pytest.raises(UnknownKeyError):
            history.delete(key="a")
        history.append([1.0], key=7)
        assert history.delete(key=8) == NOTHING
        with pytest.raises(UnknownKeyError):
            history.delete(key="seven")
        assert history.delete(key=np.int8(7)).rows == 1
        assert history.n == 0


def test_steps_before_a_time(tmp_path: Path) -> None:
    """Ingestion records the hour of a step. Rows of earlier times leave the windows, and so do those of the steps."""
    began = datetime(2026, 3, 1, 12, tzinfo=UTC)
    hour = int(began.timestamp()) // 3600
    with History(tmp_path, 0.05, kappa=20, max_ahead="off") as history:
        log = IngestLog(FolderStorage(str(tmp_path)), history.batch_seen)
        for step in range(4):
            times = [began + timedelta(hours=step, minutes=minute) for minute in (0, 30, 90)]  # the last one is early
            record = log.write(BatchRecord("source", step, origin=(1, hour, "3600")))
            history.append([step, step + 0.25, step + 0.5], batch_id=("source", step), times=times)
            log.mark_committed(record)
            history.end_step()
        live = LiveStream(tmp_path, follow=False)
        with pytest.raises(InvalidArgumentError, match=r"from step 1 on, which began at 2026-03-01 12:00:00 UTC"):
            history.delete(before=began - timedelta(seconds=1))
        assert history.delete(before=began + timedelta(minutes=59)).rows == 0
        dry = history.delete(before="2026-03-01T14:00:00", dry_run=True)
        assert history.delete(before=datetime(2026, 3, 1, 14)) == dry
        assert dry.rows == 6
        live.poll()
        assert sorted(everything(history)) == [2, 2.25, 2.5, 3, 3.25, 3.5]
        assert live.answer(0.5, last=100).n == 6
        # the open step stays, whatever its times are
        assert history.delete(before=began + timedelta(days=30)).rows == 6
        live.poll()
        with pytest.raises(EmptyError):
            live.answer(0.5, last=100)
        live.close()


def test_rows_that_a_repair_took_out_of_windows(tmp_path: Path) -> None:
    """The log has no steps of such rows: windows lose as many more, and never have a row of a deleted step."""
    with History(tmp_path, 0.05, kappa=20, max_ahead="off", retention=4) as history:
        for step in range(7):
            times = [step * 10.0 + i for i in range(9)] + [1e6 if step in (2, 6) else step * 10.0 + 9]
            history.append([float(step)] * 10, times=times)
            history.end_step()
        history.append([7.0], times=[80.0])
    repair_future_rows(tmp_path, "remove", newer_than=1000.0)
    with History(tmp_path) as history, LiveStream(tmp_path, follow=False) as live:
        assert live.answer(0.5, last=5).n == 5
        history.delete(before=6)
        live.poll()
        remaining = live.answer(0.01, last=10**6, mode="exact")
        assert remaining.value >= 5
        assert remaining.n >= 21 - 2 * 2
        assert history.n == 21


def test_a_run_cannot_be_cut(tmp_path: Path) -> None:
    with History(tmp_path, kappa=1) as history:
        for step in range(6):
            history.append([float(step)])
            history.end_step()
        run = history.runs()[0].id
        assert run.last > run.first
        before = history.version
        with pytest.raises(SpanError, match=rf"it can be {run.first}, .* or {run.last + 1}"):
            history.delete(before=run.last)
        assert history.version == before
        assert history.delete(before=run.last + 1).rows == run.last


def test_dry_run_needs_no_lease_and_changes_nothing(tmp_path: Path, rng: Rng) -> None:
    with History(tmp_path, 0.05, keys="host") as history:
        fill(history, rng)
        history._writer.join()
        bytes_before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        other = History(tmp_path)
        found = other.delete(key=MARKER, dry_run=True)
        assert found.rows == 72
        assert other.delete(before=3, dry_run=True).rows == 240
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == bytes_before
        assert history.delete(key=MARKER) == found


# --- readers, compactions, failures -------------------------------------------------------------------------


def test_readers_see_a_deletion_at_the_next_refresh(tmp_path: Path, rng: Rng) -> None:
    """A deletion invalidates cached answers, also of runs whose ids stay the same."""
    values, keys = rng.random(500), rng.integers(0, 3, 500)
    values[keys == 1] += 10
    with History(tmp_path, 0.05, keys="k") as history:
        history.append(values[:300], key=keys[:300])
        history.end_step()
        history.append(values[300:], key=keys[300:])
        reader, live = HistoryReader(tmp_path), LiveStream(tmp_path, follow=False)
        monitor = live.monitor()
        query = monitor.register(1.0, 0.2)
        for quantile in (reader.quantile, live.quantile):
            assert {float(quantile(1.0, mode=mode)) for mode in ("quick", "accurate", "exact")} == {values.max()}
        assert live.keys() == [0, 1, 2]
        assert monitor.answer(query).value > 10
        history.delete(key=1)
        rest = values[keys != 1]
        assert reader.quantile(1.0) == values.max(), "a reader has its version until it is refreshed"
        assert reader.refresh()
        assert live.poll()
        for quantile in (reader.quantile, live.quantile, history.quantile):
            assert {float(quantile(1.0, mode=mode)) for mode in ("quick", "accurate", "exact")} == {rest.max()}
        assert live.keys() == [0, 2]
        assert monitor.answer(query).value in rest
        assert live.n == reader.n == len(rest)
        live.close()


class SlowExecutor:
    """Executor that lets another thread work while it has a task."""

    def __init__(self) -> None:
        self.begun, self.release = Event(), Event()

    def map(self, tasks: Any) -> list[CompactionOutput]:
        self.begun.set()
        assert self.release.wait(30)
        return LocalExecutor().map(tasks)


def test_appends_go_on_while_files_are_rewritten(tmp_path: Path, rng: Rng) -> None:
    """Rows of the key that are appended in the meantime are deleted as well, and no others."""
    executor = SlowExecutor()
    executor.release.set()
    with History(tmp_path, 0.05, kappa=1, keys="k", executor=executor) as history:
        history.append(rng.random(100), key=rng.integers(0, 2, 100))
        history.end_step()
        executor.release.clear()
        executor.begun.clear()
        deleting = Thread(target=lambda: history.delete(key=0))
        deleting.start()
        assert executor.begun.wait(30)
        for _ in range(3):
            history.append([5.0, 6.0], key=[0, 1])
        rows = history.answer(0.5, "exact", key=1).n
        executor.release.set()
        deleting.join(30)
        assert not deleting.is_alive()
        assert history.n == history.answer(0.5, "exact", key=1).n == rows
        history.verify()


def test_a_deletion_and_compactions_do_not_disturb_each_other(tmp_path: Path, rng: Rng) -> None:
    errors: list[BaseException] = []
    appended = 0
    with small(), History(tmp_path, 0.05, kappa=1, keys="k") as history:

        def write() -> None:
            nonlocal appended
            try:
                for step in range(30):
                    history.append(rng.random(20), key=np.arange(20) % 4)
                    appended += 1
                    if step % 3 == 0:
                        history.end_step(wait=False)
            except BaseException as error:
                errors.append(error)

        history.append(rng.random(20), key=np.arange(20) % 4)
        writing = Thread(target=write)
        writing.start()
        deleted = 0
        while writing.is_alive():
            deleted += history.delete(key=0).rows
            history.vacuum(0)
        writing.join()
        deleted += history.delete(key=0).rows
        history.end_step()
        assert errors == []
        assert deleted == 5 * (appended + 1)
        assert history.n == 15 * (appended + 1)
        history.verify()


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("point", ["delete.written", "delete.committed", "write.side", "recent.manifest"])
def test_a_deletion_that_fails_can_be_repeated(
    point: str, keyed: bool, tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> None:
        if name == point:
            raise StorageError("no power")

    with History(tmp_path, 0.05, kappa=1, keys="host") as history:
        fill(history, rng, 3)
        history.end_step()
        n = history.n
        delete: Callable[[], DeleteResult] = (
            (lambda: history.delete(key=MARKER)) if keyed else (lambda: history.delete(before=history.step))
        )
        if not keyed and point == "write.side":
            pytest.skip("it writes no data file")
        expected = 6 * 9 if keyed else n
        with monkeypatch.context() as patch:
            patch.setattr(fault_points, "point", fail)
            with pytest.raises(StorageError, match="no power"):
                delete()
        assert history.n == (n - expected if point == "delete.committed" else n)
        assert history.verify().values == history.n
        delete()
        assert history.n == n - expected
        history.vacuum(0)
        assert places_of(tmp_path) == []
        assert leftovers(tmp_path) == set()


KILLED = ["merge.sorted", "write.data", "write.side", "recent.written", "delete.written", "delete.committed"]
KILLED += ["recent.manifest", "disk.named", "disk.named@3", "commit.before@2", "commit.after@2"]
WRITTEN = ("merge.sorted", "write.data", "write.side")  # by a deletion of a key
PERHAPS = ("recent.written", "disk.named@3")  # by a deletion of steps, if recent files of two steps were compacted


@pytest.mark.parametrize(("point", "what"), one_in(3, product(KILLED, ["key", "steps"])))
def test_killed_while_rows_are_deleted(point: str, what: str, driver: Driver, tmp_path: Path, rng: Rng) -> None:
    """All rows are there or none of the deleted ones; repeating the deletion finishes it, and leaves no garbage."""
    with History(tmp_path, 0.05, kappa=1, keys="host", retention=5) as history:
        fill(history, rng, 9)
        history.append([float(i) for i in range(50)], key="other-1")
        n, step = history.n, history.runs()[0].id.last + 1
        marked = history.delete(key=MARKER, dry_run=True).rows
        old = history.delete(before=step, dry_run=True).rows
    assert min(marked, old) > 0
    arguments: dict[str, Any] = {"key": MARKER if what == "key" else None, "before": None if what == "key" else step}
    fault = point if "@" in point else f"{point}@1"
    child = driver.start("delete", tmp_path, f"{fault}:kill", **arguments)
    passes = what == "steps" and point in WRITTEN
    expected = {-9, 0} if what == "steps" and point in PERHAPS else {0 if passes else -9}
    assert child.wait() in expected, child.log.read_text()
    rest = n - (marked if what == "key" else old)
    with History(tmp_path) as history:
        assert history.n in (n, rest)
        assert history.verify().values == history.n
        history.delete(**arguments)
        assert history.n == rest
        history.restore()
        history.vacuum(0)
        assert history.verify().values == history.n
        if what == "key":
            assert places_of(tmp_path) == []
        else:
            assert {run.id.first >= step for run in history.runs()} == {True}
        assert leftovers(tmp_path) == set()


def test_a_damaged_file_is_not_rewritten(tmp_path: Path, rng: Rng) -> None:
    """A deletion refuses damaged files: a new checksum would hide the damage."""
    with History(tmp_path, 0.05, keys="k") as history:
        history.append(rng.random(100), key=np.arange(100) % 3)
        (path,) = (tmp_path / "runs").glob("*.parquet")
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        for key in range(3):
            with pytest.raises(ValueError, match=r"checksum|damaged"):
                history.delete(key=key)
        assert history.n == 100


def test_other_programs_read_the_table(tmp_path: Path, rng: Rng) -> None:
    with History(tmp_path, 0.05, kappa=1, keys="host") as history:
        fill(history, rng)
        history.delete(key=MARKER)
        table = DeltaTable(tmp_path)
        assert table.history(1)[0]["operation"] == "DELETE"
        assert MARKER not in table.to_pyarrow_table()["host"].to_pylist()
        assert table.to_pyarrow_table().num_rows == history.n


@pytest.mark.parametrize(
    "name",
    [
        "runs/L0-S1-1-E1-1-P0-E0-1.parquet",
        "runs/L0-S1-1-E1-1-P0-E01-1.parquet",
        "runs/L0-S1-1-E1-1-P0-E1.parquet",
        "runs/L0-S1-1-E1-1-P0-E1-1-E2-2.parquet",
        "runs/L0-S1-1-E1-1-P0-1-E1.parquet",
    ],
)
def test_names_that_are_none(name: str) -> None:
    assert FileName.parse(name) is None


def test_names_of_rewritten_files() -> None:
    for name in ("runs/L2-S1-9-E3-4-P5.parquet", "runs/L2-S1-9-E3-4-P5-E7-8.parquet"):
        parsed = FileName.parse(name)
        assert parsed is not None
        assert parsed.data == name
        assert FileName.parse_index(parsed.index) == parsed
    first, rewritten = (FileName.parse(f"runs/L2-S1-9-E3-4-P{part}.parquet") for part in ("5", "5-E7-8"))
    assert first is not None
    assert rewritten is not None
    assert (first.epoch, rewritten.epoch, first.run) == (3, 7, rewritten.run)
    assert first < rewritten
