"""Requests to an object store, counted at the store: a proxy before an S3 server on loopback logs all of them."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from bench.report import Row, show, sized
from bench.timing import scratch
from quantide.history import History, HistoryReader
from quantide.live import LiveStream
from quantide.store.delta_log import survey_log
from quantide.store.object_lease import LEASE
from tests.object_servers.exchange import Request
from tests.object_servers.fault_proxy import FaultProxy
from tests.object_servers.servers import S3_SERVERS, SERVERS, missing_reason

KINDS = {"PUT": "put", "POST": "put", "GET": "get", "HEAD": "get", "DELETE": "delete"}  # by their price in S3
BLOCKS = 4  # of a run that is queried: two queries read different blocks


@dataclass(frozen=True)
class RequestSettings:
    """`request_values`: of an append; `request_runs`: of a history; `request_appends`: of each step of a stream."""

    request_values: tuple[int, ...] = sized((65_536, 1_048_576, 4_194_304), quick=(1_000, 65_536))
    request_runs: tuple[int, ...] = sized((4, 12, 36), quick=(4, 6))
    request_appends: int = sized(48, quick=20)


@dataclass(frozen=True)
class CountedStore:
    """Store whose requests are counted; a reader has a cache of its own, as if on another machine."""

    proxy: FaultProxy
    uri: str
    options: dict[str, str]
    folder: Path

    def write(self, **settings: Any) -> History:
        return History(self.uri, storage_options=self.options, eps=0.01, **settings)

    def read(self, kind: Callable[..., Any], **more: Any) -> Any:
        with patch.dict(os.environ, {"QUANTIDE_CACHE": str(self.folder / "reader")}):
            return kind(self.uri, storage_options=self.options, **more)

    def count(self, work: Callable[[], Any]) -> Row:
        """Return the requests of some work without those of the lease, which depend on time."""
        self.proxy.clear()
        work()
        kinds = Counter(request_kind(request) for request in list(self.proxy.log) if LEASE not in request.path)
        return {kind: kinds[kind] for kind in ("put", "get", "list", "delete")}


def request_kind(request: Request) -> str:
    return "list" if "list-type=" in request.query else KINDS[request.method]


@contextmanager
def counted_store() -> Iterator[CountedStore]:
    name = next(name for name in S3_SERVERS if not missing_reason(name))
    with scratch() as folder:
        (folder / "server").mkdir()
        state = {"QUANTIDE_CACHE": str(folder / "cache"), "QUANTIDE_STATE": str(folder / "state")}
        with (
            SERVERS[name](folder / "server") as server,
            FaultProxy(server.port) as proxy,
            patch.dict(os.environ, state),
        ):
            location = proxy.redirect(server.new_location())
            yield CountedStore(proxy, f"{location.uri}/stream", location.options, folder)


def requests(s: RequestSettings) -> list[Row]:
    """Count the requests of each kind of work, by the values of an append and by the runs of a history."""
    show("scale: requests to an object store")
    by_values = [row for values in s.request_values for row in _write_and_follow(values)]
    return by_values + [row for runs in s.request_runs for row in _open_and_query(runs)]


def _write_and_follow(values: int) -> list[Row]:
    """Count an append, the reader that follows it, a poll without a commit, and the merge of two runs."""
    with counted_store() as store, store.write(kappa=2, window="1 hour") as history:
        _append(history, values)
        history.end_step()
        with store.read(LiveStream, follow=False) as live:
            appended = store.count(lambda: _append(history, values))
            follow, idle = store.count(live.poll), store.count(live.poll)
        added = history.snapshot.chunks[0].parts
        about = {"values": values, "files": len(added)}
        sizes = _sizes(history, added) | {"recent": history.table.current_manifest().entries[-1].size}
        history.end_step()
        inputs = len(history.snapshot.files)
        _append(history, 1)
        merge = store.count(history.end_step)
        merged = history.snapshot.runs[0].parts
        merged_about = {"values": 2 * values, "inputs": inputs, "outputs": len(merged), "merges": 1, "ends": 1}
        return [
            {"work": "append", **about, **sizes, **appended},
            {"work": "follow", **about, "recent": sizes["recent"], **follow},
            {"work": "poll", **idle},
            {"work": "merge", **merged_about, **_sizes(history, merged), **merge},
        ]


def _append(history: History, values: int) -> None:
    """Append, and load the index file of the new chunk, as the writer does before its next merge."""
    history.append(np.random.default_rng(values).normal(size=values))
    assert history.snapshot.files


def _sizes(history: History, files: Any) -> Row:
    side = sum(history.table.storage.stat(file.name.index).size for file in files)
    return {"data": sum(file.index.info.data_size for file in files), "side": side}


def _open_and_query(runs: int) -> list[Row]:
    """Count a checkpoint, the opening of a reader, its first query and another one, and a vacuum."""
    with counted_store() as store, store.write(kappa=10**6, window=0) as history:
        for _ in range(runs):
            _append(history, BLOCKS << 16)
            history.end_step()
        history.append([1.0])
        history.table.maintenance.wait()
        entries = _entries(history)
        checkpoint = store.count(lambda: history.table.maintenance.write_checkpoint(history.table.version))
        history.append([1.0])
        files = {"files": len(history.snapshot.files)}
        opening = files | {"entries": _entries(history)} | store.count(lambda: store.read(HistoryReader).n)
        reader = store.read(HistoryReader)
        assert reader.n  # index files are loaded
        return [
            {"work": "checkpoint", "entries": entries, **checkpoint},
            {"work": "open", **opening},
            {"work": "cold query", "runs": runs, **store.count(lambda: reader.answer(0.4))},
            {"work": "warm query", "runs": runs, **store.count(lambda: reader.answer(0.9))},
            {"work": "vacuum", **files, **store.count(history.vacuum)},
        ]


def _entries(history: History) -> int:
    """Return the entries of the log after its last checkpoint."""
    return len(survey_log(history.table.storage).entries)


def request_stream(s: RequestSettings) -> list[Row]:
    """Count everything that a small stream and one live reader request, with merges of steps and levels."""
    about = {"steps": 4, "appends": s.request_appends, "values": 1_000, "kappa": 2}
    with counted_store() as store, store.write(kappa=about["kappa"], window="1 hour") as history:
        _append(history, 1)
        with store.read(LiveStream, follow=False) as live:

            def run() -> None:
                for _ in range(about["steps"]):
                    for _ in range(about["appends"]):
                        _append(history, about["values"])
                        live.poll()
                    history.end_step()
                history.close()

            return [about | store.count(run)]
