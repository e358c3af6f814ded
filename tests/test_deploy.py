"""docs/deploy.md: its commands, configurations and programs work as they are written."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import parse_qs

import numpy as np
import obstore
import pytest

from quantide import History
from quantide.cli.command_line import COMMANDS
from quantide.config import read_config
from quantide.history import HistoryReader
from quantide.live import LiveStream
from quantide.server.metrics import HEALTH_GAUGES, STREAM_GAUGES
from quantide.store.delta_library import DeltaTable
from quantide.store.file_names import FOLDERS
from quantide.store.log_entry import LogEntry
from tests.object_servers.exchange import Request
from tests.object_servers.fault_proxy import FaultProxy
from tests.object_servers.object_location import ObjectLocation
from tests.object_servers.servers import ObjectServer, aws_names

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS / "deploy.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```", TEXT, re.S | re.M)
SCRIPTS = [body for kind, body in BLOCKS if kind == "bash"]
LOG = "_delta_log"
NOT_COPIED = ("_quantide/checkpoints/", "_quantide/staging/", "_quantide/writer.")


def block(kind: str) -> str:
    [found] = [body for name, body in BLOCKS if name == kind]
    return found


def script(mark: str) -> str:
    [found] = [body for body in SCRIPTS if mark in body]
    return found


def run(text: str, folder: Path, **env: str) -> str:
    """Run a script of the page as a reader would: the next line only if the one before succeeded."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eu", "-c", text],
        cwd=folder,
        env=os.environ | {"PATH": path} | env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


@contextmanager
def writing(path: str, options: dict[str, str] | None = None) -> Iterator[Callable[[int], None]]:
    """A writer that appends, merges and vacuums until the end of the block. The function waits for its next commits."""
    ready, stop, errors = threading.Semaphore(0), threading.Event(), list[BaseException]()

    def write() -> None:
        rng = np.random.default_rng(1)
        try:
            with History(path, eps=0.05, kappa=2, window="1 hour", storage_options=options) as history:
                while not stop.is_set():
                    history.append(rng.integers(0, 10**6, 500).astype(float))
                    if history.n % 2000 == 0:
                        history.end_step()
                        history.vacuum()
                    ready.release()
        except BaseException as error:
            errors.append(error)
            stop.set()

    def wait(commits: int) -> None:
        while ready.acquire(blocking=False):  # of earlier commits
            pass
        for _ in range(commits + 1):  # the first may have been under way
            assert ready.acquire(timeout=120), errors

    thread = threading.Thread(target=write)
    thread.start()
    try:
        wait(5)
        yield wait
    finally:
        stop.set()
        thread.join()
    assert errors == []


def check_copy(path: str, options: dict[str, str] | None = None) -> None:
    """A copy is complete at its version: every file, every count, every window; and it can be written."""
    with HistoryReader(path, storage_options=options) as reader:
        version, n = reader.version, reader.n
        assert n >= 2500
        assert reader.verify().values == n
    with LiveStream(path, follow=False, storage_options=options) as live:
        assert live.answer(0.5, within="1 hour", mode="exact").n == n
    with History(path, storage_options=options) as history:
        history.append([1.0])
        assert (history.n, history.table.repairs) == (n + 1, [])
        assert history.version > version


@pytest.mark.parametrize("is_remote", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["folder", "bucket"])
def test_a_copy_in_the_order_of_the_page_is_complete(is_remote: bool, tmp_path: Path, s3_store: ObjectLocation) -> None:
    """The writer commits between any two steps, and removes what it can in between."""
    source, target = tmp_path / "store", ObjectLocation(f"{s3_store.uri}/copy", s3_store.options)
    store = ObjectLocation(f"{s3_store.uri}/store", s3_store.options)
    place, options = (store.uri, store.options) if is_remote else (str(source), None)
    with writing(place, options) as wait:
        for of_log in (False, True, False):
            for name, content in list_content(store.open() if is_remote else source):
                if name.startswith(LOG) == of_log and not name.startswith(NOT_COPIED) and "_last_check" not in name:
                    obstore.put(target.open(), name, content)
            wait(3)
    check_copy(target.uri, target.options)


def list_content(store: Path | obstore.store.ObjectStore) -> Iterator[tuple[str, bytes]]:
    """Yield the files that a store had when it was listed, with their content, unless it has vanished since."""
    if isinstance(store, Path):
        names = [str(path.relative_to(store)) for path in sorted(store.rglob("*")) if path.is_file()]
        for name in names:
            if not name.endswith(".tmp") and "#" not in name and (store / name).exists():
                yield name, (store / name).read_bytes()
    else:
        for entry in [entry for page in obstore.list(store) for entry in page]:
            try:
                yield entry["path"], bytes(obstore.get(store, entry["path"]).bytes())
            except FileNotFoundError:
                continue


