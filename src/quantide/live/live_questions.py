"""Live questions: the questions that a live stream answers. All take the same scope arguments."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.live.live_answer import LiveAnswer, LiveBand, LiveComparison, LiveRank
from quantide.live.live_view import View
from quantide.live.scope import QueryScope, ScopeArguments
from quantide.store.store_settings import StoreSettings
from quantide.summary.ranks import check_phis
from quantide.summary.summary import Summary
from quantide.summary.value_types import type_named

T = TypeVar("T")


class LiveQuestions(ABC):
    """`arguments` are last, within, filter, last_steps and now; LiveStream describes them."""

    @property
    @abstractmethod
    def settings(self) -> StoreSettings:
        """Settings of the store: eps, keys, filters, the type of its values, the longest window."""

    @property
    @abstractmethod
    def version(self) -> int:
        """Version that questions are answered from."""

    @abstractmethod
    def _view(self, scope: QueryScope) -> View:
        """Return the view of a scope at the newest version."""

    @abstractmethod
    def _query(self, scope: QueryScope, read: Callable[[View], T], expect: bool = True) -> T:
        """Return what `read` computes from that view; `expect` the same question after the next commit."""

    def answer(
        self, phi: float, key: Any = None, *, mode: str | None = None, **arguments: Unpack[ScopeArguments]
    ) -> LiveAnswer:
        """Return the phi-quantile of everything or of a window, with proved bounds of its rank.

        mode="quick" reads no data; "accurate" is off by at most eps of the open step's values, or of the window's;
        "exact" is exact, and reads as much as that needs. The default is accurate, or quick where that would read much:
        for all keys of a store with keys. The answer has the mode.
        """
        scope = QueryScope.of({"key": key, **arguments})
        return self._query(scope, lambda view: view.answer(phi, self._resolve_mode(scope, mode)))

    def answers(
        self, phis: ArrayLike, key: Any = None, *, mode: str | None = None, **arguments: Unpack[ScopeArguments]
    ) -> list[LiveAnswer]:
        """Return the answers for many phis, all at one version."""
        checked_phis, scope = check_phis(phis).ravel().tolist(), QueryScope.of({"key": key, **arguments})
        resolved_mode = self._resolve_mode(scope, mode)
        return self._query(scope, lambda view: [view.answer(phi, resolved_mode) for phi in checked_phis])

    def quantile(
        self, phi: float, key: Any = None, *, mode: str | None = None, **arguments: Unpack[ScopeArguments]
    ) -> Any:
        """Return the value of answer()."""
        return self.answer(phi, key, mode=mode, **arguments).value

    def quantiles(
        self, phis: ArrayLike, key: Any = None, *, mode: str | None = None, **arguments: Unpack[ScopeArguments]
    ) -> NDArray[Any]:
        """Return the values of answers()."""
        values = [answer.value for answer in self.answers(phis, key, mode=mode, **arguments)]
        return np.array(values, dtype=type_named(self.settings.value_type).dtype).reshape(np.shape(phis))

    def bands(
        self, phis: ArrayLike, mode: str | None = None, key: Any = None, **arguments: Unpack[ScopeArguments]
    ) -> list[LiveBand]:
        """Return answers, each with the two values between which the true quantile is proved to lie."""
        checked_phis, scope = check_phis(phis).ravel().tolist(), QueryScope.of({"key": key, **arguments})
        resolved_mode = self._resolve_mode(scope, mode)
        return self._query(scope, lambda view: [view.band(phi, resolved_mode) for phi in checked_phis])

    def rank(
        self, value: Any, key: Any = None, *, mode: str | None = None, **arguments: Unpack[ScopeArguments]
    ) -> tuple[Any, Any]:
        """Return proved bounds (lo, hi) on how many values are <= value; arrays for an array of values."""
        scope = QueryScope.of({"key": key, **arguments})
        return self._query(scope, lambda view: view.rank(value, self._resolve_mode(scope, mode)))

    def ranks(
        self, values: Any, mode: str | None = None, key: Any = None, **arguments: Unpack[ScopeArguments]
    ) -> list[LiveRank]:
        """Return the ranks of many values, with version and window; all at one version."""
        scope = QueryScope.of({"key": key, **arguments})
        resolved_mode = self._resolve_mode(scope, mode)

        def read(view: View) -> list[LiveRank]:
            low, high = view.rank(values, resolved_mode)
            context = view.n, view.version, resolved_mode, view.last_steps, view.since, view.until
            bounds = zip(values, low.tolist(), high.tolist(), strict=True)
            return [LiveRank(value, low_rank, high_rank, *context) for value, low_rank, high_rank in bounds]

        return self._query(scope, read)

    def cdf(self, values: Any, key: Any = None, *, mode: str | None = None, **arguments: Unpack[ScopeArguments]) -> Any:
        """Return the fraction of the values that are <= each value."""
        scope = QueryScope.of({"key": key, **arguments})

        def read(view: View) -> Any:
            low, high = view.rank(values, self._resolve_mode(scope, mode))
            return (low + high) / 2 / view.n

        return self._query(scope, read)

    def summary(self, key: Any = None, **arguments: Unpack[ScopeArguments]) -> Summary:
        """Return a summary of everything or of a window."""
        return self._query(QueryScope.of({"key": key, **arguments}), lambda view: view.summary)

    def compare(
        self,
        phis: ArrayLike,
        against: dict[str, Any] | None = None,
        mode: str | None = None,
        key: Any = None,
        **arguments: Unpack[ScopeArguments],
    ) -> list[LiveComparison]:
        """Compare each phi of one window with the same phi of another: `compare([0.99], within="5 min")` compares now
        with all of history, `against={"last_steps": 30}` with a part of it."""
        scope, other = QueryScope.of({"key": key, **arguments}), QueryScope.of({} if against is None else against)
        own_mode, other_mode = self._resolve_mode(scope, mode), self._resolve_mode(other, mode)
        checked_phis = np.atleast_1d(check_phis(phis)).tolist()

        def read(view: View) -> list[LiveComparison]:
            baseline, out = self._view(other), []
            for phi in checked_phis:
                own, theirs = view.answer(phi, own_mode), baseline.answer(phi, other_mode)
                low, high = baseline.rank(own.value, other_mode)
                out.append(LiveComparison(phi, own, theirs, (low / baseline.n, high / baseline.n)))
            return out

        return self._query(scope, read)

    def _resolve_mode(self, scope: QueryScope, mode: str | None) -> str:
        if mode is not None:
            return mode
        all_keys = self.settings.keys and scope.key is None and not scope.recent
        return "quick" if all_keys else "accurate"
