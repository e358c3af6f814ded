"""Stores in object storage, and costs that do not grow with the age of a store; S3 is versitygw on loopback."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

from bench.collection import Subject
from bench.cost_measure import add_files
from bench.ingestion import configure, events, file_values, ingest_child, write_file
from bench.report import Report, Row, show, sized
from bench.timing import clock, scratch, spread
from quantide.history import History, HistoryReader
from quantide.live import LiveStream
from quantide.store.storage import measure_requests
from tests.object_servers.object_location import ObjectLocation
from tests.object_servers.servers import run_versitygw

PLACES = ("folder", "S3")
SECRET = "BENCH_SECRET"  # environment variable
FIRST = """import sys, time
from quantide.history import HistoryReader
begun = time.perf_counter()
options = dict(pair.split("=", 1) for pair in sys.argv[2:])
answer = HistoryReader(sys.argv[1], storage_options=options).answer(0.99)
print(time.perf_counter() - begun)
"""


@dataclass(frozen=True)
class Settings:
    """Files of a table; values of a history that is queried; steps of a year; files that Spark ingests."""

    files: tuple[int, ...] = sized((100, 10_000, 100_000), quick=(10, 120))
    commits: int = sized(60, quick=5)
    values: int = sized(100_000_000, quick=400_000)
    steps: int = sized(20, quick=4)
    kappa: int = 10
    questions: int = sized(30, quick=4)
    days: int = sized(365, quick=8)
    day_values: int = sized(100_000, quick=1_000)
    ingest_files: int = sized(4, quick=2)
    ingest_rows: int = sized(10_000_000, quick=20_000)
    lag_files: int = sized(30, quick=3)
    lag_rows: int = sized(1_000, quick=100)


@contextmanager
def s3() -> Iterator[tuple[ObjectLocation, Path]]:
    """Yield a bucket of a new server, and a folder; files that are read are cached in the folder."""
    with scratch() as folder:
        (folder / "server").mkdir()
        state = {"QUANTIDE_CACHE": str(folder / "cache"), "QUANTIDE_STATE": str(folder / "state")}
        with run_versitygw(folder / "server", keep_alive=True) as server, patch.dict(os.environ, state):
            yield server.new_location(), folder


def age(s: Settings) -> list[Row]:
    """Measure commits, and a reader that follows, with more and more files in the table."""
    return [_age(count, s) for count in s.files]


def _age(count: int, s: Settings) -> Row:
    show(f"objects: a table of {count:,} files")
    with scratch() as folder, History(folder / "store", eps=0.01, kappa=1_000_000) as history:
        history.append(np.arange(1000.0))
        history.end_step()
        add_files(history, count)
        reader = HistoryReader(history.path)
        opening, _ = clock(lambda: reader.n)
        commits, follows = [], []
        for number in range(s.commits):
            values = np.random.default_rng(number).normal(size=1000)
            commits.append(clock(history.append, values)[0])
            follows.append(clock(reader.refresh)[0])
        right = reader.n == history.n == 1000 * (count + 1 + s.commits)
    return {"files": count, "open": opening, "holds": right} | spread(commits, "commit_") | spread(follows, "follow_")


def question(s: Settings) -> list[Row]:
    """Measure accurate answers over a history in S3: the first ones, and others after them."""
    show(f"objects: {s.values:,} values in S3")
    with s3() as (bucket, _):
        uri = f"{bucket.uri}/stream"
        with History(uri, storage_options=bucket.options, kappa=s.kappa, window=0) as history:
            for step in range(s.steps):
                history.append(np.random.default_rng([41, step]).normal(size=s.values // s.steps))
                history.end_step()
        rows, reader = list[Row](), HistoryReader(uri, storage_options=bucket.options)
        runs = reader.stats()["runs"]
        for number, state in enumerate(("cold", "warm")):
            found = list[tuple[float, int, int]]()
            for phi in np.random.default_rng(number).uniform(0.001, 1, s.questions).tolist():
                with measure_requests() as counts:
                    seconds, answer = clock(reader.answer, phi)
                found.append((seconds, counts.requests, answer.blocks_read))
            row = {"state": state, "runs": runs, "first_requests": found[0][1]}
            row |= {"most_requests": max(one[1] for one in found), "most_blocks": max(one[2] for one in found)}
            rows.append(row | spread([one[0] for one in found]))
        return rows


def start(s: Settings) -> list[Row]:
    """Measure the first answer of a new process over a year of steps in S3: without and with files in the cache."""
    show(f"objects: {s.days} steps in S3")
    with s3() as (bucket, _):
        uri = f"{bucket.uri}/year"
        with History(uri, storage_options=bucket.options, kappa=s.kappa) as history:
            for day in range(s.days):
                history.append(np.random.default_rng([43, day]).normal(size=s.day_values))
                history.end_step()
            files = history.stats()["files"]
        options = [f"{name}={value}" for name, value in bucket.options.items()]
        rows = []
        for cache in ("empty", "filled"):
            begun = time.perf_counter()
            command = [sys.executable, "-c", FIRST, uri, *options]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            whole = time.perf_counter() - begun
            rows.append({"cache": cache, "files": files, "process": whole, "answer": float(done.stdout)})
        return rows


def ingest(s: Settings) -> list[Row]:
    """Measure ingestion through Spark into a folder and into S3, in turn."""
    with s3() as (bucket, folder):
        (folder / "in").mkdir()
        for number in range(s.ingest_files):
            values = file_values(number, s.ingest_rows)
            write_file(folder / "in" / f"{number:03}.parquet", values, number * s.ingest_rows)
        places = [(f"{place.lower()}-{i}", place) for i in range(2) for place in PLACES]
        return [_ingest(folder / name, place, bucket, s) for name, place in places]


def _ingest(folder: Path, place: str, bucket: ObjectLocation, s: Settings) -> Row:
    show(f"objects: {s.ingest_files * s.ingest_rows:,} rows into a {place}")
    uri, options = _configure(folder, place, bucket)
    (folder / "in").rmdir()
    (folder / "in").symlink_to(folder.parent / "in")
    with ingest_child(folder, 2, "--once") as child:
        child.finish()
    batches, rows = events(folder), s.ingest_files * s.ingest_rows
    seconds = batches[-1]["ended"] - batches[0]["begun"]
    holds = HistoryReader(uri, storage_options=options).n == rows
    return {"place": place, "rows": rows, "seconds": seconds, "rate": rows / seconds, "holds": holds}


def _configure(folder: Path, place: str, bucket: ObjectLocation) -> tuple[str, dict[str, str] | None]:
    """Write a configuration; return the location of the store and its options."""
    store = configure(folder, 0.001, ", max_files = 1")
    if place == "folder":
        return str(store), None
    os.environ[SECRET] = bucket.options["secret_access_key"]
    secret = {"secret_access_key": f"env:{SECRET}", "access_key_id": f"env:{SECRET}_ID"}
    os.environ[f"{SECRET}_ID"] = bucket.options["access_key_id"]
    path, uri = folder / "quantide.toml", f"{bucket.uri}/{folder.name.lower()}"
    options = "\n".join(f'{name} = "{value}"' for name, value in (bucket.options | secret).items())
    text = path.read_text(encoding="utf-8").replace('store = "data"', f'store = "{uri}"')
    path.write_text(f"{text}\n[storage_options]\n{options}\n", encoding="utf-8")
    return f"{uri}/s", bucket.options


def latency(s: Settings) -> list[Row]:
    """Measure small files from their writing to an answer of a reader, one after the other, through S3."""
    show(f"objects: {s.lag_files} files to answers through S3")
    with s3() as (bucket, outer):
        folder, lags = outer / "lag", list[float]()
        uri, options = _configure(folder, "S3", bucket)
        with ingest_child(folder, 2) as child:
            write_file(folder / "in" / "000000.parquet", file_values(0, s.lag_rows), 0)
            child.wait_for(lambda: events(folder))
            with LiveStream(uri, storage_options=options) as live:
                for number in range(1, s.lag_files + 6):
                    time.sleep(float(np.random.default_rng(number).uniform(0.3, 0.8)))
                    path = folder / "in" / f"{number:06}.parquet"
                    written = write_file(path, file_values(number, s.lag_rows), number * s.lag_rows)
                    child.wait_for(lambda: live.answer(0.5, last=100).n and live.n >= (number + 1) * s.lag_rows)  # noqa: B023
                    lags.append(time.monotonic() - written)
            child.finish(stop=True)
    return [{"files": s.lag_files, "rows": s.lag_rows} | spread(lags[5:])]


def context(report: Report) -> Row:
    """Return the rate of ingestion into S3 as a fraction of that into a folder, the best of each."""
    rates = {place: [row["rate"] for row in report.rows["ingest"] if row["place"] == place] for place in PLACES}
    best = {place: max(found) for place, found in rates.items()}
    return {"ratio": best["S3"] / best["folder"]}


PARTS = {"age": age, "question": question, "start": start, "ingest": ingest, "latency": latency}
SUBJECT = Subject("stores in object storage, and costs that do not grow with age", Settings, PARTS, context)
