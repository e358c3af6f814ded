"""JSON scan: finds the fields of records that are flat JSON objects of a plain form, and refuses all other records.

The plain form is a part of JSON that every parser reads in the same way: one object without nested values; text without
escapes; numbers whose conversion cannot overflow or lose a sign; no field twice; times as in
2026-11-18T07:30:23.123456+01:00, whose fraction and zone may be missing. A refused record is not wrong: a complete
parser decides that.
"""

import numpy as np

from quantide.kernels.jit import compiled
from quantide.typing import Bools, Bytes, Ints

DOUBLE, BIGINT, INT, STRING, BOOLEAN, TIMESTAMP = range(6)  # kinds of fields
REFUSED, NULL, INTEGER, DECIMAL, TEXT, LITERAL = range(6)  # kinds of tokens
MAX_RECORD = 1 << 15  # bytes
MAX_NUMBER, MAX_DIGITS, MAX_INT_DIGITS, MAX_EXPONENT = 40, 18, 9, 2  # characters, and digits of integers and exponents
NO_FIELD = -1  # start of a field that is null or missing
NO_TIME = np.iinfo(np.int64).min
FIRST_YEAR, LAST_YEAR, MAX_ZONE_HOURS = 1900, 2199, 14
QUOTE, BACKSLASH, COMMA, COLON, OPEN, CLOSE = 34, 92, 44, 58, 123, 125
PLUS, MINUS, DOT, ZERO, NINE, LOWER_E, UPPER_E, UPPER_T, UPPER_Z = 43, 45, 46, 48, 57, 101, 69, 84, 90
TRUE, FALSE, NONE = (np.frombuffer(word, dtype=np.uint8) for word in (b"true", b"false", b"null"))


@compiled
def scan_objects(
    data: Bytes,
    offsets: Ints,
    names: Bytes,
    name_ends: Ints,
    kinds: Ints,
    ascii_only: bool,
    starts: Ints,
    ends: Ints,
    accepted: Bools,
) -> None:
    """Find the fields of each record: `starts` and `ends` have a row for each field, with positions in the data.

    The names of fields lie one after the other in `names`.
    """
    starts[:] = NO_FIELD
    for record in range(len(accepted)):
        begin, end = offsets[record], offsets[record + 1]
        accepted[record] = end - begin <= MAX_RECORD and _scan_object(
            data, begin, end, names, name_ends, kinds, ascii_only, starts[:, record], ends[:, record]
        )
        if not accepted[record]:
            starts[:, record] = NO_FIELD


@compiled
def _scan_object(
    data: Bytes,
    i: int,
    end: int,
    names: Bytes,
    name_ends: Ints,
    kinds: Ints,
    ascii_only: bool,
    starts: Ints,
    ends: Ints,
) -> bool:
    """Find the fields of one record, from position i on; return False if it is refused."""
    ends[:] = NO_FIELD  # a field that was seen has an end, also if it is null
    i = _skip_blanks(data, i, end)
    if i == end or data[i] != OPEN:
        return False
    i = _skip_blanks(data, i + 1, end)
    if i < end and data[i] == CLOSE:
        return _skip_blanks(data, i + 1, end) == end
    while i < end and data[i] == QUOTE:
        close = _end_of_text(data, i + 1, end, ascii_only)
        field = _find_name(data, i + 1, close, names, name_ends) if close > 0 else NO_FIELD
        i = _skip_blanks(data, close + 1, end) if close > 0 else end
        if i == end or data[i] != COLON:
            return False
        i = _skip_blanks(data, i + 1, end)
        token, after = _end_of_token(data, i, end, ascii_only)
        if token == REFUSED:
            return False
        if field != NO_FIELD:
            if ends[field] != NO_FIELD or not _fits(token, kinds[field], after - i):
                return False
            quotes = 1 if token == TEXT else 0
            ends[field] = after - quotes
            if token != NULL:
                starts[field] = i + quotes
        i = _skip_blanks(data, after, end)
        if i < end and data[i] == CLOSE:
            return _skip_blanks(data, i + 1, end) == end
        if i == end or data[i] != COMMA:
            return False
        i = _skip_blanks(data, i + 1, end)
    return False


