"""What FAST reports."""

from benchmarks.papers import measured_fast as fast
from benchmarks.papers.headline import Headline

SORTED = """our GK01 keeps its tuples in one array, so that an insert at its end costs next to nothing; on sorted input
    it is many times faster than on any other, which that of the paper was not."""

FAST = (
    Headline(
        "FAST",
        "speed, random",
        "4.1.2, Figure 3 (a)",
        '"about 200 - 300x speedup over GK01"',
        200,
        "200 times",
        fast.speedup("random"),
        more=True,
    ),
    Headline(
        "FAST",
        "speed, sorted",
        "4.1.1, Figure 2 (a)",
        '"a 200 - 300x speedup over GK01"',
        200,
        "200 times",
        fast.speedup("sorted"),
        more=True,
        why=SORTED,
    ),
    Headline(
        "FAST",
        "speed, reversed",
        "4.1.1, Figure 2 (a)",
        '"a 200 - 300x speedup over GK01"',
        200,
        "200 times",
        fast.speedup("reversed"),
        more=True,
    ),
    Headline(
        "FAST",
        "speed, coarse eps",
        "4.1.1, Figure 2 (b)",
        'GK01 "around 60x slower for large error"',
        60,
        "60 times",
        fast.speedup_at(-1),
        more=True,
        why=SORTED,
    ),
    Headline(
        "FAST",
        "speed, fine eps",
        "4.1.1, Figure 2 (b)",
        'GK01 "around 300x slower for higher precision"',
        300,
        "300 times",
        fast.speedup_at(0),
        more=True,
        why=SORTED,
    ),
    Headline(
        "FAST",
        "eps ten times finer",
        "4.1.2, Figure 3 (b)",
        '"degrades by less than 10%"',
        1.1,
        "1.1 times the time",
        fast.tightening,
        why="the times are of some ten milliseconds, and the finer eps has larger blocks to sort.",
    ),
    Headline("FAST", "memory, 10^6", "Table 1", "at most 1.9 MB", 1_900_000, "1.9 MB", fast.bound(10**6)),
    Headline("FAST", "memory, 10^7", "4.1.1", '"using less than 2MB RAM"', 2_000_000, "2 MB", fast.bound(10**7)),
    Headline(
        "FAST", "memory, 10^8", "4.2", '"worst-case storage requirement of 5MB"', 5_000_000, "5 MB", fast.bound(10**8)
    ),
    Headline("FAST", "memory, 10^15", "Table 1", "at most 36.4 MB", 36_400_000, "36.4 MB", fast.bound(10**15)),
)
