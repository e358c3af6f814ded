"""The peers over everything that ever arrived, in as much memory as a history takes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.qdigest import QDigest
from benchmarks.report import Row
from benchmarks.timing import clock
from characterization.history_truth import Truth
from quantide import GKSketch

Steps = Sequence[NDArray[Any]]

TRIES, CLOSE = 5, 0.15  # sketches made to find eps; how far from the memory wanted they may be
LEAST, MOST = 5e-5, 0.4  # eps
RANKS, NODE = 16, 12  # bytes beside the value of a tuple of GK, of a node of q-digest


@dataclass(frozen=True)
class Peer:
    """`nbytes` counts what it knows, without room to grow. `part`: eps is found on so small a part of the values.

    GK on a part of the values in that part of the memory has the same eps * n, so it is as full, but for ties.
    """

    name: str
    make: Callable[[float], Any]
    nbytes: Callable[[Any], int]
    certified: Callable[[Any, float], float]
    part: int

    def measure(self, steps: Steps, memory: int, phis: NDArray[np.float64], truth: Truth) -> tuple[float, Row]:
        """Seconds of a step, and what questions find in a sketch of about so many bytes."""
        taken, (sketch, size) = self.fitted(steps, memory)
        asked = [clock(lambda phi=phi: sketch.quantile(phi)) for phi in phis.tolist()]  # type: ignore[misc]
        errors = truth.rank_errors(phis, [value for _, value in asked])
        return round(taken / len(steps), 6), {
            "bytes": size,
            "n": truth.n(),
            "mean_error": float(errors.mean()),
            "worst_error": float(errors.max()),
            "certified": round(max(self.certified(sketch, phi) for phi in phis.tolist()), 3),
            "seconds": round(float(np.median([seconds for seconds, _ in asked])), 7),
            "reads": 0.0,
            "most_reads": 0,
        }

    def fitted(self, steps: Steps, memory: int) -> tuple[float, tuple[Any, int]]:
        """A sketch of all steps of about so many bytes; another, if the first is not."""
        eps = self.fitting(steps, memory)
        taken, (sketch, size) = clock(lambda: self.filled(eps, steps))
        if abs(size / memory - 1) > CLOSE:
            eps = within(eps * size / memory)
            taken, (sketch, size) = clock(lambda: self.filled(eps, steps))
        return taken, (sketch, size)

    def fitting(self, steps: Steps, memory: int) -> float:
        """The eps of a sketch of about so many bytes."""
        eps, some = 0.01, [values[:: self.part] for values in steps]
        for _ in range(TRIES):
            _, size = self.filled(within(eps * self.part), some)
            eps = within(eps * size * self.part / memory)
        return eps

    def filled(self, eps: float, steps: Steps) -> tuple[Any, int]:
        """A sketch of all steps, and its bytes: on average over the later half, for GK swells and shrinks."""
        sketch, sizes = self.make(eps), []
        for values in steps:
            sketch.update(values)
            sizes.append(self.nbytes(sketch))
        return sketch, round(sum(sizes[len(sizes) // 2 :]) / len(sizes[len(sizes) // 2 :]))


def within(eps: float) -> float:
    return min(MOST, max(LEAST, eps))


def _gk_nbytes(sketch: GKSketch) -> int:
    summary = sketch.summary()
    return len(summary) * (summary.carried.itemsize + RANKS)


def _gk_certified(sketch: GKSketch, phi: float) -> float:
    return sketch.answer(phi).error * sketch.n


def _digest_nbytes(sketch: QDigest) -> int:
    return sketch.nodes * NODE


def _digest_certified(sketch: QDigest, phi: float) -> float:
    return sketch.eps * sketch.n


PEERS = (
    Peer("GK", GKSketch, _gk_nbytes, _gk_certified, 8),
    Peer("q-digest", QDigest, _digest_nbytes, _digest_certified, 1),
)
