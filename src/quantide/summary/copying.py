"""How objects are copied and pickled: by their bytes, not at all because they never change, or never.

`copy.copy`, `copy.deepcopy` and `pickle` of every protocol all call `__reduce__`. A class that inherits one of these
needs nothing else.
"""

from collections.abc import Callable
from typing import Any, Protocol, Self

from quantide.errors import CopyError


class Serializable(Protocol):
    """A class whose bytes are its whole state."""

    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, data: bytes) -> Self: ...


class CopiedByBytes:
    """Copies and pickles hold what to_bytes() writes; they share no memory with the original.

    A subclass with attributes of its own that are not in its bytes overrides `__reduce__`.
    """

    __slots__ = ()

    def __reduce__(self: Serializable) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return type(self).from_bytes, (self.to_bytes(),)


class Immutable:
    """Never changes: a copy is the object itself. How it is pickled is for the class to say."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class NotCopied:
    """Refuses copies and pickles, because it is open on something outside this process.

    `REOPEN` says what to do instead.
    """

    __slots__ = ()

    REOPEN: str

    def __reduce__(self) -> Any:
        raise CopyError(f"a {type(self).__name__} cannot be copied or pickled: {self.REOPEN}")
