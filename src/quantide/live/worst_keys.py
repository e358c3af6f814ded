"""Worst keys of a live stream: the keys with the largest, or smallest, quantile of everything or of a window."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from quantide.errors import EmptyError, InvalidArgumentError
from quantide.history.history_reader import HistoryReader
from quantide.history.snapshot import Snapshot
from quantide.history.span_view import MODES
from quantide.live.keyed_window import window_parts
from quantide.live.live_view import LiveViewCache
from quantide.live.recent_snapshot import RecentSnapshot
from quantide.live.scope import QueryScope, resolve_window
from quantide.summary.key_quantiles import KeyQuantiles
from quantide.summary.key_ranking import KeyRankingAsOf, RankingRequest
from quantide.summary.keyed_merge import KeyedSource, key_codes, merge_ranges
from quantide.summary.ranks import check_phi
from quantide.summary.value_types import ValueType, type_named


@dataclass(frozen=True)
class KeyQuantilesView:
    """Quantile of every key of a scope, and the rest of an answer about it."""

    quantiles: KeyQuantiles
    version: int
    mode: str
    last_steps: int | None = None
    since: Any = None
    until: Any = None

    def rank(self, request: RankingRequest) -> KeyRankingAsOf:
        """Return the worst keys."""
        if not len(self.quantiles):
            raise EmptyError("no key has a value in this window; choose a longer one")
        ranking = request.rank(self.quantiles)
        same: dict[str, Any] = {field.name: getattr(ranking, field.name) for field in fields(ranking)}
        return KeyRankingAsOf(
            **same,
            version=self.version,
            mode=self.mode,
            last_steps=self.last_steps,
            since=self.since,
            until=self.until,
        )


class WorstKeysQuery:
    """Quantiles of all keys of a live stream, computed once for a version, a scope and a phi."""

    def __init__(self, reader: HistoryReader, views: LiveViewCache, max_span: Fraction | None) -> None:
        self._reader, self._views, self._max_span = reader, views, max_span
        self._kind = type_named(reader.settings.value_type)

    def rank(
        self, scope: QueryScope, request: RankingRequest, mode: str | None, recent: RecentSnapshot
    ) -> KeyRankingAsOf:
        """Return the worst keys of a scope."""
        phi, mode = check_phi(request.phi), self._check(scope, mode)
        snapshot = self._reader.snapshot  # one for the name in the cache and for the result: commits go on
        version = recent.version if scope.recent else snapshot.version

        def compute() -> KeyQuantilesView:
            if scope.recent:
                return self._of_window(scope, phi, mode, recent)
            return self._of_history(scope, phi, mode, snapshot)

        if scope.cache_key is None:
            return compute().rank(request)
        name = (scope.cache_key, "keys", phi, mode)
        return self._views.get_result(version, name, compute, lambda x: x.quantiles.nbytes).rank(request)

    def _check(self, scope: QueryScope, mode: str | None) -> str:
        """Return the mode; raise if the store has no keys, or the scope a key."""
        if not self._reader.settings.keys:
            raise InvalidArgumentError("this store has no keys to compare; make one with History(path, keys=...)")
        if scope.key is not None:
            raise InvalidArgumentError(f"key={scope.key!r}: worst keys are chosen among all keys; leave key out")
        if mode is None:
            return "accurate" if scope.recent else "quick"
        if mode not in MODES:
            raise InvalidArgumentError(f"mode={mode!r} is not one of {', '.join(MODES)}")
        if not scope.recent and mode != "quick":
            raise InvalidArgumentError(
                f"mode={mode!r}: over history keys are compared by their summaries, mode='quick'; answer(phi, key=..., "
                f"mode={mode!r}) is closer for one key"
            )
        return mode

    def _of_window(self, scope: QueryScope, phi: float, mode: str, recent: RecentSnapshot) -> KeyQuantilesView:
        selection, since, until = resolve_window(scope, recent, self._reader, self._max_span)
        quantiles = quantiles_by_key(window_parts(recent, selection, mode == "exact"), phi, self._kind)
        return KeyQuantilesView(quantiles, recent.version, mode, None, since, until)

    def _of_history(self, scope: QueryScope, phi: float, mode: str, snapshot: Snapshot) -> KeyQuantilesView:
        view = self._reader.span_view(scope.last_steps, snapshot=snapshot)
        parts = [part for run in (*view.runs, *view.chunks) for part in run.parts]
        return KeyQuantilesView(quantiles_by_key(parts, phi, self._kind), snapshot.version, mode, view.last_steps)


def quantiles_by_key(parts: Sequence[KeyedSource], phi: float, kind: ValueType) -> KeyQuantiles:
    """Return the quantile of every key with values in some parts."""
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return KeyQuantiles(kind, pa.nulls(0), none, none, *(none.astype(kind.carrier),) * 3, none, none)
    codes, keys = key_codes(parts)
    ranges = merge_ranges(parts, codes, kind)
    return KeyQuantiles.concatenate([KeyQuantiles.of(summaries, phi) for summaries in ranges], keys)
