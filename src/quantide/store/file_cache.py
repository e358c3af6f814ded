"""Cache of object-store files on local disk, within a limit, verified by checksum.

Only content that never changes is cached. An entry is a file: the content, then its length and its CRC-32, which are
verified whenever the file is opened; a damaged or foreign file is fetched again. When the entries exceed the limit, the
least recently used are removed. Several processes may share the folder.
"""

import mmap
import os
import struct
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from threading import Lock
from typing import Any

_TRAILER = struct.Struct("<4sIQ")  # magic, CRC-32, length
_MAGIC = b"QTFC"


def cache_folder() -> str:
    """Return the folder of the cache: QUANTIDE_CACHE, or the user's folder for caches."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("QUANTIDE_CACHE") or os.path.join(root, "quantide")


class FileCache:
    """Cache of the files of one table. Thread-safe."""

    def __init__(self, folder: str, identity: str, max_bytes: int) -> None:
        self._folder, self._identity, self._max_bytes = folder, identity, max_bytes
        self._lock = Lock()
        self._written = max_bytes  # bytes since the last eviction; the first write evicts

    def get(self, name: str, fetch: Callable[[], bytes]) -> tuple[Any, bool]:
        """Return the content of a file and True if it was in the cache; call `fetch` if it is not."""
        path = self._path(name)
        cached = _open(path)
        if cached is not None:
            with suppress(OSError):
                os.utime(path)
            return cached, True
        data = fetch()
        self._put(path, data)
        return _open(path) or data, False

    def remove(self, name: str) -> None:
        """Remove a file that was written again, such as an index file that was lost or damaged."""
        with suppress(OSError):
            os.remove(self._path(name))

    def _path(self, name: str) -> str:
        digest = sha256(f"{self._identity}/{name}".encode()).hexdigest()
        return os.path.join(self._folder, digest[:2], digest[2:])

    def _put(self, path: str, data: bytes) -> None:
        """Write an entry. A cache that cannot be written, for instance on a full disk, is not used."""
        if len(data) > self._max_bytes // 4:
            return
        with suppress(OSError):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.write(_TRAILER.pack(_MAGIC, zlib.crc32(data), len(data)))
                os.replace(temporary, path)
            except OSError:
                with suppress(OSError):
                    os.remove(temporary)
                raise
            self._evict(len(data) + _TRAILER.size)

    def _evict(self, written: int) -> None:
        """Remove the least recently used entries once a sixteenth of the limit was written since the last eviction."""
        with self._lock:
            self._written += written
            if self._written <= self._max_bytes // 16:
                return
            self._written = 0
            entries = []
            for folder, _, names in os.walk(self._folder):
                for name in names:
                    with suppress(OSError):
                        status = os.stat(path := os.path.join(folder, name))
                        entries.append((status.st_mtime, status.st_size, path))
            excess = sum(size for _, size, _ in entries) - self._max_bytes * 15 // 16
            for _, size, path in sorted(entries):
                if excess <= 0:
                    return
                with suppress(OSError):
                    os.remove(path)
                excess -= size


def _open(path: str) -> memoryview | None:
    """Map an entry and verify it; None if it is missing, damaged or cut short."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < _TRAILER.size:
                return None
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError:
        return None
    magic, crc, length = _TRAILER.unpack(data[-_TRAILER.size :])
    content = data[: -_TRAILER.size]
    if magic != _MAGIC or length != len(content) or zlib.crc32(content) != crc:
        return None
    return content
