"""Stores that were tampered with: every checksum is right, and the content is hostile.

`grow` makes a small real store, `exercise` does everything that a user can do with a store, `Box` puts it beside files
that must never change. Mutations take a file apart, change something in it, and put it together with new checksums.
"""

import json
import resource
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from quantide import History
from quantide.errors import QuantideError
from quantide.history import HistoryReader
from quantide.history.store_repair import repair
from quantide.live import LiveStream
from quantide.store import index_file, recent_file, section_file
from quantide.store.folder_storage import FolderStorage
from quantide.store.ingest_log import QUARANTINED, BatchRecord, FileRecord, IngestedFile, IngestLog
from quantide.store.recent_manifest import CRC

Rng = np.random.Generator
Json = Any

MODES = ("quick", "accurate", "exact")
ROWS, BATCHES = 60, 6
ROOM = 1 << 30  # bytes of address space that anything here may take beside what the process has
REMOVED = object()  # in place of a value: its field is removed
NAMES = (
    "../x",
    "../../x",
    "x",
    "/etc/hostname",
    "_quantide/recent/../../../x",
    "_quantide/recent/E1-1.recent/../../../../x",
    "_quantide/recent/E1-1.recent\n",
    "_quantide/recent/E1-1.recent\0",
    "_quantide/recent/E\uff11-1.recent",
    "_quantide/recent/E01-1.recent",
    "_quantide/recent/E1-1.manifest",
    "_quantide/recent/E1-" + "9" * 5000 + ".recent",
    "_quantide\\recent\\E1-1.recent",
    "runs/L0-S1-1-E1-1-P0.parquet",
    "runs/../../x",
    "runs/L0-S1-1-E1-1-P0.parquet/../../../x",
    "runs%2F..%2F..%2Fx",
    "file:///etc/hostname",
    "_delta_log/00000000000000000000.json",
    "C:\\x",
    "~/x",
    "x" * 5000,
)
VALUES: tuple[Json, ...] = (
    None,
    True,
    False,
    -1,
    0,
    1,
    2**31,
    2**32,
    2**53,
    2**53 + 1,
    2**62,
    2**63 - 1,
    -(2**63),
    2**64,
    10**400,
    0.5,
    -1.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "5",
    "float32",
    "timestamp[us, tz=../../x]",
    "\ud800",
    "[" * 10**5,
    '{"numRecords": Infinity}',
    [],
    [[]],
    [1, 2, 3],
    ["a", "a"],
    {},
    {"a": {"b": []}},
    *NAMES[:8],
)
NUMBERS = (-(2**63), -(2**31), -1, 0, 1, 2, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1)


# --- a store ------------------------------------------------------------------------------------------------


def grow(folder: Path, keyed: bool) -> None:
    """Make a store with runs of two levels, chunks, recent files with summaries, an ingest log and a quarantine."""
    rng = np.random.default_rng(7 + keyed)
    with History(folder, eps=0.05, kappa=2, window="1 hour", filters=["f", "g"], **settings(keyed)) as history:
        ledger = IngestLog(FolderStorage(str(folder)), history.batch_seen)
        for number in range(BATCHES):
            name = f"c0-{number}-0-0.parquet"
            files = (
                FileRecord(IngestedFile("/in/a.csv", 10, 20)),
                FileRecord(IngestedFile("/in/b.csv", 1, 2), QUARANTINED, "bad", 1),
            )
            origin, types = (1, 2, "3600"), {"v": "double"}
            record = BatchRecord("c0", number, 0, 9.0, ROWS, 1, 5.0, origin, "{}", types, (name,), entries=files)
            written = ledger.write(record)
            path = folder / "_quantide/quarantine" / name
            path.parent.mkdir(exist_ok=True)
            pq.write_table(pa.table({"v": [1.0]}), path)
            append(history, rng, keyed, number * 10.0, ("c0", number))
            ledger.mark_committed(written)
            if number < BATCHES - 2:
                history.end_step()
        ledger.fold("c0")
        ledger.mark_committed(ledger.write(BatchRecord("retry", 0)))
        append(history, rng, keyed, 60.0, ("retry", 0))
    for name in ("checkpoints/c0/offsets", "staging/c0-9"):
        (folder / "_quantide" / name).mkdir(parents=True)


