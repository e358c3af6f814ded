"""Decorators that compile kernels."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

CHECKED_SUFFIX = ".checked"  # of the names of kernels whose machine code checks every index


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile with numba, cache the machine code on disk, release the GIL while running.

    With NUMBA_BOUNDSCHECK=1 an index out of bounds raises IndexError. numba's cache does not distinguish such code
    from other code, so its files get different names.

    Without a writable folder for the cache each process compiles again, and warns once.
    """
    if getattr(numba.config, "BOUNDSCHECK", None):
        function.__qualname__ += CHECKED_SUFFIX
    try:
        return cast(Callable[P, R], numba.njit(cache=True, nogil=True)(function))
    except RuntimeError as error:  # numba found no folder that it can write to
        warnings.warn(
            f"no writable folder for the cache of compiled code ({error}); every process compiles it again. "
            "Set NUMBA_CACHE_DIR to a writable folder.",
            stacklevel=2,
        )
        return cast(Callable[P, R], numba.njit(nogil=True)(function))


def pure(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel that Python calls and that writes to none of its arguments.

    To numba a read-only or non-contiguous array is another type, which it compiles for again. So arrays are always
    passed read-only and contiguous, and there is one compiled form for each carrier type.
    """
    kernel = compiled(function)

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        return kernel(*(freeze(a) for a in arguments), **named)

    return call


def freeze(argument: Any) -> Any:
    """Return a read-only, contiguous view of an array; anything else unchanged."""
    if not isinstance(argument, np.ndarray):
        return argument
    view = np.ascontiguousarray(argument).view()
    view.flags.writeable = False
    return view
