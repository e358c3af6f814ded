"""ProbableSummary: a summary whose bounds hold with a probability, and its answers."""

import math
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from quantide.errors import CorruptBytesError, InvalidArgumentError, TypeMismatchError
from quantide.summary.answer import Answer, format_percent
from quantide.summary.copying import CopiedByBytes, Immutable
from quantide.summary.summary import Summary
from quantide.summary.summary_bytes import check_bytes
from quantide.summary.unproved_summary import UnprovedSummary
from quantide.summary.value_types import ValueType
from quantide.typing import Array

MAGIC = b"QTP\x01"
HEADER, CHECKSUM = struct.Struct("<4sdB"), struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class ProbableAnswer(Answer):
    """Answer whose rank bounds hold with a probability of at least `confidence`, as a sketch of others promises it.

    If `simultaneous`, that is the probability that all answers of the summary hold at once; otherwise it is the
    probability of each one.
    """

    confidence: float
    simultaneous: bool

    def __str__(self) -> str:
        scope = "all answers at once" if self.simultaneous else "this answer alone"
        return f"{Answer.__str__(self)}, with {format_percent(self.confidence)} confidence for {scope}; not proved"


class ProbableSummary(Immutable, CopiedByBytes, UnprovedSummary):
    """Summary of a sketch whose rank bounds hold with a probability: KLL and REQ of DataSketches.

    Every answer carries `confidence`. Merging adds up the probabilities of failure. Summary.merge, sketches, windows
    and History refuse it: their bounds are proved. See docs/guarantees/histograms.md.
    """

    __slots__ = ("_confidence", "_simultaneous", "_summary")
    REASON = "its bounds hold only with a probability; merge it with ProbableSummary.merge, whose answers say so"

    def __init__(self, summary: Summary, confidence: float, simultaneous: bool) -> None:
        """Create one from tuples that are valid with a probability of at least `confidence`; internal."""
        if not 0 <= confidence <= 1:
            raise InvalidArgumentError(f"confidence must be in [0, 1], not {confidence}")
        self._summary, self._confidence, self._simultaneous = summary, confidence, simultaneous

    @staticmethod
    def merge(*summaries: "ProbableSummary | Summary") -> "ProbableSummary":
        """Return one summary of all values behind these; a Summary has a confidence of 1.

        All bounds hold unless those of one part fail, so at most the sum of the probabilities of failure is lost.
        """
        for other in summaries:
            if not isinstance(other, (ProbableSummary, Summary)):
                raise TypeMismatchError(
                    f"a ProbableSummary merges with a ProbableSummary or a Summary, not with {type(other).__name__}"
                )
        merged = Summary.merge(*(s if isinstance(s, Summary) else s._summary for s in summaries))
        uncertain = [s for s in summaries if isinstance(s, ProbableSummary)]
        failure = sum(1 - s._confidence for s in uncertain)
        return ProbableSummary(merged, max(0.0, 1 - failure), all(s._simultaneous for s in uncertain))

    def compress(self, b: int, tail: float | None = None) -> "ProbableSummary":
        """Return a summary of at most b+1 tuples; see Summary.compress."""
        return ProbableSummary(self._summary.compress(b, tail), self._confidence, self._simultaneous)

    def answer(self, phi: float) -> ProbableAnswer:
        """Return the best value for the phi-quantile, its probable rank bounds and their confidence."""
        a = self._summary.answer(phi)
        ranks = (a.target, a.rank_lo, a.rank_hi, a.n, a.error, a.n_lo, a.n_hi)
        return ProbableAnswer(a.value, a.phi, *ranks, self._confidence, self._simultaneous)

    def quantile(self, phi: float) -> Any:
        """Return the value of answer(phi)."""
        return self._summary.quantile(phi)

    def quantiles(self, phis: ArrayLike) -> Array:
        """Return the values of many quantiles in one call."""
        return self._summary.quantiles(phis)

    def rank(self, value: Any, *, inclusive: bool = True) -> tuple[Any, Any]:
        """Return probable bounds (lo, hi) on how many of the n values are <= value; < value with inclusive=False."""
        return self._summary.rank(value, inclusive=inclusive)

    @property
    def confidence(self) -> float:
        """Least probability with which the bounds hold."""
        return self._confidence

    @property
    def simultaneous(self) -> bool:
        """True if `confidence` is about all answers at once, False if it is about each one."""
        return self._simultaneous

    @property
    def n(self) -> int:
        """Number of values behind this summary."""
        return self._summary.n

    @property
    def type(self) -> ValueType:
        return self._summary.type

    @property
    def min(self) -> Any:
        """Smallest value, which is certain."""
        return self._summary.min

    @property
    def max(self) -> Any:
        """Largest value, which is certain."""
        return self._summary.max

    @property
    def error(self) -> float:
        """Error of ranks that holds with `confidence`, as a fraction of n."""
        return self._summary.error

    @property
    def nbytes(self) -> int:
        return self._summary.nbytes

    def to_bytes(self) -> bytes:
        """Serialize to the bytes of docs/format.md: equal summaries give equal bytes."""
        body = HEADER.pack(MAGIC, self._confidence, self._simultaneous) + self._summary.to_bytes()
        return body + CHECKSUM.pack(zlib.crc32(body))

    @classmethod
    def from_bytes(cls, data: bytes) -> "ProbableSummary":
        """Restore a summary from its bytes; raise CorruptBytesError if they are anything else."""
        data = check_bytes(data)
        body, checksum = data[: -CHECKSUM.size], data[-CHECKSUM.size :]
        if data[:4] != MAGIC or len(body) < HEADER.size or CHECKSUM.pack(zlib.crc32(body)) != checksum:
            raise CorruptBytesError(f"these {len(data)} bytes are not a probable summary")
        _, confidence, flag = HEADER.unpack_from(body)
        if not 0 <= confidence <= 1 or math.copysign(1, confidence) < 0 or flag > 1:
            raise CorruptBytesError("these bytes are not a probable summary: its confidence is not a probability")
        return cls(Summary.from_bytes(body[HEADER.size :]), confidence, bool(flag))

    def __len__(self) -> int:
        """Return the number of tuples."""
        return len(self._summary)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProbableSummary):
            return NotImplemented
        return self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __repr__(self) -> str:
        return (
            f"ProbableSummary(n={self.n}, tuples={len(self)}, error={self.error:.3g}, "
            f"confidence={self._confidence:.6g}, type={self.type})"
        )
