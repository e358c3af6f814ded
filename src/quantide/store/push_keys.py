"""Push keys: digests of the idempotency keys of requests whose rows are in a store.

The keys of a batch are written before the batch is committed, to a file named after it, and take effect when the table
has that batch: rows and keys become visible at once. Files of batches that were never committed are garbage. Now and
then all keys are joined into one file, the base. A key may be in several files, which changes nothing.

A key is forgotten RETENTION seconds after its rows were ingested, or when MAX_KEYS newer ones are known. Clocks may be
wrong: no key is recorded as older than one that was ingested before it, and the newest MIN_KEYS stay at any time.
"""

import re
import struct
import zlib
from collections.abc import Callable, Iterable
from math import inf

from quantide.errors import CorruptBytesError, StorageError
from quantide.store import fault_points
from quantide.store.file_names import PUSH_KEYS
from quantide.store.landing_file import DIGEST_BYTES
from quantide.store.storage import Storage

RETENTION = 24 * 3600.0
MIN_KEYS = 10_000
MAX_KEYS = 1_000_000
FOLD = 64  # files of single batches that are joined into the base
BASE = f"{PUSH_KEYS}/base.keys"
MAGIC = b"QTKEYS1\n"
_ENTRY = struct.Struct(f"<{DIGEST_BYTES}sd")
_NAME = re.compile(rf"{PUSH_KEYS}/([a-z0-9]{{1,64}})-(0|[1-9][0-9]{{0,17}})\.keys")


class PushKeys:
    """Keys of ingested requests with the time of their ingestion, oldest first."""

    def __init__(self, storage: Storage, has_batch: Callable[[tuple[str, int]], bool]) -> None:
        self._storage = storage
        self._keys: dict[bytes, float] = {}
        self._single: list[str] = []  # files of committed batches that are not in the base
        self._written: dict[tuple[str, int], tuple[str, dict[bytes, float]]] = {}
        entries = list[tuple[float, bytes]]()
        self._version: dict[str, str] | None = None
        try:
            data, self._version = storage.read_version(BASE)
            entries += [(at, digest) for digest, at in self._parse(BASE, data).items()]
        except FileNotFoundError:
            pass
        for file in storage.list_files(PUSH_KEYS):
            match = _NAME.fullmatch(file.name)
            if match is None:
                continue
            if has_batch((match[1], int(match[2]))):
                entries += [(at, digest) for digest, at in self._parse(file.name, storage.read(file.name)).items()]
                self._single.append(file.name)
            else:
                storage.remove(file.name)
        storage.remove_remains(PUSH_KEYS)
        self._keys = {digest: at for at, digest in sorted(entries)}
        self._newest = max(self._keys.values(), default=-inf)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def write(self, batch: tuple[str, int], digests: Iterable[bytes], now: float) -> None:
        """Write the keys of a batch; its commit follows."""
        keys = dict.fromkeys(digests, max(now, self._newest))
        if not keys and batch not in self._written:  # or the commit would apply the keys of a failed attempt
            return
        name = f"{PUSH_KEYS}/{batch[0]}-{batch[1]}.keys"
        self._written[batch] = (name, keys)
        self._storage.replace(name, _encode(keys))
        self._storage.sync(PUSH_KEYS)
        fault_points.point("push.keys")

    def mark_committed(self, batch: tuple[str, int], oldest: float) -> None:
        """Apply the keys of a batch, which is in the table now. `oldest` is the arrival of its oldest rows: a repeat
        that arrives later is recognized for the whole RETENTION, however long it waits for its ingestion."""
        name, keys = self._written.pop(batch, ("", {}))
        if not name:
            return
        self._keys |= keys
        self._newest = max(self._newest, *keys.values(), -inf)
        self._single.append(name)
        if len(self._single) >= FOLD:  # a server whose clock is ahead makes no key older
            self.fold(min(oldest, self._newest) - RETENTION)

    def fold(self, before: float) -> None:
        """Join all keys into the base, without those from before a time, unless they are among the newest."""
        surplus, sure = len(self._keys) - MAX_KEYS, len(self._keys) - MIN_KEYS
        numbered = enumerate(self._keys.items())
        kept = {digest: at for n, (digest, at) in numbered if n >= surplus and (at >= before or n >= sure)}
        try:
            self._version = self._storage.update(BASE, _encode(kept), self._version)
        except FileExistsError as error:
            raise StorageError(f"{self._storage.path}: an earlier writer has replaced {BASE}; start again") from error
        fault_points.point("push.folded")
        self._keys = kept
        for name in self._single:
            self._storage.remove(name)
        self._single = []

    def _parse(self, name: str, data: bytes) -> dict[bytes, float]:
        size = len(data) - len(MAGIC) - 4
        body = data[len(MAGIC) : -4]
        valid = size >= 0 and data.startswith(MAGIC) and size % _ENTRY.size == 0
        if not valid or zlib.crc32(body) != int.from_bytes(data[-4:], "little"):
            raise CorruptBytesError(
                f"{self._storage.full_path(name)} is damaged: it has idempotency keys of rows that were pushed. "
                "Restore it from a copy; or remove it, after which a repeat of those requests adds rows again"
            )
        return dict(_ENTRY.iter_unpack(body))


def _encode(keys: dict[bytes, float]) -> bytes:
    body = b"".join(_ENTRY.pack(digest, at) for digest, at in keys.items())
    return MAGIC + body + zlib.crc32(body).to_bytes(4, "little")
