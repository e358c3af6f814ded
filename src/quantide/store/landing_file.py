"""Landing files: rows that were pushed to a server and wait in the store until ingestion has them.

A landing file is Parquet, written once, and has the rows of one request or of several. Its metadata lists the requests
in the order of their rows: the digest of the idempotency key, if there is one, and the number of rows. Names contain
the time of arrival and a random part, so that several servers can write to one folder.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from quantide.errors import CorruptBytesError
from quantide.store import fault_points
from quantide.store.file_names import LANDING
from quantide.store.folder_storage import FolderStorage, make_folder
from quantide.store.storage import Sink, Storage
from quantide.windows.wall_clock import wall_clock

REQUESTS = b"quantide.requests"  # entry of the metadata
DIGEST_BYTES = 16
NAME = re.compile(r"([0-9]{13})-[0-9a-f]{32}\.parquet")


@dataclass(frozen=True)
class PushedRequest:
    """One request of a landing file: the digest of its idempotency key, or None, and its number of rows."""

    digest: bytes | None
    rows: int


def digest_key(key: str) -> bytes:
    """Return the digest by which an idempotency key is recorded: 16 bytes, however long the key is."""
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def landing_name(now: float | None = None) -> str:
    """Return a new name for a landing file; names sort by the time of arrival, in milliseconds."""
    milliseconds = int(1000 * (wall_clock() if now is None else now))
    return f"{milliseconds:013}-{uuid4().hex}.parquet"


def arrival_time(name: str) -> float | None:
    """Return the time in the name of a landing file, in seconds since 1970; None for other names.

    >>> arrival_time("1767225600000-" + 32 * "0" + ".parquet")
    1767225600.0
    """
    match = NAME.fullmatch(name.rpartition("/")[2])
    return int(match[1]) / 1000 if match else None


def prepare_landing(storage: Storage) -> None:
    """Create the landing folder; the store itself may not exist yet."""
    if isinstance(storage, FolderStorage):
        make_folder(storage.full_path(LANDING), storage.durable)


def write_landing_file(storage: Storage, table: pa.Table, requests: Sequence[PushedRequest]) -> str:
    """Write rows as one landing file and make it durable, if the store is; return its name."""
    listed = [[None if request.digest is None else request.digest.hex(), request.rows] for request in requests]
    metadata = {REQUESTS.decode(): json.dumps(listed, separators=(",", ":"))}
    name = landing_name()

    def fill(sink: Sink) -> None:
        with pq.ParquetWriter(pa.PythonFile(sink, "w"), table.schema, compression="lz4", store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata(metadata)

    fault_points.point("push.write")
    storage.write(f"{LANDING}/{name}", fill, checked=False)
    storage.sync(LANDING)
    fault_points.point("push.written")
    return name


def read_requests(metadata: Any) -> list[PushedRequest]:
    """Return the requests of a landing file from the metadata of its Parquet footer; none for any other file."""
    data = (metadata.metadata or {}).get(REQUESTS)
    if data is None:
        return []
    try:
        requests = [PushedRequest(_read_digest(digest), int(rows)) for digest, rows in json.loads(data)]
    except (ValueError, TypeError, RecursionError) as error:
        raise CorruptBytesError(f"the list of requests of a landing file is damaged: {error}") from error
    if any(request.rows < 0 for request in requests) or sum(r.rows for r in requests) != metadata.num_rows:
        raise CorruptBytesError("the list of requests of a landing file does not match its rows")
    return requests


def _read_digest(text: str | None) -> bytes | None:
    if text is None:
        return None
    digest = bytes.fromhex(text)
    if len(digest) != DIGEST_BYTES:
        raise ValueError("a digest has another length")
    return digest
