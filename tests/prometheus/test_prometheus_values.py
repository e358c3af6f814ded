"""Values, bounds and rates against all rows, and against the answers of a live reader for the same windows."""

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from quantide import History
from quantide.config.stream_metrics import StreamMetrics
from quantide.live import LiveStream
from quantide.server.prometheus.metric_catalog import StreamMetric
from quantide.server.prometheus.promql_evaluation import QueryEvaluation, to_float
from quantide.server.prometheus.promql_parser import parse_query
from tests import oracle
from tests.prometheus.conftest import Shop

PHIS = ["0", "0.5", "0.99", "0.999", "1"]
KEYS = [None, "/cart", "/pay", "/a.b"]


def by_labels(result: list[Any]) -> dict[tuple[str, ...], Any]:
    names = ("endpoint", "quantile", "window", "bound", "filter")
    return {tuple(one["metric"].get(name, "") for name in names): one.get("values") or one["value"] for one in result}


@pytest.mark.parametrize("window", ["1s", "1m", "5m", "8m"])
def test_every_point_of_a_range(shop: Shop, window: str) -> None:
    span, query = {"1s": 1, "1m": 60, "5m": 300, "8m": 480}[window], "|".join(PHIS)
    start, step = shop.now - 620, 7.5
    data = shop.data(
        "query_range",
        query=f'latency{{quantile=~"{query}",window="{window}",bound=~".+"}}',
        start=start,
        end=shop.now + 30,
        step=step,
    )
    found, newest = by_labels(data["result"]), shop.times.max()
    moments = [start + step * i for i in range(int((shop.now + 30 - start) // step) + 1)]
    for key in KEYS:
        for phi in PHIS:
            sampled = {
                bound: dict(found.get((key or "", phi, window, bound, ""), [])) for bound in ("value", "low", "high")
            }
            for at in moments:
                rows = shop.rows(at, span, key)
                if at - span < newest - 480 or not len(rows):
                    assert all(at not in values for values in sampled.values()), "a gap"
                    continue
                value, low, high = (float(sampled[bound][at]) for bound in ("value", "low", "high"))
                assert value == oracle.exact_quantile(rows, float(phi)) == low == high


@pytest.mark.parametrize("back", [0, 100, 200])
def test_instant_queries_are_within_their_bounds(shop: Shop, back: int) -> None:
    at = shop.now - back
    text = 'latency{quantile=~"0.5|0.99",bound=~".+",window="3m",filter=~"|errors"}'
    found = by_labels(shop.data("query", query=text, time=at)["result"])
    assert len(found) == 4 * 2 * 3 * 2
    for key in KEYS:
        for phi in ("0.5", "0.99"):
            for filter in ("", "errors"):
                exact = oracle.exact_quantile(shop.rows(at, 180, key, filter == "errors"), float(phi))
                each = [found[key or "", phi, "3m", bound, filter] for bound in ("value", "low", "high")]
                value, low, high = (float(text) for _, text in each)
                assert low <= exact <= high
                assert low <= value <= high


@pytest.mark.parametrize("function", ["rate", "increase"])
def test_rates_count_rows(shop: Shop, function: str) -> None:
    data = shop.data(
        "query_range",
        query=f"{function}(latency_rows_total[30s] offset 10s)",
        start=shop.now - 400,
        end=shop.now + 60,
        step="20s",
    )
    found = {one["metric"].get("endpoint", ""): dict(one["values"]) for one in data["result"]}
    assert set(found) == {"", "/cart", "/pay", "/a.b"}
    for key, values in found.items():
        for i in range(24):
            at = shop.now - 400 + 20 * i
            if at - 40 < shop.times.max():
                count = len(shop.rows(at - 10, 30, key or None))
                assert float(values[at]) == count / (30 if function == "rate" else 1)
            else:
                assert at not in values, "it has not come yet"


def test_arithmetic_and_offset(shop: Shop) -> None:
    text = 'latency{endpoint="/pay",quantile="0.5",window="1m"}'
    [plain] = shop.data("query", query=text, time=shop.now - 60)["result"]
    [shifted] = shop.data("query", query=f"1000 - {text} offset 1m / 2", time=shop.now)["result"]
    assert float(shifted["value"][1]) == 1000 - float(plain["value"][1]) / 2
    assert "__name__" in plain["metric"]
    assert "__name__" not in shifted["metric"]


TYPES: dict[str, tuple[str, Any]] = {
    "int64": ("int64", lambda n: np.arange(2**60 + 1, 2**60 + 1 + n)),
    "decimals": ("decimal[3]", lambda n: [Decimal(i) / 1000 + Decimal(10) ** 14 for i in range(n)]),
    "durations": ("duration[ms]", lambda n: np.arange(1, n + 1).astype("m8[ms]")),
    "timestamps": ("timestamp[us]", lambda n: np.datetime64("2026-01-01", "us") + np.arange(n)),
    "dates": ("date", lambda n: np.datetime64("2026-01-01", "D") + np.arange(n)),
    "infinite": ("float64", lambda n: np.r_[-np.inf, np.zeros(n - 2), np.inf]),
}


@pytest.mark.parametrize("clock", ["seconds", "timestamp", "zoned"])
@pytest.mark.parametrize("kind", TYPES)
def test_every_type_and_clock_is_that_of_answers(kind: str, clock: str, tmp_path: Path) -> None:
    """The same windows through LiveStream.bands(), rounded outwards."""
    name, make = TYPES[kind]
    begin, count = 1_700_000_000, 50
    moments = (np.arange(count) * 10**9 + begin * 10**9).astype("M8[ns]")
    times: Any = {
        "seconds": begin + np.arange(count) * 1.0,
        "timestamp": moments,
        "zoned": pa.array(moments).cast(pa.timestamp("ns", "UTC")),
    }[clock]
    with History(tmp_path / "s", eps=0.05, value_type=name, window="1 hour") as store:
        store.append(make(count), times=times)
        live = LiveStream(tmp_path / "s", follow=False)
        asked = [begin * 1000 + 500 + 5000 * i for i in range(9)]
        evaluation = QueryEvaluation([StreamMetric("s", live, StreamMetrics())], asked, 100)
        found = evaluation.evaluate(parse_query('s{quantile=~"0|0.5|1",window="20s",bound=~".+"}'))
        assert isinstance(found, list)
        assert len(found) == 9
        for series in found:
            assert series.present.all()
            for i, at in enumerate(asked):
                stamp = np.datetime64(at, "ms")
                now = {"seconds": at / 1000, "timestamp": stamp, "zoned": pa.scalar(at, pa.timestamp("ms", "UTC"))}[
                    clock
                ]
                [band] = live.bands([float(series.labels["quantile"])], mode="exact", within="20 s", now=now)
                bound = ("value", "low", "high").index(series.labels["bound"])
                assert series.values[i] == to_float((band.answer.value, band.low, band.high)[bound], bound)
        live.close()


@pytest.mark.parametrize(
    "value", [np.int64(2**60 + 1), Decimal("0.1"), np.datetime64(1, "ns"), np.timedelta64(7, "ms")]
)
def test_bounds_are_rounded_outwards(value: Any) -> None:
    exact = {np.int64: Fraction(2**60 + 1), Decimal: Fraction(1, 10), np.datetime64: Fraction(1, 10**9)}
    truth = exact.get(type(value), Fraction(7, 1000))
    low, high = to_float(value, 1), to_float(value, 2)
    assert Fraction(low) <= truth <= Fraction(high)
    assert high <= math.nextafter(low, math.inf)