@compiled
def _fits(token: int, kind: int, length: int) -> bool:
    """Return True if a token is one of a kind of field."""
    if token == NULL:
        return True
    if kind == DOUBLE:
        return token in (INTEGER, DECIMAL)
    if kind == BIGINT:
        return token == INTEGER
    if kind == INT:
        return token == INTEGER and length <= MAX_INT_DIGITS
    if kind == BOOLEAN:
        return token == LITERAL
    return token == TEXT


@compiled
def _skip_blanks(data: Bytes, i: int, end: int) -> int:
    while i < end and (data[i] == 32 or data[i] == 10 or data[i] == 13 or data[i] == 9):
        i += 1
    return i


@compiled
def _end_of_text(data: Bytes, i: int, end: int, ascii_only: bool) -> int:
    """Return the position of the closing quote; -1 if there is none, or an escape or a control character before it."""
    while i < end:
        character = data[i]
        if character == QUOTE:
            return i
        if character < 32 or character == BACKSLASH or (ascii_only and character > 127):
            return -1
        i += 1
    return -1


@compiled
def _find_name(data: Bytes, start: int, end: int, names: Bytes, name_ends: Ints) -> int:
    """Return the field of a name."""
    first = 0
    for field in range(len(name_ends)):
        if name_ends[field] - first == end - start and _equal(data, start, names[first : name_ends[field]]):
            return field
        first = name_ends[field]
    return NO_FIELD


@compiled
def _equal(data: Bytes, start: int, word: Bytes) -> bool:
    same = 0
    while same < len(word) and data[start + same] == word[same]:
        same += 1
    return same == len(word)


@compiled
def _end_of_token(data: Bytes, i: int, end: int, ascii_only: bool) -> tuple[int, int]:
    """Return the kind of the token at position i, and the position after it."""
    if i == end:
        return REFUSED, end
    if data[i] == QUOTE:
        close = _end_of_text(data, i + 1, end, ascii_only)
        return (TEXT, close + 1) if close > 0 else (REFUSED, end)
    if data[i] == MINUS or ZERO <= data[i] <= NINE:
        return _end_of_number(data, i, end)
    if end - i >= 4 and _equal(data, i, NONE):
        return NULL, i + 4
    if end - i >= 4 and _equal(data, i, TRUE):
        return LITERAL, i + 4
    if end - i >= 5 and _equal(data, i, FALSE):
        return LITERAL, i + 5
    return REFUSED, end


@compiled
def _end_of_number(data: Bytes, i: int, end: int) -> tuple[int, int]:
    """As _end_of_token, for a number. The integer -0 is refused: some parsers drop its sign."""
    first = i
    if data[i] == MINUS:
        i += 1
    digits = i
    i = _end_of_digits(data, i, end)
    if i == digits or i - digits > MAX_DIGITS or (data[digits] == ZERO and i - digits > 1):
        return REFUSED, end
    token = INTEGER
    if i < end and data[i] == DOT:
        token, fraction = DECIMAL, i + 1
        i = _end_of_digits(data, fraction, end)
        if i == fraction:
            return REFUSED, end
    if i < end and (data[i] == LOWER_E or data[i] == UPPER_E):
        token, exponent = DECIMAL, i + 1
        if exponent < end and (data[exponent] == PLUS or data[exponent] == MINUS):
            exponent += 1
        i = _end_of_digits(data, exponent, end)
        if i == exponent or i - exponent > MAX_EXPONENT:
            return REFUSED, end
    if i - first > MAX_NUMBER or (token == INTEGER and data[first] == MINUS and data[digits] == ZERO):
        return REFUSED, end
    return token, i


@compiled
def _end_of_digits(data: Bytes, i: int, end: int) -> int:
    while i < end and ZERO <= data[i] <= NINE:
        i += 1
    return i


