"""Expressions as text in Spark's SQL: plain names of columns, which columns are used, casts that can fail."""

import re

import sqlglot
from sqlglot import Token, TokenType
from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|`(?:[^`]|``)+`")
DIALECT = "databricks"  # Spark's, with casts that may fail told from those that may not


def plain_name(text: str) -> str | None:
    """The column that an expression is, when it is one."""
    found = text.strip()
    if not PLAIN.fullmatch(found) or found.upper() in ("TRUE", "FALSE", "NULL"):
        return None
    return found[1:-1].replace("``", "`") if found.startswith("`") else found


def columns_of(text: str) -> list[str] | None:
    """The columns an expression uses, by their first names; None when that cannot be told."""
    plain = plain_name(text)
    if plain is not None:
        return [plain]
    try:
        tree = sqlglot.parse_one(text, dialect=DIALECT)
    except SqlglotError:
        return None
    return list(dict.fromkeys(column.parts[0].name for column in tree.find_all(sql.Column)))


def find_name(name: str, names: list[str]) -> str | None:
    """A name among others; as in Spark, small and large letters are the same where no name fits as it is."""
    same = [known for known in names if known.lower() == name.lower()]
    return name if name in names else same[0] if len(same) == 1 else None


def careful(text: str) -> tuple[str, list[str]]:
    """An expression whose casts give null where they fail, and for each cast a condition that says it did.

    >>> careful("CAST(ms AS DOUBLE) / 1000")
    ('TRY_CAST(ms AS DOUBLE) / 1000', ['((ms) IS NOT NULL AND TRY_CAST(ms AS DOUBLE) IS NULL)'])
    """
    tokens = sqlglot.tokenize(text, dialect=DIALECT)
    casts = [i for i, token in enumerate(tokens[:-1]) if token.text.upper() == "CAST" and tokens[i + 1].text == "("]
    failed = []
    for place in casts:
        as_, end = _parts(tokens, place)
        if as_ is None or end is None:
            continue
        inner = _tried(text, tokens, casts, tokens[place + 1].end + 1, tokens[as_].start)
        kind = text[tokens[as_].end + 1 : tokens[end].start].strip()
        failed.append(f"(({inner.strip()}) IS NOT NULL AND TRY_CAST({inner.strip()} AS {kind}) IS NULL)")
    return _tried(text, tokens, casts, 0, len(text)), failed


def _parts(tokens: list[Token], place: int) -> tuple[int | None, int | None]:
    """Where the AS of a cast is, and where it ends."""
    depth, as_ = 0, None
    for i in range(place + 1, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[i].text, 0)
        if depth == 1 and tokens[i].token_type == TokenType.ALIAS:
            as_ = i
        if depth == 0:
            return as_, i
    return as_, None


def _tried(text: str, tokens: list[Token], casts: list[int], start: int, end: int) -> str:
    """A part of the text with every CAST as TRY_CAST."""
    out, at = "", start
    for place in casts:
        token = tokens[place]
        if start <= token.start < end:
            out += text[at : token.start] + "TRY_CAST"
            at = token.end + 1
    return out + text[at:end]
