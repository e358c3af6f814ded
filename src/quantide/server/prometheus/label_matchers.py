"""Label matchers: conditions on a label, with RE2 expressions that are anchored at both ends, as in Prometheus.

Arrow's RE2 takes time linear in the text for every pattern, and refuses patterns that would need much memory.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quantide.errors import InvalidArgumentError
from quantide.typing import Bools

EQUAL, NOT_EQUAL, MATCH, NOT_MATCH = "=", "!=", "=~", "!~"
OPERATORS = (EQUAL, NOT_EQUAL, MATCH, NOT_MATCH)
LITERAL = re.compile(r"[\w.:/ -]*", re.ASCII)  # text of a pattern that means itself, where a dot is a decimal point


@dataclass(frozen=True)
class LabelMatcher:
    """Condition on a label; a missing label has the text ""."""

    label: str
    operator: str
    text: str

    def __post_init__(self) -> None:
        if self.operator in (MATCH, NOT_MATCH):
            check_pattern(self.text)

    def select(self, texts: pa.Array) -> Bools:
        """Return a mask of the texts that satisfy the condition."""
        if self.operator in (EQUAL, NOT_EQUAL):
            matching = pc.equal(texts, self.text)
        else:
            matching = pc.match_substring_regex(texts, rf"\A(?:{self.text})\z")
        mask: Bools = matching.to_numpy(zero_copy_only=False).astype(bool)
        return ~mask if self.operator in (NOT_EQUAL, NOT_MATCH) else mask

    def accepts(self, text: str) -> bool:
        """Return True if a text satisfies the condition."""
        return _accepts(self, text)

    @property
    def literals(self) -> list[str]:
        """Texts that the condition names: that of =, and the alternatives of =~ that are plain text.

        >>> LabelMatcher("quantile", "=~", "(0.5|0.99)").literals
        ['0.5', '0.99']
        """
        if self.operator == EQUAL:
            return [self.text]
        if self.operator != MATCH:
            return []
        inner = self.text.removeprefix("(").removesuffix(")") if self.text.startswith("(") else self.text
        parts = [part.replace("\\.", ".") for part in inner.split("|")]
        return [part for part in parts if LITERAL.fullmatch(part)]


Matchers = Sequence[LabelMatcher]


@lru_cache(maxsize=500)
def _accepts(matcher: LabelMatcher, text: str) -> bool:
    return bool(matcher.select(pa.array([text], pa.string()))[0])


@lru_cache(maxsize=500)
def check_pattern(pattern: str) -> None:
    """Raise unless RE2 can compile a pattern by itself."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        reason = str(error).partition("\n")[0][:200]
        raise InvalidArgumentError(f"{pattern[:80]!r} is not a regular expression of RE2: {reason}") from error


def select_all(matchers: Matchers, texts: pa.Array) -> Bools:
    """Return a mask of the texts that satisfy all conditions."""
    mask = np.ones(len(texts), dtype=bool)
    for matcher in matchers:
        mask &= matcher.select(texts)
    return mask


def accepts(matchers: Matchers, label: str, text: str) -> bool:
    """Return True if the text of a label satisfies all matchers of that label."""
    return all(one.accepts(text) for one in matchers if one.label == label)
