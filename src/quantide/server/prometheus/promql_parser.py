"""Parser of a small part of PromQL; everything else is refused with a message that lists it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from quantide.errors import InvalidArgumentError
from quantide.server.prometheus.label_matchers import MATCH, NOT_MATCH, OPERATORS, LabelMatcher
from quantide.server.prometheus.promql_tokens import (
    SUPPORTED,
    QueryToken,
    read_duration,
    read_number,
    read_string,
    syntax_error,
    tokenize,
)

NAME = "__name__"
FUNCTIONS = ("rate", "increase")
MAX_DEPTH, MAX_OPERATORS, MAX_MATCHERS = 50, 100, 100  # evaluation recurses once for each operator
MAX_PATTERNS = 20  # of one request: a short pattern may take RE2 some 20 ms to compile
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "^": 3}  # ^ alone groups from the right
CONSTANTS = {"inf": float("inf"), "nan": float("nan")}


@dataclass(frozen=True)
class NumberLiteral:
    value: float


@dataclass(frozen=True)
class VectorSelector:
    """Quantiles of the streams that match, `offset` milliseconds before the time of evaluation."""

    matchers: tuple[LabelMatcher, ...]
    offset: int = 0


@dataclass(frozen=True)
class RowRate:
    """rate() or increase() of rows: of the `span` milliseconds up to the time of evaluation, less the offset."""

    function: str
    matchers: tuple[LabelMatcher, ...]
    span: int
    offset: int = 0


@dataclass(frozen=True)
class BinaryOperation:
    operator: str
    left: "Expression"
    right: "Expression"


Expression = NumberLiteral | VectorSelector | RowRate | BinaryOperation


def parse_query(query: str) -> Expression:
    """Return the expression of a query.

    >>> parse_query("1 + 1")
    BinaryOperation(operator='+', left=NumberLiteral(value=1.0), right=NumberLiteral(value=1.0))
    """
    parser = QueryParser(query)
    expression = parser.parse_expression(0)
    parser.expect("end")
    return expression


def parse_selectors(texts: Sequence[str]) -> list[tuple[LabelMatcher, ...]]:
    """Return the matchers of selectors without range and offset, as in the parameters match[]."""
    selectors, patterns = [], 0
    for text in texts:
        parser = QueryParser(text, patterns)
        selectors.append(parser.parse_matchers())
        parser.expect("end")
        patterns = parser.patterns
    return selectors


class QueryParser:
    """Recursive descent over the tokens of one query."""

    def __init__(self, query: str, patterns: int = 0) -> None:
        self._tokens, self._at, self._depth, self._operators = tokenize(query), 0, 0, 0
        self.patterns = patterns  # regular expressions up to here

    @property
    def token(self) -> QueryToken:
        return self._tokens[self._at]

    def take(self) -> QueryToken:
        token = self.token
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def accept(self, text: str) -> bool:
        """Take the next token if it is this operator or word."""
        found = self.token.kind in ("operator", "name") and self.token.text.lower() == text
        if found:
            self.take()
        return found

    def expect(self, kind: str, text: str | None = None) -> QueryToken:
        token = self.take()
        if token.kind != kind or (text is not None and token.text != text):
            raise syntax_error(token.text, token.position)
        return token

    def parse_expression(self, least: int) -> Expression:
        """Parse operands joined by operators of at least a precedence."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidArgumentError(f"the query is nested more than {MAX_DEPTH} deep; write it without parentheses")
        left = self.parse_operand()
        while (level := self._precedence()) > least:
            operator = self.take().text
            self._operators += 1
            if self._operators > MAX_OPERATORS:
                raise InvalidArgumentError(f"the query has more than {MAX_OPERATORS} operators; write a shorter one")
            right = self.parse_expression(level - 1 if operator == "^" else level)
            left = BinaryOperation(operator, left, right)
        self._depth -= 1
        return left

    def parse_operand(self) -> Expression:
        if self.accept("-"):
            return BinaryOperation("*", NumberLiteral(-1.0), self.parse_expression(PRECEDENCE["*"]))
        if self.accept("+"):
            return self.parse_expression(PRECEDENCE["*"])
        if self.accept("("):
            inner = self.parse_expression(0)
            self.expect("operator", ")")
            return inner
        if self.token.kind == "number":
            return NumberLiteral(read_number(self.take().text))
        if self.token.text.lower() in CONSTANTS:
            return NumberLiteral(CONSTANTS[self.take().text.lower()])
        if self.token.kind == "name" and self._tokens[self._at + 1].text == "(":
            return self.parse_call()
        selector = VectorSelector(self.parse_matchers())
        return replace(selector, offset=self.parse_offset())

    def parse_call(self) -> RowRate:
        function = self.take().text
        if function not in FUNCTIONS:
            raise InvalidArgumentError(f"{function[:40]}() is not supported; {SUPPORTED}")
        self.expect("operator", "(")
        matchers = self.parse_matchers()
        self.expect("operator", "[")
        span = read_duration(self.expect("duration").text)
        self.expect("operator", "]")
        offset = self.parse_offset()
        self.expect("operator", ")")
        return RowRate(function, matchers, span, offset)

    def parse_offset(self) -> int:
        if not self.accept("offset"):
            return 0
        sign = -1 if self.accept("-") else 1
        return sign * read_duration(self.expect("duration").text)

    def parse_matchers(self) -> tuple[LabelMatcher, ...]:
        """Parse a name, matchers in braces, or both."""
        matchers = []
        if self.token.kind == "name":
            matchers.append(LabelMatcher(NAME, "=", self.take().text))
        elif self.token.text != "{":
            raise syntax_error(self.token.text, self.token.position)
        if self.accept("{"):
            while not self.accept("}"):
                matchers.append(self._parse_matcher())
                if len(matchers) > MAX_MATCHERS:
                    raise InvalidArgumentError(f"a selector has more than {MAX_MATCHERS} matchers; leave some out")
                if self.token.text != "}":
                    self.expect("operator", ",")
        if all(matcher.accepts("") for matcher in matchers):
            raise InvalidArgumentError("a selector needs a name, or a matcher that refuses empty text; add the stream")
        return tuple(matchers)

    def _parse_matcher(self) -> LabelMatcher:
        label = self.expect("name")
        if ":" in label.text:
            raise syntax_error(label.text, label.position)
        operator = self.expect("operator")
        if operator.text not in OPERATORS:
            raise syntax_error(operator.text, operator.position)
        self.patterns += operator.text in (MATCH, NOT_MATCH)
        if self.patterns > MAX_PATTERNS:
            raise InvalidArgumentError(
                f"the request has more than {MAX_PATTERNS} regular expressions; join some to one, such as =~"
                '"/pay|/cart"'
            )
        return LabelMatcher(label.text, operator.text, read_string(self.expect("string")))

    def _precedence(self) -> int:
        return PRECEDENCE.get(self.token.text, 0) if self.token.kind == "operator" else 0
