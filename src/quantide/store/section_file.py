"""Section files: named arrays behind a JSON header, with checksums, read in memory or memory-mapped.

    magic, version, length of the header, checksum of the header; the header; then each section at a multiple of 8 bytes

A section has one checksum, verified at every read. A paged section, of which ranges are read, has one checksum for each
page of 64 KB, verified once.
"""

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from quantide.errors import CorruptBytesError
from quantide.store.json_fields import Fields, Read, integer, mapping, parse_json

HEAD = struct.Struct("<4sBxxxII")  # magic, version, length of the header, checksum of the header
ALIGNMENT = 8
PAGE = 1 << 16  # bytes
MAX_HEADER = 1 << 24  # bytes
_SUM, _SIZE = integer(0, 2**32 - 1), integer()

T = TypeVar("T")
Buffer = Any  # bytes, or an array
PageCheck = Callable[[memoryview], bool]  # returns True if all values of a page are valid


def pack(magic: bytes, version: int, info: Any, sections: dict[str, Buffer], paged: Iterable[str] = ()) -> list[Buffer]:
    """Return the consecutive buffers of a file; ranges of the sections named in `paged` can be read."""
    directory: dict[str, list[Any]] = {}
    body: list[Buffer] = []
    offset, paged_names = 0, set(paged)
    for name, data in sections.items():
        view = memoryview(data if isinstance(data, (bytes, memoryview)) else np.ascontiguousarray(data).data).cast("B")
        pages = [view[i : i + PAGE] for i in range(0, len(view), PAGE)]
        sums = [zlib.crc32(page) for page in pages] if name in paged_names else zlib.crc32(view)
        directory[name] = [offset, len(view), sums]
        body += [view, bytes(-len(view) % ALIGNMENT)]
        offset += len(view) + -len(view) % ALIGNMENT
    header = json.dumps({"about": info, "sections": directory}, sort_keys=True).encode()
    start = HEAD.pack(magic, version, len(header), zlib.crc32(header)) + header
    return [start + bytes(-len(start) % ALIGNMENT), *body]