def test_a_log_that_is_copied_last_names_files_that_are_missing(tmp_path: Path) -> None:
    """A copy in the obvious order, with the log last, names files that are missing."""
    source, target = tmp_path / "store", tmp_path / "copy"
    with writing(str(source)) as wait:
        for of_log in (False, True):
            for name, content in list_content(source):
                if name.startswith(LOG) == of_log and not name.startswith(NOT_COPIED):
                    (target / name).parent.mkdir(parents=True, exist_ok=True)
                    (target / name).write_bytes(content)
            wait(3)
    assert not all(Path(path).exists() for path in DeltaTable(str(target)).file_uris())


def test_rsync_of_a_store_that_is_being_written(tmp_path: Path) -> None:
    needs("rsync")
    (tmp_path / "data").mkdir()
    with writing(str(tmp_path / "data" / "latency")):
        assert "values" in run(script("rsync"), tmp_path)
    check_copy(str(tmp_path / "backup" / "latency"))
    run("rm -r backup/latency/_quantide/writer.lock", tmp_path)
    run(script("mv data/latency"), tmp_path)
    check_copy(str(tmp_path / "data" / "latency"))


def in_bucket(text: str, server: ObjectServer) -> tuple[str, dict[str, str], dict[str, ObjectLocation]]:
    """Return a script with buckets of a server in place of those of the page, the environment, and the buckets."""
    buckets = {name: server.new_location() for name in ("bucket", "backup")}
    for name, location in buckets.items():
        text = text.replace(f"s3://{name}/", f"{location.uri}/")
    return text, {**aws_names(server.options), "AWS_DEFAULT_REGION": server.options["region"]}, buckets


@pytest.mark.slow
def test_aws_sync_of_a_store_that_is_being_written(tmp_path: Path, s3_server: ObjectServer) -> None:
    needs("aws")
    text, env, buckets = in_bucket(script("to=s3://backup"), s3_server)
    location = buckets["bucket"]
    with writing(f"{location.uri}/quantide/latency", location.options):
        assert "values" in run(text, tmp_path, **env)
    check_copy(f"{buckets['backup'].uri}/latency", location.options)


def test_a_store_moves_to_a_bucket_and_back(tmp_path: Path, s3_server: ObjectServer) -> None:
    needs("aws")
    with writing(str(tmp_path / "data" / "latency")):
        pass
    text, env, buckets = in_bucket(script("aws s3 sync data"), s3_server)
    run(text, tmp_path, **env)
    check_copy(f"{buckets['bucket'].uri}/quantide/latency", s3_server.options)
    shutil.rmtree(tmp_path / "data")
    run(script("aws s3 sync s3://bucket").replace("s3://bucket/", f"{buckets['bucket'].uri}/"), tmp_path, **env)
    check_copy(str(tmp_path / "data" / "latency"))


def test_the_registry_is_copied_while_it_is_open(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "_server"
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "registry.db") as registry:
        registry.execute("PRAGMA journal_mode=WAL")
        registry.execute("CREATE TABLE tokens (id TEXT)")
        registry.execute("INSERT INTO tokens VALUES ('a')")
        registry.commit()
        run(script("sqlite3"), tmp_path)
    copy = tmp_path / "backup" / "registry.db"
    assert sqlite3.connect(copy).execute("SELECT id FROM tokens").fetchall() == [("a",)]
    assert copy.stat().st_mode & 0o077 == 0
    registry.close()


def test_every_folder_of_a_store_is_copied_or_named() -> None:
    """A new folder must be considered here: can a copy do without it?"""
    left_out = {folder for folder in FOLDERS if f"/{folder} " in script("rsync") and f"/{folder}" != f"/{LOG}"}
    assert left_out == {"_quantide/checkpoints", "_quantide/staging"}


README = (DOCS.parent / "README.md").read_text(encoding="utf-8")
PROGRAMS = [block("python"), *re.findall(r"^```python\n(from .*?)^```", README, re.S | re.M)]


@pytest.mark.parametrize("program", PROGRAMS, ids=["deploy", "README"])
def test_programs_run_on_s3(program: str, tmp_path: Path, s3_server: ObjectServer) -> None:
    text, env, _ = in_bucket(program, s3_server)
    text = text.replace("eu-central-1", s3_server.options["region"])
    (tmp_path / "program.py").write_text(text)
    assert run("python program.py", tmp_path, **env).startswith("12.5 (rank 2 to 2")


