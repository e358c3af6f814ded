"""Hostile stores: any content with right checksums leads to named errors or answers, and to nothing else.

Nothing outside the store changes, no length exhausts memory, no name leads elsewhere. `make test` tries a part of the
changes, chosen by a seed; the slow tests try all. hostile_stores.py has the changes and the actions.
"""

import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantide import History
from quantide.errors import CorruptBytesError, QuantideError, StorageError
from quantide.history import recent_writer as written
from quantide.history.future_rows import repair_future_rows
from quantide.history.store_repair import repair
from quantide.live import LiveStream
from quantide.store.file_names import FileName
from quantide.store.folder_storage import FolderStorage, check_tree
from quantide.store.index_file import IndexFile
from quantide.store.ingest_log import BatchRecord, FileRecord, IngestedFile, IngestLog
from quantide.store.json_fields import parse_json
from quantide.store.log_entry import MANIFEST, LogEntry, encode_entry
from quantide.store.recent_file import RecentFile
from quantide.store.recent_manifest import RecentManifest
from quantide.store.store_settings import PROPERTY, StoreSettings
from quantide.store.stored_rows import keys_from_bytes
from quantide.store.writable_table import WritableTable
from tests.history import hostile_stores
from tests.history.hostile_stores import NAMES, Box, Pieces, attempt, changes, dump, sealed, unsealed
from tests.live.live_model import small
from tests.oracle import exact_quantile
from tests.sampling import one_in

Rng = np.random.Generator
Change = tuple[str, bytes]
Made = dict[bool, Path]
Files = dict[Path, bytes]  # to be written, whole

# A writer that repairs something warns about it.
pytestmark = pytest.mark.filterwarnings("ignore::quantide.errors.RepairWarning")

KINDS = ("keyed", "plain")
SECRET = "outside"


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    """Make small files with summaries and pages; remove retired recent files at once."""
    with small(later_rows=30), pytest.MonkeyPatch.context() as patch:
        patch.setattr(written, "GRACE_SECONDS", -1)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, _small: None) -> Made:
    folder = tmp_path_factory.mktemp("made")
    for kind in KINDS:
        hostile_stores.grow(folder / kind, kind == "keyed")
    return {kind == "keyed": folder / kind for kind in KINDS}


@pytest.fixture(params=KINDS)
def keyed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "keyed")


@pytest.fixture
def box(made: Made, keyed: bool, tmp_path: Path) -> Box:
    return Box(tmp_path, made[keyed])