class SectionFile:
    """Open section file. `kind` and `remedy` are for error messages; sections named in `paged` may be missing."""

    def __init__(
        self, data: Any, magic: bytes, version: int, name: str, kind: str, remedy: str, paged: Iterable[str] = ()
    ) -> None:
        self._kept: memoryview | None = memoryview(data)
        self._length = len(self._kept)
        self._reopen: Callable[[], Buffer] = bytes
        self._name, self._remedy, self._paged = name, remedy, frozenset(paged)
        try:
            file_magic, file_version, length, crc = HEAD.unpack_from(self._data)
        except struct.error as error:
            raise self.damaged("it is cut short") from error
        header = bytes(self._data[HEAD.size : HEAD.size + min(length, MAX_HEADER)])
        if file_magic != magic or len(header) != length or zlib.crc32(header) != crc:
            raise self.damaged(f"its header is not that of {kind}")
        if file_version != version:
            raise CorruptBytesError(f"{name}: {kind} of version {file_version}; this Quantide reads version {version}")
        self._start = HEAD.size + length + -(HEAD.size + length) % ALIGNMENT
        self._verified: dict[str, NDArray[np.bool_]] = {}  # for each page
        self.page_checks: Mapping[str, PageCheck] = {}  # by section
        self.info: Any
        self.directory: dict[str, list[Any]]
        self.info, self.directory = self.parse(lambda: self._read_header(header))

    @property
    def _data(self) -> memoryview:
        if self._kept is not None:
            return self._kept
        data = memoryview(self._reopen())
        if len(data) != self._length:
            raise self.damaged("its length has changed")
        return data

    def release(self, reopen: Callable[[], Buffer]) -> None:
        """Let go of the content; `reopen` returns it when a section is read again. Arrays of it must be copies."""
        self._kept, self._reopen = None, reopen

    def __contains__(self, name: str) -> bool:
        return name in self.directory

    def parse(self, read: Callable[[], T]) -> T:
        """Call a parser of this file; translate ValueError to CorruptBytesError."""
        try:
            return read()
        except ValueError as error:
            if isinstance(error, CorruptBytesError) and self._name in str(error):
                raise
            raise self.damaged(str(error)) from error

    def read_section(self, name: str) -> memoryview:
        """Return a whole section."""
        start, size, sums = self._locate(name)
        data = self._data[self._start + start : self._start + start + size]
        if isinstance(sums, list):
            self._check_pages(name, data, sums, 0, size)
        elif zlib.crc32(data) != sums:
            raise self.damaged(f"the checksum of its {name} does not match")
        return data

    def read_array(self, name: str, dtype: np.dtype[Any], length: int | None = None) -> NDArray[Any]:
        """Return a whole section as an array, which must have `length` items."""
        self.check_length(name, dtype, length)
        return np.frombuffer(self.read_section(name), dtype=dtype)

    def check_length(self, name: str, dtype: np.dtype[Any], length: int | None) -> None:
        """Refuse a section of another length, without reading it."""
        size = self._locate(name)[1]
        if size % dtype.itemsize or length not in (None, size // dtype.itemsize):
            raise self.damaged(f"its {name} are {size:,} bytes, which contradicts its counts")

    def read_range(self, name: str, dtype: np.dtype[Any], start: int, end: int) -> NDArray[Any]:
        """Return items start to end of a paged section."""
        offset, size, sums = self._locate(name)
        low, high = int(start) * dtype.itemsize, int(end) * dtype.itemsize
        if not 0 <= low <= high <= size:
            raise self.damaged(f"its {name} are cut short")
        data = self._data[self._start + offset : self._start + offset + size]
        self._check_pages(name, data, sums, low, high)
        return np.frombuffer(data[low:high], dtype=dtype)

    def check(self, magic: bytes, version: int) -> None:
        """Verify every byte: all checksums, and that nothing lies between sections."""
        names = sorted(self.directory, key=lambda name: int(self.directory[name][0]))
        paged = [name for name in names if isinstance(self.directory[name][2], list)]
        buffers = pack(magic, version, self.info, {name: self.read_section(name) for name in names}, paged)
        if b"".join(buffers) != self._data:
            raise self.damaged("there are bytes between its sections")

    def damaged(self, reason: str) -> CorruptBytesError:
        return CorruptBytesError(f"{self._name} is damaged: {reason}; {self._remedy}")

    def _read_header(self, header: bytes) -> tuple[Any, dict[str, list[Any]]]:
        reads: dict[str, Read[Any]] = {"about": lambda value: value, "sections": mapping(lambda value: value)}
        content = Fields(parse_json(header, MAX_HEADER)).take_all(reads)
        checked = {
            name: _read_directory_entry(entry, name in self._paged) for name, entry in content["sections"].items()
        }
        end = 0
        for name, (start, size, _) in sorted(checked.items(), key=lambda item: (item[1][0], item[1][1])):
            if start != end:
                raise ValueError(f"its {name} do not begin where the section before ends")
            end = start + size + -size % ALIGNMENT
        if self._start + end != len(self._data):
            raise ValueError(f"it has {len(self._data):,} bytes, and its header counts {self._start + end:,}")
        return content["about"], checked

    def _locate(self, name: str) -> list[Any]:
        if name not in self.directory:
            raise self.damaged(f"it has no {name}")
        return self.directory[name]

    def _check_pages(self, name: str, data: memoryview, sums: list[int], low: int, high: int) -> None:
        """Verify pages on their first read: their checksums and their values."""
        verified = self._verified.setdefault(name, np.zeros(len(sums), dtype=bool))
        is_valid = self.page_checks.get(name)
        for page in range(low // PAGE, -(-high // PAGE)):
            if not verified[page]:
                content = data[page * PAGE : (page + 1) * PAGE]
                if zlib.crc32(content) != sums[page]:
                    raise self.damaged(f"the checksum of its {name} does not match")
                if is_valid is not None and not is_valid(content):
                    raise self.damaged(f"its {name} are out of range")
                verified[page] = True


def _read_directory_entry(entry: Any, paged: bool) -> list[Any]:
    """Parse the start and size of a section, and its checksum or those of its pages."""
    if not isinstance(entry, list) or len(entry) != 3:
        raise ValueError("a section has a start, a size and a checksum")
    start, size, sums = _SIZE(entry[0]), _SIZE(entry[1]), entry[2]
    if not paged:
        return [start, size, _SUM(sums)]
    if not isinstance(sums, list) or len(sums) != -(-size // PAGE):
        raise ValueError("a section in pages has a checksum for each page")
    return [start, size, [_SUM(value) for value in sums]]
