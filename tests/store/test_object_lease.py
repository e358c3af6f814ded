"""Lease of a store in an object store: one writer, whatever clocks, pauses and lost answers do."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Barrier, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from quantide.errors import CommitUncertainError, StorageError, WriterConflictError
from quantide.history import History, HistoryReader
from quantide.store import log_maintenance, object_lease, object_storage
from quantide.store.delta_log import DeltaLog
from quantide.store.object_lease import LEASE
from quantide.store.object_storage import ObjectStorage
from quantide.windows.wall_clock import VARIABLE
from tests.history.writer_workload import ROWS, SETTINGS, all_of, batch, small
from tests.object_servers import faults
from tests.object_servers.fault_proxy import FaultProxy
from tests.object_servers.object_location import ObjectLocation
from tests.oracle import exact_quantile

ROOT = Path(__file__).parents[2]
YEARS = 10 * 365 * 86400
LIMIT = 60.0  # seconds to wait for an expected event


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch.setattr)
    monkeypatch.setattr(object_storage, "FIRST_PAUSE", 0.001)
    set_seconds(monkeypatch.setattr)


def set_seconds(change: Callable[[Any, str, float], None] = setattr) -> None:
    """Let a lease expire after a second."""
    change(object_lease, "LEASE_SECONDS", 1.0)
    change(object_lease, "RENEW_SECONDS", 0.1)
    change(object_lease, "WATCH_SECONDS", 0.05)


def open_history(location: ObjectLocation, **settings: Any) -> History:
    return History(location.uri, storage_options=location.options, **SETTINGS | settings)


def open_object(location: ObjectLocation) -> ObjectStorage:
    return ObjectStorage(location.uri, location.options)


def check_rows(location: ObjectLocation, numbers: list[int]) -> None:
    reader, data = HistoryReader(location.uri, storage_options=location.options), all_of(numbers)
    assert reader.n == len(data)
    for phi in (0.01, 0.3, 0.5, 1):
        assert reader.quantile(phi, mode="exact") == exact_quantile(data, phi)


def put_holder(location: ObjectLocation, **changes: Any) -> dict[str, Any]:
    """Put the lease of a writer elsewhere; return it."""
    content = {"holder": "process 7 on elsewhere", "machine": "another boot/pid:[1]", "process": [7, "1"]} | changes
    open_object(location).replace(LEASE, json.dumps(content).encode())
    return content


def wait_for(condition: Callable[[], object], what: str) -> None:
    last = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < last, what
        time.sleep(0.01)


def refuse_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an attempt to take the lease fail if it must wait."""

    def sleep(_: float) -> None:
        raise AssertionError("the lease is not free")

    monkeypatch.setattr(object_lease, "LEASE_SECONDS", LIMIT)
    monkeypatch.setattr(object_lease, "time", SimpleNamespace(sleep=sleep))


# Holders


def test_a_second_writer_is_refused_by_name(object_store: ObjectLocation) -> None:
    with open_history(object_store) as first:
        first.append(batch(0))
        second = open_history(object_store)
        with pytest.raises(WriterConflictError, match=f"process {os.getpid()} on "):
            second.append(batch(1))
        assert second.n == ROWS
        first.append(batch(2))
    second.append(batch(1))  # at once: the lease was released
    check_rows(object_store, [0, 1, 2])
    second.close()


