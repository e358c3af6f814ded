"""The five papers, and every headline of theirs.

The texts that were at hand are scans. Where a figure alone has a number it is not in them: such a headline is told in
the words of the text ("figure only") and compared with the bound, or the growth, that those words are about.
"""

from dataclasses import dataclass

from benchmarks.papers.reported_fast import FAST
from benchmarks.papers.reported_history import HISTORY
from benchmarks.papers.reported_queries import QUERIES
from benchmarks.papers.reported_windows import CONSTRAINED, RECENT


@dataclass(frozen=True)
class Paper:
    short: str
    cited: str
    machine: str


PAPERS = (
    Paper(
        "FAST",
        "Zhang, Wang: A Fast Algorithm for Approximate Quantiles in High Speed Data Streams, SSDBM 2007",
        "Pentium, 1.8 GHz, 2 GB; C++",
    ),
    Paper(
        "RECENT",
        "Lin, Lu, Xu, Yu: Continuously Maintaining Quantile Summaries of the Most Recent N Elements over a Data "
        "Stream, ICDE 2004",
        "an Intel PC; the scan has lost its numbers",
    ),
    Paper(
        "CONSTRAINED",
        "Xu, Lin, Zhou: Space Efficient Quantile Summary for Constrained Sliding Windows on a Data Stream",
        "Pentium 4, 2.0 GHz, 512 MB; C++",
    ),
    Paper(
        "QUERIES",
        "Lin, Xu, Zhang, Lu, Yu, Zhou, Yuan: Approximate Processing of Massive Continuous Quantile Queries over "
        "High-Speed Data Streams, TKDE 2006",
        "Pentium 4, 2.4 GHz, 512 MB; C++ without optimization",
    ),
    Paper(
        "HISTORY",
        "Singh, Srivastava, Tirthapura: Estimating Quantiles from the Union of Historical and Streaming Data, "
        "PVLDB 2016",
        "Core i5, 2.6 GHz, 4 cores, 8 GB; Java 7",
    ),
)

HEADLINES = (*FAST, *RECENT, *CONSTRAINED, *QUERIES, *HISTORY)
