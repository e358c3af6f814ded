"""Loss of power: what a durable store has acknowledged is there afterwards, whatever was not synced is lost."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from deltalake import DeltaTable

from quantide.errors import RepairWarning
from quantide.history import History, HistoryReader
from quantide.history import recent as recent_files
from quantide.store import disk
from tests.history.crash import KINDS, Crash, Disk, lay_out, recorded
from tests.history.work import KEYED, SETTINGS, Work, all_of, check_stored, small

STORES: dict[str, dict[str, Any]] = {"plain": SETTINGS, "keyed": KEYED}
STRACE = shutil.which("strace")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch.setattr)
    monkeypatch.setattr(recent_files, "FAN", 3)


def work(folder: Path, settings: dict[str, Any], batches: int) -> Disk:
    """A durable store from its first moment on: appends, steps, merges, a checkpoint, a vacuum, a second writer."""
    (folder.parent).mkdir(exist_ok=True)
    with recorded(folder) as found:
        found.state.names["."] = found.state.synced["."] = None
        for numbers in (range(batches // 2), range(batches // 2, batches)):
            doing = Work(str(folder), settings, durable=True)
            for number in numbers:
                found.begun.append(number)
                doing.append(number)
                found.done.append(number)
                found.note(f"done {number}")
                if number % 3 == 2:
                    doing.step(0)
            doing.vacuum(0)
            doing.close(0)
    return found


def check_crash(crash: Crash, kind: str, folder: Path, rng: np.random.Generator) -> None:
    """Whatever is left opens, has every batch that was acknowledged, once, and can be written to."""
    lay_out(crash, kind, folder, rng)
    perhaps = [number for number in crash.begun if number not in crash.done]
    if crash.done:
        assert set(np.mod(all_of(crash.done), 1000)) <= {*crash.done}
        assert HistoryReader(folder).n >= len(all_of(crash.done))
    settings = {} if crash.done else SETTINGS
    history = History(folder, **settings)
    try:
        history.open()
    except Exception as error:
        raise AssertionError(f"after {crash.after}, {kind}: {error}") from error
    here = check_stored(folder, crash.done, perhaps)
    if "host" not in history.settings.keys:
        history.append(np.full(3, 77.0), batch_id="after")
        history.end_step()
    assert history.verify().values == history.n >= len(all_of(here))
    history.close()
    assert len(pl.read_delta(str(folder))) == history.n


def check_crashes(found: Disk, some: int | None, folder: Path, rng: np.random.Generator) -> None:
    crashes = [(crash, kind) for crash in found.crashes for kind in KINDS]
    chosen = range(len(crashes)) if some is None else sorted(rng.choice(len(crashes), some, replace=False))
    for place in chosen:
        check_crash(*crashes[place], folder / str(place), rng)


@pytest.mark.filterwarnings("ignore::quantide.errors.RepairWarning")
@pytest.mark.parametrize("store", STORES)
def test_a_durable_store(store: str, tmp_path: Path, rng: np.random.Generator) -> None:
    found = work(tmp_path / "store", STORES[store], 8)
    assert len(found.crashes) > 300
    assert any("checkpoint.parquet" in crash.after for crash in found.crashes)
    check_crashes(found, 60, tmp_path / "lost", rng)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::quantide.errors.RepairWarning")
@pytest.mark.parametrize("store", STORES)
def test_a_durable_store_at_every_moment(store: str, tmp_path: Path, rng: np.random.Generator) -> None:
    check_crashes(work(tmp_path / "store", STORES[store], 8), None, tmp_path / "lost", rng)


def test_nothing_is_torn_in_a_durable_store(tmp_path: Path, rng: np.random.Generator) -> None:
    """No loss of power leaves an entry, a checkpoint or a manifest that is named and not whole."""
    found = work(tmp_path / "store", SETTINGS, 6)
    for number, crash in enumerate(found.crashes[-150:]):
        folder = tmp_path / str(number)
        lay_out(crash, "names", folder, rng)
        DeltaTable(folder)
        with History(folder) as history:
            history.open()  # no warning, which would be an error here


def test_the_simulator_finds_a_missing_sync(tmp_path: Path, rng: np.random.Generator, monkeypatch: Any) -> None:
    """With entries that are named before they are synced, as Delta's library does it, acknowledged batches are lost."""

    def unsynced(path: str, data: bytes, durable: bool) -> None:
        put(path, data, False)

    put = disk.put_file
    monkeypatch.setattr("quantide.store.log.put_file", unsynced)
    found = work(tmp_path / "store", SETTINGS, 6)
    monkeypatch.undo()
    small(monkeypatch.setattr)
    with pytest.raises(AssertionError), pytest.warns(RepairWarning):
        check_crashes(found, 100, tmp_path / "lost", rng)


