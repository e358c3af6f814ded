"""What is asked about: everything, some steps, or a window of recent values; of a key or of all."""

from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from quantide.errors import InvalidArgumentError


class Words(TypedDict, total=False):
    """What a question is about, beside its key, as users write it; None is the same as nothing."""

    last: int | None
    within: Any
    filter: str | None
    last_steps: int | None
    now: Any


@dataclass(frozen=True)
class Asked:
    """The words of a question: about recent values with last, within or filter."""

    key: Any = None
    last: int | None = None
    within: Any = None
    filter: str | None = None
    last_steps: int | None = None
    now: Any = None

    def __post_init__(self) -> None:
        if self.recent and self.last_steps is not None:
            raise InvalidArgumentError(
                "last_steps= is about history, last=, within= and filter= about recent values; ask for one of the two"
            )
        if self.now is not None and not self.timed:
            raise InvalidArgumentError("now= is of use only together with within= or filter=")

    @classmethod
    def of(cls, words: Any) -> "Asked":
        """Words by their names, as a dict."""
        if not isinstance(words, dict) or not words.keys() <= NAMES.keys():
            raise InvalidArgumentError(f"{words!r} does not say what is asked about; its words are {', '.join(NAMES)}")
        return cls(**words)

    @property
    def recent(self) -> bool:
        """Whether it is about recent values."""
        return self.last is not None or self.within is not None or self.filter is not None

    @property
    def timed(self) -> bool:
        """Whether it is about a span of time: that which is named, or all that is kept."""
        return self.within is not None or (self.filter is not None and self.last is None)

    @property
    def words(self) -> Hashable:
        """What tells it from other questions: 1 and True are equal, and not the same key. None when it has no name."""
        parts = self.key if isinstance(self.key, tuple) else (self.key,)
        types = tuple(map(type, (*parts, self.last, self.within, self.last_steps, self.now)))
        try:
            hash(self)
        except TypeError:  # of a list, say
            return None
        return self, types


NAMES = {field.name: field for field in fields(Asked)}
