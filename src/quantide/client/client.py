"""Client: the server's API as Python methods that read, register continuous queries and set alarms."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.client.connection import Connection, api_path, drop_none, parsing_response
from quantide.client.event_reader import Events
from quantide.client.push_methods import PushMethods
from quantide.client.request_parameters import (
    QuantileParameters,
    ScopeParameters,
    TimedScopeParameters,
    check_id,
    check_ids,
    check_stream_name,
    format_duration,
    format_threshold,
    format_value,
    query_string,
    reference_fields,
    scope_fields,
)
from quantide.client.response_parsing import (
    CurvePoint,
    QQPoint,
    RemoteAnswer,
    RemoteComparison,
    parse_alarm,
    parse_answers,
    parse_comparison,
    parse_curve,
    parse_event,
    parse_key,
    parse_qq_plot,
    parse_query,
    parse_ranking,
    parse_stream,
)
from quantide.errors import InvalidArgumentError
from quantide.summary.comparison import BINS, FLOOR, PHIS
from quantide.summary.interval_masses import masses_between
from quantide.summary.key_ranking import MOST, KeyRankingAsOf, RankingRequest
from quantide.summary.ranks import check_eps, check_phi, check_phis
from quantide.summary.summary import Summary
from quantide.typing import Floats

T = TypeVar("T")
QUERY_FIELDS = ("stream", "phi", "eps", "label", "idle")
MAX_IDS = 1_000  # in one URL


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

    def rank(
        self, stream: str, value: Any, *, inclusive: bool = True, **parameters: Unpack[QuantileParameters]
    ) -> tuple[Any, Any]:
        """Return proved bounds (lo, hi) on the number of values <= value; arrays for several values.

        With inclusive=False, on the number of values < value.
        """
        single, texts = _format_values(value)
        body = self._get_from_stream(stream, "rank", parameters, value=texts, **_comparison(inclusive))
        ranks = self._parse(body, lambda body: [(int(rank["rank_lo"]), int(rank["rank_hi"])) for rank in body["ranks"]])
        self._check_length(ranks, len(texts))
        if single:
            return ranks[0]
        low, high = np.array(ranks, dtype=np.int64).T
        return low, high

    def cdf(self, stream: str, values: Any, *, inclusive: bool = True, **parameters: Unpack[QuantileParameters]) -> Any:
        """Return the fraction of the stream's values that are <= each value: a number for one, an array for several.

        With inclusive=False, the fraction of those that are < each value.
        """
        single, texts = _format_values(values)
        body = self._get_from_stream(stream, "cdf", parameters, value=texts, **_comparison(inclusive))
        points = self._parse(body, parse_curve)
        fractions = [point.fraction for point in self._check_length(points, len(texts))]
        return fractions[0] if single else np.array(fractions)

    def pmf(
        self, stream: str, splits: Any, *, inclusive: bool = True, **parameters: Unpack[QuantileParameters]
    ) -> Floats:
        """Return the fraction of the stream's values in (-inf, s1], (s1, s2], ..., (sk, inf); see Summary.pmf."""
        return masses_between(splits, lambda values: self.cdf(stream, values, inclusive=inclusive, **parameters))

    def curve(self, stream: str, points: int = 100, **parameters: Unpack[QuantileParameters]) -> list[CurvePoint]:
        """Return the distribution as a curve to draw: values evenly spread over the ranks, each with its fraction."""
        return self._parse(self._get_from_stream(stream, "cdf", parameters, points=points), parse_curve)

    def worst_keys(
        self,
        stream: str,
        phi: float,
        most: int = MOST,
        *,
        smallest: bool = False,
        min_n: int = 1,
        **parameters: Unpack[QuantileParameters],
    ) -> KeyRankingAsOf:
        """Return the keys with the largest, or smallest, phi-quantile, and the proved part of their order."""
        request = RankingRequest(check_phi(phi), most, smallest, min_n)
        if parameters.get("key") is not None:
            raise InvalidArgumentError("worst keys are chosen among all keys; leave key= out")
        more = {"phi": repr(request.phi), "most": most, "min_n": min_n, **({"smallest": "true"} if smallest else {})}
        return self._parse(self._get_from_stream(stream, "worst-keys", parameters, **more), parse_ranking)

    def summary(self, stream: str, **parameters: Unpack[TimedScopeParameters]) -> Summary:
        """Return a summary of everything or of a window, to merge, store, or query without the server."""
        path = api_path("streams", check_stream_name(stream), "summary")
        return Summary.from_bytes(self.get_bytes(path, **query_string(parameters, TimedScopeParameters)))

    def compare(
        self,
        stream: str,
        against: str,
        phis: ArrayLike = PHIS,
        bins: Any = BINS,
        floor: float = FLOOR,
        *,
        against_filter: str | None = None,
        **parameters: Unpack[TimedScopeParameters],
    ) -> RemoteComparison:
        """Compare everything or a window with a reference, `stream[:key][@window]`, such as "latency:/pay@steps:30".

        `bins` is a number of quantile bins of the reference, or the values between bins.
        """
        if not isinstance(against, str):
            raise InvalidArgumentError(
                f'against={against!r} is not text; write stream[:key][@window], such as "latency:/pay@steps:30"'
            )
        path = api_path("streams", check_stream_name(stream), "compare")
        cuts = {"bins": bins} if isinstance(bins, int) else {"split": _format_values(bins)[1]}
        fields = {"against": against, "against_filter": against_filter, "phi": check_phis(phis).ravel().tolist()}
        scope = query_string(parameters, TimedScopeParameters)
        return self._parse(self.get(path, **drop_none(fields), **cuts, floor=floor, **scope), parse_comparison)

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