def test_a_released_lease_is_taken_at_once(s3_store: ObjectLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer takes a released lease at once, also during a renewal."""
    monkeypatch.setattr(object_lease, "RENEW_SECONDS", 0.0001)
    refuse_to_wait(monkeypatch)
    storage = open_object(s3_store)
    for _ in range(25):
        lease = storage.acquire_lease()
        time.sleep(0.004)
        lease.release()
        assert storage.lease_holder() is None
    time.sleep(0.05)
    assert storage.lease_holder() is None, "a renewal came after the release"


def test_a_dead_process_of_this_machine_is_replaced_at_once(
    s3_store: ObjectLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_wait(monkeypatch)
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        child.wait()
    storage = open_object(s3_store)
    started = object_lease._started(os.getpid())
    for process in ([child.pid, "1"], [os.getpid(), "1"]):  # ended, or its number is used by another process now
        put_holder(s3_store, machine=object_lease._machine(), process=process)
        assert storage.lease_holder() is None
        storage.acquire_lease().release()
    put_holder(s3_store, machine=object_lease._machine(), process=[os.getpid(), started])
    assert storage.lease_holder() == "process 7 on elsewhere"


@pytest.mark.parametrize("offset", [YEARS, -YEARS])
def test_a_dead_holder_elsewhere_is_replaced_after_the_expiry(
    s3_store: ObjectLocation, monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    """A writer replaces a dead holder after the expiry, however wrong the wall clock is."""
    monkeypatch.setenv(VARIABLE, str(offset))
    put_holder(s3_store)
    assert open_object(s3_store).lease_holder() == "process 7 on elsewhere"
    began = time.monotonic()
    lease = open_object(s3_store).acquire_lease()
    assert time.monotonic() - began >= object_lease.LEASE_SECONDS
    assert open_object(s3_store).lease_holder() == f"process {os.getpid()} on {os.uname().nodename}"
    lease.release()


def test_a_holder_elsewhere_that_renews_is_respected(s3_store: ObjectLocation) -> None:
    put_holder(s3_store)
    refused: list[str] = []

    def challenge() -> None:
        with pytest.raises(WriterConflictError) as error:
            open_object(s3_store).acquire_lease()
        refused.append(str(error.value))

    challenger = Thread(target=challenge)
    challenger.start()
    time.sleep(0.3)
    content = put_holder(s3_store, renewals=2)
    challenger.join()
    assert "process 7 on elsewhere" in refused[0]
    assert json.loads(open_object(s3_store).read(LEASE)) == content


def test_one_of_many_challengers_wins(object_store: ObjectLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_lease, "LEASE_SECONDS", 0.3)
    put_holder(object_store)
    challengers, start, won, refused = 4, Barrier(4), [], []

    def challenge() -> None:
        storage = open_object(object_store)
        start.wait()
        try:
            won.append(storage.acquire_lease())
        except WriterConflictError as error:
            refused.append(str(error))

    threads = [Thread(target=challenge) for _ in range(challengers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(refused)) == (1, challengers - 1)
    assert all(f"process {os.getpid()}" in text for text in refused)
    won[0].release()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b'{"holder": 7, "process": 1}', b'{"holder": "x"}'])
def test_a_damaged_lease_expires(s3_store: ObjectLocation, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(object_lease, "LEASE_SECONDS", 0.2)
    storage = open_object(s3_store)
    storage.replace(LEASE, content)
    storage.acquire_lease().release()
    assert storage.lease_holder() is None


# Lost answers


def test_a_renewal_whose_answer_is_lost(
    s3_store: ObjectLocation, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The renewal was executed; then the server was away until it was given up."""
    monkeypatch.setattr(object_storage, "ATTEMPTS", 2)
    monkeypatch.setattr(object_lease, "LEASE_SECONDS", LIMIT)
    lease = open_object(fault_proxy.redirect(s3_store)).acquire_lease()
    fault_proxy.inject(faults.lose_answer, "PUT", LEASE)
    fault_proxy.inject(faults.slow_down(), "PUT", LEASE)
    storage = open_object(s3_store)
    wait_for(lambda: json.loads(storage.read(LEASE))["renewals"] > 8, "the lease is not renewed any more")
    assert not lease.is_lost
    lease.release()
    assert storage.lease_holder() is None


def test_a_lease_that_was_perhaps_taken(
    s3_store: ObjectLocation, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same process need not wait for it to expire."""
    monkeypatch.setattr(object_storage, "ATTEMPTS", 2)
    refuse_to_wait(monkeypatch)
    location = fault_proxy.redirect(s3_store)
    fault_proxy.inject(faults.lose_answer, "PUT", LEASE)
    fault_proxy.inject(faults.slow_down(), "PUT", LEASE)
    with pytest.raises(StorageError):
        open_object(location).acquire_lease()
    open_object(location).acquire_lease().release()


def test_a_lease_that_could_not_be_freed(
    s3_store: ObjectLocation, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_storage, "ATTEMPTS", 2)
    refuse_to_wait(monkeypatch)
    lease = open_object(fault_proxy.redirect(s3_store)).acquire_lease()
    fault_proxy.inject(faults.slow_down(), "PUT", LEASE, times=None)
    lease.release()  # raises nothing
    fault_proxy.clear()
    open_object(s3_store).acquire_lease().release()


def test_a_lease_that_was_removed_is_lost(s3_store: ObjectLocation) -> None:
    storage = open_object(s3_store)
    lease = storage.acquire_lease()
    storage.remove(LEASE)
    wait_for(lambda: lease.is_lost, "the holder does not notice")
    lease.release()
    assert storage.lease_holder() is None


def test_a_holder_that_is_cut_off_knows_it(s3_store: ObjectLocation, fault_proxy: FaultProxy) -> None:
    lease = open_object(fault_proxy.redirect(s3_store)).acquire_lease()
    fault_proxy.inject(faults.slow_down(), times=None)
    wait_for(lambda: lease.is_lost, "the holder does not notice")
    other = open_object(s3_store).acquire_lease()
    fault_proxy.clear()
    time.sleep(0.3)
    assert lease.is_lost
    assert not other.is_lost
    lease.release()
    assert open_object(s3_store).lease_holder() is not None, "the old holder freed the lease of the new one"
    other.release()


# Fencing


PAUSED = """
import json, sys
from quantide.errors import WriterConflictError
from quantide.history import History
from tests.history.writer_workload import SETTINGS, batch, small
from tests.store.test_object_lease import set_seconds
small()
set_seconds()
history = History(sys.argv[1], storage_options=json.loads(sys.argv[2]), **SETTINGS)
history.append(batch(0))
print("has the lease", flush=True)
for number, line in enumerate(sys.stdin, 1):
    try:
        history.append(batch(number))
        print("acknowledged", flush=True)
    except WriterConflictError as error:
        print("fenced", flush=True)
"""


class PausedWriter:
    """Writer in a process of its own that appends a batch for each command."""

    def __init__(self, location: ObjectLocation, **environment: str) -> None:
        arguments = [sys.executable, "-c", PAUSED, location.uri, json.dumps(location.options)]
        env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", **environment}
        self.process = subprocess.Popen(
            arguments, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.read() == "has the lease"

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def order(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def pause(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def wake(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start_paused() -> Iterator[Callable[..., PausedWriter]]:
    started: list[PausedWriter] = []

    def start(location: ObjectLocation, **environment: str) -> PausedWriter:
        started.append(PausedWriter(location, **environment))
        return started[-1]

    yield start
    for writer in started:
        writer.end()


def test_a_paused_writer_is_fenced(
    s3_store: ObjectLocation, start_paused: Callable[..., PausedWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer sleeps through the takeover with a command queued; the two clocks differ by decades."""
    monkeypatch.setenv(VARIABLE, str(-YEARS))
    first = start_paused(s3_store, **{VARIABLE: str(YEARS)})
    first.order()
    assert first.read() == "acknowledged"
    first.pause()
    first.order()
    with open_history(s3_store, max_ahead="off") as second:
        second.append(batch(10))
        first.wake()
        assert first.read() == "fenced"
        first.order()
        assert first.read() == "fenced"
        second.append(batch(11))
        assert second.verify().values == 4 * ROWS
    check_rows(s3_store, [0, 1, 10, 11])


def test_a_writer_paused_within_its_commit(s3_store: ObjectLocation, fault_proxy: FaultProxy) -> None:
    """Pause the put of a writer's entry until another writer has taken over."""
    first, failed = open_history(fault_proxy.redirect(s3_store)), []
    first.append(batch(0))
    first._writer.join()
    hold = faults.Hold()
    fault_proxy.inject(hold, "PUT", "_delta_log/")

    def append() -> None:
        with pytest.raises(WriterConflictError) as error:
            first.append(batch(1))
        failed.append(error.value)

    thread = Thread(target=append)
    thread.start()
    hold.wait()
    fault_proxy.inject(faults.slow_down(), None, LEASE, times=None)  # it does not renew its lease either
    with open_history(s3_store) as second:
        second.append(batch(2))
        hold.release()
        thread.join()
        assert failed
        second.append(batch(3))
    with pytest.raises(WriterConflictError):
        first.append(batch(1))
    check_rows(s3_store, [0, 2, 3])
    with pytest.raises(WriterConflictError):
        first.vacuum(0)
    first.close()
    check_rows(s3_store, [0, 2, 3])


def test_a_fenced_writer_after_the_log_was_trimmed(s3_store: ObjectLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of its next entry is free again: what it puts there is taken back, and no reader sees it."""
    monkeypatch.setattr(log_maintenance, "CHECKPOINT_INTERVAL", 3)
    monkeypatch.setattr(ObjectStorage, "trusted_seconds", 0.0)  # as after a pause of more than 30 s
    first = open_history(s3_store)
    first.append(batch(0))
    idle = HistoryReader(s3_store.uri, storage_options=s3_store.options)
    first._writer._lease._state.stop()  # type: ignore[union-attr]
    old = first.table.version
    with open_history(s3_store) as second:
        for number in range(1, 9):
            second.append(batch(number))
        second._writer.join()
        second.table.maintenance.wait()
        second.table.clear_log(0)
        assert not DeltaLog(open_object(s3_store)).has_version(old + 1)
        with pytest.raises(WriterConflictError):
            first.append(batch(20))
        assert not DeltaLog(open_object(s3_store)).has_version(old + 1)
        second.append(batch(9))
        idle.refresh()
        assert idle.n == 10 * ROWS
    check_rows(s3_store, list(range(10)))
    first.close()


def test_an_unsettled_commit_after_the_log_was_trimmed(
    s3_store: ObjectLocation, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of the entry that its writer settles is free again: nothing may stay there."""
    monkeypatch.setattr(object_storage, "ATTEMPTS", 2)
    monkeypatch.setattr(log_maintenance, "CHECKPOINT_INTERVAL", 3)
    monkeypatch.setattr(ObjectStorage, "trusted_seconds", 0.0)
    first, log = open_history(fault_proxy.redirect(s3_store)), DeltaLog(open_object(s3_store))
    first.append(batch(0))
    first._writer.join()
    version = first.table.version + 1
    fault_proxy.inject(faults.slow_down(), None, "_delta_log/", times=None)
    with pytest.raises(CommitUncertainError):
        first.append(batch(20))
    first._writer._lease._state.stop()  # type: ignore[union-attr]
    with open_history(s3_store) as second:
        for number in range(1, 9):
            second.append(batch(number))
        second._writer.join()
        second.table.maintenance.wait()
        second.table.clear_log(0)
        assert not log.has_version(version)
        fault_proxy.clear()
        assert first.n == 9 * ROWS
        assert not log.has_version(version)
        with pytest.raises(WriterConflictError):
            first.end_step()
        with pytest.raises(StorageError, match="no longer tells"):
            first.append(batch(20))
        assert not log.has_version(version)
    check_rows(s3_store, list(range(9)))
    first.close()


PROCESSES: list[Any] = [[], [1e400, "y"]]
GARBAGE = [b"[" * 100_000, b'{"holder": "x", "lease": []}']


@pytest.mark.parametrize("content", [*GARBAGE, *PROCESSES])
def test_a_lease_that_cannot_be_read_expires(s3_store: ObjectLocation, content: Any) -> None:
    if not isinstance(content, bytes):  # a process of this machine
        content = json.dumps({**object_lease._holder(), "process": content}).encode()
    with open_history(s3_store) as history:
        open_object(s3_store).replace(LEASE, content)
        assert history.table.storage.lease_holder() is not None
        history.append(batch(0))
    check_rows(s3_store, [0])
