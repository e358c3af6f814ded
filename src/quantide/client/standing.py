"""Standing queries: registered once, kept right by the server."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Unpack

import numpy as np

from quantide.client.connection import Connection, named, path_of
from quantide.client.ids import check_id, ids_of
from quantide.client.problems import understood
from quantide.client.told import read_query
from quantide.client.words import Words, body_of, span_text
from quantide.errors import InvalidArgumentError
from quantide.summary.ranks import check_eps, check_phi

OF_QUERIES = ("stream", "phi", "eps", "label", "idle")


class Standing(Connection):
    """Queries that the server keeps, also when it starts anew, until they are dropped."""

    def register(
        self,
        stream: str,
        phi: float,
        eps: float | None = None,
        label: str | None = None,
        idle: Any = None,
        **about: Unpack[Words],
    ) -> int:
        """Register a standing query; its id. `about` are words of answer(): key, last, within, last_steps, filter.

        `eps` is how far the rank of its value may be off: the larger, the rarer it changes. Without it, or finer than
        can be, it is the finest there is; query() tells. `label` is a name to find, hear and drop queries by.
        `idle` is a length of time: the server drops the query when nobody has listened to it for so long.
        """
        words = {"stream": stream, "phi": phi, "eps": eps, "label": label, "idle": idle}
        return self._register(_query({**words, **about}))[0]

    def register_many(self, queries: Iterable[Mapping[str, Any]] | None = None, **columns: Any) -> list[int]:
        """Register many queries in one request, all of them or, when one is wrong, none; their ids, in order.

        Either dicts with the words of register(), or these words as columns: a list or an array has a value for each
        query, anything else is the same for all: `register_many(stream="latency", phi=phis, key=keys, eps=0.01)`.
        """
        if (queries is None) == (not columns):
            raise InvalidArgumentError("give queries as a list of dicts, or their words as columns, such as phi=[0.5]")
        rows = _rows(columns) if queries is None else list(queries)
        if not rows:
            raise InvalidArgumentError("there are no queries in it; give one or more")
        return self._register([_query(row) for row in rows])

    def query(self, id: int) -> dict[str, Any]:
        """A standing query: what it is about, the precision in force, and under "answer" its QueryState now."""
        body = self.get(path_of("queries", check_id(id)))
        with understood(self.address):
            return read_query(body)

    def queries(self, label: str | None = None, stream: str | None = None) -> Iterator[dict[str, Any]]:
        """All standing queries, or those with a label or about a stream, in the order of their ids: fetched a page at
        a time, so there may be many."""
        after: int | None = 0
        while after is not None:
            body = self.get(path_of("queries"), after=after, **named({"label": label, "stream": stream}))
            with understood(self.address):
                page = [read_query(one) for one in body["queries"]]
                last, after = after, body["next"]
                if after is not None and not last < after:
                    raise ValueError("a page that leads back")
            yield from page

    def drop(self, ids: int | Iterable[int] | None = None, label: str | None = None) -> int:
        """Drop a query, several (all of them or, when one is not there, none), or those with a label; how many."""
        if (ids is None) == (label is None):
            raise InvalidArgumentError("say what to drop: an id, ids, or label=")
        if label is not None:
            body = self.change("DELETE", path_of("queries"), label=label)
        elif ids is not None and hasattr(ids, "__iter__"):
            body = self.change("POST", path_of("queries", "drop"), ids_of(ids))
        else:
            body = self.change("DELETE", path_of("queries", check_id(ids)))
        with understood(self.address):
            return int(body["dropped"])

    def _register(self, queries: dict[str, Any] | list[dict[str, Any]]) -> list[int]:
        body = self.change("POST", path_of("queries"), queries)
        with understood(self.address):
            ids = [check_id(one["id"]) for one in body["queries"]]
            if len(ids) != (len(queries) if isinstance(queries, list) else 1):
                raise ValueError("another number of ids than of queries")
            return ids


def _query(words: Mapping[str, Any]) -> dict[str, Any]:
    """A query as a body has it."""
    said = named({name: words.get(name) for name in OF_QUERIES})
    if "stream" not in said or "phi" not in said:
        raise InvalidArgumentError(f"a query needs a stream and a phi; {dict(words)!r} has not both")
    said["phi"] = check_phi(said["phi"])
    if "eps" in said:
        said["eps"] = check_eps(said["eps"])
    if "idle" in said:
        said["idle"] = span_text(said["idle"])
    return said | body_of({name: word for name, word in words.items() if name not in OF_QUERIES})


def _rows(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Columns as rows."""
    many = {name: list(column) for name, column in columns.items() if isinstance(column, (list, np.ndarray))}
    lengths = sorted({len(column) for column in many.values()})
    if len(lengths) != 1:
        raise InvalidArgumentError(f"columns are lists of one length; these have {lengths or 'none'}")
    rows = zip(*many.values(), strict=True)
    return [{**columns, **dict(zip(many, row, strict=True))} for row in rows]
