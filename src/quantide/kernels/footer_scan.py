"""Footer scan: sizes of column chunks in the footer of a Parquet file, a message of Thrift's compact protocol.

The scan accepts a field only with its declared type, and refuses a list whose element type is not the declared one.
Field numbers wrap at 16 bits, as in Arrow's parser.
"""

import numpy as np

from quantide.kernels.jit import compiled
from quantide.typing import Bytes, Ints

CODEC, VALUES, UNCOMPRESSED, COMPRESSED, TYPE, TEXT_BYTES, REPETITION, DEFINITION, ENCRYPTED, STATISTICS = range(10)
"""Rows of the result: the codec, number of values, bytes and physical type of a chunk; 1 if its size statistics have
bytes of texts; lengths of their histograms of repetition and definition levels; 1 if the chunk is encrypted; 1 if it
has statistics."""
LIMITS = 10, 11, 14, 15
"""Rows of the length of a limit plus 1, or 0 without one: STATISTICS + the field number of max (1), min (2), max_value
(5) or min_value (6). Rows 12 and 13 are unused."""
FIELDS = 16
FOOTER, GROUP, CHUNK, COLUMN, BOUNDS, SIZES, GEOGRAPHY, OTHER = range(8)  # structs
STOP, BYTE, SHORT, INT, LONG, DOUBLE, BINARY, LIST, SET, STRUCT = 0, 3, 4, 5, 6, 7, 8, 9, 10, 12  # 1, 2: true and false
DEPTH = 32  # of nested structs and lists
IN_STRUCT = -1  # value of left[] in a struct, which ends with STOP and not after a number of elements
REFUSED = NO_ROW = -1


@compiled
def scan_chunks(data: Bytes, fields: Ints) -> int:
    """Fill a column of `fields` for each column chunk; return their number, or REFUSED.

    Bytes are refused if they end early, nest deeper than DEPTH, have maps or lists of a wrong type, or have more chunks
    than `fields` has columns.
    """
    structs, numbers = np.zeros(DEPTH, np.int64), np.zeros(DEPTH, np.int64)  # by depth: the struct, its last field
    left, elements = np.zeros(DEPTH, np.int64), np.zeros(DEPTH, np.int64)
    left[0] = IN_STRUCT
    depth = i = chunks = 0
    while depth >= 0:
        kind, outer, name = STOP, OTHER, 0
        if left[depth] > 0:
            left[depth] -= 1
            kind = max(int(elements[depth]), BYTE)  # true and false take a byte in lists
        elif left[depth] == IN_STRUCT:
            if i >= len(data):
                return REFUSED
            head = int(data[i])  # read here: a helper with these arrays makes the scan three times slower
            kind, name, i = head & 15, int(numbers[depth]) + (head >> 4), i + 1
            if kind != STOP and head >> 4 == 0:
                name, i = _read_varint(data, i)
                name = _from_zigzag(name)
            name = ((name + 0x8000) & 0xFFFF) - 0x8000
            outer, numbers[depth] = int(structs[depth]), name
        if kind == STOP:
            depth -= 1
            continue
        row, value = _result_row(outer, name, kind), 1
        if kind in (LIST, SET, STRUCT):
            inner = _inner_struct(outer, name, kind)
            if left[depth] != IN_STRUCT and kind == STRUCT:
                inner = int(structs[depth])
            depth += 1
            if depth == DEPTH or (kind == STRUCT and inner == CHUNK and chunks == fields.shape[1]):
                return REFUSED
            structs[depth], numbers[depth], left[depth] = inner, 0, IN_STRUCT
            if kind != STRUCT:
                elements[depth], value, i = _read_list_header(data, i, outer, name, kind)
                left[depth] = value
            elif inner == CHUNK:
                fields[:, chunks] = 0
                chunks += 1
        else:
            value, i = _read_value(data, i, kind)
        if i > len(data):
            return REFUSED
        if row != NO_ROW:
            fields[row, chunks - 1] = 1 if row == TEXT_BYTES else value
    return chunks


@compiled
def _read_list_header(data: Bytes, i: int, outer: int, name: int, kind: int) -> tuple[int, int, int]:
    """Return type and number of a list's elements, and the position after its header."""
    if i >= len(data):
        return STOP, 0, _beyond(data)
    head = int(data[i])
    i += 1
    element, count = head & 15, head >> 4
    if count == 15:
        count, i = _read_varint(data, i)
    if count < 0 or (count and not _is_element(outer, name, kind, element)):
        return STOP, 0, _beyond(data)
    return element, count, i


@compiled
def _read_value(data: Bytes, i: int, kind: int) -> tuple[int, int]:
    """Return the number of a field, or the length of its bytes plus 1, and the position after it."""
    if kind in (SHORT, INT, LONG):
        number, i = _read_varint(data, i)
        return _from_zigzag(number), i
    if kind == BINARY:
        length, i = _read_varint(data, i)
        if 0 <= length <= len(data) - i:
            return length + 1, i + length
        return 0, _beyond(data)
    if kind > DOUBLE:
        return 0, _beyond(data)
    return 0, i + (8 if kind == DOUBLE else 1 if kind == BYTE else 0)


@compiled
def _result_row(outer: int, field: int, kind: int) -> int:
    """Return the row of the result that a field of a struct fills; NO_ROW if it is not part of the result."""
    if outer == COLUMN and kind == INT and field in (1, 4):
        return TYPE if field == 1 else CODEC
    if outer == COLUMN and kind == LONG and 5 <= field <= 7:
        return VALUES - 5 + field
    if outer == COLUMN and kind == STRUCT and field == 12:
        return STATISTICS
    if outer == BOUNDS and kind == BINARY and field in (1, 2, 5, 6):
        return STATISTICS + field
    if outer == SIZES and kind in (SHORT, INT, LONG) and field == 1:
        return TEXT_BYTES
    if outer == SIZES and kind == LIST and field in (2, 3):
        return REPETITION - 2 + field
    if outer == CHUNK and kind == STRUCT and field == 8:
        return ENCRYPTED
    return NO_ROW


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
    return 0, _beyond(data)


@compiled
def _beyond(data: Bytes) -> int:
    """Return the position that refuses the bytes."""
    return len(data) + 1


@compiled
def _from_zigzag(number: int) -> int:
    return ((number >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(number & 1)
