"""The decorator of every compiled loop."""

import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile with numba, keep the machine code on disk, release the GIL while running.

    Without any writable place for the cache each process compiles anew, and says so once.
    """
    try:
        return cast(Callable[P, R], numba.njit(cache=True, nogil=True)(function))
    except RuntimeError as error:  # numba found no place it may write to
        warnings.warn(
            f"no writable place to keep compiled code ({error}); every process compiles it again. "
            "Set NUMBA_CACHE_DIR to a folder that can be written.",
            stacklevel=2,
        )
        return cast(Callable[P, R], numba.njit(nogil=True)(function))
