"""Questions: what streams there are, quantiles, ranks, curves, summaries."""

from collections.abc import Callable
from typing import Any, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.client.answer import CurvePoint, QQPoint, RemoteAnswer, read_answers, read_curve, read_plot
from quantide.client.connection import Connection, path_of
from quantide.client.problems import understood
from quantide.client.values import read_time, text_of
from quantide.client.words import AskedWords, TimedWords, parameters, read_key, stream_name
from quantide.errors import InvalidArgumentError
from quantide.summary.ranks import check_phi, check_phis
from quantide.summary.summary import Summary
from quantide.summary.types import type_named

T = TypeVar("T")


class Reading(Connection):
    """The questions of a live reader, with the same words, answered by a server."""

    def streams(self) -> list[dict[str, Any]]:
        """What streams there are: name, n, version, newest, value_type, and so on. One that cannot be read yet says
        ready=False and why."""
        return self._read(self.get(path_of("streams")), lambda body: [_stream(one) for one in body["streams"]])

    def stream(self, name: str) -> dict[str, Any]:
        """One stream, with its keys (some), counts, spans and memory."""
        return self._read(self.get(path_of("streams", stream_name(name))), _stream)

    def keys(self, stream: str, contains: str = "", limit: int = 100) -> list[Any]:
        """Keys of a stream that contain a text, whatever its case, in order; tuples where keys have several columns."""
        body = self.get(path_of("streams", stream_name(stream), "keys"), contains=contains, limit=limit)
        return self._read(body, lambda body: [read_key(key) for key in body["keys"]])

    def answer(self, stream: str, phi: float, **asked: Unpack[AskedWords]) -> RemoteAnswer:
        """The phi-quantile of everything or of a window, with the ranks it is proved to have."""
        return self.answers(stream, [check_phi(phi)], **asked)[0]

    def answers(self, stream: str, phis: ArrayLike, **asked: Unpack[AskedWords]) -> list[RemoteAnswer]:
        """The answers for many phis, all as of one version."""
        wanted = check_phis(phis).ravel().tolist()
        if not wanted:
            raise InvalidArgumentError("no phi is asked for; give one or more, such as [0.5, 0.99]")
        found = self._ask(stream, "quantiles", asked, AskedWords, phi=list(map(repr, wanted)))
        answers = self._read(found, read_answers)
        return self._as_many(answers, len(wanted))

    def quantile(self, stream: str, phi: float, **asked: Unpack[AskedWords]) -> Any:
        """The value of answer()."""
        return self.answer(stream, phi, **asked).value

    def quantiles(self, stream: str, phis: ArrayLike, **asked: Unpack[AskedWords]) -> NDArray[Any]:
        """The values for many phis."""
        values = [found.value for found in self.answers(stream, phis, **asked)]
        return np.array(values, dtype=np.asarray(values[0]).dtype).reshape(np.shape(phis))

    def rank(self, stream: str, value: Any, **asked: Unpack[AskedWords]) -> tuple[Any, Any]:
        """Proved bounds (lo, hi) on how many values are <= value; arrays for several values."""
        single, texts = _values(value)
        body = self._ask(stream, "rank", asked, AskedWords, value=texts)
        found = self._read(body, lambda body: [(int(one["rank_lo"]), int(one["rank_hi"])) for one in body["ranks"]])
        if single:
            return self._as_many(found, 1)[0]
        low, high = np.array(self._as_many(found, len(texts)), dtype=np.int64).T
        return low, high

    def cdf(self, stream: str, values: Any, **asked: Unpack[AskedWords]) -> Any:
        """The fraction of the values that are <= each value: a number for one, an array for several."""
        single, texts = _values(values)
        points = self._read(self._ask(stream, "cdf", asked, AskedWords, value=texts), read_curve)
        found = [point.fraction for point in self._as_many(points, len(texts))]
        return found[0] if single else np.array(found)

    def curve(self, stream: str, points: int = 100, **asked: Unpack[AskedWords]) -> list[CurvePoint]:
        """The distribution as a curve to draw: values evenly spread over the ranks, each with its fraction."""
        return self._read(self._ask(stream, "cdf", asked, AskedWords, points=points), read_curve)

    def summary(self, stream: str, **asked: Unpack[TimedWords]) -> Summary:
        """A summary of everything or of a window, to be merged with others, stored, or asked without the server."""
        path = path_of("streams", stream_name(stream), "summary")
        return Summary.from_bytes(self.get_bytes(path, **parameters(asked, TimedWords)))

    def qq(self, x: str, y: str, start: float = 0.0, end: float = 1.0, points: int = 200) -> list[QQPoint]:
        """A Q-Q plot of two places, each `stream[:key][@window]`, such as "latency:/pay@within:5m".
        A smaller range of phi gives a finer plot."""
        span = {"from": start, "to": end}
        body = self.get("/api/qq", x=x, y=y, points=points, **span)
        return self._read(body, read_plot)

    def _ask(self, stream: str, what: str, asked: Any, known: type, **more: Any) -> dict[str, Any]:
        return self.get(path_of("streams", stream_name(stream), what), **parameters(asked, known), **more)

    def _read(self, body: dict[str, Any], read: Callable[[dict[str, Any]], T]) -> T:
        with understood(self.address):
            return read(body)

    def _as_many(self, found: list[T], wanted: int) -> list[T]:
        with understood(self.address):
            if len(found) != wanted:
                raise ValueError(f"{len(found)} answers to {wanted} questions")
        return found


def _stream(body: dict[str, Any]) -> dict[str, Any]:
    if not body["ready"]:
        return body
    type_named(body["value_type"])
    keys = {"keys": [read_key(key) for key in body["keys"]]} if "keys" in body else {}
    return body | {"newest": read_time(body["newest"])} | keys


def _values(values: Any) -> tuple[bool, list[str]]:
    """Whether one value is asked about, and the text of each."""
    single = isinstance(values, str) or not hasattr(values, "__len__") or np.ndim(values) == 0
    many = [values] if single else list(values)
    if not many:
        raise InvalidArgumentError("no value is asked about; give one or more")
    return single, [text_of(value) for value in many]