def test_files_are_removed_once_others_outlast_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without `durable`: a merge that is lost again must find its inputs."""
    order: list[str] = []
    remove = os.remove

    def removed(path: Any) -> None:
        order.append("removed")
        remove(path)

    doing = Work(str(tmp_path), SETTINGS)
    for number in range(3):
        doing.append(number)
    doing.step(0)
    monkeypatch.setattr(os, "remove", removed)
    monkeypatch.setattr("quantide.history.vacuum.sync_filesystem", lambda path: order.append(f"flushed {path}"))
    doing.vacuum(0)
    doing.close(0)
    assert order[0] == f"flushed {tmp_path}"
    assert order.count("removed") > 5


# The order of system calls

CHILD = """if True:
    import os
    import numpy as np
    from quantide.history import History
    history = History({path!r}, eps=0.05, keys="host", durable=True)
    for number in range(12):
        history.append(np.arange(5.0) + number, key="a", batch_id=number)
        os.write(1, b"acknowledged %d\\n" % number)
    history.close()
"""
CALLS = "fsync,fdatasync,syncfs,link,linkat,rename,renameat,renameat2,mkdir,mkdirat,write"


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a durable store asks of the system, in order: "sync PATH", "name PATH", "folder PATH", "done N"."""
    if STRACE is None:
        pytest.skip(
            "strace is not installed: the order of system calls is not checked (Debian: apt-get install strace)"
        )
    folder = tmp_path_factory.mktemp("strace")
    code, trace = CHILD.format(path=str(folder / "new" / "store")), folder / "trace"
    command = [STRACE, "-f", "-y", "-s", "400", "-o", str(trace), "-e", f"trace={CALLS}", sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if "ptrace" in ended.stderr and ended.returncode:
        pytest.skip(f"strace may not trace here: {ended.stderr.strip()}")
    assert ended.returncode == 0, ended.stderr
    return [call for line in joined(trace.read_text()) if (call := read_call(line, str(folder))) is not None]


def joined(text: str) -> list[str]:
    """Lines of calls that others interrupted are put together, where they end."""
    out, begun = [], dict[str, str]()
    for line in text.splitlines():
        pid = line.split()[0]
        if line.endswith("<unfinished ...>"):
            begun[pid] = line.removesuffix("<unfinished ...>")
        elif "resumed>" in line:
            out.append(begun.pop(pid) + line.partition("resumed>")[2])
        else:
            out.append(line)
    return out


def read_call(line: str, root: str) -> str | None:
    found = re.match(r"^\d+\s+(\w+)\((.*)\)\s+= (\d+)", line)
    if found is None:
        return None
    name, arguments = found[1], found[2]
    quoted = re.findall(r'"([^"]*)"', arguments)
    if name == "write":
        return f"done {quoted[0].split()[1][:-2]}" if quoted and quoted[0].startswith("acknowledged ") else None
    paths = re.findall(r"<([^>]*)>", arguments) if "sync" in name else quoted[-1:]
    if not paths or not paths[0].startswith(root) or "_quantide/log-" in paths[0]:
        return None
    path = re.sub(r"(#|\.)[0-9a-f]{32}(\.tmp)?$", "", paths[0].removeprefix(root))
    kind = "all" if name == "syncfs" else "sync" if "sync" in name else "folder" if "mkdir" in name else "name"
    return f"{kind} {path}"


def test_the_order_of_system_calls(calls: list[str]) -> None:
    """Content, then its name, then its folder, then the entry that counts on it; then it is acknowledged."""
    assert [call for call in calls if call.startswith("done")] == [f"done {number}" for number in range(12)]
    for place, call in enumerate(calls):
        kind, path = call.split(" ", 1)
        before = calls[:place]
        if kind == "name" and not path.endswith("writer.lock"):
            assert f"sync {path}" in before, f"{path} has its name before its content is synced"
        if kind == "name" and path.endswith(".json"):
            for earlier, other in enumerate(before):
                if other.startswith(("name ", "folder ")) and not other.endswith(".json"):
                    folder = other.split(" ", 1)[1].rpartition("/")[0]
                    synced = f"sync {folder}" in before[earlier:] or any(c.startswith("all") for c in before[earlier:])
                    assert synced, f"{call} before {folder} is synced, which has {other}"
        if kind == "name" and path.endswith("_last_checkpoint"):
            checkpoint = max(i for i, other in enumerate(before) if other.endswith(".checkpoint.parquet"))
            assert "sync /new/store/_delta_log" in before[checkpoint:]
        if kind == "done":
            entry = max(i for i, other in enumerate(before) if re.fullmatch(r"name .*/\d{20}\.json", other))
            assert "sync /new/store/_delta_log" in before[entry:]


def test_all_folders_are_named_for_good(calls: list[str]) -> None:
    """Also those above the store, which it made itself."""
    made = [call.split(" ", 1)[1] for call in calls if call.startswith("folder ")]
    assert {"/new", "/new/store", "/new/store/_delta_log", "/new/store/runs", "/new/store/_quantide"} <= {*made}
    for path in made:
        place = calls.index(f"folder {path}")
        parent = path.rpartition("/")[0]
        assert any(call in (f"sync {parent}", "all /new/store") for call in calls[place : calls.index("done 0")]), path


def test_the_checkpoint_is_written(calls: list[str]) -> None:
    names = [call for call in calls if call.startswith("name ")]
    assert any(call.endswith("checkpoint.parquet") for call in names)
    assert any(call.endswith("_last_checkpoint") for call in names)
