"""Client methods that read: streams, quantiles, ranks, curves, summaries."""

from collections.abc import Callable
from typing import Any, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.client.connection import Connection, api_path, parsing_response
from quantide.client.request_parameters import (
    QuantileParameters,
    TimedScopeParameters,
    check_stream_name,
    format_value,
    query_string,
)
from quantide.client.response_parsing import (
    CurvePoint,
    QQPoint,
    RemoteAnswer,
    parse_answers,
    parse_curve,
    parse_key,
    parse_qq_plot,
    parse_stream,
)
from quantide.errors import InvalidArgumentError
from quantide.summary.ranks import check_phi, check_phis
from quantide.summary.summary import Summary

T = TypeVar("T")


class ReadMethods(Connection):
    """The queries of a live reader, with the same parameters, answered by a server."""

    def streams(self) -> list[dict[str, Any]]:
        """Return all streams: name, n, version, newest, value_type and so on. A stream that cannot be read yet has
        ready=False and the reason."""
        body = self.get(api_path("streams"))
        return self._parse(body, lambda body: [parse_stream(stream) for stream in body["streams"]])

    def stream(self, name: str) -> dict[str, Any]:
        """Return one stream, with some of its keys, counts, spans and memory."""
        return self._parse(self.get(api_path("streams", check_stream_name(name))), parse_stream)

    def keys(self, stream: str, contains: str = "", limit: int = 100) -> list[Any]:
        """Return the keys of a stream that contain a text (case-insensitive), in order; tuples if keys have several
        columns."""
        body = self.get(api_path("streams", check_stream_name(stream), "keys"), contains=contains, limit=limit)
        return self._parse(body, lambda body: [parse_key(key) for key in body["keys"]])

    def answer(self, stream: str, phi: float, **parameters: Unpack[QuantileParameters]) -> RemoteAnswer:
        """Return the phi-quantile of everything or of a window, with its proved ranks."""
        return self.answers(stream, [check_phi(phi)], **parameters)[0]

    def answers(self, stream: str, phis: ArrayLike, **parameters: Unpack[QuantileParameters]) -> list[RemoteAnswer]:
        """Return the answers for many phis, all of one version of the stream."""
        checked = check_phis(phis).ravel().tolist()
        if not checked:
            raise InvalidArgumentError("there is no phi; give one or more, such as [0.5, 0.99]")
        body = self._get_from_stream(stream, "quantiles", parameters, phi=list(map(repr, checked)))
        return self._check_length(self._parse(body, parse_answers), len(checked))

    def quantile(self, stream: str, phi: float, **parameters: Unpack[QuantileParameters]) -> Any:
        """Return the value of answer()."""
        return self.answer(stream, phi, **parameters).value

    def quantiles(self, stream: str, phis: ArrayLike, **parameters: Unpack[QuantileParameters]) -> NDArray[Any]:
        """Return the values for many phis."""
        values = [answer.value for answer in self.answers(stream, phis, **parameters)]
        return np.array(values, dtype=np.asarray(values[0]).dtype).reshape(np.shape(phis))

    def rank(self, stream: str, value: Any, **parameters: Unpack[QuantileParameters]) -> tuple[Any, Any]:
        """Return proved bounds (lo, hi) on the number of values <= value; arrays for several values."""
        single, texts = _format_values(value)
        body = self._get_from_stream(stream, "rank", parameters, value=texts)
        ranks = self._parse(body, lambda body: [(int(rank["rank_lo"]), int(rank["rank_hi"])) for rank in body["ranks"]])
        self._check_length(ranks, len(texts))
        if single:
            return ranks[0]
        low, high = np.array(ranks, dtype=np.int64).T
        return low, high

    def cdf(self, stream: str, values: Any, **parameters: Unpack[QuantileParameters]) -> Any:
        """Return the fraction of the stream's values that are <= each value: a number for one, an array for several."""
        single, texts = _format_values(values)
        points = self._parse(self._get_from_stream(stream, "cdf", parameters, value=texts), parse_curve)
        fractions = [point.fraction for point in self._check_length(points, len(texts))]
        return fractions[0] if single else np.array(fractions)

    def curve(self, stream: str, points: int = 100, **parameters: Unpack[QuantileParameters]) -> list[CurvePoint]:
        """Return the distribution as a curve to draw: values evenly spread over the ranks, each with its fraction."""
        return self._parse(self._get_from_stream(stream, "cdf", parameters, points=points), parse_curve)

    def summary(self, stream: str, **parameters: Unpack[TimedScopeParameters]) -> Summary:
        """Return a summary of everything or of a window, to merge, store, or query without the server."""
        path = api_path("streams", check_stream_name(stream), "summary")
        return Summary.from_bytes(self.get_bytes(path, **query_string(parameters, TimedScopeParameters)))

    def qq(self, x: str, y: str, start: float = 0.0, end: float = 1.0, points: int = 200) -> list[QQPoint]:
        """Return a Q-Q plot of two scopes, each `stream[:key][@window]`, such as "latency:/pay@within:5m".
        A smaller range of phi gives a finer plot."""
        phi_range = {"from": start, "to": end}
        body = self.get("/api/qq", x=x, y=y, points=points, **phi_range)
        return self._parse(body, parse_qq_plot)

    def _get_from_stream(self, stream: str, route: str, parameters: Any, **more: Any) -> dict[str, Any]:
        path = api_path("streams", check_stream_name(stream), route)
        return self.get(path, **query_string(parameters, QuantileParameters), **more)

    def _parse(self, body: dict[str, Any], parse: Callable[[dict[str, Any]], T]) -> T:
        with parsing_response(self.address):
            return parse(body)

    def _check_length(self, results: list[T], expected: int) -> list[T]:
        with parsing_response(self.address):
            if len(results) != expected:
                raise ValueError(f"{len(results)} answers to {expected} queries")
        return results


def _format_values(values: Any) -> tuple[bool, list[str]]:
    """Return True if a single value was given, and the text of each value."""
    single = isinstance(values, str) or not hasattr(values, "__len__") or np.ndim(values) == 0
    many = [values] if single else list(values)
    if not many:
        raise InvalidArgumentError("there is no value; give one or more")
    return single, [format_value(value) for value in many]
