"""What is measured of the headlines of FAST."""

from benchmarks import table
from benchmarks.report import Row
from benchmarks.stored import Found, Measure, NotMeasuredError, Reports, rows

PART = "results/fast"


def speedup(order: str) -> Measure:
    """Over GK01 by the size of the stream, at the smallest eps; the least counts."""

    def measure(reports: Reports) -> Found:
        found = rows(reports, PART, "times", order=order, eps=_epsilons(reports)[0])
        return _least(found, f"{_sizes(found)}, eps = {found[0]['eps']:g}, {order}, float32")

    return measure


def speedup_at(which: int) -> Measure:
    """Over GK01 on sorted and reversed input at the smallest (0) or the largest (-1) eps; the least counts."""

    def measure(reports: Reports) -> Found:
        eps = _epsilons(reports)[which]
        found = [row for row in rows(reports, PART, "times", eps=eps) if row["order"] in ("sorted", "reversed")]
        largest = max((row["n"] for row in found), default=0)
        return _least(
            [row for row in found if row["n"] == largest], f"n = {largest:,}, eps = {eps:g}, sorted and reversed"
        )

    return measure


def tightening(reports: Reports) -> Found:
    """Time at the smallest eps over that at the largest, random input."""
    epsilons = _epsilons(reports)
    tight, loose = (rows(reports, PART, "times", order="random", eps=eps)[-1] for eps in (epsilons[0], epsilons[-1]))
    value = tight["stream_s"] / loose["stream_s"]
    told = f"{table.ratio(value)} times the time"
    return Found(value, told, f"n = {tight['n']:,}, eps = {loose['eps']:g} to {tight['eps']:g}, random")


def bound(n: int) -> Measure:
    """Bytes that a sketch of so many values may hold."""

    def measure(reports: Reports) -> Found:
        row = rows(reports, PART, "memory", n=n)[0]
        held = f", held {table.size(row['held_bytes'])}" if row["held_bytes"] else ""
        told = f"at most {table.size(row['bound_bytes'])}{held}"
        return Found(row["bound_bytes"], told, f"n = {table.power(n)}, eps = 0.001, float32; all that is held")

    return measure


def _epsilons(reports: Reports) -> list[float]:
    return sorted({row["eps"] for row in rows(reports, PART, "times")})


def _sizes(found: list[Row]) -> str:
    sizes = [row["n"] for row in found]
    return f"n = {min(sizes):,} to {max(sizes):,}"


def _least(found: list[Row], setting: str) -> Found:
    if not found:
        raise NotMeasuredError(setting)
    ratios = sorted(row["ratio"] for row in found)
    told = " to ".join(dict.fromkeys(table.ratio(ratio) for ratio in (ratios[0], ratios[-1])))
    return Found(ratios[0], f"{told} times the speed", setting)
