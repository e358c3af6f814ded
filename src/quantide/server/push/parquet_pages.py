"""Parquet pages: sizes, numbers of values and encodings of a pushed file's pages, read from the headers of the pages.

A footer may contradict them, and the reader takes memory by the headers: a page of some kilobytes that is a gigabyte
after decompression.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from quantide.store.parquet_footer import COMPRESSED, VALUES
from quantide.typing import Ints

MAX_PAGES = 100_000  # of a body: their headers are read in a second or two
PADDING = 100  # bytes after a chunk that Arrow also reads, because some writers left the dictionary's header out
DEPTH = 8  # of structs in a header
STOP, BYTE, INT, LONG, DOUBLE, BINARY, STRUCT = 0, 3, 5, 6, 7, 8, 12  # types of the compact protocol
TYPE, UNCOMPRESSED_SIZE, COMPRESSED_SIZE = 1, 2, 3  # fields of a page header
DATA_PAGE, DATA_PAGE_V2 = 0, 3  # types of pages
DATA_HEADERS = {DATA_PAGE: (5, 2), DATA_PAGE_V2: (8, 4)}  # field of the header of its data, and in it of the encoding
NUM_VALUES = 1
PLAIN, PLAIN_DICTIONARY, DELTA_LENGTH, RLE_DICTIONARY = 0, 2, 6, 8
WITH_DICTIONARY = frozenset((PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY))  # what Arrow reads into a dictionary
WITHOUT_EXPANSION = frozenset((PLAIN, DELTA_LENGTH))  # each text takes its bytes in the page
CUT = "a header of a page is damaged or cut off"


@dataclass(frozen=True)
class PageHeaders:
    """Sums over headers of pages: bytes after decompression and values by row group and column; encodings by column."""

    sizes: Ints
    values: Ints
    encodings: list[set[int]]


class PageHeader(NamedTuple):
    """Header of a page; its encoding is None unless it has data, and `end` is the position after the page."""

    size: int
    values: int
    encoding: int | None
    end: int


def scan_pages(body: bytes, metadata: Any, chunks: Ints) -> PageHeaders:
    """Read the headers of all pages that Arrow would read; raise ValueError if one cannot be read."""
    groups, columns = metadata.num_row_groups, metadata.num_columns
    sizes, values = np.zeros((2, groups, columns), dtype=np.int64)
    pages = PageHeaders(sizes, values, [set() for _ in range(columns)])
    left = MAX_PAGES
    for group in range(groups):
        row_group = metadata.row_group(group)
        for column in range(columns):
            position = _find_start(row_group.column(column))
            count, stored = chunks[[VALUES, COMPRESSED], group, column].tolist()
            end = position + stored
            if position < 0 or stored < 0 or end > len(body):
                raise ValueError("a column is not within the file")
            while position < end + PADDING and values[group, column] < count:
                if not left:
                    raise ValueError(f"it has more than {MAX_PAGES:,} pages; write larger ones, or send it in parts")
                header, left = read_page_header(body, position), left - 1
                sizes[group, column] += header.size
                values[group, column] += header.values
                if header.encoding is not None:
                    pages.encodings[column].add(header.encoding)
                position = header.end
    return pages


def _find_start(chunk: Any) -> int:
    """Return the position of the first page of a column chunk, as Arrow finds it."""
    data, dictionary = int(chunk.data_page_offset), chunk.dictionary_page_offset
    return int(dictionary) if chunk.has_dictionary_page and 0 < dictionary < data else data


def read_page_header(data: bytes, position: int) -> PageHeader:
    """Read the header of a page, a message of Thrift's compact protocol."""
    try:
        fields, end = _read_struct(data, position, DEPTH)
        kind, size, stored = fields[TYPE], fields[UNCOMPRESSED_SIZE], fields[COMPRESSED_SIZE]
        values, encoding = 0, None
        if kind in DATA_HEADERS:
            field, encoding_field = DATA_HEADERS[kind]
            values, encoding = fields[field][NUM_VALUES], fields[field][encoding_field]
        is_valid = min(size, stored, values, encoding or 0) >= 0
    except (KeyError, IndexError, TypeError) as error:  # TypeError: a struct in place of a number, or the reverse
        raise ValueError(CUT) from error
    if not is_valid:
        raise ValueError(CUT)
    return PageHeader(size, values, encoding, end + stored)


def _read_struct(data: bytes, i: int, depth: int) -> tuple[dict[int, Any], int]:
    """Return the 32-bit integers and structs of a struct by their fields, and the position after it."""
    if not depth:
        raise ValueError(CUT)
    fields: dict[int, Any] = {}
    number = 0
    while (head := data[i]) != STOP:
        kind, i = head & 15, i + 1
        if head >> 4:
            number += head >> 4
        else:
            long, i = _read_varint(data, i)
            number = (long >> 1) ^ -(long & 1)
        number = ((number + 0x8000) & 0xFFFF) - 0x8000
        if kind == INT:
            long, i = _read_varint(data, i)
            fields[number] = (long & 0xFFFFFFFF) >> 1 ^ -(long & 1)
        elif kind == STRUCT:
            fields[number], i = _read_struct(data, i, depth - 1)
        elif kind >= BYTE:  # true and false have no bytes of their own
            i = _skip(data, i, kind)
    return fields, i + 1


def _skip(data: bytes, i: int, kind: int) -> int:
    if kind == BYTE:
        return i + 1
    if kind <= LONG:
        return _read_varint(data, i)[1]
    if kind == DOUBLE:
        return i + 8
    if kind == BINARY:
        length, i = _read_varint(data, i)
        return i + length
    raise ValueError(CUT)  # no header has lists, sets or maps


def _read_varint(data: bytes, i: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 64:
        byte = data[i]
        number |= (byte & 127) << shift
        i += 1
        if byte < 128:
            return number, i
        shift += 7
    raise ValueError(CUT)
