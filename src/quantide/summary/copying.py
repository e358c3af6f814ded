"""Copy and pickle behaviour: by bytes, shared because immutable, or refused.

`copy.copy`, `copy.deepcopy` and `pickle` of every protocol call `__reduce__`. A class that inherits one of these mixins
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
    """Copies and pickles through to_bytes(); a copy shares no memory with the original.

    A subclass with attributes of its own that are not in its bytes overrides `__reduce__`.
    """

    __slots__ = ()

    def __reduce__(self: Serializable) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return type(self).from_bytes, (self.to_bytes(),)


class Immutable:
    """Returns the object itself as its copy, because it never changes. The class defines how it is pickled."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class NotCopied:
    """Refuses copies and pickles, because the object has a resource outside this process open.

    `REOPEN` is the advice in the error message.
    """

    __slots__ = ()

    REOPEN: str

    def __reduce__(self) -> Any:
        raise CopyError(f"a {type(self).__name__} cannot be copied or pickled: {self.REOPEN}")
