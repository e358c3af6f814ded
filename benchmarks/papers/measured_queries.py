"""What is measured of the headlines of QUERIES; of several streams always the worst."""

from benchmarks import table
from benchmarks.report import Row
from benchmarks.stored import Found, Measure, Reports, rows, settings

PART = "characterization/queries"
DEFAULT = "CASU online"  # what a Monitor does unless told otherwise


def instead_of_eager(queries: int) -> Measure:
    """Seconds for all elements, one by one, every query right after each."""

    def measure(reports: Reports) -> Found:
        slowest = max(_rows(reports, DEFAULT, queries), key=lambda row: float(row["seconds"]))
        eager = max(rows(reports, PART, "eager", queries=queries), key=lambda row: float(row["seconds"]))
        told = f"{table.seconds(slowest['seconds'])}; eager here {eager['seconds'] / 3600:.1f} h, projected"
        return Found(slowest["seconds"], told, f"{_setting(reports)}, {queries:,} queries, {DEFAULT}")

    return measure


def growth(reports: Reports) -> Found:
    """Time by the number of queries: how many times more, over how many times more queries."""
    counts = settings(reports, PART)["queries"]
    few, many = (max(row["seconds"] for row in _rows(reports, DEFAULT, n)) for n in (counts[0], counts[-1]))
    more = counts[-1] / counts[0]
    told = f"{table.ratio(many / few)} times the time for {more:,.0f} times the queries: {table.seconds(many)}"
    return Found(many / few / more, told, f"{_setting(reports)}, {counts[0]:,} to {counts[-1]:,} queries, {DEFAULT}")


def synchronous(column: str) -> Measure:
    """CSU over CASU, for as many queries as there are; less than 1: CSU is better."""

    def measure(reports: Reports) -> Found:
        most = settings(reports, PART)["queries"][-1]
        pairs = _pairs(reports, "CSU QC-A", "CASU QC-A", most)
        csu, casu = min(pairs, key=lambda pair: float(pair[0][column] / pair[1][column]))
        show = table.seconds if column == "seconds" else "{:,}".format
        told = f"CSU {show(csu[column])}, CASU {show(casu[column])}"
        return Found(csu[column] / casu[column], told, f"{_setting(reports)}, {most:,} queries, QC-A, {csu['stream']}")

    return measure


def clustering(reports: Reports) -> Found:
    """SU over CSU, for as many queries as SU was measured with."""
    most = max(row["queries"] for row in rows(reports, PART, "rows", method="SU"))
    pairs = _pairs(reports, "SU", "CSU QC-A", most)
    apart, together = min(pairs, key=lambda pair: float(pair[0]["seconds"] / pair[1]["seconds"]))
    told = f"SU {table.seconds(apart['seconds'])}, CSU {table.seconds(together['seconds'])}"
    value = apart["seconds"] / together["seconds"]
    return Found(value, told, f"{_setting(reports)}, {most:,} queries, QC-A, {apart['stream']}")


def clusters(reports: Reports) -> Found:
    """Of QC-B, as a part of what its theorem allows."""
    s = settings(reports, PART)
    bound = 1 / (2 * (s["precision"][0] - s["eps"]))
    made = max(row["clusters"] for row in _rows(reports, "CASU QC-B", s["queries"][-1]))
    return Found(
        made / bound, f"{made:,} clusters of {bound:,.0f}", f"{s['queries'][-1]:,} queries, eps = {s['eps']:g}"
    )


def evaluations(reports: Reports) -> Found:
    """As a part of what the theorem allows, where that is largest."""
    found = rows(reports, PART, "growth")
    worst = max(found, key=lambda row: float(row["evaluations"] / row["bound"]))
    told = f"{worst['evaluations']:,} of {worst['bound']:,}"
    setting = f"{settings(reports, PART)['growth_queries']:,} queries, {worst['n']:,} elements, {worst['stream']}"
    return Found(worst["evaluations"] / worst["bound"], told, setting)


def _rows(reports: Reports, method: str, queries: int) -> list[Row]:
    return rows(reports, PART, "rows", method=method, queries=queries)


def _pairs(reports: Reports, one: str, other: str, queries: int) -> list[tuple[Row, Row]]:
    """The same streams in the same order."""
    return list(zip(_rows(reports, one, queries), _rows(reports, other, queries), strict=True))


def _setting(reports: Reports) -> str:
    return f"{settings(reports, PART)['elements']:,} elements one by one"