def _comparison(inclusive: bool) -> dict[str, str]:
    """Return the parameter of a query that counts values below a value, instead of those that are at most that."""
    return {} if inclusive else {"inclusive": "false"}


class QueryMethods(Connection):
    """Continuous queries; the server stores them, also over a restart, until they are dropped."""

    def register(
        self,
        stream: str,
        phi: float,
        eps: float | None = None,
        label: str | None = None,
        idle: Any = None,
        **scope: Unpack[ScopeParameters],
    ) -> int:
        """Register a continuous query and return its id. `scope` has parameters of answer(): key, last, within,
        last_steps, filter.

        `eps` is the largest rank error of its value: the larger, the fewer changes. If it is missing or too fine, the
        finest possible one is used; query() returns it. `label` is a name to list, subscribe to and drop queries by.
        `idle` is a length of time: the server drops the query after that time without a subscriber.
        """
        fields = {"stream": stream, "phi": phi, "eps": eps, "label": label, "idle": idle}
        return self._register(_encode_query({**fields, **scope}))[0]

    def register_many(self, queries: Iterable[Mapping[str, Any]] | None = None, **columns: Any) -> list[int]:
        """Register many queries in one request, all or, if one is invalid, none; return their ids in order.

        Give either dicts with the parameters of register(), or these parameters as columns: a list or an array has a
        value for each query, anything else applies to all:
        `register_many(stream="latency", phi=phis, key=keys, eps=0.01)`.
        """
        if (queries is None) == (not columns):
            raise InvalidArgumentError(
                "give queries either as a list of dicts or as columns with their parameters, such as phi=[0.5]"
            )
        rows = _columns_to_rows(columns) if queries is None else list(queries)
        if not rows:
            raise InvalidArgumentError("there are no queries; give one or more")
        return self._register([_encode_query(row) for row in rows])

    def query(self, id: int) -> dict[str, Any]:
        """Return a continuous query: its scope, the precision in force, and its current QueryState as "answer"."""
        body = self.get(api_path("queries", check_id(id)))
        with parsing_response(self.address):
            return parse_query(body)

    def queries(self, label: str | None = None, stream: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield all continuous queries, or those of a label or a stream, ordered by id; fetched a page at a time."""
        after: int | None = 0
        while after is not None:
            body = self.get(api_path("queries"), after=after, **drop_none({"label": label, "stream": stream}))
            with parsing_response(self.address):
                page = [parse_query(query) for query in body["queries"]]
                previous, after = after, body["next"]
                if after is not None and not previous < after:
                    raise ValueError("a page that leads back")
            yield from page

    def drop(self, ids: int | Iterable[int] | None = None, label: str | None = None) -> int:
        """Drop a query, several (all or, if one does not exist, none), or those with a label; return how many."""
        if (ids is None) == (label is None):
            raise InvalidArgumentError("choose what to drop: an id, ids, or label=")
        if label is not None:
            body = self.change("DELETE", api_path("queries"), label=label)
        elif ids is not None and hasattr(ids, "__iter__"):
            body = self.change("POST", api_path("queries", "drop"), check_ids(ids))
        else:
            body = self.change("DELETE", api_path("queries", check_id(ids)))
        with parsing_response(self.address):
            return int(body["dropped"])

    def _register(self, queries: dict[str, Any] | list[dict[str, Any]]) -> list[int]:
        body = self.change("POST", api_path("queries"), queries)
        with parsing_response(self.address):
            ids = [check_id(query["id"]) for query in body["queries"]]
            if len(ids) != (len(queries) if isinstance(queries, list) else 1):
                raise ValueError("another number of ids than of queries")
            return ids


def _encode_query(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a query as fields of a JSON body."""
    fields = drop_none({name: parameters.get(name) for name in QUERY_FIELDS})
    if "stream" not in fields or "phi" not in fields:
        raise InvalidArgumentError(f"a query needs a stream and a phi; {dict(parameters)!r} does not have both")
    fields["phi"] = check_phi(fields["phi"])
    if "eps" in fields:
        fields["eps"] = check_eps(fields["eps"])
    if "idle" in fields:
        fields["idle"] = format_duration(fields["idle"])
    return fields | scope_fields({name: value for name, value in parameters.items() if name not in QUERY_FIELDS})


def _columns_to_rows(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    lists = {name: list(column) for name, column in columns.items() if isinstance(column, (list, np.ndarray))}
    lengths = sorted({len(column) for column in lists.values()})
    if len(lengths) != 1:
        raise InvalidArgumentError(f"columns must be lists of one length; these have {lengths or 'none'}")
    rows = zip(*lists.values(), strict=True)
    return [{**columns, **dict(zip(lists, row, strict=True))} for row in rows]


class AlarmMethods(Connection):
    """Alarms; the server stores them, also over a restart, until they are dropped."""

    def alarm(
        self,
        stream: str,
        phi: float | None = None,
        above: Any = None,
        below: Any = None,
        clear: Any = None,
        hold: Any = 0,
        eps: float | None = None,
        name: str | None = None,
        webhook: str | None = None,
        measure: str = "quantile",
        against: ScopeParameters | None = None,
        **scope: Unpack[ScopeParameters],
    ) -> int:
        """Set an alarm on a quantile above, or below, a threshold and return its id.

        It fires once the condition has been proved for `hold` (seconds, a timedelta, or text such as "30 s"). It clears
        once the quantile has been proved not to be beyond `clear` (default: the threshold) for as long. `webhook` is a
        URL that the server notifies of both; the server's configuration lists the allowed ones.

        With measure="ks" it is about the KS distance between the window and another one of the stream, `against`, such
        as {"last_steps": 7}, and has no phi. The key and the filter of `against` are those of the alarm by default.
        """
        if (above is None) == (below is None):
            raise InvalidArgumentError("an alarm has one threshold: give either above= or below=")
        if phi is None and measure == "quantile":
            raise InvalidArgumentError("an alarm on a quantile needs phi=, such as 0.99")
        fields = {
            "stream": stream,
            "measure": None if measure == "quantile" else measure,
            "phi": None if phi is None else check_phi(phi),
            "against": None if against is None else reference_fields(against),
            "above": format_threshold(above),
            "below": format_threshold(below),
            "clear": format_threshold(clear),
            "hold": format_duration(hold) if hold else None,
            "name": name,
            "webhook": webhook,
            "eps": None if eps is None else check_eps(eps),
        }
        body = self.change("POST", api_path("alarms"), drop_none(fields) | scope_fields(scope))
        with parsing_response(self.address):
            return check_id(body["id"])

    def alarms(self) -> list[dict[str, Any]]:
        """Return all alarms, each as alarm_state() returns it."""
        body = self.get(api_path("alarms"))
        with parsing_response(self.address):
            return [parse_alarm(alarm) for alarm in body["alarms"]]

    def alarm_state(self, id: int) -> dict[str, Any]:
        """Return an alarm: its settings; `state` ("no", "possible", "certain"), `firing`, and since when; the value
        that decides it, with its ranks, or the bounds (low, high) of the KS distance; the outcome of the last message
        to its webhook."""
        body = self.get(api_path("alarms", check_id(id)))
        with parsing_response(self.address):
            return parse_alarm(body)

    def alarm_history(self, id: int) -> Iterator[dict[str, Any]]:
        """Yield the transitions of an alarm, newest first; fetched a page at a time."""
        before: int | None = None
        while True:
            body = self.get(api_path("alarms", check_id(id), "history"), **drop_none({"before": before}))
            with parsing_response(self.address):
                page = [parse_alarm(transition) for transition in body["transitions"]]
                previous, before = before, body["next"]
                if None not in (previous, before) and not before < previous:  # type: ignore[operator]
                    raise ValueError("a page that leads back")
            yield from page
            if before is None:
                return

    def drop_alarm(self, id: int) -> None:
        """Drop an alarm and its messages that were not sent yet."""
        self.change("DELETE", api_path("alarms", check_id(id)))


class Client(ReadMethods, QueryMethods, AlarmMethods, PushMethods):
    """Client of a server: the queries of LiveStream, continuous queries, alarms and events; and rows to push.

    Parameters: `address`, such as "http://127.0.0.1:8642"; `token`, sent in a header only, and over plain http to this
    machine only; `timeout`, the seconds that the server may stay silent; `ca`, a file of certificates (PEM) to trust
    instead of the usual ones, for servers with a certificate of their own.

    An error response is raised as the error that the library itself would raise: UnknownKeyError for a key without
    values. A server that cannot be reached, or whose response is not understood, is a ServerError.

    A read is retried once when the connection breaks, and so are pushed rows, which have an idempotency key; any other
    change, such as register(), is never sent twice.
    Threads may share a client. Only one thread at a time may use an iterator of events.

    Guide: docs/client.md.
    """

    def events(
        self,
        queries: int | Iterable[int] = (),
        label: str | Iterable[str] = (),
        streams: str | Iterable[str] = (),
        alarms: bool | int | Iterable[int] = False,
        patience: float | None = None,
        after: str = "",
    ) -> Events:
        """Subscribe to queries (by id, or by their current label), streams (each new version) and alarms (some, or all
        with True); return an iterator of Event.

        It starts with the current values of the queries, then yields changes. It reconnects automatically; `patience`
        is how many seconds the server may be away before a ServerError is raised. `after` is the id of an event that
        was received before: only later changes are sent.
        """
        subscription: dict[str, Any] = {"query": check_ids(queries), "label": _as_list(label)}
        subscription["stream"] = [check_stream_name(name) for name in _as_list(streams)]
        if alarms is True:
            subscription["alarms"] = "all"
        elif alarms is not False:
            subscription["alarm"] = check_ids(alarms)
        if not any(subscription.values()):
            raise InvalidArgumentError("there is nothing to subscribe to; give queries=, label=, streams= or alarms=")
        if max(len(subscription["query"]), len(subscription.get("alarm", ()))) > MAX_IDS:
            raise InvalidArgumentError(
                f"more than {MAX_IDS:,} ids; register queries with a label=, and subscribe to that"
            )
        return Events(self, subscription, parse_event, patience, after)


def _as_list(names: str | Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
