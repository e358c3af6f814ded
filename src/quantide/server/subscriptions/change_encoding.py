"""Change encoding: JSON of published changes, a value with its proved rank bounds or the reason why there is none."""

from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from quantide.queries.query_results import Answers
from quantide.server.http.response_json import encode_value
from quantide.server.subscriptions.query_table import EMPTY, FAILED, VALUE, WAITING
from quantide.typing import Bools, Ints, Texts

STATE_NAMES = {EMPTY: "empty", WAITING: "waiting", FAILED: "failed"}
CHANGE = (
    b'{"id":%b,"state":"value","value":%b,"value_type":"%b","rank_lo":%b,"rank_hi":%b,"n":%d,"error":%b,"version":%d}'
)
DROPPED = b'{"id":%d,"state":"dropped","value":null}'


class ValueChanges:
    """Values of queries over one window, all as of one version. `bits` differ where values do."""

    state = VALUE

    def __init__(self, ids: Ints, answers: Answers) -> None:
        self.ids, self.bits, self._answers = ids, answers.bits, answers

    def texts(self, selected: Bools) -> Texts:
        """Encode the selected changes. Few values serve many queries: each value is encoded once."""
        answers = self._answers
        _, first, inverse = np.unique(self.bits[selected], return_index=True, return_inverse=True)
        distinct = np.array(_encode_values(answers.values_at(np.flatnonzero(selected)[first])), dtype=object)
        columns = zip(
            _encode_numbers(self.ids[selected]),
            distinct[inverse].tolist(),
            _encode_numbers(answers.rank_lo[selected]),
            _encode_numbers(answers.rank_hi[selected]),
            _encode_numbers(answers.error[selected]),
            strict=True,
        )
        kind, n, version = str(answers.kind).encode(), answers.n, answers.version
        return _text_array(
            [CHANGE % (id, value, kind, low, high, n, error, version) for id, value, low, high, error in columns]
        )


class NoValue:
    """Queries over one window that have no value: the window is empty, or cannot be evaluated for a reason."""

    def __init__(self, ids: Ints, state: int, reason: str | None = None) -> None:
        self.ids, self.state, self.bits = ids, state, np.zeros(len(ids), dtype=np.int64)
        self._fields = {"state": STATE_NAMES[state], "value": None} | ({} if reason is None else {"why": reason})

    def texts(self, selected: Bools) -> Texts:
        fields = orjson.dumps(self._fields)[1:]
        return _text_array([b'{"id":%d,%b' % (id, fields) for id in self.ids[selected].tolist()])


Evaluation = ValueChanges | NoValue


def encode_dropped(ids: Ints) -> list[bytes]:
    return [DROPPED % id for id in ids.tolist()]


def encode_stream_event(name: str, **fields: Any) -> bytes:
    return orjson.dumps({"stream": name} | {field: encode_value(value) for field, value in fields.items()})


def _encode_values(column: NDArray[Any]) -> list[bytes]:
    """Encode values; all at once if JSON has such numbers."""
    if len(column) and column.dtype.kind in "iuf" and np.isfinite(column).all():
        return _encode_numbers(column.astype(np.float64) if column.dtype.kind == "f" else column)
    return [orjson.dumps(encode_value(value)) for value in column]


def _encode_numbers(column: NDArray[Any]) -> list[bytes]:
    data = orjson.dumps(np.ascontiguousarray(column), option=orjson.OPT_SERIALIZE_NUMPY)
    return data[1:-1].split(b",")


def _text_array(texts: list[bytes]) -> Texts:
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array
