"""Footer scan: sizes of column chunks in the footer of a Parquet file, a message of Thrift's compact protocol.

It follows Arrow's parser, or refuses the footer: fields count only with their type, numbers of fields have 16 bits, and
a list must have the elements of its field, whose type that parser ignores.
"""

import numpy as np

from quantide.kernels.jit import compiled
from quantide.typing import Bytes, Ints

CODEC, VALUES, UNCOMPRESSED, COMPRESSED, TYPE, TEXT_BYTES, REPETITION, DEFINITION, ENCRYPTED, STATISTICS = range(10)
"""Rows of the result: the codec, number of values, bytes and physical type of a chunk; 1 if its size statistics have
bytes of texts; lengths of their histograms of repetition and definition levels; 1 if the chunk is encrypted; 1 if it
has statistics."""
LIMITS = 10, 11, 14, 15
"""Rows of the lengths of a minimum or maximum, plus 1; 0 without one."""
FIELDS = 16
FOOTER, GROUP, CHUNK, COLUMN, BOUNDS, SIZES, GEOGRAPHY, OTHER = range(8)  # structs
STOP, BYTE, SHORT, INT, LONG, DOUBLE, BINARY, LIST, SET, STRUCT = 0, 3, 4, 5, 6, 7, 8, 9, 10, 12  # 1, 2: true and false
DEPTH = 32  # of nested structs and lists
IN_STRUCT = -1  # number of elements that are left
REFUSED = -1


@compiled
def scan_chunks(data: Bytes, found: Ints) -> int:
    """Fill a column of `found` for each column chunk; return their number, or REFUSED.

    Bytes are refused if they end early, nest deeper than DEPTH, have maps or lists of a wrong type, or have more chunks
    than `found` has columns.
    """
    struct, field = np.zeros(DEPTH, np.int64), np.zeros(DEPTH, np.int64)
    left, element = np.zeros(DEPTH, np.int64), np.zeros(DEPTH, np.int64)
    left[0] = IN_STRUCT
    depth = i = chunks = 0
    end = len(data)
    while depth >= 0:
        if left[depth] == 0:
            depth -= 1
            continue
        if left[depth] == IN_STRUCT:
            if i >= end:
                return REFUSED
            head = np.int64(data[i])
            i += 1
            kind = int(head & 15)
            if kind == STOP:
                depth -= 1
                continue
            number = field[depth] + (head >> 4)
            if head >> 4 == 0:
                number, i = _read_varint(data, i)
                number = _from_zigzag(number)
            field[depth] = ((number + 0x8000) & 0xFFFF) - 0x8000
            outer, name = struct[depth], field[depth]
        else:
            left[depth] -= 1
            kind, outer, name = int(element[depth]), np.int64(OTHER), np.int64(0)
            if kind < BYTE:  # true and false take a byte in lists
                kind = BYTE
        if kind < BYTE:
            continue
        if kind == BYTE:
            i += 1
        elif kind in (SHORT, INT, LONG):
            number, i = _read_varint(data, i)
            if outer == COLUMN and 4 <= name <= 7 and kind == (INT if name == 4 else LONG):
                found[name - 4, chunks - 1] = _from_zigzag(number)
            elif outer == COLUMN and name == 1 and kind == INT:
                found[TYPE, chunks - 1] = _from_zigzag(number)
            elif outer == SIZES and name == 1:
                found[TEXT_BYTES, chunks - 1] = 1
        elif kind == DOUBLE:
            i += 8
        elif kind == BINARY:
            number, i = _read_varint(data, i)
            if number < 0 or number > end - i:
                return REFUSED
            i += number
            if outer == BOUNDS and name in (1, 2, 5, 6):
                found[STATISTICS + name, chunks - 1] = number + 1
        elif kind in (LIST, SET, STRUCT):
            inner = _inner_struct(outer, name, kind)
            if left[depth] != IN_STRUCT and kind == STRUCT:
                inner = struct[depth]
            depth += 1
            if depth == DEPTH:
                return REFUSED
            struct[depth], field[depth], left[depth] = inner, 0, IN_STRUCT
            if kind == STRUCT:
                if outer == CHUNK and name == 8:
                    found[ENCRYPTED, chunks - 1] = 1
                if inner == BOUNDS:
                    found[STATISTICS, chunks - 1] = 1
                if inner == CHUNK:
                    if chunks == found.shape[1]:
                        return REFUSED
                    found[:, chunks] = 0
                    chunks += 1
            else:
                if i >= end:
                    return REFUSED
                head = np.int64(data[i])
                i += 1
                element[depth], left[depth] = head & 15, head >> 4
                if head >> 4 == 15:
                    left[depth], i = _read_varint(data, i)
                if left[depth] < 0 or (left[depth] and not _is_element(outer, name, kind, element[depth])):
                    return REFUSED
                if outer == SIZES and 2 <= name <= 3 and kind == LIST:
                    found[REPETITION - 2 + name, chunks - 1] = left[depth]
        else:
            return REFUSED
        if i > end:
            return REFUSED
    return chunks


@compiled
def _inner_struct(outer: int, field: int, kind: int) -> int:
    """Return the struct that a field of a struct is, or of which it is a list."""
    if outer == FOOTER and field == 4 and kind == LIST:
        return GROUP
    if outer == GROUP and field == 1 and kind == LIST:
        return CHUNK
    if outer == CHUNK and field == 3 and kind == STRUCT:
        return COLUMN
    if outer == COLUMN and field == 12 and kind == STRUCT:
        return BOUNDS
    if outer == COLUMN and field == 16 and kind == STRUCT:
        return SIZES
    if outer == COLUMN and field == 17 and kind == STRUCT:
        return GEOGRAPHY
    return OTHER


@compiled
def _is_element(outer: int, field: int, kind: int, element: int) -> bool:
    """Return True if a list may have elements of a type."""
    if kind == LIST:
        if outer == FOOTER and field in (2, 4, 5, 7):
            return element == STRUCT
        if outer == GROUP and field in (1, 4):
            return element == STRUCT
        if outer == COLUMN and field in (8, 13):
            return element == STRUCT
        if outer == COLUMN and field == 3:
            return element == BINARY
        if (outer == COLUMN and field == 2) or (outer == GEOGRAPHY and field == 2):
            return element == INT
        if outer == SIZES and field in (2, 3):
            return element == LONG
    return element != STOP


@compiled
def _read_varint(data: Bytes, i: int) -> tuple[int, int]:
    """Return a number and the position after it, which is beyond the end if the bytes end early."""
    number = shift = 0
    while i < len(data) and shift < 64:
        byte = int(data[i])
        number |= (byte & 127) << shift
        i += 1
        if byte < 128:
            return number, i
        shift += 7
    return 0, len(data) + 1


@compiled
def _from_zigzag(number: int) -> int:
    return ((number >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(number & 1)
