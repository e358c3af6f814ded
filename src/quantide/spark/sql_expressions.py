"""SQL expressions: conditions as pyarrow filters, the columns that an expression uses, and casts that can fail.

Supported are comparisons, AND, OR, NOT, IN, BETWEEN, LIKE and IS NULL between columns and literals, with SQL's rules
for nulls. Anything else (functions, arithmetic, subqueries) raises InvalidArgumentError, which says what to use.
"""

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from operator import eq, ge, gt, le, lt, ne, or_
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import Token, TokenType
from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError

from quantide.errors import InvalidArgumentError

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|`(?:[^`]|``)+`")
DIALECT = "databricks"  # Spark's, but it distinguishes CAST from TRY_CAST
NODE_PARTS = ("this", "expression", "expressions", "low", "high", "negate")  # supported parts of a tree node
COMPARISONS: dict[type[Any], Callable[[Any, Any], Any]] = {
    sql.EQ: eq,
    sql.NEQ: ne,
    sql.LT: lt,
    sql.LTE: le,
    sql.GT: gt,
    sql.GTE: ge,
}
TEMPORAL = {
    getattr(sql.DataType.Type, name) for name in ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ")
}


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


def parse_condition(where: Any, schema: pa.Schema, timezone: str) -> Any:
    """Return a pyarrow expression over columns of this schema, from SQL text or an expression."""
    if where is None or isinstance(where, pc.Expression):
        return where
    if not isinstance(where, str):
        raise InvalidArgumentError(
            f"where is a {type(where).__name__}; on files it is SQL text such as \"day >= '2026-01-01'\", or a pyarrow "
            "expression. A Column of Spark's works on DataFrames: pass spark.read.parquet(path) as the source"
        )
    try:
        tree = sqlglot.condition(where, dialect="spark")
    except SqlglotError as error:
        raise InvalidArgumentError(f"where={where!r} is not SQL: {error}") from error
    return _ConditionParser(where, schema, timezone).parse(tree)


class _ConditionParser:
    def __init__(self, text: str, schema: pa.Schema, timezone: str) -> None:
        self.text, self.schema, self.timezone = text, schema, timezone

    def parse(self, node: Any) -> Any:
        """Return an expression that is true, false or null for a row."""
        if any(value for name, value in node.args.items() if name not in NODE_PARTS):
            raise self._refusal(node)
        match node:
            case sql.Paren():
                return self.parse(node.this)
            case sql.Not():
                return ~self.parse(node.this)
            case sql.And():
                return self.parse(node.left) & self.parse(node.right)
            case sql.Or():
                return self.parse(node.left) | self.parse(node.right)
            case sql.Between():
                low, high = node.args["low"], node.args["high"]
                return self._compare(ge, node.this, low) & self._compare(le, node.this, high)
            case sql.In() if node.expressions:
                return reduce(or_, (self._compare(eq, node.this, one) for one in node.expressions))
            case sql.Is() if isinstance(node.expression, sql.Null):
                return pc.is_null(self._column(node.this))
            case sql.Like() if isinstance(node.expression, sql.Literal) and node.expression.is_string:
                like = pc.match_like(self._column(node.this), node.expression.this)
                return ~like if node.args.get("negate") else like
            case sql.Boolean():
                return pc.scalar(bool(node.this))
            case sql.Column() if pa.types.is_boolean(self._kind(node)):
                return self._column(node)
        if type(node) in COMPARISONS:
            return self._compare(COMPARISONS[type(node)], node.left, node.right)
        raise self._refusal(node)

    def _compare(self, operator: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        kind = next((self._kind(side) for side in (left, right) if isinstance(side, sql.Column)), None)
        return operator(self._value(left, kind), self._value(right, kind))

    def _value(self, node: Any, kind: pa.DataType | None) -> Any:
        """Return a column, or a literal as a scalar that compares with values of a type."""
        if isinstance(node, sql.Paren):
            return self._value(node.this, kind)
        if isinstance(node, sql.Column):
            return self._column(node)
        literal = self._literal(node)
        if isinstance(literal, str) and kind is not None and not _is_text(kind):
            literal = self._parse_literal(literal, kind)
        if isinstance(literal, (int, Decimal)) and kind is not None and pa.types.is_decimal(kind):
            literal = Decimal(literal)
        elif isinstance(literal, Decimal) and kind is not None and pa.types.is_integer(kind):
            literal = int(literal) if literal == int(literal) else literal
        elif isinstance(literal, Decimal):
            literal = float(literal)
        try:
            return pc.scalar(literal if isinstance(literal, pa.Scalar) else pa.scalar(literal))
        except (OverflowError, pa.ArrowInvalid) as error:
            raise InvalidArgumentError(f"where={self.text!r}: {literal} cannot be compared with {kind}") from error

    def _literal(self, node: Any) -> Any:
        match node:
            case sql.Literal() if node.is_string:
                return str(node.this)
            case sql.Literal():
                return int(node.this) if node.this.isdigit() else Decimal(node.this)
            case sql.Neg():
                number = self._literal(node.this)
                if not isinstance(number, (int, Decimal)):
                    raise self._refusal(node)
                return -number
            case sql.Boolean():
                return bool(node.this)
            case sql.Cast() if isinstance(node.this, sql.Literal) and node.to.this in TEMPORAL:
                return str(node.this.this)  # it gets the type of the column it is compared with
        raise self._refusal(node)

    def _parse_literal(self, text: str, kind: pa.DataType) -> pa.Scalar:
        """Return text as a value of a column's type; times without a zone are in the session's, as in Spark."""
        try:
            if pa.types.is_timestamp(kind):
                instant = datetime.datetime.fromisoformat(text)
                if kind.tz is None:
                    return pa.scalar(instant.replace(tzinfo=None), kind)
                return pa.scalar(instant if instant.tzinfo else instant.replace(tzinfo=ZoneInfo(self.timezone)), kind)
            return pa.scalar(text).cast(kind)
        except (ValueError, pa.ArrowNotImplementedError) as error:
            raise InvalidArgumentError(f"where={self.text!r}: {text!r} is not a {kind}") from error

    def _kind(self, node: Any) -> pa.DataType:
        return self.schema.field(self._name(node)).type

    def _column(self, node: Any) -> Any:
        if not isinstance(node, sql.Column):
            raise self._refusal(node)
        return pc.field(self._name(node))

    def _name(self, node: Any) -> str:
        """Return a column's name; as in Spark, case is ignored if no name matches exactly."""
        name: str = ".".join(part.name for part in node.parts)
        alike = [column for column in self.schema.names if column.lower() == name.lower()]
        if name in self.schema.names:
            return name
        if len(alike) != 1:
            raise InvalidArgumentError(
                f"where={self.text!r}: there is no column {name!r}; there are {', '.join(self.schema.names)}"
            )
        return str(alike[0])

    def _refusal(self, node: Any) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"where={self.text!r}: {node.sql(dialect='spark')} is not supported on files; there, a condition compares "
            "columns with literals. Use a pyarrow expression, or pass spark.read.parquet(path).where(...) as the source"
        )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind))
