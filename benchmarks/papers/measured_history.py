"""What is measured of the headlines of HISTORY."""

from benchmarks import page_history, table
from benchmarks.report import Row
from benchmarks.stored import Found, Measure, Reports, rows, settings

PART = "characterization/history"
LARGE = "results/history"


def accuracy(peer: str) -> Measure:
    """Mean error of a peer over everything, over that of accurate answers in equal memory; the least counts."""

    def measure(reports: Reports) -> Found:
        ratios = _against(reports, "mean_error", peer, "accurate")
        told = f"{table.ratio(min(ratios))} to {table.ratio(max(ratios))} times"
        return Found(min(ratios), told, _memory(reports))

    return measure


def quick(reports: Reports) -> Found:
    """Mean error of quick answers over that of q-digest; the largest counts."""
    ratios = _against(reports, "mean_error", "quick", "q-digest")
    told = f"{table.ratio(min(ratios))} to {table.ratio(max(ratios))} times the error of q-digest"
    return Found(max(ratios), told, _memory(reports))


def question(reports: Reports) -> Found:
    """Time of an accurate answer over that of GK, which is in memory."""
    ratios = _against(reports, "seconds", "accurate", "GK")
    slowest = max(row["seconds"] for row in rows(reports, PART, "memory", method="accurate"))
    told = f"{table.ratio(min(ratios))} to {table.ratio(max(ratios))} times, {table.seconds(slowest)} at most"
    return Found(max(ratios), told, _memory(reports))


def update(reports: Reports) -> Found:
    """A step over the same step with GK, or q-digest, in place of sorting and summaries; the largest counts."""
    found = rows(reports, PART, "memory_updates")
    ratios = {peer: max(_step(row) / _streaming(row, peer) for row in found) for peer in ("GK", "q-digest")}
    told = ", ".join(f"{table.ratio(ratio)} times with {peer}" for peer, ratio in ratios.items())
    return Found(max(ratios.values()), told, f"{_steps(reports)}; most of either is the commit")


def loading(reports: Reports) -> Found:
    """All of loading over a plain write of the same values."""
    rows(reports, LARGE, "steps")
    s, ratio = settings(reports, LARGE), page_history.loading_ratio(reports[LARGE])
    setting = f"{s['steps']} steps of {s['step_values']:,} values, merges included"
    return Found(ratio, f"{table.ratio(ratio)} times a plain write", setting)


def reads(reports: Reports) -> Found:
    row = rows(reports, LARGE, "asked")[0]
    told = f"at most {row['accurate_most_reads']} blocks, {table.seconds(row['accurate_median'])}"
    return Found(row["accurate_most_reads"], told, f"{row['values']:,} values, {table.size(row['bytes'])} on disk")


def without_merge(reports: Reports) -> Found:
    """Steps of a hundred that only write their own blocks, kappa = 10."""
    found = sorted(rows(reports, PART, "accesses", kappa=10), key=lambda row: int(row["blocks"]))
    percent = 100 * found[0]["steps"] / sum(row["steps"] for row in found)
    return Found(percent, f"{percent:.0f} percent", _large(reports, 10))


def largest_step(reports: Reports) -> Found:
    """Blocks of the step that merges most over those of a step that merges nothing, kappa = 9."""
    blocks = [row["blocks"] for row in rows(reports, PART, "accesses", kappa=9)]
    value = max(blocks) / min(blocks)
    return Found(value, f"{max(blocks):,} blocks over {min(blocks)}: {table.ratio(value)}", _large(reports, 9))


def kappa(reports: Reports) -> Found:
    """The largest mean error over the smallest, of accurate answers, by kappa; of the data where that is largest."""
    found = rows(reports, PART, "data_kappas", mode="accurate")
    errors = {data: [row["mean_error"] for row in found if row["data"] == data] for data in {r["data"] for r in found}}
    value = max(max(some) / min(some) for some in errors.values() if min(some))
    values = [row["kappa"] for row in found]
    return Found(value, f"{table.ratio(value)} times", f"kappa = {min(values)} to {max(values)}")


def spans(kappa: int) -> Measure:
    """How many windows can be asked about after the last step."""

    def measure(reports: Reports) -> Found:
        found = rows(reports, PART, "spans", kappa=kappa)
        steps = [row["last_steps"].split() for row in found]
        told = f"{len(steps[-1])}: {', '.join(steps[-1])}; {max(map(len, steps))} after other steps"
        return Found(len(steps[-1]), told, f"kappa = {kappa}, after {found[-1]['step']} steps")

    return measure


def growth(part: str, column: str, told: str) -> Measure:
    """The last of the larger and larger histories (or streams) over the first that has as many runs."""

    def measure(reports: Reports) -> Found:
        found = rows(reports, PART, part)
        same = [row for row in found if row["runs"] == found[-1]["runs"]]
        first, last = same[0], same[-1]
        size = "values" if part == "history" else "stream"
        setting = f"{first[size]:,} to {last[size]:,} values, {last['runs']} runs"
        return Found(last[column] / first[column], told.format(first[column], last[column]), setting)

    return measure


def stream_error(reports: Reports) -> Found:
    """Certified error when the stream doubles for the last time."""
    before, last = rows(reports, PART, "stream")[-2:]
    more = last["stream"] / before["stream"]
    value = last["accurate_certified"] / before["accurate_certified"] / more
    told = (
        f"{before['accurate_certified']:,.0f} to {last['accurate_certified']:,.0f} ranks for {more:g} times the values"
    )
    return Found(value, told, f"{before['stream']:,} to {last['stream']:,} values in the open step")


def _against(reports: Reports, column: str, one: str, other: str) -> list[float]:
    """One method's over another's, for every data and memory; left out where there is nothing to divide by."""
    found = [rows(reports, PART, "memory", method=method) for method in (one, other)]
    return [a[column] / b[column] for a, b in zip(*found, strict=True) if b[column]]


def _step(row: Row) -> float:
    return float(sum(row[name] for name in ("load", "sort", "summary", "merge", "commit")))


def _streaming(row: Row, peer: str) -> float:
    """Loads and merges the same, without sorting, and takes the values into its sketch."""
    return float(sum(row[name] for name in ("load", "merge", "commit", peer)))


def _steps(reports: Reports) -> str:
    s = settings(reports, PART)
    return f"{s['steps']} steps of {s['small_values']:,} values"


def _memory(reports: Reports) -> str:
    budgets = settings(reports, PART)["memories"]
    return f"{_steps(reports)}, {table.size(budgets[0])} to {table.size(budgets[-1])}, four kinds of data"


def _large(reports: Reports, kappa: int) -> str:
    s = settings(reports, PART)
    return f"kappa = {kappa}, {s['steps']} steps of {s['step_values']:,} values"
