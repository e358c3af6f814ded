"""The heap of the C library: free memory in it goes back to the system only when someone asks for that."""

import ctypes


def trim() -> None:
    """Return free memory to the system; do nothing where the C library cannot."""
    release = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if release is not None:
        release(0)
