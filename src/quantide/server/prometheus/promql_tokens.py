"""Tokens of PromQL: numbers, durations, strings, names and operators, with their positions."""

import re
from typing import NamedTuple

from quantide.errors import InvalidArgumentError

MAX_QUERY = 20_000  # characters
MAX_SECONDS = 10**10  # of a duration
UNITS = {"ms": 1, "s": 10**3, "m": 60 * 10**3, "h": 3600 * 10**3, "d": 86400 * 10**3, "w": 604800 * 10**3}
UNITS["y"] = 365 * UNITS["d"]
SUPPORTED = (
    'supported are numbers, a stream with matchers such as latency{endpoint="/pay", quantile="0.99", window="5m"}, '
    "rate() and increase() of its rows such as rate(latency_rows_total[5m]), offset, and + - * / % ^ with a number"
)
TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    |(?P<duration>(?:[0-9]+(?:ms|[smhdwy]))+(?![A-Za-z0-9_.]))
    |(?P<number>0[xX][0-9A-Fa-f]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)
    |(?P<operator>=~|!~|!=|==|>=|<=|[-+*/%^(){}\[\],=<>@:])""",
    re.X | re.ASCII,
)
ESCAPE = re.compile(r"\\(?:([abfnrtv\\'\"])|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|([0-7]{3})|(.))", re.S)
CONTROL = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class QueryToken(NamedTuple):
    """One token; `kind` is "duration", "number", "name", "string", "operator" or "end"."""

    kind: str
    text: str
    position: int


def tokenize(query: str) -> list[QueryToken]:
    """Return the tokens of a query, and one that marks its end."""
    if len(query) > MAX_QUERY:
        raise InvalidArgumentError(f"the query has {len(query):,} characters; it may have at most {MAX_QUERY:,}")
    tokens, position = list[QueryToken](), 0
    while position < len(query):
        match = TOKEN.match(query, position)
        if match is None:
            raise syntax_error(query[position : position + 20], position)
        if match.lastgroup != "space":
            tokens.append(QueryToken(str(match.lastgroup), match[0], position))
        position = match.end()
    return [*tokens, QueryToken("end", "", position)]


def syntax_error(text: str, position: int) -> InvalidArgumentError:
    subject = f"{text[:40]!r} at character {position + 1}" if text else "the end of the query"
    return InvalidArgumentError(f"{subject} is not expected or not supported; {SUPPORTED}")


def read_number(text: str) -> float:
    """Return a number, which may be hexadecimal; too large a number is infinite."""
    try:
        return float(int(text, 16)) if text[:2].lower() == "0x" else float(text)
    except OverflowError:
        return float("inf")


def read_duration(text: str) -> int:
    """Return a duration in milliseconds: "1h30m", "500ms".

    >>> read_duration("1h30m")
    5400000
    """
    total = sum(int(count[:16]) * UNITS[unit] for count, unit in re.findall(r"([0-9]+)(ms|[smhdwy])", text))
    if not 0 < total <= MAX_SECONDS * 1000:
        raise InvalidArgumentError(f"the duration {text[:40]!r} is not above zero, or more than {MAX_SECONDS:,} s")
    return total


def read_string(token: QueryToken) -> str:
    """Return the text of a string in quotes, with Go's escapes, or in backticks."""
    inner = token.text[1:-1]
    return inner if token.text[0] == "`" else ESCAPE.sub(_unescape, inner)


def _unescape(match: re.Match[str]) -> str:
    plain, byte, code, octal, other = match.groups()
    if other is not None:
        raise InvalidArgumentError(f"the escape {match[0]!r} in a string is unknown; write two backslashes for one")
    number = int(byte or code, 16) if byte or code else int(octal, 8) if octal else None
    if number is None:
        return CONTROL.get(plain, plain)
    if 0xD800 <= number < 0xE000:
        raise InvalidArgumentError(f"the escape {match[0]!r} in a string is half of a character; write the character")
    return chr(number)
