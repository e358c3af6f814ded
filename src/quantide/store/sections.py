"""Sections: a file of named arrays behind a header in JSON, with checksums, read where it lies.

    magic, version, length of the header, checksum of the header; the header; then each section at a multiple of 8 bytes

A section has one checksum, looked at whenever it is read; or, where parts of it are read on their own, one for each
page of 64 KB, looked at once.
"""

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from quantide.errors import CorruptBytesError
from quantide.store.fields import Fields, Read, integer, mapping, parse_json

HEAD = struct.Struct("<4sBxxxII")  # magic, version, length of the header, checksum of the header
ALIGNED = 8
PAGE = 1 << 16  # bytes that have a checksum of their own
MOST_HEADER = 1 << 24  # bytes of a header
_SUM, _SIZE = integer(0, 2**32 - 1), integer()

T = TypeVar("T")
Buffer = Any  # bytes, or an array that is written as it lies in memory
PageCheck = Callable[[memoryview], bool]  # whether a page holds values that its section may have


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
    """Such a file, in memory or mapped. Names in `paged` are sections in pages, if they are there."""

    def __init__(
        self, data: Any, magic: bytes, version: int, name: str, what: str, mend: str, paged: Iterable[str] = ()
    ) -> None:
        self._data, self._name, self._mend, self._paged = memoryview(data), name, mend, frozenset(paged)
        try:
            found, given, length, crc = HEAD.unpack_from(self._data)
        except struct.error as error:
            raise self.damaged("it is cut short") from error
        header = bytes(self._data[HEAD.size : HEAD.size + min(length, MOST_HEADER)])
        if found != magic or len(header) != length or zlib.crc32(header) != crc:
            raise self.damaged(f"its header is not that of a {what}")
        if given != version:
            raise CorruptBytesError(f"{name}: a {what} of version {given}; this Quantide reads version {version}")
        self._begin = HEAD.size + length + -(HEAD.size + length) % ALIGNED
        self._seen: dict[str, NDArray[np.bool_]] = {}  # pages that were checked
        self.page_checks: Mapping[str, PageCheck] = {}  # by the names of sections
        self.about: Any
        self.places: dict[str, list[Any]]
        self.about, self.places = self.parse(lambda: self._read_header(header))

    def __contains__(self, name: str) -> bool:
        return name in self.places

    def parse(self, read: Callable[[], T]) -> T:
        """Read something of this file; where a value is wrong, the file is damaged."""
        try:
            return read()
        except ValueError as error:
            if isinstance(error, CorruptBytesError) and self._name in str(error):
                raise
            raise self.damaged(str(error)) from error

    def section(self, name: str) -> memoryview:
        """All of a section."""
        start, size, sums = self._place(name)
        found = self._data[self._begin + start : self._begin + start + size]
        if isinstance(sums, list):
            self._check_pages(name, found, sums, 0, size)
        elif zlib.crc32(found) != sums:
            raise self.damaged(f"the checksum of its {name} does not match")
        return found

    def array(self, name: str, dtype: np.dtype[Any], length: int | None = None) -> NDArray[Any]:
        """All of a section as numbers, of which there must be `length`."""
        self.check_length(name, dtype, length)
        return np.frombuffer(self.section(name), dtype=dtype)

    def check_length(self, name: str, dtype: np.dtype[Any], length: int | None) -> None:
        """Refuse a section that has not so many numbers; its content is not read yet."""
        size = self._place(name)[1]
        if size % dtype.itemsize or length not in (None, size // dtype.itemsize):
            raise self.damaged(f"its {name} are {size:,} bytes, which contradicts its counts")

    def part(self, name: str, dtype: np.dtype[Any], start: int, end: int) -> NDArray[Any]:
        """Numbers start to end of a section in pages."""
        begin, size, sums = self._place(name)
        low, high = int(start) * dtype.itemsize, int(end) * dtype.itemsize
        if not 0 <= low <= high <= size:
            raise self.damaged(f"its {name} are cut short")
        found = self._data[self._begin + begin : self._begin + begin + size]
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

    def _read_header(self, header: bytes) -> tuple[Any, dict[str, list[Any]]]:
        reads: dict[str, Read[Any]] = {"about": lambda found: found, "sections": mapping(lambda found: found)}
        content = Fields(parse_json(header, MOST_HEADER)).take_all(reads)
        checked = {name: _read_place(place, name in self._paged) for name, place in content["sections"].items()}
        end = 0
        for name, (start, size, _) in sorted(checked.items(), key=lambda item: (item[1][0], item[1][1])):
            if start != end:
                raise ValueError(f"its {name} do not begin where the section before ends")
            end = start + size + -size % ALIGNED
        if self._begin + end != len(self._data):
            raise ValueError(f"it has {len(self._data):,} bytes, and its header tells of {self._begin + end:,}")
        return content["about"], checked

    def _place(self, name: str) -> list[Any]:
        if name not in self.places:
            raise self.damaged(f"it has no {name}")
        return self.places[name]

    def _check_pages(self, name: str, found: memoryview, sums: list[int], low: int, high: int) -> None:
        """Check pages that nobody looked at yet: their checksums, and the values they hold."""
        seen = self._seen.setdefault(name, np.zeros(len(sums), dtype=bool))
        fits = self.page_checks.get(name)
        for page in range(low // PAGE, -(-high // PAGE)):
            if not seen[page]:
                held = found[page * PAGE : (page + 1) * PAGE]
                if zlib.crc32(held) != sums[page]:
                    raise self.damaged(f"the checksum of its {name} does not match")
                if fits is not None and not fits(held):
                    raise self.damaged(f"its {name} are out of range")
                seen[page] = True


def _read_place(found: Any, paged: bool) -> list[Any]:
    """Where a section lies: its start, its size, and a checksum, or one for each page."""
    if not isinstance(found, list) or len(found) != 3:
        raise ValueError("a section has a start, a size and a checksum")
    start, size, sums = _SIZE(found[0]), _SIZE(found[1]), found[2]
    if not paged:
        return [start, size, _SUM(sums)]
    if not isinstance(sums, list) or len(sums) != -(-size // PAGE):
        raise ValueError("a section in pages has a checksum for each page")
    return [start, size, [_SUM(one) for one in sums]]
