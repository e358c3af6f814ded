"""Sections: a file of named arrays behind a header in JSON, with checksums, read where it lies.

    magic, version, length of the header, checksum of the header; the header; then each section at a multiple of 8 bytes

A section has one checksum, looked at whenever it is read; or, where parts of it are read on their own, one for each
page of 64 KB, looked at once.
"""

import json
import struct
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.errors import CorruptBytesError

HEAD = struct.Struct("<4sBxxxII")  # magic, version, length of the header, checksum of the header
ALIGNED = 8
PAGE = 1 << 16  # bytes that have a checksum of their own

Buffer = Any  # bytes, or an array that is written as it lies in memory


def pack(
    magic: bytes, version: int, about: Any, sections: dict[str, Buffer], paged: Iterable[str] = ()
) -> list[Buffer]:
    """The pieces of a file, one after the other; sections named in `paged` can be read in part."""
    places: dict[str, list[Any]] = {}
    body: list[Buffer] = []
    at, in_pages = 0, set(paged)
    for name, data in sections.items():
        view = memoryview(data if isinstance(data, (bytes, memoryview)) else np.ascontiguousarray(data).data).cast("B")
        pages = [view[i : i + PAGE] for i in range(0, len(view), PAGE)]
        sums = [zlib.crc32(page) for page in pages] if name in in_pages else zlib.crc32(view)
        places[name] = [at, len(view), sums]
        body += [view, bytes(-len(view) % ALIGNED)]
        at += len(view) + -len(view) % ALIGNED
    header = json.dumps({"about": about, "sections": places}, sort_keys=True).encode()
    start = HEAD.pack(magic, version, len(header), zlib.crc32(header)) + header
    return [start + bytes(-len(start) % ALIGNED), *body]


class Sections:
    """Such a file, in memory or mapped."""

    def __init__(self, data: Any, magic: bytes, version: int, name: str, what: str, mend: str) -> None:
        self._data, self._name, self._mend = memoryview(data), name, mend
        try:
            found, given, length, crc = HEAD.unpack_from(self._data)
            header = bytes(self._data[HEAD.size : HEAD.size + length])
        except struct.error as error:
            raise self.damaged("it is cut short") from error
        if found != magic or len(header) != length or zlib.crc32(header) != crc:
            raise self.damaged(f"its header is not that of a {what}")
        if given != version:
            raise CorruptBytesError(f"{name}: a {what} of version {given}; this Quantide reads version {version}")
        content = json.loads(header)
        self.about: dict[str, Any] = content["about"]
        self.places: dict[str, list[Any]] = content["sections"]
        self._begin = HEAD.size + length + -(HEAD.size + length) % ALIGNED
        self._seen: dict[str, NDArray[np.bool_]] = {}  # pages whose checksum was looked at

    def __contains__(self, name: str) -> bool:
        return name in self.places

    def section(self, name: str) -> memoryview:
        """All of a section."""
        start, size, sums = self._place(name)
        found = self._data[self._begin + start : self._begin + start + size]
        if isinstance(sums, list):
            self._check_pages(name, found, sums, 0, size)
        elif len(found) != size or zlib.crc32(found) != sums:
            raise self.damaged(f"the checksum of its {name} does not match")
        return found

    def array(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        return np.frombuffer(self.section(name), dtype=dtype)

    def part(self, name: str, dtype: np.dtype[Any], start: int, end: int) -> NDArray[Any]:
        """Numbers start to end of a section in pages; one that is not is looked at as a whole."""
        begin, size, sums = self._place(name)
        if not isinstance(sums, list):
            return self.array(name, dtype)[start:end]
        found = self._data[self._begin + begin : self._begin + begin + size]
        low, high = start * dtype.itemsize, end * dtype.itemsize
        self._check_pages(name, found, sums, low, high)
        return np.frombuffer(found[low:high], dtype=dtype)

    def check(self, magic: bytes, version: int) -> None:
        """Look at every byte: all checksums, and that there is nothing between sections."""
        names = sorted(self.places, key=lambda name: int(self.places[name][0]))
        paged = [name for name in names if isinstance(self.places[name][2], list)]
        pieces = pack(magic, version, self.about, {name: self.section(name) for name in names}, paged)
        if b"".join(pieces) != self._data:
            raise self.damaged("there are bytes between its sections")

    def damaged(self, why: str) -> CorruptBytesError:
        return CorruptBytesError(f"{self._name} is damaged: {why}; {self._mend}")

    def _place(self, name: str) -> list[Any]:
        try:
            start, size, sums = self.places[name]
        except (KeyError, ValueError) as error:
            raise self.damaged(f"it has no {name}") from error
        return [start, size, sums]

    def _check_pages(self, name: str, found: memoryview, sums: list[int], low: int, high: int) -> None:
        seen = self._seen.setdefault(name, np.zeros(len(sums), dtype=bool))
        for page in range(low // PAGE, -(-high // PAGE)):
            if page >= len(sums) or len(found) < high:
                raise self.damaged(f"its {name} are cut short")
            if not seen[page]:
                if zlib.crc32(found[page * PAGE : (page + 1) * PAGE]) != sums[page]:
                    raise self.damaged(f"the checksum of its {name} does not match")
                seen[page] = True
