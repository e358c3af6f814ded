"""A headline of a paper: what it reports, where, and what is compared with it here."""

from dataclasses import dataclass

from benchmarks.stored import Measure


@dataclass(frozen=True)
class Headline:
    """`number` is what is compared, `against` what it is; more is better, or less. `why` is told when it is missed."""

    paper: str
    name: str
    where: str
    says: str
    number: float
    against: str
    measure: Measure
    more: bool = False
    why: str = ""
