"""What is measured of the headlines of RECENT and CONSTRAINED. Errors are in units of what eps allows."""

from benchmarks import table
from benchmarks.report import Row
from benchmarks.stored import Found, Measure, Reports, rows, settings

PART = "characterization/windows"
BUILT = "as built"


def mean_error(window: str) -> Measure:
    """Over seven orders of data, of that with the largest."""

    def measure(reports: Reports) -> Found:
        return _error(_kinds(reports, window), "mean", "mean", "kind")

    return measure


def worst_error(window: str) -> Measure:
    def measure(reports: Reports) -> Found:
        return _error(_kinds(reports, window), "worst", "worst", "kind")

    return measure


def orders(window: str) -> Measure:
    """The largest mean error of any order over the smallest."""

    def measure(reports: Reports) -> Found:
        found = sorted(_kinds(reports, window), key=lambda row: float(row["mean"]))
        value = found[-1]["mean"] / found[0]["mean"]
        told = f"{table.ratio(value)} times ({found[-1]['kind']} over {found[0]['kind']})"
        return Found(value, told, _setting(found[0], "seven orders"))

    return measure


def space(window: str) -> Measure:
    """Tuples held, as a part of the paper's bound."""

    def measure(reports: Reports) -> Found:
        found = _kinds(reports, window)
        return _space(found, _setting(found[0], "seven orders"))

    return measure


def small_space(reports: Reports) -> Found:
    """The window that holds most, beside the bound for its size."""
    found = rows(reports, PART, "sizes", layout=BUILT, window="SlidingWindow")
    worst = max(found, key=lambda row: float(row["tuples"] / row["paper_tuples"]))
    return _space([worst], _setting(worst, "uniform"))


def any_n(reports: Reports) -> Found:
    found = rows(reports, PART, "parts", layout=BUILT, window="RecentWindow")
    return _error(found, "worst", "worst", "n")


def span_error(reports: Reports) -> Found:
    return _error(rows(reports, PART, "times", layout=BUILT), "worst", "worst", "kind")


def span_space(reports: Reports) -> Found:
    found = rows(reports, PART, "times", layout=BUILT)
    return _space(found, f"{_rate(reports)}, eps = {found[0]['eps']:g}; raw values counted")


def span_growth(reports: Reports) -> Found:
    """Space of the longest span over that of the shortest, each over how much longer it is."""
    found = rows(reports, PART, "ages", layout=BUILT)
    first, last = found[0], found[-1]
    grown, longer = last["tuples"] / first["tuples"], last["age"] / first["age"]
    told = f"{table.ratio(grown)} times the tuples for {longer:g} times the span"
    return Found(grown / longer, told, f"{first['age']} s to {last['age']} s, eps = {first['eps']:g}")


def filter_error(reports: Reports) -> Found:
    return _error(rows(reports, PART, "filters", layout=BUILT), "worst", "worst", "size")


def filter_space(reports: Reports) -> Found:
    found = rows(reports, PART, "filters", layout=BUILT)
    sizes = ", ".join(f"{row['size']:,}" for row in found)
    return _space(found, f"of the last {sizes}, {found[0]['passing']:g} pass, eps = {found[0]['eps']:g}")


def rate(batch: str) -> Measure:
    """Values a second at the paper's eps; `batch` is the setting that says how many come at once."""

    def measure(reports: Reports) -> Found:
        s = settings(reports, PART)
        row = rows(reports, PART, "updates", eps=s["time_eps"], batch=s[batch])[0]
        told = f"{row['values_per_s']:,} values a second"
        return Found(row["values_per_s"], told, f"{row['batch']:,} at once, eps = {row['eps']:g}, {s['age']} s kept")

    return measure


def by_order(reports: Reports) -> list[Row]:
    """Both windows side by side, an order a row."""
    pairs = zip(_kinds(reports, "SlidingWindow"), _kinds(reports, "RecentWindow"), strict=True)
    return [{"kind": sliding["kind"], "SlidingWindow": sliding, "RecentWindow": recent} for sliding, recent in pairs]


def _kinds(reports: Reports, window: str) -> list[Row]:
    return rows(reports, PART, "kinds", layout=BUILT, window=window)


def _setting(row: Row, what: str) -> str:
    return f"window of {row['size']:,}, eps = {row['eps']:g}, {what}"


def _rate(reports: Reports) -> str:
    s = settings(reports, PART)
    return f"{s['rate']} arrivals a second, {s['age']} s"


def _error(found: list[Row], column: str, word: str, by: str) -> Found:
    worst = max(found, key=lambda row: float(row[column]))
    which = f"{worst[by]:,}" if isinstance(worst[by], int) else worst[by]
    kept = f"window of {worst['size']:,}" if "size" in worst else f"{worst['age']} s"
    told = f"{word} {worst[column]:.2f} eps ({which})"
    return Found(worst[column], told, f"{kept}, eps = {worst['eps']:g}, {len(found)} settings")


def _space(found: list[Row], setting: str) -> Found:
    worst = max(found, key=lambda row: float(row["tuples"] / row["paper_tuples"]))
    told = f"{worst['tuples']:,} values of {worst['paper_tuples']:,}"
    return Found(worst["tuples"] / worst["paper_tuples"], told, setting)
