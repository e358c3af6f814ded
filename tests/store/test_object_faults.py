"""Faults of an object store between a writer or a reader and a real server: nothing is lost, nothing is added twice."""

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import obstore
import pytest

from quantide.errors import CommitUncertainError, StorageError
from quantide.history import History, HistoryReader
from quantide.live import LiveStream
from quantide.store import object_lease, object_storage
from quantide.store.object_storage import ObjectStorage
from tests.history.writer_workload import ROWS, SETTINGS, all_of, batch, check_stored, compact_recent_early, small
from tests.object_servers import faults
from tests.object_servers.exchange import Exchange, Request
from tests.object_servers.fault_proxy import FaultProxy
from tests.object_servers.object_location import ObjectLocation
from tests.object_servers.servers import ObjectServer
from tests.oracle import exact_quantile

T = TypeVar("T")

ATTEMPTS = 2
REPEATS = 30  # of a call, at most
LOG = "_delta_log/"
LIMIT = 60.0  # seconds to wait for an expected event
SECRET = "S3cr3t/with+signsAA="  # base64, as Azure needs


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small(monkeypatch.setattr)
    compact_recent_early(monkeypatch.setattr)
    monkeypatch.setattr(object_storage, "FIRST_PAUSE", 0.0005)
    monkeypatch.setattr(object_storage, "ATTEMPTS", ATTEMPTS)
    monkeypatch.setenv("QUANTIDE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def quiet_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renew no lease, so that a test counts no renewals among its requests."""
    for name in ("LEASE_SECONDS", "RENEW_SECONDS"):
        monkeypatch.setattr(object_lease, name, LIMIT)


@pytest.fixture
def location(s3_store: ObjectLocation, fault_proxy: FaultProxy, quiet_lease: None) -> ObjectLocation:
    """Location behind the proxy, with a short timeout."""
    proxied = fault_proxy.redirect(s3_store)
    return proxied._replace(options=proxied.options | {"timeout": "2s"})


def open_history(location: ObjectLocation, **settings: Any) -> History:
    return History(location.uri, storage_options=location.options, **SETTINGS | settings)


def check_rows(location: ObjectLocation, numbers: list[int]) -> None:
    """Check with two readers that exactly these batches are there."""
    check_stored(location.uri, numbers, (), location.options)
    reader, data = HistoryReader(location.uri, storage_options=location.options), all_of(numbers)
    assert reader.n == len(data)
    for phi in (0.01, 0.3, 0.5, 0.99, 1):
        assert reader.quantile(phi, mode="exact") == exact_quantile(data, phi)
    assert reader.verify().values == len(data)


def cut(exchange: Exchange) -> None:
    """Cut the request in the middle, or the answer if the request has no body."""
    (faults.cut_request if exchange.body else faults.cut_answer)(exchange)


def then_away(fault: faults.Fault, proxy: FaultProxy) -> faults.Fault:
    """Return a fault after which no request is answered any more."""

    def inject(exchange: Exchange) -> None:
        proxy.inject(faults.slow_down(), times=None)
        fault(exchange)

    return inject


# Every request of a small workload

FAULTS: dict[str, tuple[faults.Fault, int]] = {
    "throttled once": (faults.slow_down(), 1),
    "throttled": (faults.slow_down(), ATTEMPTS),
    "away": (faults.slow_down(), 5 * ATTEMPTS),
    "cut once": (cut, 1),
    "cut": (cut, ATTEMPTS),
    "answer lost": (faults.lose_answer, 1),
    "answers lost": (faults.lose_answer, ATTEMPTS),
    "answers lost for long": (faults.lose_answer, 5 * ATTEMPTS),
}
BATCHES = [0, 1, 2, 3]


class Workload:
    """Appends, steps, a merge and a vacuum; failed calls are repeated on the same handle."""

    def __init__(self, location: ObjectLocation) -> None:
        self.errors: list[StorageError] = []
        self.location = location

    def run(self) -> None:
        history = self.repeat(lambda: open_history(self.location))
        for number in BATCHES:
            self.repeat(lambda number=number: history.append(batch(number)))  # type: ignore[misc]
            if number % 2:
                self.repeat(history.end_step)
        self.repeat(lambda: history.vacuum(0))
        assert history.n == len(BATCHES) * ROWS
        assert history.step == 3
        retries, storage = history.table.storage.counts.retries, history.table.storage
        assert retries <= storage.counts.requests
        self.repeat(history.close)

    def repeat(self, call: Callable[[], T]) -> T:
        for _ in range(REPEATS):
            try:
                return call()
            except StorageError as error:
                self.errors.append(error)
        raise AssertionError(f"the call never succeeds: {self.errors[-1]}") from self.errors[-1]


def kind(request: Request) -> tuple[str, str]:
    """Return the method of a request and the folder of its object."""
    path = request.path.split("\n")[0].removeprefix("/").split("/")[1:]
    return request.method, "/".join(path[:-1]) or request.query.partition("prefix=")[2][:12]


def attack(location: ObjectLocation, proxy: FaultProxy, server: ObjectServer, name: str, index: int) -> int:
    """Run the workload in a new bucket with a fault at the request of this number; return the number of errors."""
    bucket = server.new_location()
    fault, times = FAULTS[name]
    proxy.clear()
    proxy.inject(fault, skip=index, times=times)
    work = Workload(location._replace(uri=bucket.uri))
    try:
        work.run()
        check_rows(bucket, BATCHES)
    except BaseException as error:
        error.add_note(f"{name} at request {index} of {len(proxy.log)}; errors: {[str(e)[:200] for e in work.errors]}")
        raise
    return len(work.errors)


@pytest.fixture(scope="module")
def requests(s3_server: ObjectServer) -> list[Request]:
    """Requests of the workload without a fault."""
    with pytest.MonkeyPatch.context() as patch, FaultProxy(s3_server.port) as proxy:
        small(patch.setattr)
        compact_recent_early(patch.setattr)
        work = Workload(proxy.redirect(s3_server.new_location()))
        work.run()
        assert not work.errors
        return list(proxy.log)


def test_no_fault(object_store: ObjectLocation) -> None:
    work = Workload(object_store)
    work.run()
    assert not work.errors
    check_rows(object_store, BATCHES)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_at_some_requests(
    name: str, location: ObjectLocation, fault_proxy: FaultProxy, s3_server: ObjectServer, requests: list[Request]
) -> None:
    """One request of some kinds for each fault, so that together they have every kind."""
    number, kinds = list(FAULTS).index(name), sorted({kind(request) for request in requests})
    for chosen in kinds[number :: len(FAULTS)]:
        found = [i for i, request in enumerate(requests) if kind(request) == chosen]
        attack(location, fault_proxy, s3_server, name, found[5 * number % len(found)])


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_at_every_request(
    name: str, location: ObjectLocation, fault_proxy: FaultProxy, s3_server: ObjectServer, requests: list[Request]
) -> None:
    """Every request meets two or three of the eight faults."""
    indexes = range(list(FAULTS).index(name) % 3, len(requests), 3)
    failed = sum(attack(location, fault_proxy, s3_server, name, index) > 0 for index in indexes)
    print(f"{name}: {len(indexes)} requests, {failed} with an error")
    assert bool(failed) == (FAULTS[name][1] >= ATTEMPTS)


# Throttling and timeouts


def test_throttling_is_retried_and_counted(location: ObjectLocation, fault_proxy: FaultProxy) -> None:
    with open_history(location) as history:
        history.append(batch(0))
        before = history.table.storage.counts.retries
        for path in ("runs/", "_quantide/side", "_quantide/recent", LOG):
            fault_proxy.inject(faults.slow_down(), "PUT", path)
        history.append(batch(1))
        assert history.table.storage.counts.retries == before + 4
    check_rows(location, [0, 1])


@pytest.mark.parametrize("path", ["runs/", "_quantide/side", "_quantide/recent", LOG])
def test_attempts_are_bounded(path: str, location: ObjectLocation, fault_proxy: FaultProxy) -> None:
    with open_history(location) as history:
        history.append(batch(0))
        history._writer.join()
        fault_proxy.clear()
        fault_proxy.inject(faults.slow_down(), "PUT", path, times=ATTEMPTS if path == LOG else None)
        with pytest.raises(StorageError) as error:
            history.append(batch(1))
        fault_proxy.clear()
        assert not isinstance(error.value, CommitUncertainError)
        assert f"{ATTEMPTS} attempts" in str(error.value)
        assert location.uri in str(error.value)
        assert "SlowDown" in str(error.value)
        assert history.n == ROWS
        history.append(batch(1))
    check_rows(location, [0, 1])


def test_pauses_grow(s3_store: ObjectLocation, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(object_storage, "time", SimpleNamespace(sleep=pauses.append))
    monkeypatch.setattr(object_storage, "ATTEMPTS", 6)
    monkeypatch.setattr(object_storage, "FIRST_PAUSE", 0.1)
    fault_proxy.inject(faults.slow_down(), times=None)
    proxied = fault_proxy.redirect(s3_store)
    with pytest.raises(StorageError):
        ObjectStorage(proxied.uri, proxied.options).read("x")
    assert len(pauses) == 5
    assert all(0.05 * 2**i <= pause <= 0.1 * 2**i for i, pause in enumerate(pauses))


@pytest.mark.parametrize(("method", "path"), [("PUT", "runs/"), ("PUT", LOG), ("GET", "")])
def test_timeouts(method: str, path: str, location: ObjectLocation, fault_proxy: FaultProxy) -> None:
    short = location._replace(options=location.options | {"timeout": "300ms"})
    with open_history(short) as history:
        history.append(batch(0))
        fault_proxy.inject(faults.delay(LIMIT), method, path)
        history.append(batch(1))
        if method == "GET":
            assert HistoryReader(short.uri, storage_options=short.options).n == 2 * ROWS
    assert [request.status for request in fault_proxy.log].count(None) == 1
    check_rows(location, [0, 1])


# Puts of data


@pytest.mark.parametrize("times", [1, None])
@pytest.mark.parametrize("path", ["runs/", "_quantide/side", "_quantide/recent"])
def test_a_data_put_that_is_cut(
    path: str, times: int | None, location: ObjectLocation, fault_proxy: FaultProxy
) -> None:
    with open_history(location) as history:
        history.append(batch(0))
        fault_proxy.inject(faults.cut_request, "PUT", path, times=times)
        if times is None:
            with pytest.raises(StorageError):
                history.append(batch(1))
            fault_proxy.clear()
            assert history.n == ROWS
        history.append(batch(1))
        assert history.table.storage.counts.retries >= 1
        history.vacuum(0)
    check_rows(location, [0, 1])


# Commits


@pytest.mark.parametrize("batch_id", [None, 7])
def test_a_commit_whose_answer_was_lost(batch_id: Any, location: ObjectLocation, fault_proxy: FaultProxy) -> None:
    """A commit whose answer was lost is acknowledged, and stored once."""
    with open_history(location) as history:
        history.append(batch(0))
        for times, number in ((1, 1), (ATTEMPTS, 2)):
            fault_proxy.inject(faults.lose_answer, "PUT", LOG, times=times)
            history.append(batch(number), batch_id=batch_id and number)
        assert history.n == 3 * ROWS
        history.end_step()
    check_rows(location, [0, 1, 2])


def test_a_commit_that_is_cut(location: ObjectLocation, fault_proxy: FaultProxy) -> None:
    with open_history(location) as history:
        history.append(batch(0))
        fault_proxy.inject(faults.cut_request, "PUT", LOG)
        history.append(batch(1))
        fault_proxy.inject(faults.cut_request, "PUT", LOG, times=ATTEMPTS)
        with pytest.raises(StorageError, match="nothing was changed") as error:
            history.append(batch(2))
        assert not isinstance(error.value, CommitUncertainError)
        assert history.n == 2 * ROWS
        history.append(batch(2))
    check_rows(location, [0, 1, 2])


def test_a_commit_that_is_held_while_its_repeat_succeeds(location: ObjectLocation, fault_proxy: FaultProxy) -> None:
    short, hold = location._replace(options=location.options | {"timeout": "300ms"}), faults.Hold()
    with open_history(short) as history:
        history.append(batch(0))
        fault_proxy.inject(hold, "PUT", LOG)
        history.append(batch(1))
        hold.release()
        history.append(batch(2))
    check_rows(location, [0, 1, 2])


def test_a_commit_that_arrives_after_it_was_given_up(location: ObjectLocation, fault_proxy: FaultProxy) -> None:
    """The writer settles that a commit failed; the commit must not appear later."""
    short, hold = location._replace(options=location.options | {"timeout": "300ms"}), faults.Hold()
    with open_history(short) as history:
        history.append(batch(0))
        history._writer.join()
        fault_proxy.inject(hold, "PUT", LOG)
        fault_proxy.inject(faults.slow_down(), "PUT", LOG, times=ATTEMPTS - 1)
        with pytest.raises(StorageError, match="nothing was changed") as error:
            history.append(batch(1))
        assert not isinstance(error.value, CommitUncertainError)
        reader = HistoryReader(location.uri, storage_options=location.options)
        hold.release()
        reader.refresh()
        assert reader.n == history.n == ROWS
        history.append(batch(2))
    check_rows(location, [0, 2])


@pytest.mark.parametrize("arrives", ["before the repeat", "after the repeat", "never"])
@pytest.mark.parametrize("again", ["the same call", "with the id", "another handle"])
def test_an_uncertain_commit(again: str, arrives: str, location: ObjectLocation, fault_proxy: FaultProxy) -> None:
    """The store is away after the put was sent; the repeated call adds the rows once."""
    short, hold = location._replace(options=location.options | {"timeout": "300ms"}), faults.Hold()
    history = open_history(short)
    history.append(batch(0))
    history._writer.join()
    fault_proxy.inject(then_away(hold, fault_proxy), "PUT", LOG)
    with pytest.raises(CommitUncertainError, match="batch_id=") as error:
        history.append(batch(1))
    for call in (lambda: history.n, lambda: history.append(batch(5)), history.end_step):
        with pytest.raises(StorageError):
            call()
    if arrives == "before the repeat":
        hold.release()
    fault_proxy.clear()
    identity = error.value.batch_id
    if again == "another handle":
        history.close()
        history = open_history(short)
    if again == "the same call":
        history.append(batch(1))
    else:
        history.append(batch(1), batch_id=identity)
        assert history.batch_seen(identity)
    assert history.n == 2 * ROWS
    if arrives == "after the repeat":
        hold.release()
    history.append(batch(2))
    history.close()
    check_rows(location, [0, 1, 2])


def test_an_uncertain_end_of_a_step(location: ObjectLocation, fault_proxy: FaultProxy) -> None:
    with open_history(location) as history:
        history.append(batch(0))
        history._writer.join()
        fault_proxy.inject(then_away(faults.lose_answer, fault_proxy), "PUT", LOG)
        with pytest.raises(CommitUncertainError):
            history.end_step()
        fault_proxy.clear()
        history.end_step()
        assert history.step == 2
        history.end_step()
        assert history.step == 3
    check_rows(location, [0])


def test_conflicts_that_pass(location: ObjectLocation, fault_proxy: FaultProxy) -> None:
    """S3 answers 409 if another request for the object is under way; the object may not exist."""
    with open_history(location) as history:
        history.append(batch(0))
        fault_proxy.inject(faults.refuse(409, "ConditionalRequestConflict"), "PUT", LOG)
        history.append(batch(1))
        fault_proxy.inject(faults.refuse(409, "ConditionalRequestConflict"), "PUT", LOG, times=ATTEMPTS)
        with pytest.raises(StorageError, match="nothing was changed"):
            history.append(batch(2))
        history.append(batch(2))
    check_rows(location, [0, 1, 2])


def test_a_substitute_that_meets_a_conflict(location: ObjectLocation, fault_proxy: FaultProxy) -> None:
    """The substitute prevents an entry that was given up, and is still on its way, from appearing later."""
    short, hold = location._replace(options=location.options | {"timeout": "300ms"}), faults.Hold()
    with open_history(short) as history:
        history.append(batch(0))
        history._writer.join()
        fault_proxy.inject(hold, "PUT", LOG)
        fault_proxy.inject(faults.slow_down(), "PUT", LOG, times=ATTEMPTS - 1)
        fault_proxy.inject(faults.refuse(409, "ConditionalRequestConflict"), "PUT", LOG, times=ATTEMPTS)
        with pytest.raises(CommitUncertainError):
            history.append(batch(1))
        assert history.n == ROWS
        hold.release()
        assert history.n == ROWS
        history.append(batch(1))
        history.append(batch(2))
    check_rows(location, [0, 1, 2])


# Deletes that are seen late


def test_late_deletes(location: ObjectLocation, fault_proxy: FaultProxy, s3_server: ObjectServer) -> None:
    for reads in (3, 100):
        bucket = s3_server.new_location()
        fault_proxy.clear()
        fault_proxy.delay_deletes(reads)
        work = Workload(location._replace(uri=bucket.uri))
        work.run()
        assert not work.errors
        check_rows(location._replace(uri=bucket.uri), BATCHES)
        fault_proxy.clear()
        check_rows(bucket, BATCHES)


# Credentials


def with_secret(location: ObjectLocation) -> ObjectLocation:
    """Return a location with a wrong secret."""
    name = "secret_access_key" if "secret_access_key" in location.options else "account_key"
    return location._replace(options=location.options | {name: SECRET})


def check_secret(location: ObjectLocation, secrets: list[str], texts: list[str]) -> None:
    """Check that no text and no object has a secret."""
    store = location.open()
    objects = [entry["path"] for page in obstore.list(store) for entry in page]
    contents = [bytes(obstore.get(store, path).bytes()) for path in objects]
    for secret in secrets:
        assert not [text for text in texts if secret in text]
        assert not [path for path, content in zip(objects, contents, strict=True) if secret.encode() in content]


def describe(error: BaseException) -> str:
    """Return all that a program may print about an error."""
    return f"{error} {error!r} {''.join(traceback.format_exception(error))}"


@pytest.mark.parametrize("object_server", ["versitygw", "azurite"], indirect=True)
def test_a_wrong_secret_is_not_shown(
    object_store: ObjectLocation, quiet_lease: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with open_history(object_store) as history:
        history.append(batch(0))
        wrong, texts = with_secret(object_store), [repr(history), repr(history.table.storage), str(history.stats())]
    for call in (
        lambda: open_history(wrong),
        lambda: HistoryReader(wrong.uri, storage_options=wrong.options),
        lambda: ObjectStorage(wrong.uri, wrong.options).create("x", b"x"),
        lambda: ObjectStorage(wrong.uri, wrong.options).list_top(),
    ):
        with pytest.raises(StorageError, match="access was refused") as error:
            call()
        assert "credentials" in str(error.value)
        texts.append(describe(error.value))
    texts += [repr(ObjectStorage(wrong.uri, wrong.options)), caplog.text]
    right = [value for name, value in object_store.options.items() if name in ("secret_access_key", "account_key")]
    check_secret(object_store, [SECRET, *right], texts)


@pytest.mark.parametrize("status", [400, 401, 403])
def test_credentials_that_expire(
    status: int, location: ObjectLocation, fault_proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    """Expired credentials raise a named error without retries; with new ones all calls succeed."""
    caplog.set_level("DEBUG")
    with open_history(location) as history:
        history.append(batch(0))
        history._writer.join()
        reader = HistoryReader(location.uri, storage_options=location.options)
        fault_proxy.clear()
        fault_proxy.inject(faults.expired_token(status), times=None)
        texts = []
        for call in (lambda: history.append(batch(1)), lambda: history.end_step(), reader.refresh):
            fault_proxy.log.clear()
            with pytest.raises(StorageError, match="credentials") as error:
                call()
            texts.append(describe(error.value))
            assert all("ExpiredToken" in text for text in texts)
            paths = [(request.method, request.path) for request in fault_proxy.log]
            assert len(paths) == len(set(paths)), "a refused request was repeated"
        fault_proxy.clear()
        history.append(batch(1))
        reader.refresh()
        assert reader.n == 2 * ROWS
        assert history.step == 1
    check_rows(location, [0, 1])
    check_secret(location, [location.options["secret_access_key"]], [*texts, caplog.text])


def test_secrets_in_bad_options_are_not_shown(s3_store: ObjectLocation) -> None:
    for bad in ({"secret_access_kez": SECRET}, {"endpoint": "no url", "secret_access_key": SECRET}, {"timeout": "x"}):
        with pytest.raises((StorageError, ValueError)) as error:
            ObjectStorage(s3_store.uri, s3_store.options | bad).read("x")
        assert SECRET not in describe(error.value)


# Readers


def test_a_reader_that_loses_its_connection(location: ObjectLocation, fault_proxy: FaultProxy) -> None:
    direct = open_history(location)
    direct.append(batch(0))
    reader = HistoryReader(location.uri, storage_options=location.options)
    assert reader.n == ROWS
    fault_proxy.inject(faults.lose_answer, "GET", times=None)
    for _ in range(3):
        with pytest.raises(StorageError):
            reader.refresh()
        assert reader.n == ROWS
    fault_proxy.clear()
    for number in (1, 2):
        direct.append(batch(number))
        direct.end_step()
    direct.vacuum(0)
    reader.refresh()
    assert reader.n == 3 * ROWS
    assert reader.quantile(0.5, mode="exact") == exact_quantile(all_of([0, 1, 2]), 0.5)
    direct.close()


def test_blocks_that_cannot_be_read_for_a_while(location: ObjectLocation, fault_proxy: FaultProxy) -> None:
    with open_history(location) as history:
        for number in (0, 1):
            history.append(batch(number))
            history.end_step()
    uncached = location._replace(options=location.options | {"cache_bytes": "0"})
    expected = exact_quantile(all_of([0, 1]), 0.5)
    for fault in (cut, faults.lose_answer, faults.slow_down(), faults.expired_token()):
        reader = HistoryReader(uncached.uri, memory=0, storage_options=uncached.options)
        fault_proxy.inject(fault, "GET", "runs/", times=None)
        with pytest.raises(StorageError):
            reader.quantile(0.5, mode="exact")
        fault_proxy.clear()
        assert reader.quantile(0.5, mode="exact") == expected
    reader = HistoryReader(uncached.uri, memory=0, storage_options=uncached.options)
    fault_proxy.inject(cut, "GET", "runs/")
    assert reader.quantile(0.5, mode="exact") == expected


def test_a_live_stream_goes_on(location: ObjectLocation, fault_proxy: FaultProxy, s3_store: ObjectLocation) -> None:
    with open_history(s3_store) as history:
        history.append(batch(0))
        with LiveStream(location.uri, storage_options=location.options) as live:
            wait_for(lambda: live.answer(0.5).n == ROWS)
            fault_proxy.inject(faults.slow_down(), times=None)
            history.append(batch(1))
            time.sleep(0.3)
            fault_proxy.clear()
            history.append(batch(2))
            wait_for(lambda: live.answer(0.5).n == 3 * ROWS)


def wait_for(condition: Callable[[], bool]) -> None:
    last = time.monotonic() + LIMIT
    while True:
        try:
            if condition():
                return
        except StorageError:
            pass
        assert time.monotonic() < last, "it did not happen"
        time.sleep(0.02)
