"""SQL text: plain column names, the columns that an expression uses, and casts that can fail, in Spark SQL."""

import re

import sqlglot
from sqlglot import Token, TokenType
from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|`(?:[^`]|``)+`")
DIALECT = "databricks"  # Spark's, but it distinguishes CAST from TRY_CAST


def plain_name(text: str) -> str | None:
    """Return the name if an expression is just a column, else None."""
    name = text.strip()
    if not PLAIN.fullmatch(name) or name.upper() in ("TRUE", "FALSE", "NULL"):
        return None
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def columns_of(text: str) -> list[str] | None:
    """Return the columns that an expression uses, by the first part of their names; None if it cannot be parsed."""
    plain = plain_name(text)
    if plain is not None:
        return [plain]
    try:
        tree = sqlglot.parse_one(text, dialect=DIALECT)
    except SqlglotError:
        return None
    return list(dict.fromkeys(column.parts[0].name for column in tree.find_all(sql.Column)))


def find_name(name: str, names: list[str]) -> str | None:
    """Find a name among others; as in Spark, case is ignored if no name matches exactly."""
    alike = [other for other in names if other.lower() == name.lower()]
    return name if name in names else alike[0] if len(alike) == 1 else None


def replace_casts(text: str) -> tuple[str, list[str]]:
    """Return an expression whose failing casts give null, and for each cast the condition that it failed.

    >>> replace_casts("CAST(ms AS DOUBLE) / 1000")
    ('TRY_CAST(ms AS DOUBLE) / 1000', ['((ms) IS NOT NULL AND TRY_CAST(ms AS DOUBLE) IS NULL)'])
    """
    tokens = sqlglot.tokenize(text, dialect=DIALECT)
    casts = [i for i, token in enumerate(tokens[:-1]) if token.text.upper() == "CAST" and tokens[i + 1].text == "("]
    failed = []
    for cast in casts:
        as_, end = _cast_bounds(tokens, cast)
        if as_ is None or end is None:
            continue
        inner = _with_try_casts(text, tokens, casts, tokens[cast + 1].end + 1, tokens[as_].start)
        kind = text[tokens[as_].end + 1 : tokens[end].start].strip()
        failed.append(f"(({inner.strip()}) IS NOT NULL AND TRY_CAST({inner.strip()} AS {kind}) IS NULL)")
    return _with_try_casts(text, tokens, casts, 0, len(text)), failed


def _cast_bounds(tokens: list[Token], cast: int) -> tuple[int | None, int | None]:
    """Return the indexes of a cast's AS and of its closing parenthesis."""
    depth, as_ = 0, None
    for i in range(cast + 1, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[i].text, 0)
        if depth == 1 and tokens[i].token_type == TokenType.ALIAS:
            as_ = i
        if depth == 0:
            return as_, i
    return as_, None


def _with_try_casts(text: str, tokens: list[Token], casts: list[int], start: int, end: int) -> str:
    """Return a part of the text with every CAST as TRY_CAST."""
    out, position = "", start
    for cast in casts:
        token = tokens[cast]
        if start <= token.start < end:
            out += text[position : token.start] + "TRY_CAST"
            position = token.end + 1
    return out + text[position:end]
