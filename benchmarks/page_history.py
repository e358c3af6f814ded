"""The page about history and stream."""

from benchmarks import table
from benchmarks.page import prose, sections
from benchmarks.report import Report, Row

HOW = """{steps} steps of {step_values:,} float64 values, then {open_values:,} in the open step; eps = {eps:g},
    kappa = {kappa}. Loading is append and end_step with all their sorting, writing, summaries and merges; beside it
    pyarrow writes the same values as they come, with the same block size, encoding and compression, on one core."""
ASKED = """{questions} random questions of a handle that was just opened, file cache warm. Blocks have 65,536 rows."""
CHECKED = """Every value was made again and counted. Allowed: eps times all values for quick answers, eps times the
    values of the open step for accurate ones, nothing for exact ones."""
PEERS = """Rank errors over {peer_steps} steps of {peer_step_values:,} float32 values and an open one, in about
    {peer_memory:,} bytes each: nine phis from 0.001 to 0.999, as fractions of all values."""


def loading_ratio(report: Report) -> float:
    rows = report.rows["steps"]
    return float(sum(row["append"] + row["end"] for row in rows) / sum(row["plain"] for row in rows))


def loading_table(report: Report) -> str:
    rows = report.rows["steps"]
    parts = [("plain write", "plain"), ("append: sort, write, summarise", "append"), ("end_step: merges", "end")]
    body = [[name, table.seconds(sum(row[key] for row in rows)), _a_value(report, key)] for name, key in parts]
    return table.markdown(["part", "time", "ns a value"], body)


def asked_table(report: Report) -> str:
    row = report.rows["asked"][0]
    body = [
        [
            mode,
            table.seconds(row[f"{mode}_median"]),
            table.seconds(row[f"{mode}_p99"]),
            f"{row[f'{mode}_reads']:.1f}",
            str(row[f"{mode}_most_reads"]),
        ]
        for mode in ("quick", "accurate", "exact")
    ]
    return table.markdown(["mode", "median", "p99", "blocks read", "at most"], body)


def checked_table(report: Report) -> str:
    body = []
    for mode in ("quick", "accurate", "exact"):
        rows = [row for row in report.rows["checked"] if row["mode"] == mode]
        worst = [f"{max(row[name] for row in rows):,}" for name in ("rank_error", "certified", "allowed")]
        body.append([mode, *worst, "yes" if all(row["holds"] for row in rows) else "NO"])
    return table.markdown(["mode", "worst error in ranks", "certified", "allowed", "all within"], body)


def peers_table(report: Report) -> str:
    ours = _ours(report)
    body = [
        [
            row["method"],
            table.size(row["bytes"]),
            f"{row['mean_error']:.2e}",
            f"{row['worst_error']:.2e}",
            "-" if row is ours else _times(row, ours),
        ]
        for row in report.rows["peers"]
    ]
    return table.markdown(["method", "memory", "mean error", "worst error", "its mean error / ours"], body)


def render(report: Report) -> str:
    row = report.rows["asked"][0]
    facts = f"""{row["values"]:,} values in {row["runs"]} runs, {table.size(row["bytes"])} on disk; summaries and index
        {table.size(row["index_bytes"])} in memory; opened in {table.seconds(row["open_seconds"])}."""
    loading = f"Loading takes **{table.ratio(loading_ratio(report))}** times the plain write, without recent rows."
    return sections(
        [
            "# History and stream",
            prose(HOW.format(**report.settings)),
            loading,
            loading_table(report),
            "## Questions",
            prose(facts),
            prose(ASKED.format(**report.settings)),
            asked_table(report),
            "## Errors, counted",
            prose(CHECKED),
            checked_table(report),
            "## In equal memory",
            prose(PEERS.format(**report.settings)),
            peers_table(report),
        ]
    )


def headlines(report: Report) -> list[str]:
    row, ours = report.rows["asked"][0], _ours(report)
    worst = [peer for peer in report.rows["peers"] if not peer["method"].startswith("quantide")]
    return [
        f"accurate answers over {row['values']:,} values in {table.seconds(row['accurate_median'])} (median), reading "
        f"at most {row['accurate_most_reads']} blocks of {row['runs']} runs",
        f"loading takes {table.ratio(loading_ratio(report))} times a plain write of the same values",
        *(f"**{_times(peer, ours)}** times smaller error than {peer['method']} in equal memory" for peer in worst),
    ]


def _times(row: Row, ours: Row) -> str:
    """How many times its error is ours, which can be none."""
    return table.ratio(row["mean_error"] / ours["mean_error"]) if ours["mean_error"] else "any number of"


def _ours(report: Report) -> Row:
    return next(row for row in report.rows["peers"] if row["method"] == "quantide, accurate")


def _a_value(report: Report, key: str) -> str:
    values = report.settings["steps"] * report.settings["step_values"]
    return f"{sum(row[key] for row in report.rows['steps']) * 1e9 / values:.1f}"
