"""Readers beside a writer of another process, also after it was killed."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from quantide.errors import EmptyError, UnknownKeyError
from quantide.history import History
from quantide.live import LiveStream
from tests import oracle
from tests.history.forked_writers import Driver
from tests.history.writer_workload import leftovers
from tests.live.live_model import Rng, check, data_of, scope_arguments, small, some_window
from tests.live.live_workload import (
    HOSTS,
    LAST,
    SETTINGS,
    after,
    append,
    batches_in,
    logged_batches,
    model_of,
    versions,
)

POINTS = (
    "recent.written",
    "recent.manifest",
    "recent.compacted",
    "commit.after",
    "append.written",
    "commit.before",
    "disk.named",
    "disk.write",
    "log.trimmed",
    "merge.planned",
    "merge.sorted",
    "merge.written",
    "step.ended",
    "vacuum.removed",
    "write.data",
    "write.side",
)


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small(most=2000):
        yield


@pytest.fixture(scope="module")
def counts(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Count how often the work passes each point."""
    folder = tmp_path_factory.mktemp("counts") / "store"
    driver.start("live_count", folder).finish()
    found: dict[str, int] = json.loads(Path(f"{folder}-counts").read_text())
    return found


# --- killed -------------------------------------------------------------------------------------------------


def check_store(folder: Path, rng: Rng, done: list[int]) -> None:
    """All that was acknowledged is there, at most one batch more; all answers are right; the work can go on."""
    if not (folder / "_delta_log").exists():
        assert not done
        return
    with History(folder, **SETTINGS) as history:
        here = batches_in(history.n)
        assert here in (len(done), len(done) + 1)
        model = model_of(range(here))
        live = LiveStream(folder, follow=False)
        check(live, model, rng, steps=False, questions=1, windows=4)
        assert history.verify().values == model.n
        history.vacuum(0)
        assert leftovers(folder) == set()
        live.poll()
        check(live, model, rng, steps=False, questions=1, windows=2)
        for number in range(LAST):
            append(history, number)
            if number >= here:
                after(history, number)
    live.poll()
    check(live, model_of(range(LAST)), rng, steps=False, questions=1, windows=4)
    assert History(folder).verify().values == live.n


def kill_at(point: str, time: int, driver: Driver, folder: Path) -> None:
    child = driver.start("live_work", folder, f"{point}@{time}:kill")
    assert child.wait() == -9, child.log.read_text()
    check_store(folder, np.random.default_rng(time), logged_batches(folder, "done"))


@pytest.mark.parametrize(
    ("point", "time"),
    [
        ("recent.manifest", 9),
        ("recent.compacted", 3),
        pytest.param("recent.written", 13, marks=pytest.mark.slow),
        pytest.param("commit.after", 17, marks=pytest.mark.slow),
    ],
)
def test_killed(point: str, time: int, driver: Driver, tmp_path: Path) -> None:
    kill_at(point, time, driver, tmp_path / "store")


