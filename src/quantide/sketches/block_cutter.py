"""Cutting a stream into blocks of `leaf` values, independent of how update() calls divide it."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from quantide.typing import Array

CHUNK_SIZE = 1 << 18  # values of the blocks that are passed to a kernel together

_thread_local = threading.local()


class BlockCutter:
    """Cuts pieces of any length into runs of whole blocks, without copying; the remainder is `pending`."""

    def __init__(self, leaf: int) -> None:
        self.leaf = leaf
        self.pending: list[Array] = []
        self.pending_n = 0

    def cut(self, piece: Array) -> Iterator[list[Array]]:
        """Yield runs of pieces; each run is a whole number of blocks."""
        if self.pending_n:
            missing = self.leaf - self.pending_n
            if len(piece) >= missing:
                yield [*self.pending, piece[:missing]]
                self.pending, self.pending_n = [], 0
                piece = piece[missing:]
        if not self.pending_n:
            whole = len(piece) // self.leaf * self.leaf
            if whole:
                yield [piece[:whole]]
                piece = piece[whole:]
        if len(piece):
            self.pending.append(piece)
            self.pending_n += len(piece)


def whole_blocks(run: list[Array], leaf: int, carrier: np.dtype[Any]) -> Iterator[Array]:
    """Yield the blocks of a run as rows of arrays of the carrier type; the next iteration may overwrite them."""
    if len(run) == 1 and run[0].flags.c_contiguous and _as_carrier(run[0]).dtype == carrier:
        whole = _as_carrier(run[0]).reshape(-1, leaf)
        step = max(1, CHUNK_SIZE // leaf)
        yield from (whole[start : start + step] for start in range(0, len(whole), step))
        return
    scratch = _scratch(leaf, carrier)
    flat = scratch.reshape(-1)
    if len(run) > 1:
        np.concatenate([_as_carrier(piece) for piece in run], out=flat[:leaf], casting="safe")
        yield scratch[:1]
        return
    whole = _as_carrier(run[0])
    for start in range(0, len(whole), len(flat)):
        piece = whole[start : start + len(flat)]
        flat[: len(piece)] = piece
        yield scratch[: len(piece) // leaf]


def _as_carrier(piece: Array) -> Array:
    return piece.view(np.int64) if piece.dtype.kind in "mM" else piece


def _scratch(leaf: int, carrier: np.dtype[Any]) -> Array:
    """Return this thread's buffer, one block a row."""
    if not hasattr(_thread_local, "buffers"):
        _thread_local.buffers = {}
    buffers: dict[str, Array] = _thread_local.buffers
    size = max(leaf, CHUNK_SIZE)
    if carrier.name not in buffers or len(buffers[carrier.name]) < size:
        buffers[carrier.name] = np.empty(size, dtype=carrier)
    return buffers[carrier.name][:size].reshape(-1, leaf)