@pytest.fixture(params=["some", pytest.param("all", marks=pytest.mark.slow)])
def share(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def chosen(cases: Iterator[Any], share: str, some: int, rng: Rng) -> list[Any]:
    """Choose some of the cases by the seed, or all of them."""
    all_cases = list(cases)
    return all_cases if share == "all" else [all_cases[i] for i in sorted(rng.permutation(len(all_cases))[:some])]


def one(folder: Path, pattern: str) -> Path:
    """Return the last file of a kind; of manifests, the current one."""
    return max(folder.glob(pattern), key=lambda path: [int(n) for n in re.findall("[0-9]+", path.name)])


def refusal(read: Callable[[], Any], name: str) -> bool:
    """Return True if a call is refused by an error that names the file."""
    try:
        read()
    except CorruptBytesError as error:
        message = str(error)
    else:
        return False
    assert name in message
    return True


# --- files, each by itself ----------------------------------------------------------------------------------


def use_side(data: bytes) -> None:
    index = IndexFile(data, "x.side")
    for i in range(len(index.counts)):
        attempt(lambda: index.read_summary(i))  # noqa: B023
        attempt(lambda: index.read_fences(i))  # noqa: B023
    for call in (lambda: index.total, lambda: index.tuples, index.check):
        attempt(call)


def use_recent(data: bytes) -> None:
    file = RecentFile(data, "x.recent")
    for key_index in (None, 0, len(file.keys) - 1):
        lane = file.row_range(key_index)
        for column in (file.values, file.times, file.numbers):
            attempt(lambda: column(lane))  # noqa: B023
        for filter in (None, *file.info.filters):
            attempt(lambda: file.summary(key_index, filter))  # noqa: B023
            attempt(lambda: filter and file.satisfies(lane, filter))  # noqa: B023
    attempt(file.rows)
    attempt(file.order)
    attempt(file.check)


def file_changes(data: bytes, rng: Rng) -> Iterator[Change]:
    """Change an index file or a recent file: other fields, offsets of sections, contents, keys, and random bytes."""
    pieces = Pieces(data)
    for label, about in changes(pieces.header["about"]):
        yield f"about {label}", pieces.packed(about)
    for label, header in changes(pieces.header):
        yield f"header {label}", pieces.with_header(dump(header).encode())
    for name, section in pieces.sections.items():
        yield f"no {name}", pieces.packed(**{name: None})
        for label, content in hostile_stores.section_changes(name, section, rng):
            yield label, pieces.packed(**{name: content})
    for label, keys in hostile_stores.key_columns():
        yield label, pieces.packed(keys=keys)
    header = dump(pieces.header).encode()
    for number in range(40):
        yield f"random header {number}", pieces.with_header(hostile_stores.flipped(header, rng))
    yield "deep", pieces.with_header(b"[" * 10**6)
    yield "deep about", pieces.with_header(header.replace(b'"about": {', b'"about": {"a": ' + b"[" * 10**6))


@pytest.mark.parametrize("kind", ["side", "recent"])
def test_files_of_sections(kind: str, made: Made, keyed: bool, share: str, rng: Rng) -> None:
    """Readers check every length and offset in a header before they use it."""
    use = use_side if kind == "side" else use_recent
    data = one(made[keyed], f"_quantide/{kind}/*.{kind}").read_bytes()
    use(Pieces(data).packed())
    cases = chosen(file_changes(data, rng), share, 500, rng)
    with hostile_stores.bounded_memory():
        refused = [refusal(lambda: use(changed), f"x.{kind}") for _, changed in cases]  # noqa: B023
    assert sum(refused) > len(cases) / 2


@pytest.mark.parametrize("wrong", ["compressed keys", "keys that end elsewhere", "keys of dictionary", "keys of nulls"])
def test_keys_that_need_more_room_than_they_take(wrong: str) -> None:
    with hostile_stores.bounded_memory(), pytest.raises(ValueError, match="its keys"):
        keys_from_bytes(memoryview(dict(hostile_stores.key_columns())[wrong]))


def test_rows_with_the_same_number(made: Made) -> None:
    """Rows of a file in arrival order: a duplicated row number would hide another row."""
    pieces = Pieces(one(made[True], "_quantide/recent/*.recent").read_bytes())
    numbers = pieces.sections["numbers"]
    file = RecentFile(pieces.packed(numbers=numbers[:4] * 2 + numbers[8:]), "x.recent")
    for call in (file.order, file.rows, file.check):
        with pytest.raises(CorruptBytesError, match="two rows have the same number"):
            call()


def test_sections_that_overlap(made: Made) -> None:
    pieces = Pieces(one(made[True], "_quantide/side/*.side").read_bytes())
    header = hostile_stores.put(pieces.header, ("sections", "ranks"), pieces.header["sections"]["values"])
    with pytest.raises(CorruptBytesError, match="do not begin where"):
        IndexFile(pieces.with_header(dump(header).encode()), "x.side")


@pytest.mark.parametrize("wrong", ["NaN", "[-Infinity]", '{"a": 1, "a": 2}', "deep", '"12345678"', '"', b"\xff"])
def test_json_that_is_refused(wrong: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json("[" * 10**5 if wrong == "deep" else wrong, 9 if len(wrong) == 10 else 10**6)


def test_manifests(made: Made, keyed: bool, share: str, rng: Rng) -> None:
    text = one(made[keyed], "_quantide/recent/*.manifest").read_text()
    document = unsealed(text)
    assert RecentManifest.from_json(sealed(document), "x") == RecentManifest.from_json(text, "x")
    random = (hostile_stores.flipped(dump(document)[:-1].encode(), rng).decode(errors="replace") for _ in range(200))
    cases = [(label, sealed(changed)) for label, changed in changes(document) if isinstance(changed, dict)]
    cases += [("random", hostile_stores.sealed_text(found)) for found in random]
    cases += [("deep", hostile_stores.sealed_text("[" * 10**6)), ("deep", hostile_stores.sealed_text('{"a":' * 10**6))]
    texts = [text for _, text in chosen(iter(cases), share, 800, rng)]
    taken = [text for text in texts if not refusal(lambda: RecentManifest.from_json(text, "x.manifest"), "x.manifest")]  # noqa: B023
    assert len(taken) < len(texts) / 2
    for text in taken:
        found = RecentManifest.from_json(text, "x")
        assert RecentManifest.from_json(found.to_json(), "x") == found


def test_a_large_manifest_is_not_read() -> None:
    """A file can claim to be large and be empty."""
    with pytest.raises(CorruptBytesError, match="bytes"):
        RecentManifest.read(_Huge(), "x.manifest")


class _Huge:
    """Bytes that must not be read."""

    def __len__(self) -> int:
        return 2**40

    def __bytes__(self) -> bytes:
        raise AssertionError("it was read")


def test_settings(made: Made, keyed: bool, share: str, rng: Rng) -> None:
    document = asdict(History(made[keyed]).settings) | {"version": 2}
    document = json.loads(dump(document))
    assert StoreSettings.from_json(dump(document)) == History(made[keyed]).settings
    texts = [dump(changed) for _, changed in changes(document)]
    texts += [hostile_stores.flipped(dump(document).encode(), rng).decode(errors="replace") for _ in range(200)]
    texts += ["[" * 10**6, '{"version": 2, "version": 2}', dump(document | {"window": "9" * 5000})]
    refused = 0
    for text in chosen(iter(texts), share, 500, rng):
        try:
            settings = StoreSettings.from_json(text)
        except QuantideError:
            refused += 1
        else:
            assert StoreSettings.from_json(settings.to_json()) == settings
            assert settings.span is None or settings.span > 0
    assert refused > 250


def test_records_of_the_ledger(made: Made, tmp_path: Path, share: str, rng: Rng) -> None:
    """Records, and lines of files, of one batch and of several in a file."""
    folder = tmp_path / "_quantide" / "sources"
    folder.mkdir(parents=True)
    lines = [json.loads(line) for line in one(made[True], "_quantide/sources/c0-0-*").read_text().splitlines()][:3]

    def cases() -> Iterator[str]:
        for number, line in enumerate(lines):
            for _, changed in changes(line):
                yield "".join(dump(other) + "\n" for other in [*lines[:number], changed, *lines[number + 1 :]])
        good = "".join(dump(line) + "\n" for line in lines).encode()
        for _ in range(200):
            yield hostile_stores.flipped(good, rng).decode(errors="replace")
        yield from ("", "\n", "[" * 10**6 + "\n", dump(lines[1]) + "\n", "null\n", good.decode()[:-1], "\0" * 10**6)

    for text in chosen(cases(), share, 500, rng):
        (folder / "c0-0.jsonl").write_text(text, errors="surrogatepass")
        if not refusal(lambda: IngestLog(FolderStorage(str(tmp_path)), lambda _: True), "c0-0.jsonl"):
            ledger = IngestLog(FolderStorage(str(tmp_path)), lambda _: True)
            assert all(name.startswith("c0-") and "/" not in name for name in ledger.quarantined_rows)
            ledger.clean()
            ledger.write(BatchRecord("c0", 1))
    assert [path.name for path in tmp_path.iterdir()] == ["_quantide"]


# --- names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:30])
def test_a_name_that_leads_elsewhere(name: str, made: Made, tmp_path: Path) -> None:
    """Readers build no path from a hostile name in a manifest, the log or an ingest log."""
    document = unsealed(one(made[True], "_quantide/recent/*.manifest").read_text())
    document["entries"][0]["name"] = name
    with pytest.raises(CorruptBytesError, match="not the name of a recent file"):
        RecentManifest.from_json(sealed(document), "x")
    assert FileName.parse(name) in (None, FileName.parse("runs/L0-S1-1-E1-1-P0.parquet"))
    for field in ("held", "settled"):
        record = replace(BatchRecord("c0", 0), **{field: (name,)})  # type: ignore[arg-type]
        (tmp_path / "_quantide/sources").mkdir(parents=True, exist_ok=True)
        (tmp_path / "_quantide/sources/c0-0.jsonl").write_bytes(record.to_lines())
        with pytest.raises(CorruptBytesError, match="not the name of a file of the quarantine"):
            IngestLog(FolderStorage(str(tmp_path)), lambda _: True)


@pytest.mark.parametrize("name", ["../x", "../outside/E1-1.recent", "_quantide/recent/../../../x"])
def test_a_manifest_removes_nothing_outside(name: str, box: Box, keyed: bool) -> None:
    """The entry is old: a writer that believed it would remove that file with the next append."""
    store = box.reset()
    path = one(store, "_quantide/recent/*.manifest")
    document = unsealed(path.read_text())
    document["entries"][0]["name"] = name
    path.write_text(sealed(document))
    tamper_with_copies(store, sealed(document))
    with pytest.raises(CorruptBytesError, match="not the name of a recent file"):
        LiveStream(store, follow=False)
    hostile_stores.exercise(store, keyed)
    box.check()


def tamper_with_copies(store: Path, text: str) -> None:
    """Make this the only copy of a manifest in the log."""
    for entry in (store / "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in entry.read_text().splitlines()]
        if MANIFEST in lines[0].get("commitInfo", {}):
            entry.write_bytes(
                hostile_stores.sealed_entry([hostile_stores.put(lines[0], ("commitInfo", MANIFEST), text), *lines[1:]])
            )


def test_a_file_in_the_log_that_is_not_ours(box: Box, keyed: bool) -> None:
    """A foreign file is neither read nor silently ignored."""
    store = box.reset()
    version = sum(1 for _ in (store / "_delta_log").glob("*.json"))
    add = {"path": "../x", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    (store / "_delta_log" / f"{version:020}.json").write_bytes(hostile_stores.sealed_entry([{"add": add}]))
    with pytest.raises(CorruptBytesError, match=r"'\.\./x'"):
        History(store).n  # noqa: B018 (it is looked at)
    hostile_stores.exercise(store, keyed)
    box.check()


@pytest.mark.parametrize("app", ["quantide.writer", "quantide.step", "quantide.recent"])
@pytest.mark.parametrize("number", [-1, -(2**63), 2**63 - 1])
def test_a_number_in_the_log_that_nobody_wrote(app: str, number: int, box: Box, keyed: bool) -> None:
    """Names are made of epochs and steps, and the next number is one more."""
    store = box.reset()
    entry = newest(store)
    after = entry.with_name(f"{int(entry.stem) + 1:020}.json")
    after.write_bytes(hostile_stores.sealed_entry([{"txn": {"appId": app, "version": number}}]))
    with pytest.raises(CorruptBytesError), History(store) as history:
        hostile_stores.append(history, np.random.default_rng(1), keyed, 80.0)


# --- links --------------------------------------------------------------------------------------------------

FOLDERS = ["_delta_log", "runs", "_quantide"]
FOLDERS += [f"_quantide/{name}" for name in ("side", "recent", "sources", "quarantine", "checkpoints", "staging")]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_that_is_a_link(folder: str, made: Made, tmp_path: Path) -> None:
    """A writer refuses it, as it would vacuum the store that the link points to. Readers go on."""
    (tmp_path / "elsewhere").mkdir()
    store, other = tmp_path / "store", tmp_path / "elsewhere" / "folder"
    shutil.copytree(made[True], store)
    shutil.move(store / folder, other)
    (other / "L0-S1-1-E0-99-P0.parquet").write_text(SECRET)
    (other / "E0-99.recent").write_text(SECRET)
    (store / folder).symlink_to(other)
    before = {path: _state(path) for path in other.rglob("*")}
    history = History(store)
    for change in (
        lambda: hostile_stores.append(history, np.random.default_rng(1), True, 1.0),
        lambda: history.vacuum(0),
    ):
        with pytest.raises(StorageError, match=f"{Path(folder).name} is a link to"):
            change()
    assert {path: _state(path) for path in other.rglob("*")} == before
    assert history.n == (hostile_stores.BATCHES + 1) * hostile_stores.ROWS


def _state(path: Path) -> tuple[int, int, int]:
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


def test_a_folder_that_becomes_a_link(made: Made, tmp_path: Path) -> None:
    """An active writer checks again before it vacuums."""
    store, other = tmp_path / "store", tmp_path / "other"
    shutil.copytree(made[True], store)
    with History(store) as history:
        history.open()
        shutil.move(store / "runs", other)
        (other / "L0-S1-1-E0-99-P0.parquet").write_text(SECRET)
        (store / "runs").symlink_to(other)
        with pytest.raises(StorageError, match="runs is a link to"):
            history.vacuum(0)
    assert (other / "L0-S1-1-E0-99-P0.parquet").read_text() == SECRET


def test_files_that_are_links(box: Box, keyed: bool) -> None:
    """A writer removes and replaces links like files; their targets stay, with their times."""
    store = box.reset()
    secret = box.outside / "x"
    data = one(store, "runs/L0-*.parquet")  # it is compacted, and then of that age
    for path in (store / "runs/L0-S1-1-E0-99-P0.parquet", store / "_quantide/recent/E0-99.recent"):
        path.symlink_to(secret)
    (store / "_quantide/sources" / f"c0-99.jsonl.{'0' * 32}.tmp").symlink_to(secret)
    (store / "_quantide/quarantine/c9-0-0-0.parquet").symlink_to(secret)
    shutil.copy(data, box.outside / "data")
    data.unlink()
    data.symlink_to(box.outside / "data")
    state = (box.outside / "data").stat()
    hostile_stores.exercise(store, keyed)
    assert not (store / "runs/L0-S1-1-E0-99-P0.parquet").is_symlink()
    assert not (store / "_quantide/recent/E0-99.recent").is_symlink()
    after = (box.outside / "data").stat()
    assert (after.st_mtime_ns, after.st_size) == (state.st_mtime_ns, state.st_size)
    (box.outside / "data").unlink()
    box.check()


@pytest.mark.parametrize("link", ["symbolic", "hard"])
def test_a_lock_that_is_another_file(link: str, box: Box, keyed: bool) -> None:
    """The writer's name is written into the lock: not into a foreign file."""
    store = box.reset()
    lock = store / "_quantide/writer.lock"
    lock.unlink()
    if link == "symbolic":
        lock.symlink_to(box.outside / "lock")
        with pytest.raises(StorageError, match=r"writer\.lock is a link"):
            History(store).open()
    else:
        os.link(box.outside / "lock", lock)
        with History(store) as history:
            history.open()
        lock.unlink()
    assert (box.outside / "lock").read_text() == "this is outside/lock"


def test_a_checkpoint_with_a_link(tmp_path: Path) -> None:
    """A checkpoint that is a link, or contains one, is refused: Spark would write to the target and remove files."""
    checkpoint = tmp_path / "c0"
    (checkpoint / "state").mkdir(parents=True)
    check_tree(str(checkpoint))
    check_tree(str(tmp_path / "c1"))
    (checkpoint / "state" / "0").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="is a link to"):
        check_tree(str(checkpoint))
    (tmp_path / "c2").symlink_to(checkpoint)
    with pytest.raises(StorageError, match="c2 is a link to"):
        check_tree(str(tmp_path / "c2"))


FILES = ["runs/*.parquet", "_quantide/side/*.side", "_quantide/recent/*.recent", "_quantide/recent/*.manifest"]
FILES += ["_quantide/sources/*.jsonl"]


@pytest.mark.parametrize(("pattern", "instead"), one_in(2, product(FILES, ["pipe", "folder", "device"])))
def test_something_that_is_no_file(pattern: str, instead: str, made: Made, tmp_path: Path) -> None:
    """Readers open no pipe in place of a file: that would wait forever."""
    box = Box(tmp_path, made[True])
    path = one(box.reset(), pattern)
    path.unlink()
    if instead == "pipe":
        os.mkfifo(path)
    elif instead == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    hostile_stores.exercise(box.store, True)
    box.check()


CONTENTS = ["pipe", "deep", '{"at": 1e999, "files": 1, "problem": [], "time": 1e999}', "\0"]
BESIDE = ["clock_problem.json", "clock_accepted.json", "ingest.json", "retired/ages.json"]


@pytest.mark.parametrize(("name", "content"), one_in(3, product(BESIDE, CONTENTS)))
def test_what_lies_beside_the_table(name: str, content: str, made: Made, tmp_path: Path) -> None:
    """Files beside the table change no answer and delay no call."""
    box = Box(tmp_path, made[True])
    path = box.reset() / "_quantide" / name
    path.parent.mkdir(exist_ok=True)
    if content == "pipe":
        os.mkfifo(path)
    else:
        path.write_text(content.replace("deep", "[" * 10**5))
    hostile_stores.exercise(box.store, True)
    box.check()
    assert History(box.reset()).stats()["values"] == (hostile_stores.BATCHES + 1) * hostile_stores.ROWS


@pytest.mark.parametrize("stats", ["deep", '{"numRecords": Infinity}', '{"numRecords": -5}', "[]", 7, None])
def test_rows_that_the_log_makes_up(stats: Any) -> None:
    """`history repair` shows the number to a person."""
    stats = "[" * 10**5 if stats == "deep" else stats
    line = {"add": {"path": "x", "dataChange": True, "stats": stats}}
    assert LogEntry.read(hostile_stores.sealed_entry([line])).rows_added == 0


# --- data files ---------------------------------------------------------------------------------------------


def lying_tables(table: pa.Table) -> Iterator[tuple[str, pa.Table, dict[str, Any]]]:
    """Return valid Parquet that Quantide does not write."""
    good: dict[str, Any] = {"compression": "lz4", "row_group_size": 64, "store_schema": False}
    column_index = table.column_names.index("value")
    kind = table.schema.field("value").type
    yield "another codec", table, good | {"compression": "zstd"}
    yield "one block", _sorted(pa.concat_tables([table] * (70_000 // len(table)))), good | {"row_group_size": 1 << 20}
    yield "nulls", table.set_column(column_index, "value", pa.array([None] * len(table), kind)), good
    yield "texts", table.set_column(column_index, "value", pa.array(["x"] * len(table))), good
    yield "lists", table.set_column(column_index, "value", pa.array([[1]] * len(table))), good
    yield "others", table.set_column(column_index, "value", pa.array(range(len(table)), pa.int64())), good
    yield "reversed", table.take(list(reversed(range(len(table))))), good
    yield "fewer", table[:-1], good
    yield "none", table[:0], good
    yield "more columns", table.append_column("more", table["value"]), good
    yield "twice", table.append_column("value", table["value"]), good
    yield "no values", table.drop_columns(["value"]).append_column("v", table["value"]), good
    if kind == pa.float64():
        yield "not a number", table.set_column(column_index, "value", pa.array([float("nan")] * len(table))), good
    if "host" in table.column_names:
        key = table.schema.get_field_index("host")
        yield "keys that are numbers", table.set_column(key, "host", pa.array(range(len(table)))), good
        yield "one key", table.set_column(key, "host", pa.array(["a"] * len(table))), good
        long = pa.DictionaryArray.from_arrays(pa.array([0] * 6000, pa.int32()), ["k" * 10**6])
        values = pa.array(np.arange(6000.0))
        yield "a long key", pa.table({"host": long, "value": values}), good | {"row_group_size": 1 << 16}


def _sorted(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names])


WHY = {"another codec": "lz4", "one block": "blocks? .*rows", "not a number": "not a float64", "twice": "no column"}
WHY |= {"a long key": "differs from|is missing"}  # and not that there is no memory for it


def plant(store: Path, data: Path, table: pa.Table, options: dict[str, Any], side: bool) -> None:
    """Replace a data file by a table; its index file has the new size and checksum, or is missing."""
    pq.write_table(table, data, **options)
    path = store / "_quantide/side" / f"{data.stem}.side"
    pieces, content = Pieces(path.read_bytes()), data.read_bytes()
    about = pieces.header["about"] | {"data_size": len(content), "data_crc": zlib.crc32(content)}
    path.unlink()
    if side:
        path.write_bytes(pieces.packed(about))


@pytest.mark.parametrize("side", [True, False], ids=["with side file", "without"])
def test_data_files_that_lie(box: Box, keyed: bool, side: bool, share: str, rng: Rng) -> None:
    """Query hostile data files with an index file that agrees, and with one that is rebuilt from the data."""
    data = one(box.reset(), "runs/*.parquet")
    cases = list(lying_tables(pq.read_table(data)))
    names = {case[0] for case in chosen(iter(cases), share, 3, rng)}
    for label, table, options in cases:
        store = box.reset()
        plant(store, store / data.relative_to(box.store), table, options, side)
        with hostile_stores.bounded_memory():
            with pytest.raises(CorruptBytesError, match=f"{data.stem}.*({WHY.get(label, '')})"):
                print(label, History(store).verify())
            if label in names:
                hostile_stores.exercise(store, keyed)
        box.check()


# --- stores as a whole --------------------------------------------------------------------------------------


def newest(store: Path) -> Path:
    return one(store, "_delta_log/*.json")


def log_changes(store: Path, rng: Rng) -> Iterator[Files]:
    """Change fields of the first and the newest log entry; add random bytes."""
    for path in (one(store, "_delta_log/*0000.json"), newest(store)):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for number, line in enumerate(lines):
            for _, changed in changes(line):
                yield {path: hostile_stores.sealed_entry([*lines[:number], changed, *lines[number + 1 :]])}
        for _ in range(20):
            yield {path: hostile_stores.flipped(path.read_bytes(), rng)}


def number_changes(store: Path, rng: Rng) -> Iterator[Files]:
    """Add a commit after the newest with transactions that no writer makes."""
    path = newest(store)
    after = path.with_name(f"{int(path.stem) + 1:020}.json")
    for app in ("quantide.writer", "quantide.step", "quantide.recent", "quantide.source:c0"):
        for number in hostile_stores.NUMBERS:
            yield {after: hostile_stores.sealed_entry([{"txn": {"appId": app, "version": number}}])}


def settings_changes(store: Path, rng: Rng) -> Iterator[Files]:
    """Change the table property that has the settings."""
    path = one(store, "_delta_log/*0000.json")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    at = next(i for i, line in enumerate(lines) if "metaData" in line)
    own = json.loads(lines[at]["metaData"]["configuration"][PROPERTY])
    for _, changed in changes(own):
        other = hostile_stores.put(lines[at], ("metaData", "configuration", PROPERTY), dump(changed))
        yield {path: hostile_stores.sealed_entry([*lines[:at], other, *lines[at + 1 :]])}


def checkpoint_changes(store: Path, rng: Rng) -> Iterator[Files]:
    """Change the checkpoint of the log, and the file that names the current one."""
    last, path = store / "_delta_log/_last_checkpoint", one(store, "_delta_log/*.checkpoint.parquet")
    for _, changed in changes(json.loads(last.read_text())):
        yield {last: dump(changed).encode()}
    data = path.read_bytes()
    for size in (0, 4, len(data) // 2, len(data) - 1):
        yield {path: data[:size]}
    for _ in range(20):
        yield {path: hostile_stores.flipped(data, rng)}


def side_changes(store: Path, rng: Rng) -> Iterator[Files]:
    path = one(store, "_quantide/side/*.side")
    return ({path: data} for _, data in file_changes(path.read_bytes(), rng))


def recent_changes(store: Path, rng: Rng) -> Iterator[Files]:
    path = one(store, "_quantide/recent/*.recent")
    return ({path: data} for _, data in file_changes(path.read_bytes(), rng))


def manifest_changes(store: Path, rng: Rng) -> Iterator[Files]:
    path = one(store, "_quantide/recent/*.manifest")
    for _, changed in changes(unsealed(path.read_text())):
        if isinstance(changed, dict):
            entry = newest_copy(store)
            lines = [json.loads(line) for line in entry.read_text().splitlines()]
            copied = hostile_stores.put(lines[0], ("commitInfo", MANIFEST), sealed(changed))
            yield {path: sealed(changed).encode(), entry: hostile_stores.sealed_entry([copied, *lines[1:]])}


def newest_copy(store: Path) -> Path:
    """Return the newest log entry that has a copy of a manifest."""
    copies = [path for path in (store / "_delta_log").glob("*.json") if f'"{MANIFEST}"' in path.read_text()]
    return max(copies)


def data_changes(store: Path, rng: Rng) -> Iterator[Files]:
    """Change bytes of the newest data file, including its footer, with an index file that agrees."""
    data = one(store, "runs/*.parquet")
    index_path = store / "_quantide/side" / f"{data.stem}.side"
    content, pieces = data.read_bytes(), Pieces(index_path.read_bytes())
    for number in range(300):
        at = int(rng.integers(len(content) - 300 if number % 2 else 0, len(content)))
        other = content[:at] + hostile_stores.flipped(content[at : at + 8], rng, 2) + content[at + 8 :]
        about = pieces.header["about"] | {"data_size": len(other), "data_crc": zlib.crc32(other)}
        yield {data: other, index_path: pieces.packed(about)}


STORES: dict[str, Callable[[Path, Rng], Iterator[Files]]] = {
    "side": side_changes,
    "recent": recent_changes,
    "manifest": manifest_changes,
    "data": data_changes,
    "log": log_changes,
    "transactions": number_changes,
    "settings": settings_changes,
    "checkpoint": checkpoint_changes,
}


@pytest.mark.parametrize("what", STORES)
def test_stores(what: str, box: Box, keyed: bool, share: str, rng: Rng) -> None:
    """Do everything that a user can do with a store, after one of its files was changed."""
    cases = list(STORES[what](box.reset(), rng))
    picked = rng.permutation(len(cases))[: 1 if share == "some" else 30]
    with hostile_stores.bounded_memory():
        for index in sorted(picked):
            store = box.reset()
            if what in ("log", "transactions", "settings"):  # else a checkpoint hides what the first entries say
                for path in [*(store / "_delta_log").glob("*.checkpoint.parquet")]:
                    path.unlink()
                (store / "_delta_log/_last_checkpoint").unlink(missing_ok=True)
            for path, data in cases[index].items():
                path.unlink(missing_ok=True)
                path.write_bytes(data)
            hostile_stores.exercise(store, keyed)
            box.check()


UNREADABLE: dict[str, dict[str, Any]] = {
    "no number": {"appId": "quantide.step", "version": None},
    "no whole number": {"appId": "quantide.step", "version": True},
    "a number beyond 64 bits": {"appId": "quantide.step", "version": 2**63},
    "a list": {"appId": "quantide.step", "version": []},
    "no name": {"version": 1},
    "nothing": {},
}


def add_entry(store: Path, transaction: Any) -> None:
    path = newest(store)
    after = path.with_name(f"{int(path.stem) + 1:020}.json")
    after.write_bytes(encode_entry("WRITE", {}, [{"txn": transaction}]))


@pytest.mark.parametrize("what", UNREADABLE)
def test_transactions_that_deltas_reader_refuses(what: str, box: Box) -> None:
    """The checksum of the entry is right, so it counts as whole: the repair names the problem."""
    store = box.reset()
    add_entry(store, UNREADABLE[what])
    for dry_run in (True, False):
        with pytest.raises(StorageError, match="cannot be opened"):
            repair(store, dry_run=dry_run)
        with pytest.raises(StorageError, match="cannot be opened"):
            repair_future_rows(store, "remove", 5.0, dry_run=dry_run)


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_transaction_that_arrives_while_a_store_is_open(what: str, box: Box) -> None:
    store = box.reset()
    opened, writer = WritableTable.open(FolderStorage(str(store))), WritableTable.open(FolderStorage(str(store)))
    assert opened is not None
    assert writer is not None
    writer.take_over()
    add_entry(store, UNREADABLE[what])
    for act in (writer.check_writer, opened.take_over):
        with pytest.raises(StorageError, match="its log cannot be read"):
            act()


def test_a_log_that_is_trimmed_during_a_repair(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(table: WritableTable, app: str) -> int | None:
        raise FileNotFoundError(f"version 3 cannot be read for {app}")

    monkeypatch.setattr(WritableTable, "_transaction", forget)
    with pytest.raises(StorageError, match="the repair stopped: version 3"):
        repair(box.reset(), dry_run=True)
    with pytest.raises(StorageError, match="the repair stopped: version 3"):
        repair_future_rows(box.reset(), "remove", 5.0, dry_run=True)


def test_the_store_itself(box: Box, keyed: bool) -> None:
    """An unchanged store answers everything: the refusals above are due to the changes."""
    store = box.reset()
    table = pa.concat_tables([pq.read_table(path) for path in sorted((store / "runs").glob("*.parquet"))])
    hostile_stores.exercise(store, keyed)
    box.check()
    with History(box.reset()) as history:
        assert history.verify().values == (hostile_stores.BATCHES + 1) * hostile_stores.ROWS
        paths = [store / name.data for name in history.table.files()]
        values = np.concatenate([pq.read_table(path)["value"].to_numpy() for path in paths])
        assert history.answer(0.3, "exact").value == exact_quantile(values, 0.3)
        hostile_stores.append(history, np.random.default_rng(1), keyed, 80.0)
        history.end_step()
        history.vacuum(0)
    assert len(table) >= len(values)
    live = LiveStream(store, follow=False)
    assert live.answer(0.5, last=20).n == 20
    ledger = IngestLog(FolderStorage(str(store)), History(store).batch_seen)
    assert ledger.last["c0"] == hostile_stores.BATCHES - 1
    assert ledger.quarantined_files == {
        "/in/b.csv": FileRecord(IngestedFile("/in/b.csv", 1, 2), "quarantined", "bad", 1)
    }