@pytest.mark.slow
def test_all_points_are_passed(counts: dict[str, int]) -> None:
    assert set(counts) == set(POINTS)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_killed_each_time(point: str, driver: Driver, counts: dict[str, int], tmp_path: Path) -> None:
    times = counts[point]
    for time in range(1, times + 1, 1 + times // 12):
        kill_at(point, time, driver, tmp_path / str(time))


@pytest.mark.slow
def test_killed_at_any_time(driver: Driver, tmp_path: Path, rng: Rng) -> None:
    """Kill the writer at any time, also during merges and compactions in the background."""
    for number, delay in enumerate(rng.uniform(0.05, 1, 20)):
        child = driver.start("live_work", tmp_path / str(number), wait=False)
        Event().wait(delay)
        child.kill()
        check_store(tmp_path / str(number), rng, logged_batches(tmp_path / str(number), "done"))


def fail_at(point: str, time: int, driver: Driver, folder: Path) -> None:
    """The same handle continues, and has all batches once."""
    driver.start("retry_live_work", folder, f"{point}@{time}:full").finish()
    live = LiveStream(folder, follow=False)
    check(live, model_of(range(LAST)), np.random.default_rng(time), steps=False, questions=1, windows=4)
    with History(folder) as history:
        assert history.verify().values == live.n
        history.vacuum(0)
        assert leftovers(folder) == set()


def test_something_fails_once(driver: Driver, tmp_path: Path) -> None:
    fail_at("recent.compacted", 2, driver, tmp_path / "store")


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_something_fails_each_time(point: str, driver: Driver, counts: dict[str, int], tmp_path: Path) -> None:
    times = counts[point]
    for time in range(1, times + 1, 1 + times // 6):
        fail_at(point, time, driver, tmp_path / str(time))


# --- readers beside a writer --------------------------------------------------------------------------------


class Reader:
    """Queries in a loop and records the answers; they are checked in the end, each at its version."""

    def __init__(self, folder: Path, seed: int, **given: Any) -> None:
        self.live, self.rng = LiveStream(folder, **given), np.random.default_rng(seed)
        self.follows = given.get("follow", True)
        self.answers: list[tuple[dict[str, Any], Any]] = []
        self.model = model_of([0])

    def query(self) -> None:
        if not self.follows and self.rng.random() < 0.3:
            self.live.poll()
        key: Any = (HOSTS[self.rng.integers(3)],) if self.rng.random() < 0.6 else None
        scope = {"key": key} if self.rng.random() < 0.3 else self.window(key)
        mode = str(self.rng.choice(["quick", "accurate", "exact"]))
        before = self.live.version
        try:
            answers = self.live.answers([0.01, 0.5, 0.97], mode=mode, **scope_arguments(self.model, scope))
        except (UnknownKeyError, EmptyError):
            assert not before or len(scope) > 1
        else:
            assert {answer.version for answer in answers} <= {answers[0].version}
            assert answers[0].version >= before
            self.answers += [(scope, answer) for answer in answers]

    def window(self, key: Any) -> dict[str, Any]:
        """Return a window of up to a few hundred rows or some seconds."""
        scope = some_window(self.model, self.rng, key, now=False)
        if "last" in scope:
            scope["last"] = int(self.rng.integers(1, 600))
        return {name: value for name, value in scope.items() if value is not None}

    def check(self, folder: Path) -> int:
        """Return the number of versions that were read."""
        first, rows = len(model_of([0]).batches[0].values), versions(folder)
        models: dict[int, Any] = {}
        for scope, answer in self.answers:
            version = answer.version
            if version not in models:
                known = max((one for one in rows if one <= version), default=None)
                models[version] = model_of(range(batches_in(first + (0 if known is None else rows[known]))))
            data = data_of(models[version], scope)
            assert oracle.bound_faults(data, answer) == [], (scope, version)
            assert answer.error <= (0 if answer.mode == "exact" else 0.05 + 1e-12)
        return len(models)


def stress(folder: Path, driver: Driver, batches: int) -> None:
    """Two readers from the start, of which one polls, and one that starts later."""
    with History(folder, **SETTINGS) as history:
        append(history, 0)
    child = driver.start("live_work", folder, first=1, batches=batches, wait=False)
    ended = Event()
    readers = [Reader(folder, 1, memory="50 KB"), Reader(folder, 2, follow=False)]

    def read(reader: Reader) -> None:
        while not ended.is_set() and len(reader.answers) < 6000:
            reader.query()

    with ThreadPoolExecutor(3) as pool:
        reading = [pool.submit(read, reader) for reader in readers]
        Event().wait(0.3)
        readers.append(Reader(folder, 3, memory=1))
        reading.append(pool.submit(read, readers[-1]))
        try:
            child.finish()
        finally:
            ended.set()
        for one in reading:
            one.result()
    version_counts = [reader.check(folder) for reader in readers]
    assert max(version_counts) > 3
    model = model_of(range(batches))
    for reader in readers:
        reader.live.poll()
        check(reader.live, model, reader.rng, steps=False)
        reader.live.close()


def test_readers_beside_a_writer(driver: Driver, tmp_path: Path) -> None:
    stress(tmp_path / "store", driver, 24)


@pytest.mark.slow
def test_readers_beside_a_writer_for_long(driver: Driver, tmp_path: Path) -> None:
    stress(tmp_path / "store", driver, 300)
