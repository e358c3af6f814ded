"""Rewriting of SQL text: calls of percentile_approx and percentile become expressions with exact answers.

Only the calls change; the rest of the text stays as it is, with its comments.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from quantide.errors import InvalidArgumentError
from quantide.spark.sorted_percentiles import PercentileQuery
from quantide.spark.sql_expressions import DIALECT

APPROXIMATE = ("PERCENTILE_APPROX", "APPROX_PERCENTILE")
NAMES = (*APPROXIMATE, "PERCENTILE")
DEPTH = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
BEFORE_NAMES = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.ALIAS, TokenType.WITH)
"""Tokens before the name of a table, as in WITH percentile(a, b) AS (...) and FROM x AS percentile(a, b)."""
BEFORE_OTHER_NAMES = (".", "FUNCTION", "VIEW", "TABLE", "INTO", "EXISTS")
QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")

ReadPercentage = Callable[[str], PercentileQuery]


def rewrite_percentiles(text: str, read_percentage: ReadPercentage) -> str:
    """Return the text with its calls replaced; `read_percentage` evaluates the SQL of a constant percentage.

    A call stays Spark's own if it has a qualified name (system.builtin.percentile) or NULL as its value, and so does
    percentile() with a frequency or a window.

    >>> half = PercentileQuery([0.5], False)
    >>> rewrite_percentiles("SELECT max(ms) -- not percentile(ms, 0.5)", lambda percentage: half)
    'SELECT max(ms) -- not percentile(ms, 0.5)'
    >>> rewrite_percentiles("SELECT percentile(ms, 0.5) AS p50", lambda percentage: half).endswith(" AS p50")
    True
    """
    tokens = _tokenize(text)
    out, position, i = "", 0, 0
    while i < len(tokens):
        call = _PercentileCall.at(tokens, i)
        if call is not None:
            replaced = call.replacement(text, read_percentage)
            out += text[position : tokens[i].start] + replaced
            position, i = tokens[call.last].end + 1, call.last
        i += 1
    return out + text[position:]


def is_query(text: str) -> bool:
    """Return True for a statement that only returns rows: Spark runs any other statement when it analyzes it."""
    tokens = _tokenize(text)
    if not tokens or tokens[0].text.upper() not in QUERY_STARTS:
        return False
    depths = _depths(tokens)
    return not any(_mark(t) == "INSERT" and not depth for t, depth in zip(tokens, depths, strict=True))


@dataclass(frozen=True)
class _PercentileCall:
    """Tokens of a call: those of each argument, and the index of the last token of its FILTER and OVER."""

    name: str
    arguments: list[list[Token]]
    suffix: list[Token]
    last: int

    @classmethod
    def at(cls, tokens: list[Token], i: int) -> "_PercentileCall | None":
        """Return the call whose name is token i, None if there is none or if it stays Spark's own."""
        name = tokens[i].text.upper()
        if name not in NAMES or tokens[i].token_type in STRINGS:
            return None
        if i + 1 == len(tokens) or _mark(tokens[i + 1]) != "(":
            return None
        if i and (_mark(tokens[i - 1]) in BEFORE_OTHER_NAMES or _is_before_name(tokens[i - 1])):
            return None
        end = _closing(tokens, i + 1)
        if end is None or [_mark(token) for token in tokens[end + 1 : end + 3]] == ["AS", "("]:
            return None
        arguments = _split_arguments(tokens[i + 2 : end])
        if len(arguments) != 2 and not (name in APPROXIMATE and len(arguments) == 3):
            return None
        last = _suffix_end(tokens, end)
        call = cls(name, arguments, tokens[end + 1 : last + 1], last)
        return None if call._is_null or (name == "PERCENTILE" and call._has_window) else call

    @property
    def _is_null(self) -> bool:
        return [_mark(token) for token in self._value] == ["NULL"]

    @property
    def _has_window(self) -> bool:
        return any(_mark(token) == "OVER" for token in self.suffix)

    @property
    def _value(self) -> list[Token]:
        """Tokens of the first argument without DISTINCT."""
        first = self.arguments[0]
        return first[1:] if first and _mark(first[0]) in ("DISTINCT", "ALL") else first

    def replacement(self, text: str, read_percentage: ReadPercentage) -> str:
        # The call loses arguments and repeats others, and Spark counts parameters without a name.
        for tokens in (*self.arguments, self.suffix):
            if any(_mark(token) == "?" for token in tokens):
                raise InvalidArgumentError(f"{_slice(text, tokens)} has a parameter without a name; write :name for ?")
        value = rewrite_percentiles(_slice(text, self._value), read_percentage)
        suffix = rewrite_percentiles(_slice(text, self.suffix), read_percentage)
        distinct = "DISTINCT " if _mark(self.arguments[0][0]) == "DISTINCT" else ""
        query = read_percentage(_slice(text, self.arguments[1]))
        if self.name in APPROXIMATE:
            return query.approx_sql(value, distinct, suffix)
        return query.exact_sql(value, distinct, suffix)


def _tokenize(text: str) -> list[Token]:
    """Return the tokens of a text; none if it is no SQL, which Spark reports better."""
    try:
        return list(sqlglot.tokenize(text, dialect=DIALECT))
    except SqlglotError:
        return []


def _mark(token: Token) -> str:
    """Return a keyword or a punctuation mark in upper case; "" for text in quotes, which is none."""
    return "" if token.token_type in (*STRINGS, TokenType.IDENTIFIER) else token.text.upper()


def _is_before_name(token: Token) -> bool:
    """Return True if the name after this token is that of a table, and not of a function."""
    return token.token_type in BEFORE_NAMES and _mark(token) != "AGGREGATE"  # of pipe syntax


def _depths(tokens: list[Token]) -> list[int]:
    """Return the number of open brackets after each token."""
    depth, depths = 0, []
    for token in tokens:
        depth += DEPTH.get(_mark(token), 0)
        depths.append(depth)
    return depths


def _closing(tokens: list[Token], opening: int) -> int | None:
    """Return the index of the bracket that closes the one at `opening`."""
    depths = _depths(tokens[opening:])
    return opening + depths.index(0) if 0 in depths else None


def _split_arguments(tokens: list[Token]) -> list[list[Token]]:
    arguments: list[list[Token]] = [[]]
    for token, depth in zip(tokens, _depths(tokens), strict=True):
        if _mark(token) == "," and not depth:
            arguments.append([])
        else:
            arguments[-1].append(token)
    return arguments if all(arguments) else []


def _suffix_end(tokens: list[Token], end: int) -> int:
    """Return the index of the last token of FILTER (...) and OVER (...) or OVER name after a call."""
    for word in ("FILTER", "OVER"):
        if end + 2 < len(tokens) and _mark(tokens[end + 1]) == word:
            is_bracket = _mark(tokens[end + 2]) == "("
            last = _closing(tokens, end + 2) if is_bracket else end + 2 if word == "OVER" else None
            end = end if last is None else last
    return end


def _slice(text: str, tokens: list[Any]) -> str:
    return text[tokens[0].start : tokens[-1].end + 1] if tokens else ""