@compiled
def gather_fields(data: Bytes, starts: Ints, ends: Ints, out: Bytes, out_offsets: Ints) -> None:
    """Copy the fields at these positions one after the other; `out_offsets` are their positions in `out`."""
    size = 0
    out_offsets[0] = 0
    for record in range(len(starts)):
        if starts[record] != NO_FIELD:
            for k in range(starts[record], ends[record]):
                out[size] = data[k]
                size += 1
        out_offsets[record + 1] = size


@compiled
def parse_times(data: Bytes, starts: Ints, ends: Ints, micros: Ints, accepted: Bools) -> None:
    """Parse times into microseconds since 1970, in UTC without a zone; records with another form are refused."""
    for record in range(len(starts)):
        micros[record] = 0
        if starts[record] != NO_FIELD and accepted[record]:
            micros[record] = _parse_time(data, starts[record], ends[record])
            accepted[record] = micros[record] != NO_TIME


@compiled
def _parse_time(data: Bytes, i: int, end: int) -> int:
    if end - i < 19 or data[i + 4] != MINUS or data[i + 7] != MINUS or data[i + 13] != COLON or data[i + 16] != COLON:
        return NO_TIME
    if data[i + 10] != UPPER_T and data[i + 10] != 32:
        return NO_TIME
    high, low, month, day = _two(data, i), _two(data, i + 2), _two(data, i + 5), _two(data, i + 8)
    hour, minute, second = _two(data, i + 11), _two(data, i + 14), _two(data, i + 17)
    year = 100 * high + low
    if min(high, low, month, day, hour, minute, second) < 0 or not FIRST_YEAR <= year <= LAST_YEAR:
        return NO_TIME
    if not 1 <= month <= 12 or not 1 <= day <= _days_of(year, month) or hour > 23 or minute > 59 or second > 59:
        return NO_TIME
    seconds = ((_days_before(year, month) + day - 1) * 24 + hour) * 3600 + minute * 60 + second
    return _add_fraction_and_zone(data, i + 19, end, seconds)


@compiled
def _add_fraction_and_zone(data: Bytes, i: int, end: int, seconds: int) -> int:
    """Return microseconds with the fraction and the zone from position i on."""
    micros = 0
    if i < end and data[i] == DOT:
        last = _end_of_digits(data, i + 1, end)
        digits = last - i - 1
        if not 1 <= digits <= 6:
            return NO_TIME
        for k in range(i + 1, last):
            micros = 10 * micros + int(data[k]) - ZERO
        micros *= 10 ** (6 - digits)
        i = last
    if i < end and data[i] == UPPER_Z:
        i += 1
    elif end - i == 6 and (data[i] == PLUS or data[i] == MINUS) and data[i + 3] == COLON:
        hours, minutes = _two(data, i + 1), _two(data, i + 4)
        if not 0 <= hours <= MAX_ZONE_HOURS or not 0 <= minutes <= 59:
            return NO_TIME
        shift = hours * 3600 + minutes * 60
        seconds -= shift if data[i] == PLUS else -shift
        i += 6
    return seconds * 1_000_000 + micros if i == end else NO_TIME


@compiled
def _two(data: Bytes, i: int) -> int:
    """Return a number of two digits; -1 if there is another character."""
    high, low = int(data[i]) - ZERO, int(data[i + 1]) - ZERO
    return 10 * high + low if 0 <= high <= 9 and 0 <= low <= 9 else -1


@compiled
def _days_of(year: int, month: int) -> int:
    if month == 2:
        return 29 if _is_leap(year) else 28
    return 30 if month in (4, 6, 9, 11) else 31


@compiled
def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


@compiled
def _days_before(year: int, month: int) -> int:
    """Return the days from 1970 to the first of a month."""
    before = year - 1
    days = 365 * (year - 1970) + (before // 4 - before // 100 + before // 400) - 477
    for earlier in range(1, month):
        days += _days_of(year, earlier)
    return days
