"""Real clients: promtool queries a server of Quantide, and a Prometheus server scrapes it."""

import re
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.prometheus.conftest import Shop
from tests.prometheus.programs import find_program, prometheus_server, promtool, wait_for_result

TEXT = 'latency{endpoint="/pay",quantile="0.99",window="5m"}'


def test_promtool_queries(shop: Shop) -> None:
    address = str(shop.client.base_url).rstrip("/")
    when = ["--time", str(shop.now)]
    one = promtool("query", "instant", *when, address, TEXT)
    [expected] = shop.data("query", query=TEXT, time=shop.now)["result"]
    assert (one.returncode, one.stderr) == (0, "")
    assert f"=> {expected['value'][1]} @" in one.stdout
    assert 'endpoint="/pay", quantile="0.99", stream="latency", window="5m"' in one.stdout
    several = promtool(
        "query", "range", "--start", str(shop.now - 60), "--end", str(shop.now), "--step", "15s", address, TEXT
    )
    assert len(re.findall(r"@\[\d+\]", several.stdout)) == 5
    assert promtool("query", "labels", address, "endpoint").stdout.split() == ["/a.b", "/cart", "/pay"]
    series = promtool("query", "series", "--match", 'latency{endpoint=~"/p.*"}', address).stdout
    assert series.count("{__name__=") == 2
    refused = promtool("query", "instant", address, "histogram_quantile(0.9, latency)")
    assert refused.returncode != 0
    assert "bad_data: histogram_quantile() is not supported" in refused.stderr


def test_prometheus_scrapes_quantiles_with_their_bounds(shop: Shop, tmp_path: Path) -> None:
    find_program("prometheus")
    samples = exported(shop)
    assert len(samples) == 2 * 2 * 3  # all keys and /pay, two quantiles, three bounds
    with prometheus_server(tmp_path, shop.client.base_url.netloc.decode()) as prometheus:
        query = 'quantide_quantile{endpoint="/pay",quantile="0.99"}'
        found = wait_for_result(prometheus, query)
        assert len(found) == 3
        for one in found:
            metric, (_, value) = one["metric"], one["value"]
            assert float(value) == samples["/pay", "0.99", metric["bound"]]
        low, middle, high = (samples["/pay", "0.99", bound] for bound in ("low", "value", "high"))
        assert low <= middle <= high
        [rows] = wait_for_result(prometheus, 'quantide_window_rows{endpoint="/pay"}')
        since = shop.times.max() - 300
        assert float(rows["value"][1]) == ((shop.times > since) & (shop.keys == "/pay")).sum()


def exported(shop: Shop) -> dict[tuple[str, str, str], float]:
    families = text_string_to_metric_families(shop.client.get("/metrics").text)
    [family] = [family for family in families if family.name == "quantide_quantile"]
    return {
        (one.labels.get("endpoint", ""), one.labels["quantile"], one.labels["bound"]): one.value
        for one in family.samples
    }


def test_a_stream_that_stopped_is_not_exported(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert exported(shop)
    monkeypatch.setenv("QUANTIDE_CLOCK_OFFSET", str(3600 + time.time() - shop.now))
    assert exported(shop) == {}
