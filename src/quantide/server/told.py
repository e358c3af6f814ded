"""What is told of standing queries: a value with the ranks proved for it, or why there is none, as JSON."""

from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from quantide.queries.results import Answers
from quantide.server import shown
from quantide.server.columns import EMPTY, FAILED, VALUE, WAITING, Ints

Texts = NDArray[np.object_]
Which = NDArray[np.bool_]

NAMES = {EMPTY: "empty", WAITING: "waiting", FAILED: "failed"}
TEXT = (
    b'{"id":%b,"state":"value","value":%b,"value_type":"%b","rank_lo":%b,"rank_hi":%b,"n":%d,"error":%b,"version":%d}'
)
DROPPED = b'{"id":%d,"state":"dropped","value":null}'


class Values:
    """Queries about one window that have a value each, all as of one version. `bits` differ where values do."""

    state = VALUE

    def __init__(self, ids: Ints, answers: Answers) -> None:
        self.ids, self.bits, self._answers = ids, answers.bits, answers

    def texts(self, which: Which) -> Texts:
        """Those of some of them. Few values serve many queries: each is written once."""
        answers = self._answers
        _, first, place = np.unique(self.bits[which], return_index=True, return_inverse=True)
        distinct = np.array(_values(answers.values_at(np.flatnonzero(which)[first])), dtype=object)
        columns = zip(
            _numbers(self.ids[which]),
            distinct[place].tolist(),
            _numbers(answers.rank_lo[which]),
            _numbers(answers.rank_hi[which]),
            _numbers(answers.error[which]),
            strict=True,
        )
        kind, n, version = str(answers.kind).encode(), answers.n, answers.version
        return _texts(
            [TEXT % (id, value, kind, low, high, n, error, version) for id, value, low, high, error in columns]
        )


class Missing:
    """Queries about one window that have no value: nothing lies in it, or it cannot be told what does."""

    def __init__(self, ids: Ints, state: int, why: str | None = None) -> None:
        self.ids, self.state, self.bits = ids, state, np.zeros(len(ids), dtype=np.int64)
        self._rest = {"state": NAMES[state], "value": None} | ({} if why is None else {"why": why})

    def texts(self, which: Which) -> Texts:
        rest = orjson.dumps(self._rest)[1:]
        return _texts([b'{"id":%d,%b' % (id, rest) for id in self.ids[which].tolist()])


Found = Values | Missing


def dropped(ids: Ints) -> list[bytes]:
    return [DROPPED % id for id in ids.tolist()]


def stream(name: str, **about: Any) -> bytes:
    """Where a stream is."""
    return orjson.dumps({"stream": name} | {word: shown.value(said) for word, said in about.items()})


def _values(column: NDArray[Any]) -> list[bytes]:
    """Values as JSON: all at once where JSON has such numbers."""
    if len(column) and column.dtype.kind in "iuf" and np.isfinite(column).all():
        return _numbers(column.astype(np.float64) if column.dtype.kind == "f" else column)
    return [orjson.dumps(shown.value(one)) for one in column]


def _numbers(column: NDArray[Any]) -> list[bytes]:
    """Numbers as JSON, all at once."""
    data = orjson.dumps(np.ascontiguousarray(column), option=orjson.OPT_SERIALIZE_NUMPY)
    return data[1:-1].split(b",")


def _texts(found: list[bytes]) -> Texts:
    texts = np.empty(len(found), dtype=object)
    texts[:] = found
    return texts
