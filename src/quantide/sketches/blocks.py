"""Blocks: arrivals cut at every `leaf`-th value, whatever the calls they came in, and sorted."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.order import order_of
from quantide.summary.column import nan_error

Array = NDArray[Any]

AT_ONCE = 1 << 16  # values sorted by one call: small blocks are rows of one array

_of_thread = threading.local()


class BlockCutter:
    """Cuts pieces of any length into runs of whole blocks; what is left over waits. Nothing is copied."""

    def __init__(self, leaf: int) -> None:
        self.leaf = leaf
        self.waiting: list[Array] = []
        self.have = 0

    def cut(self, piece: Array) -> Iterator[list[Array]]:
        """Runs of pieces, each run a whole number of blocks."""
        if self.have:
            missing = self.leaf - self.have
            if len(piece) >= missing:
                yield [*self.waiting, piece[:missing]]
                self.waiting, self.have = [], 0
                piece = piece[missing:]
        if not self.have:
            whole = len(piece) // self.leaf * self.leaf
            if whole:
                yield [piece[:whole]]
                piece = piece[whole:]
        if len(piece):
            self.waiting.append(piece)
            self.have += len(piece)


def sorted_blocks(run: list[Array], leaf: int, carrier: np.dtype[Any]) -> Iterator[Array]:
    """The blocks of a run, sorted, as rows of arrays that are good until the next is asked for; NaN is refused."""
    room = _room(leaf, carrier)
    flat = room.reshape(-1)
    if len(run) > 1:
        np.concatenate([_as_carrier(piece) for piece in run], out=flat[:leaf], casting="safe")
        yield sort_rows(room[:1])
        return
    whole = _as_carrier(run[0])
    for start in range(0, len(whole), len(flat)):
        piece = whole[start : start + len(flat)]
        flat[: len(piece)] = piece
        yield sort_rows(room[: len(piece) // leaf])


def sort_rows(rows: Array) -> Array:
    """Every row sorted. Rows that are in order already, or in the opposite one, are not sorted again."""
    order = order_of(rows.reshape(-1))
    if order < 0:
        rows = rows[:, ::-1]
    elif order == 0:
        rows.sort(axis=1)
    largest = rows[:, -1]
    if (largest != largest).any():  # NaN sorts last, and is unequal to itself
        raise nan_error()
    return rows


def _as_carrier(piece: Array) -> Array:
    return piece.view(np.int64) if piece.dtype.kind in "mM" else piece


def _room(leaf: int, carrier: np.dtype[Any]) -> Array:
    """This thread's place to sort in, as rows of one block each."""
    if not hasattr(_of_thread, "rooms"):
        _of_thread.rooms = {}
    rooms: dict[str, Array] = _of_thread.rooms
    size = max(leaf, AT_ONCE)
    if carrier.name not in rooms or len(rooms[carrier.name]) < size:
        rooms[carrier.name] = np.empty(size, dtype=carrier)
    return rooms[carrier.name][:size].reshape(-1, leaf)