def settings(keyed: bool) -> dict[str, Any]:
    return {"keys": ["host"]} if keyed else {"value_type": "int32"}


def append(history: History, rng: Rng, keyed: bool, when: float, batch: Any = None) -> None:
    values = rng.integers(-900, 900, ROWS).astype(np.float64 if keyed else np.int32)
    keys = rng.choice(["a", "b", "c"], ROWS).tolist() if keyed else None
    times, flags = when + np.arange(ROWS) % 10, {name: rng.random(ROWS) < 0.6 for name in ("f", "g")}
    history.append(values, keys, batch, times=times, filters=flags)


class Box:
    """Folder with a store, and beside it files that must not change."""

    def __init__(self, folder: Path, grown: Path) -> None:
        self.grown, self.store, self._outside = grown, folder / "store", folder / "outside"
        (self._outside / "runs").mkdir(parents=True)
        for name in ("x", "outside/x", "outside/runs/L0-S1-1-E1-1-P0.parquet", "outside/E1-1.recent", "outside/lock"):
            (folder / name).write_text(f"this is {name}")
        self._folder, self._state = folder, self._contents(folder)

    @property
    def outside(self) -> Path:
        return self._outside

    def reset(self) -> Path:
        """Make a new copy of the store."""
        shutil.rmtree(self.store, ignore_errors=True)
        shutil.copytree(self.grown, self.store, symlinks=True)
        return self.store

    def check(self) -> None:
        assert self._contents(self._folder) == self._state, "something outside the store changed"

    def _contents(self, folder: Path) -> dict[str, Any]:
        contents = {}
        for path in [*folder.glob("*"), *self._outside.rglob("*")]:
            if path != self.store:
                state, is_file = path.lstat(), path.is_file()
                content = path.read_bytes() if is_file else sorted(p.name for p in path.iterdir())
                contents[str(path)] = (content, state.st_mode, state.st_ino, is_file and state.st_mtime_ns)
        return contents


# --- all that can be done with it ---------------------------------------------------------------------------


def attempt(action: Callable[[], Any]) -> Any:
    """Call a function. Every named error is fine, and no other."""
    with suppress(QuantideError):
        return action()
    return None


def exercise(folder: Path, keyed: bool) -> None:
    """Open, query in every way, verify, write and vacuum any store."""
    history = attempt(lambda: HistoryReader(folder))
    if history is not None:
        query(history, keyed)
        attempt(history.close)
    live = attempt(lambda: LiveStream(folder, follow=False))
    if live is not None:
        query_live(live, keyed)
    attempt(lambda: write(folder, keyed))
    if live is not None:
        attempt(live.poll)
        query_live(live, keyed)
        attempt(live.close)
    attempt(lambda: use_ledger(folder))
    for dry_run in (True, False):
        attempt(lambda: repair(folder, dry_run))  # noqa: B023


def query(history: HistoryReader, keyed: bool) -> None:
    for mode in MODES:
        for key in (None, "a", "zz") if keyed else (None,):
            check_answer(attempt(lambda: history.answer(0.4, mode, key=key)))  # noqa: B023
            attempt(lambda: history.rank(3, mode, key=key))  # noqa: B023
        check_answer(attempt(lambda: history.answer(0.9, mode, 1, widen=True)))  # noqa: B023
    attempt(lambda: history.compare([0.5], last_steps=0))
    for call in (history.spans, history.stats, history.runs, history.verify, history.refresh, lambda: repr(history)):
        attempt(call)
    attempt(lambda: history.index_nbytes)


def query_live(live: LiveStream, keyed: bool) -> None:
    windows: list[dict[str, Any]] = [{"last": 20}, {"last": 250}, {"within": 5}, {"within": 3000}, {"filter": "f"}]
    windows += [{"within": 25, "filter": "g"}, {}, {"last_steps": 1}]
    windows += [window | {"key": "a"} for window in windows] if keyed else []
    for window in windows:
        for mode in ("accurate", "exact"):
            check_answer(attempt(lambda: live.answer(0.5, mode=mode, **window)))  # noqa: B023
        attempt(lambda: live.rank(3, **window))  # noqa: B023
        attempt(lambda: live.bands([0.1, 0.9], **window))  # noqa: B023
    attempt(lambda: live.time_series([0.5], within=5, over=60, points=5))
    for call in (live.keys, live.stats, live.spans, lambda: live.newest):
        attempt(call)


