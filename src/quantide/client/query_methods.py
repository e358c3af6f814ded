"""Client methods for continuous queries: registered once, evaluated by the server."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Unpack

import numpy as np

from quantide.client.connection import Connection, api_path, drop_none, parsing_response
from quantide.client.request_parameters import ScopeParameters, check_id, check_ids, format_duration, scope_fields
from quantide.client.response_parsing import parse_query
from quantide.errors import InvalidArgumentError
from quantide.summary.ranks import check_eps, check_phi

QUERY_FIELDS = ("stream", "phi", "eps", "label", "idle")


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
