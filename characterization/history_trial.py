"""A trial: a history in a folder of its own, the truth about it, what its updates cost, what questions find."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Row
from benchmarks.timing import clock
from characterization.history_settings import Settings
from characterization.history_truth import Truth
from characterization.history_watch import PARTS, Cost, Watch, watching
from quantide.history import History

VACUUM = 10  # steps between two vacuums, which are not timed


@dataclass
class Trial:
    """`costs`: one for each step that ended; `truth` has a piece for each append."""

    path: Path
    history: History
    watch: Watch
    phis: NDArray[np.float64]
    truth: Truth = field(default_factory=Truth)
    costs: list[Cost] = field(default_factory=list)
    opened: Cost = field(default_factory=Cost)

    def append(self, values: NDArray[Any]) -> Cost:
        """Values of the open step, and what that cost."""
        self.truth.add(values)
        cost = self.watch.append(self.history, values)
        self.opened += cost
        return cost

    def end(self) -> None:
        self.costs.append(self.opened + self.watch.end(self.history))
        self.opened = Cost()
        if len(self.costs) % VACUUM == 0:
            self.history.vacuum(older_than_hours=0)

    def fill(self, steps: Sequence[NDArray[Any]]) -> None:
        """All steps; the last stays open."""
        for values in steps[:-1]:
            self.append(values)
            self.end()
        self.append(steps[-1])

    def cost(self) -> Row:
        """Of a step, on average."""
        total, steps = sum(self.costs, Cost()), len(self.costs)
        seconds = {part: round(getattr(total, part) / steps, 6) for part in PARTS}
        return seconds | {"read": total.read / steps, "written": total.written / steps}

    def ask(self, mode: str, last_steps: int | None = None, history: History | None = None) -> Row:
        """Every question once, after one that is not timed, of this history or another handle of it.

        Errors are in ranks: those observed, and the largest that was certified.
        """
        asked = self.history if history is None else history
        asked.answer(0.5, mode, last_steps)
        found = [clock(lambda phi=phi: asked.answer(phi, mode, last_steps)) for phi in self.phis.tolist()]  # type: ignore[misc]
        answers = [answer for _, answer in found]
        last = None if last_steps is None else last_steps + 1  # with the open one
        errors = self.truth.rank_errors(self.phis, [answer.value for answer in answers], last)
        return {
            "n": self.truth.n(last),
            "mean_error": float(errors.mean()),
            "worst_error": float(errors.max()),
            "certified": round(max(answer.error * answer.n for answer in answers), 3),
            "seconds": round(float(np.median([seconds for seconds, _ in found])), 7),
            "reads": float(np.mean([answer.blocks_read for answer in answers])),
            "most_reads": max(answer.blocks_read for answer in answers),
        }


@contextmanager
def trial(settings: Settings, memory: int, kappa: int, value_type: str = "float64") -> Iterator[Trial]:
    """A new history; it is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="quantide-characterization-") as folder, watching() as watch:
        path = Path(folder) / "store"
        with History(path, memory=memory, kappa=kappa, value_type=value_type, window=0) as history:
            yield Trial(path, history, watch, settings.phis())
