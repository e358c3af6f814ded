"""What a monitor follows: anything that hands out a summary of what it holds now, and a number for its state."""

from collections.abc import Callable

from quantide.errors import InvalidArgumentError, TooCoarseError, TypeMismatchError
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType, type_named

Pull = Callable[[], tuple[int, Summary]]


class PulledSource:
    """The summary that `pull` gave when it was last looked at, for a monitor of precision eps.

    `pull()` gives (version, summary); the version is another whenever the elements may be others. Between two looks
    nothing changes, whatever happens meanwhile: so all that one question reads is of one state. `grows` says that no
    element ever leaves, so that a value is still there when no tuple says so.
    """

    reserve = 0  # elements may come and go by any number at once

    def __init__(self, pull: Pull, eps: float, kind: ValueType | None, grows: bool) -> None:
        if not callable(pull):
            raise InvalidArgumentError(f"pull is called for (version, summary), so it must be a function, not {pull!r}")
        self.eps, self.type, self.grows = eps, kind, grows
        self.marked = 0  # how many versions were seen
        self._pull = pull
        self.version: int | None = None
        self._summary = Summary.of([])
        self.look()

    def look(self) -> None:
        """Let this be what there is now."""
        version, summary = self._pull()
        if version != self.version:
            self._check(summary)
            self.version, self._summary = version, summary
            self.type = summary.type if summary.n else self.type
            self.marked += 1

    @property
    def kind(self) -> ValueType:
        return self.type or type_named("float64")

    @property
    def nulls(self) -> int:
        return self._summary.nulls

    @property
    def nans(self) -> int:
        return self._summary.nans

    @property
    def n(self) -> int:
        return self._summary.n

    @property
    def arrived(self) -> int:
        """A number that grows with every change."""
        return self.marked

    def summary(self) -> Summary:
        return self._summary

    def _check(self, summary: Summary) -> None:
        if not isinstance(summary, Summary):
            raise TypeMismatchError(f"pull gives (version, summary), and this is no Summary: {summary!r}")
        if summary.error > self.eps / 2:
            raise TooCoarseError(
                f"a monitor of eps={self.eps:.3g} follows summaries within eps/2 = {self.eps / 2:.3g}; this one has a "
                f"certified error of {summary.error:.3g}: make it finer, or the monitor coarser"
            )
        if summary.n and self.type not in (None, summary.type):
            raise TypeMismatchError(
                f"a summary of {summary.type} where summaries were of {self.type} before; cast its values, or make "
                "another monitor"
            )