def write(folder: Path, keyed: bool) -> None:
    """Append rows that retire old recent files, end steps, vacuum."""
    rng = np.random.default_rng(3)
    history = History(folder)
    try:
        for number in range(2):
            attempt(lambda: append(history, rng, keyed, 70.0 + 5000 * number, number))  # noqa: B023
            attempt(history.end_step)
        attempt(history._writer.join)
        attempt(lambda: history.vacuum(0))
        query(history, keyed)
    finally:
        attempt(history.close)


def use_ledger(folder: Path) -> None:
    history = History(folder)
    ledger = IngestLog(FolderStorage(str(folder)), lambda batch: bool(history.batch_seen(batch)))
    ledger.clean()
    ledger.mark_committed(ledger.write(BatchRecord("c0", BATCHES)))
    ledger.fold("c0")


def check_answer(answer: Any) -> None:
    """Check the form of an answer: the values of a hostile store may be wrong."""
    if answer is not None:
        assert 0 <= answer.error <= 1
        assert 1 <= answer.rank_lo <= answer.rank_hi <= answer.n
        assert answer.value == answer.value


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Limit memory so that allocating a hostile length is a MemoryError."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


# --- mutations ----------------------------------------------------------------------------------------------


def spots(document: Json, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return every path into a JSON document."""
    yield at
    inner = dict(enumerate(document)) if isinstance(document, list) else document
    for name, value in inner.items() if isinstance(inner, dict) else ():
        yield from spots(value, (*at, name))


def put(document: Json, at: tuple[Any, ...], value: Json) -> Json:
    """Return the document with another value at a path; REMOVED removes the value."""
    if not at:
        return {} if value is REMOVED else value
    out = dict(document) if isinstance(document, dict) else list(document)
    if len(at) == 1 and value is REMOVED:
        del out[at[0]]
    else:
        out[at[0]] = put(out[at[0]], at[1:], value)
    return out


def changes(document: Json) -> Iterator[tuple[str, Json]]:
    """Return every path with every hostile value; also with one field less, and with one more."""
    for at in spots(document):
        for value in (*VALUES, REMOVED):
            if at or value is not REMOVED:
                yield f"{at}={str(value)[:30]!r}", put(document, at, value)
    yield "one more", document | {"more": 1} if isinstance(document, dict) else document


def dump(document: Json) -> str:
    """Write JSON with NaN and Infinity, as Python does."""
    return json.dumps(document)


class Pieces:
    """Index file or recent file in pieces that can be changed."""

    def __init__(self, data: bytes) -> None:
        self.magic, self.version, length, _ = section_file.HEAD.unpack_from(data)
        start = section_file.HEAD.size + length
        self.header = json.loads(data[section_file.HEAD.size : start])
        begin = start + -start % section_file.ALIGNMENT
        sections = sorted(self.header["sections"].items(), key=lambda item: tuple(item[1][:2]))
        self.sections = {name: data[begin + at : begin + at + size] for name, (at, size, _) in sections}
        self._tail = data[start:]

    def packed(self, about: Json = None, **changed: bytes | None) -> bytes:
        """Return the file with other sections, and every checksum right."""
        paged = index_file.PAGED if self.magic == index_file.MAGIC else recent_file.PAGED
        sections = {name: data for name, data in {**self.sections, **changed}.items() if data is not None}
        about = self.header["about"] if about is None else about
        return b"".join(section_file.pack(self.magic, self.version, about, sections, paged))

    def with_header(self, text: bytes) -> bytes:
        """Return the file with another header, whose checksum is right."""
        start = section_file.HEAD.pack(self.magic, self.version, len(text), zlib.crc32(text)) + text
        body = b"".join(data + bytes(-len(data) % section_file.ALIGNMENT) for data in self.sections.values())
        return start + bytes(-len(start) % section_file.ALIGNMENT) + body


def section_changes(name: str, data: bytes, rng: Rng) -> Iterator[tuple[str, bytes]]:
    """Return other contents of a section: numbers out of range, other lengths, random bytes."""
    width = {"flags": 2, "numbers": 4, "keys": 1, "total": 1}.get(name.rstrip("0123456789"), 8)
    for number in NUMBERS if width > 1 else ():
        packed = struct.pack("<q", number)[:width]
        for index in {0, len(data) // width // 2, len(data) // width - 1}:
            yield f"{name}[{index}]={number}", data[: index * width] + packed + data[(index + 1) * width :]
        yield f"{name}={number}", packed * (len(data) // width)
    for special in (float("nan"), float("inf"), -0.0) if width == 8 else ():
        yield f"{name}[0]={special}", struct.pack("<d", special) + data[8:]
    yield f"{name} reversed", np.frombuffer(data, f"u{width}")[::-1].tobytes()
    for size in (0, 1, len(data) // 2, len(data) - 1):
        yield f"{name} of {size}", data[:size]
    yield f"{name} twice", data + data
    yield f"{name} random", rng.bytes(len(data))
    for _ in range(10):
        at = int(rng.integers(len(data)))
        yield f"{name} flipped at {at}", data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :]


def key_columns() -> Iterator[tuple[str, bytes]]:
    """Return Arrow streams that are no keys, or that need more memory than their bytes."""
    arrays: dict[str, Any] = {
        "numbers": pa.array([1, 2, 3]),
        "nulls": pa.nulls(3),
        "no fields": pa.array([{}] * 3, pa.struct([])),
        "dictionary": pa.array(["a", "b", "c"]).dictionary_encode(),
        "lists": pa.array([[1], [2], [3]]),
        "nested": pa.array([{"a": {"b": 1}}] * 3),
        "texts and numbers": pa.array([{"a": "x", "b": 1}] * 3),
        "the same": pa.array(["a", "a", "a"]),
        "in another order": pa.array(["c", "b", "a"]),
        "times": pa.array([1, 2, 3], pa.timestamp("us", "Europe/Nowhere")),
        "runs": pa.RunEndEncodedArray.from_arrays([3], ["a"]),
    }
    for name, array in arrays.items():
        yield f"keys of {name}", stream([array])
    yield "keys in two columns", stream([arrays["numbers"], arrays["numbers"]])
    yield "keys in two batches", stream([arrays["numbers"]], batches=2)
    yield "compressed keys", stream([pa.array(["a" * 10**6] * 3)], "zstd")
    yield "keys of nothing", stream([])
    texts = stream([pa.array(["a", "b", "c"])])
    yield "keys that end elsewhere", texts.replace(struct.pack("<4i", 0, 1, 2, 3), struct.pack("<4i", 0, 1, 2, 2**30))


def stream(arrays: list[Any], compression: str | None = None, batches: int = 1) -> bytes:
    batch = pa.record_batch(arrays, [f"key{i}" for i in range(len(arrays))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def sealed(document: Json) -> str:
    """Return a manifest of this content, with its checksum."""
    return sealed_text(dump(document)[:-1])


def sealed_text(text: str) -> str:
    return f"{text}{CRC}{zlib.crc32(text.encode(errors='surrogatepass'))}}}"


def sealed_entry(lines: list[Json]) -> bytes:
    """Return a log entry with these lines. If the first is a commitInfo that can have a checksum, it is right."""
    head, *rest = lines
    info = head.get("commitInfo") if isinstance(head, dict) else None
    if not isinstance(info, dict):
        return b"\n".join(dump(line).encode() for line in lines)
    info = {name: value for name, value in info.items() if name != "quantide.crc"}
    opened = json.dumps(head | {"commitInfo": info}, separators=(",", ":")).encode()[:-2]
    body = b"".join(b"\n" + dump(line).encode() for line in rest)
    return b'%b,"quantide.crc":%d}}%b' % (opened, zlib.crc32(opened + body), body)


def unsealed(text: str) -> Json:
    return json.loads(text.rpartition(CRC)[0] + "}")


def flipped(data: bytes, rng: Rng, times: int = 3) -> bytes:
    """Return the bytes with some changed, cut out, or inserted."""
    out = bytearray(data)
    for _ in range(times):
        index = int(rng.integers(max(1, len(out))))
        way = int(rng.integers(3))
        if way == 0:
            out[index : index + 1] = rng.bytes(1)
        elif way == 1:
            del out[index : index + int(rng.integers(1, 9))]
        else:
            out[index:index] = rng.bytes(int(rng.integers(1, 9)))
    return bytes(out)