def test_the_configuration_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "streams.toml"
    path.write_text(block("toml"))
    monkeypatch.setenv("QUANTIDE_KEY_ID", "id of a key")
    monkeypatch.setenv("QUANTIDE_SECRET", "a secret")
    monkeypatch.setenv("QUANTIDE_STATE", str(tmp_path / "state"))
    config = read_config(path)
    assert config.streams["latency"].folder == "s3://bucket/quantide/latency"
    assert config.storage_options["secret_access_key"] == "a secret"
    assert config.server.state.startswith(str(tmp_path / "state"))
    assert "a secret" not in repr(config)


def test_the_unit_and_the_commands_are_valid() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block("ini"))
    lines = [unit["Service"]["ExecStart"], *(body for kind, body in BLOCKS if not kind)]
    commands = [line.split("quantide ", 1)[1].split() for text in lines for line in text.splitlines()]
    assert [command[0] for command in commands] == ["run", "doctor", "ingest", "serve"]
    for name, *arguments in commands:
        COMMANDS[name].make_parser().parse_args(arguments)
    assert unit["Service"]["KillMode"] == "mixed"


def test_metrics_of_the_page_exist() -> None:
    api = (DOCS / "api.md").read_text(encoding="utf-8")
    known = {f"quantide_stream_{name}" for name in (*(short for short, _ in STREAM_GAUGES.values()), *HEALTH_GAUGES)}
    named = set(re.findall(r"quantide_[a-z_]+", TEXT))
    assert named >= {"quantide_stream_lag_seconds", "quantide_stream_bad_rows"}
    assert named <= known | set(re.findall(r"`(quantide_[a-z_]+)`", api))


def action(request: Request) -> str:
    """Return the right that S3 requires for a request."""
    query = parse_qs(request.query, keep_blank_values=True)
    if request.method in ("GET", "HEAD"):
        return "s3:ListBucket" if "list-type" in query else "s3:GetObject"
    if request.method == "DELETE":
        return "s3:AbortMultipartUpload" if "uploadId" in query else "s3:DeleteObject"
    return "s3:PutObject"


def test_the_rights_are_enough_and_none_is_superfluous(s3_server: ObjectServer, fault_proxy: FaultProxy) -> None:
    """A whole life of a store: creation, appends, merges, large files, retention, vacuum, restore, readers."""
    objects, lists = json.loads(block("json"))["Statement"]
    bucket = s3_server.new_location()
    location = fault_proxy.redirect(bucket)
    path, options = f"{location.uri}/quantide/latency", {**location.options, "cache_bytes": "0"}
    with History(path, kappa=1, retention=4, window="1 hour", storage_options=options) as history:
        for step in range(8):
            history.append(np.random.default_rng(step).random(400_000 if step == 7 else 1000))
            history.end_step()
        history.vacuum(older_than_hours=0, grace_hours=None)
        history.restore()
    writes = {action(request) for request in fault_proxy.log}
    assert writes <= {*objects["Action"], lists["Action"]}
    assert {*objects["Action"], lists["Action"]} - writes == {"s3:AbortMultipartUpload"}  # of an upload that failed
    for request in fault_proxy.log:
        if action(request) == "s3:ListBucket":
            [prefix] = parse_qs(request.query)["prefix"]
            assert fnmatchcase(prefix, lists["Condition"]["StringLike"]["s3:prefix"]), request
        else:
            names = [name.partition("/")[2].partition("/")[2] for name in request.path.splitlines()]
            assert all(fnmatchcase(name, "quantide/*") for name in names), request
    fault_proxy.clear()
    with LiveStream(path, follow=False, storage_options=options) as live:
        live.poll()
        live.answers([0.5, 0.99], mode="exact")
        live.answer(0.5, within="30 min")
    assert {action(request) for request in fault_proxy.log} == {"s3:GetObject", "s3:ListBucket"}


def test_names_of_a_restored_store_can_be_those_of_lost_versions(tmp_path: Path) -> None:
    """A restored store can reuse names of lost versions, so caches must be emptied."""
    store, copy = tmp_path / "store", tmp_path / "copy"
    with History(store) as history:
        history.append([1.0])
    shutil.copytree(store, copy)
    added = []
    for folder, value in ((store, 2.0), (copy, 3.0)):
        with History(folder) as history:
            history.append([value])
            data = history.table.log.read_entry(history.version)
        added.append(LogEntry.read(data).added_paths)
    assert added[0] == added[1] != []
