"""Power loss: acknowledged batches of a durable store survive, whatever unsynced data is lost."""

import json
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
from quantide.history import recent_writer as recent_files
from quantide.store.folder_storage import FolderStorage
from tests.history.crash import KINDS, Crash, Disk, lay_out, recorded
from tests.history.writer_workload import KEYED, SETTINGS, Work, all_of, check_stored, small

STORES: dict[str, dict[str, Any]] = {"plain": SETTINGS, "keyed": KEYED}
STRACE = shutil.which("strace")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch.setattr)
    monkeypatch.setattr(recent_files, "FANOUT", 3)


def work(folder: Path, settings: dict[str, Any], batches: int) -> Disk:
    """Use a durable store from its creation on: appends, steps, compactions, a checkpoint, a vacuum, a second
    writer.
    """
    (folder.parent).mkdir(exist_ok=True)
    with recorded(folder) as disk:
        disk.state.names["."] = disk.state.synced["."] = None
        for numbers in (range(batches // 2), range(batches // 2, batches)):
            doing = Work(str(folder), settings, durable=True)
            for number in numbers:
                disk.begun.append(number)
                doing.append(number)
                disk.done.append(number)
                disk.note(f"done {number}")
                if number % 3 == 2:
                    doing.step(0)
            doing.vacuum(0)
            doing.close(0)
    return disk


def check_crash(crash: Crash, kind: str, folder: Path, rng: np.random.Generator) -> None:
    """Check that any remaining state opens, has every acknowledged batch once, and can be written to."""
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


def check_crashes(disk: Disk, some: int | None, folder: Path, rng: np.random.Generator) -> None:
    crashes = [(crash, kind) for crash in disk.crashes for kind in KINDS]
    chosen = range(len(crashes)) if some is None else sorted(rng.choice(len(crashes), some, replace=False))
    for index in chosen:
        check_crash(*crashes[index], folder / str(index), rng)


@pytest.mark.filterwarnings("ignore::quantide.errors.RepairWarning")
@pytest.mark.parametrize("store", STORES)
def test_a_durable_store(store: str, tmp_path: Path, rng: np.random.Generator) -> None:
    disk = work(tmp_path / "store", STORES[store], 8)
    assert len(disk.crashes) > 300
    assert any("checkpoint.parquet" in crash.after for crash in disk.crashes)
    check_crashes(disk, 60, tmp_path / "lost", rng)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::quantide.errors.RepairWarning")
@pytest.mark.parametrize("store", STORES)
def test_a_durable_store_at_every_moment(store: str, tmp_path: Path, rng: np.random.Generator) -> None:
    check_crashes(work(tmp_path / "store", STORES[store], 8), None, tmp_path / "lost", rng)


def test_nothing_is_torn_in_a_durable_store(tmp_path: Path, rng: np.random.Generator) -> None:
    """No power loss leaves an entry, a checkpoint or a manifest that is named and incomplete."""
    disk = work(tmp_path / "store", SETTINGS, 6)
    for number, crash in enumerate(disk.crashes[-150:]):
        folder = tmp_path / str(number)
        lay_out(crash, "names", folder, rng)
        DeltaTable(folder)
        with History(folder) as history:
            history.open()  # no warning, which would be an error here


def test_the_simulator_finds_a_missing_sync(tmp_path: Path, rng: np.random.Generator, monkeypatch: Any) -> None:
    """Acknowledged batches are lost if entries are named before they are synced, as by Delta's library."""

    def unsynced(storage: FolderStorage, name: str, data: bytes) -> None:
        create(FolderStorage(storage.path), name, data)

    create = FolderStorage.create
    monkeypatch.setattr(FolderStorage, "create", unsynced)
    disk = work(tmp_path / "store", SETTINGS, 6)
    monkeypatch.undo()
    small(monkeypatch.setattr)
    with pytest.raises(AssertionError), pytest.warns(RepairWarning):
        check_crashes(disk, 100, tmp_path / "lost", rng)


def test_files_are_removed_once_others_outlast_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs exist after a lost compaction, also without `durable`."""
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
    monkeypatch.setattr(FolderStorage, "sync_all", lambda storage: order.append(f"flushed {storage.path}"))
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
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the trace of a process that writes a durable store, and the store."""
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
    return folder


@pytest.fixture(scope="module")
def calls(traced: Path) -> list[str]:
    """Return the system calls of a durable store, in order: "sync PATH", "name PATH", "folder PATH", "done N"."""
    lines = joined((traced / "trace").read_text())
    return [call for line in lines if (call := read_call(line, str(traced))) is not None]


def references(entry: Path) -> set[str]:
    """Return the names, without suffix, of the files that an entry of the log refers to."""
    names: list[str] = []
    for line in entry.read_text().splitlines():
        action = json.loads(line)
        names += [action["add"]["path"]] if "add" in action else []
        if action.get("txn", {}).get("appId") == "quantide.recent":  # the epoch and number of the manifest
            names.append("E{}-{}.manifest".format(*divmod(action["txn"]["version"], 1 << 32)))
        if manifest := action.get("commitInfo", {}).get("quantide.manifest"):
            names += [listed["name"] for listed in json.loads(manifest)["entries"]]
    return {name.rpartition("/")[2].rpartition(".")[0] for name in names}


def joined(text: str) -> list[str]:
    """Join the lines of interrupted calls, where they end."""
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
    match = re.match(r"^\d+\s+(\w+)\((.*)\)\s+= (\d+)", line)
    if match is None:
        return None
    name, arguments = match[1], match[2]
    quoted = re.findall(r'"([^"]*)"', arguments)
    if name == "write":
        return f"done {quoted[0].split()[1][:-2]}" if quoted and quoted[0].startswith("acknowledged ") else None
    paths = re.findall(r"<([^>]*)>", arguments) if "sync" in name else quoted[-1:]
    if not paths or not paths[0].startswith(root) or "_quantide/log-" in paths[0]:
        return None
    path = re.sub(r"(#|\.)[0-9a-f]{32}(\.tmp)?$", "", paths[0].removeprefix(root))
    kind = "all" if name == "syncfs" else "sync" if "sync" in name else "folder" if "mkdir" in name else "name"
    return f"{kind} {path}"


def test_the_order_of_system_calls(calls: list[str], traced: Path) -> None:
    """A writer syncs content, its name, its folder, then the entry that refers to it; then it acknowledges.

    An entry need not wait for other files: a compaction of recent files commits while the next append writes its run.
    """
    runs = 0
    assert [call for call in calls if call.startswith("done")] == [f"done {number}" for number in range(12)]
    for index, call in enumerate(calls):
        kind, path = call.split(" ", 1)
        before = calls[:index]
        if kind == "name" and not path.endswith("writer.lock"):
            assert f"sync {path}" in before, f"{path} has its name before its content is synced"
        if kind == "name" and path.endswith(".json"):
            referred = references(traced / path.removeprefix("/"))
            for earlier, other in enumerate(before):
                folder, _, name = other.split(" ", 1)[1].rpartition("/")
                if other.startswith("folder ") or (other.startswith("name ") and name.rpartition(".")[0] in referred):
                    runs += name.endswith(".parquet")
                    synced = f"sync {folder}" in before[earlier:] or any(c.startswith("all") for c in before[earlier:])
                    assert synced, f"{call} before {folder} is synced, which has {other}"
        if kind == "name" and path.endswith("_last_checkpoint"):
            checkpoint = max(i for i, other in enumerate(before) if other.endswith(".checkpoint.parquet"))
            assert "sync /new/store/_delta_log" in before[checkpoint:]
        if kind == "done":
            entries = [i for i, other in enumerate(before) if re.fullmatch(r"name .*/\d{20}\.json", other)]
            (entry,) = (i for i in entries if f'batch:int:{path}"' in (traced / before[i][6:]).read_text())
            assert "sync /new/store/_delta_log" in before[entry:]
    assert runs == 12, "every append's run was found in the trace before its entry"


def test_all_folders_are_named_for_good(calls: list[str]) -> None:
    """A writer syncs all folders that it made, also those above the store."""
    folders = [call.split(" ", 1)[1] for call in calls if call.startswith("folder ")]
    assert {"/new", "/new/store", "/new/store/_delta_log", "/new/store/runs", "/new/store/_quantide"} <= {*folders}
    for path in folders:
        index = calls.index(f"folder {path}")
        parent = path.rpartition("/")[0]
        assert any(call in (f"sync {parent}", "all /new/store") for call in calls[index : calls.index("done 0")]), path


def test_the_checkpoint_is_written(calls: list[str]) -> None:
    names = [call for call in calls if call.startswith("name ")]
    assert any(call.endswith("checkpoint.parquet") for call in names)
    assert any(call.endswith("_last_checkpoint") for call in names)
