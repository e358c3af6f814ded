"""The figures about scale."""

from benchmarks.plot import Line, Panel, svg
from benchmarks.report import Report, Row
from characterization.scale_target import Target
from characterization.scale_use import Use
from characterization.tables_scale import SIZES

DASHES = ("", "6 4", "2 3")
SHOWN, SLOW = 10, 2  # the kappa whose levels are drawn, and the first of them


def figures(report: Report) -> dict[str, str]:
    return {"scale-levels.svg": levels(report), "scale-cores.svg": cores(report)}


def levels(report: Report) -> str:
    """Runs, runs by level and rewritten values over a year of steps."""
    by_kappa: dict[int, list[Row]] = {}
    for row in report.rows["levels"]:
        by_kappa.setdefault(row["kappa"], []).append(row)
    panels = [
        Panel(
            title,
            "steps",
            label,
            [_line(kappa, rows, i, column) for i, (kappa, rows) in enumerate(by_kappa.items())],
            "xy",
        )
        for title, label, column in (
            ("Runs, each one block of a question", "runs", "runs"),
            ("Values written again by levels", "times", "rewritten"),
        )
    ]
    return svg([*panels, _by_level(by_kappa[SHOWN])], "Runs and written values over a year of hourly steps")


def _line(kappa: int, rows: list[Row], colour: int, column: str) -> Line:
    return Line(f"kappa = {kappa}", [(row["steps"], row[column]) for row in rows], colour, DASHES[colour])


def _by_level(rows: list[Row]) -> Panel:
    """Of lower levels nothing can be seen: they fill and empty between two points."""
    highest = max(level for row in rows for level, _ in row["by_level"])
    lines = [
        Line(
            f"level {level}, kappa = {SHOWN}",
            [(row["steps"], dict(row["by_level"]).get(level, 0)) for row in rows],
            1 + level,
            DASHES[level % 3],
        )
        for level in range(SLOW, highest + 1)
    ]
    return Panel(f"Runs of the upper levels, kappa = {SHOWN}", "steps", "runs", lines, "xy")


def cores(report: Report) -> str:
    """Cores and bytes against values a day."""
    uses = [(values, Use(report, Target(values))) for values in SIZES]
    busy = {
        "taking values in": [use.ingest_cores for _, use in uses],
        "merging": [use.merge_cores for _, use in uses],
        "logs": [use.log_cores for _, use in uses],
        "serving": [use.serve_cores for _, use in uses],
    }
    stored = {
        "data": [use.data_bytes for _, use in uses],
        "side files": [use.side_bytes for _, use in uses],
        "recent rows": [use.recent_bytes for _, use in uses],
    }
    panels = [
        _panel("Cores, on average", "cores", busy, 0),
        _panel("Bytes of a year", "terabytes", {name: [x / 1e12 for x in xs] for name, xs in stored.items()}, 4),
        Panel("Tables and servers", "billions of values a day", "number", _counts(uses)),
    ]
    return svg(panels, "Cores, storage, tables and servers against values a day, by the model")


def _panel(title: str, label: str, lines: dict[str, list[float]], colour: int) -> Panel:
    places = [values / 1e9 for values in SIZES]
    drawn = [
        Line(name, list(zip(places, numbers, strict=True)), (colour + i) % 6, DASHES[i % 3])
        for i, (name, numbers) in enumerate(lines.items())
    ]
    return Panel(title, "billions of values a day", label, drawn)


def _counts(uses: list[tuple[int, Use]]) -> list[Line]:
    return [
        Line("tables", [(values / 1e9, use.tables) for values, use in uses], 2, "8 3"),
        Line("servers", [(values / 1e9, use.servers) for values, use in uses], 3, "1 3"),
    ]
