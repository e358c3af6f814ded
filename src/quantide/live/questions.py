"""Questions: what can be asked of a live stream. All take the same words, which say what they are about."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.live.answer import LiveAnswer, LiveBand, LiveComparison, LiveRank
from quantide.live.asked import Asked, Words
from quantide.live.view import View
from quantide.store.settings import Settings
from quantide.summary.ranks import check_phis
from quantide.summary.summary import Summary
from quantide.summary.types import type_named

T = TypeVar("T")


class Questions(ABC):
    """`words` are last, within, filter, last_steps and now; LiveStream says what they mean."""

    @property
    @abstractmethod
    def settings(self) -> Settings:
        """What the store was made with: eps, keys, filters, the type of its values, how far back windows reach."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The commit as of which questions are answered."""

    @abstractmethod
    def _view(self, asked: Asked) -> View:
        """What these words are about, as of the newest version."""

    @abstractmethod
    def _ask(self, asked: Asked, ask: Callable[[View], T], again: bool = True) -> T:
        """What a function says of that. `again`: it may well be asked again after the next commit."""

    def answer(self, phi: float, key: Any = None, *, mode: str | None = None, **words: Unpack[Words]) -> LiveAnswer:
        """The phi-quantile of everything or of a window, with the ranks it is proved to have.

        mode="quick" reads no data; "accurate" is off by at most eps of the open step's values, or of the window's;
        "exact" reads what it must to be exact. Without a mode it is accurate, or quick where that would read much:
        about all keys of a store that has keys. The answer tells which.
        """
        asked = Asked.of({"key": key, **words})
        return self._ask(asked, lambda view: view.answer(phi, self._mode(asked, mode)))

    def answers(
        self, phis: ArrayLike, key: Any = None, *, mode: str | None = None, **words: Unpack[Words]
    ) -> list[LiveAnswer]:
        """The answers for many phis, all as of one version."""
        wanted, asked = check_phis(phis).ravel().tolist(), Asked.of({"key": key, **words})
        how = self._mode(asked, mode)
        return self._ask(asked, lambda view: [view.answer(phi, how) for phi in wanted])

    def quantile(self, phi: float, key: Any = None, *, mode: str | None = None, **words: Unpack[Words]) -> Any:
        """The value of answer()."""
        return self.answer(phi, key, mode=mode, **words).value

    def quantiles(
        self, phis: ArrayLike, key: Any = None, *, mode: str | None = None, **words: Unpack[Words]
    ) -> NDArray[Any]:
        """The values of answers()."""
        found = [answer.value for answer in self.answers(phis, key, mode=mode, **words)]
        return np.array(found, dtype=type_named(self.settings.value_type).dtype).reshape(np.shape(phis))

    def bands(
        self, phis: ArrayLike, mode: str | None = None, key: Any = None, **words: Unpack[Words]
    ) -> list[LiveBand]:
        """As answers(), each with the values between which the true quantile is proved to lie."""
        wanted, asked = check_phis(phis).ravel().tolist(), Asked.of({"key": key, **words})
        how = self._mode(asked, mode)
        return self._ask(asked, lambda view: [view.band(phi, how) for phi in wanted])

    def rank(self, value: Any, key: Any = None, *, mode: str | None = None, **words: Unpack[Words]) -> tuple[Any, Any]:
        """Proved bounds (lo, hi) on how many values are <= value; arrays for an array of values."""
        asked = Asked.of({"key": key, **words})
        return self._ask(asked, lambda view: view.rank(value, self._mode(asked, mode)))

    def ranks(self, values: Any, mode: str | None = None, key: Any = None, **words: Unpack[Words]) -> list[LiveRank]:
        """As rank(), of many values, with what it is about; all as of one version."""
        asked = Asked.of({"key": key, **words})
        how = self._mode(asked, mode)

        def ask(view: View) -> list[LiveRank]:
            low, high = view.rank(values, how)
            about = view.n, view.version, how, view.last_steps, view.since, view.until
            bounds = zip(values, low.tolist(), high.tolist(), strict=True)
            return [LiveRank(value, least, most, *about) for value, least, most in bounds]

        return self._ask(asked, ask)

    def cdf(self, values: Any, key: Any = None, *, mode: str | None = None, **words: Unpack[Words]) -> Any:
        """The fraction of the values that are <= each value."""
        asked = Asked.of({"key": key, **words})

        def ask(view: View) -> Any:
            low, high = view.rank(values, self._mode(asked, mode))
            return (low + high) / 2 / view.n

        return self._ask(asked, ask)

    def summary(self, key: Any = None, **words: Unpack[Words]) -> Summary:
        """A summary of everything or of a window."""
        return self._ask(Asked.of({"key": key, **words}), lambda view: view.summary)

    def compare(
        self,
        phis: ArrayLike,
        against: dict[str, Any] | None = None,
        mode: str | None = None,
        key: Any = None,
        **words: Unpack[Words],
    ) -> list[LiveComparison]:
        """Each phi of one window beside the same phi of another: `compare([0.99], within="5 min")` is now against all
        of history, `against={"last_steps": 30}` against a part of it."""
        asked, other = Asked.of({"key": key, **words}), Asked.of({} if against is None else against)
        here, there = self._mode(asked, mode), self._mode(other, mode)
        wanted = np.atleast_1d(check_phis(phis)).tolist()

        def ask(view: View) -> list[LiveComparison]:
            then, out = self._view(other), []
            for phi in wanted:
                mine, theirs = view.answer(phi, here), then.answer(phi, there)
                low, high = then.rank(mine.value, there)
                out.append(LiveComparison(phi, mine, theirs, (low / then.n, high / then.n)))
            return out

        return self._ask(asked, ask)

    def _mode(self, asked: Asked, mode: str | None) -> str:
        if mode is not None:
            return mode
        spread = self.settings.keys and asked.key is None and not asked.recent
        return "quick" if spread else "accurate"
