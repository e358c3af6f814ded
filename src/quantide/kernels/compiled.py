"""The decorators of every compiled loop."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

CHECKED = ".checked"  # at the end of the names of kernels whose machine code checks every index


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile with numba, keep the machine code on disk, release the GIL while running.

    With NUMBA_BOUNDSCHECK=1 an index out of bounds raises IndexError. numba's cache does not tell such code from
    other code, so its files get names of their own.

    Without any writable place for the cache each process compiles anew, and says so once.
    """
    if getattr(numba.config, "BOUNDSCHECK", None):
        function.__qualname__ += CHECKED
    try:
        return cast(Callable[P, R], numba.njit(cache=True, nogil=True)(function))
    except RuntimeError as error:  # numba found no place it may write to
        warnings.warn(
            f"no writable place to keep compiled code ({error}); every process compiles it again. "
            "Set NUMBA_CACHE_DIR to a folder that can be written.",
            stacklevel=2,
        )
        return cast(Callable[P, R], numba.njit(nogil=True)(function))


def pure(function: Callable[P, R]) -> Callable[P, R]:
    """`compiled`, for a loop that Python calls and that writes to none of its arguments.

    To numba a read-only array, or one with gaps, is another type, to be compiled for again. So arrays are handed
    over read-only and without gaps, always, and there is one compiled form for each carrier type.
    """
    kernel = compiled(function)

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        return kernel(*(frozen(a) for a in arguments), **named)

    return call


def frozen(argument: Any) -> Any:
    """A read-only view of an array; anything else as it is."""
    if not isinstance(argument, np.ndarray):
        return argument
    view = np.ascontiguousarray(argument).view()
    view.flags.writeable = False
    return view
