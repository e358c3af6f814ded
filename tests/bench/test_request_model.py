"""Formulas of requests beside counts at a store, and their price."""

from dataclasses import replace

import pytest

from bench.cost_model import DAY, Target, Use
from bench.cost_pages import price_context, request_checks
from bench.report import Report, Row, settings_at
from bench.request_measure import RequestSettings, request_kind, request_stream, requests
from bench.request_model import (
    FORMULAS,
    REQUEST_TOLERANCE,
    VACUUM_SECONDS,
    day_requests,
    predicted,
    small_stream,
    stream_requests,
    total,
    uploads,
)
from bench.request_prices import RequestCounts, RequestPrices
from bench.subjects import CHARACTERIZATION
from quantide.spark.stream.running_stream import VACUUM_INTERVAL
from quantide.store.object_lease import RENEW_SECONDS
from tests.object_servers.exchange import Request

QUICK = settings_at(RequestSettings, "quick")


@pytest.fixture(scope="module")
def stored() -> Report:
    return Report.read(CHARACTERIZATION.folder / "scale.json")


@pytest.fixture(scope="module")
def counted() -> list[Row]:
    return requests(QUICK)


def test_every_work_is_counted(counted: list[Row]) -> None:
    assert {row["work"] for row in counted} == set(FORMULAS)


def test_formulas_are_the_counts(counted: list[Row]) -> None:
    for row in counted:
        found = RequestCounts(row["put"], row["get"], row["list"])
        assert predicted(row) == pytest.approx(found, rel=REQUEST_TOLERANCE), row["work"]


@pytest.mark.slow
def test_formulas_add_up_to_a_whole_stream() -> None:
    [row] = request_stream(QUICK)
    expected = total(stream_requests(small_stream(row)))
    assert expected.put == pytest.approx(row["put"], rel=REQUEST_TOLERANCE)
    assert expected.get == pytest.approx(row["get"], rel=REQUEST_TOLERANCE)
    assert abs(expected.list - row["list"]) <= 3  # a checkpoint that is due while one is written is left out


def test_stored_counts_are_within_the_tolerance(stored: Report) -> None:
    assert max(row["off"] for row in request_checks(stored)) <= REQUEST_TOLERANCE


@pytest.mark.parametrize(("method", "query", "kind"), [("GET", "", "get"), ("GET", "list-type=2", "list")])
def test_a_listing_is_no_get(method: str, query: str, kind: str) -> None:
    assert request_kind(Request(method, "/bucket/x", query, None, 0)) == kind


def test_large_files_are_uploaded_in_parts() -> None:
    assert [uploads(size << 20) for size in (8, 9, 17)] == [1, 4, 5]


def test_a_day_by_hand(stored: Report) -> None:
    use = Use(stored, Target(values=1e9))
    day = day_requests(use)
    assert use.tables == 1
    assert day["the lease"].put == pytest.approx(DAY / RENEW_SECONDS)
    assert day["appends"] == pytest.approx(RequestCounts(put=5 * DAY / 10, get=DAY / 10))
    assert day["live readers"].get > DAY / 0.2
    assert day["vacuums"].list == pytest.approx(DAY / VACUUM_SECONDS * (3 + 2 * 6))  # 5,850 files
    assert VACUUM_SECONDS == VACUUM_INTERVAL


def test_prices_are_parameters() -> None:
    prices = RequestPrices.read()
    counts = RequestCounts(put=1_000, get=10_000, list=2_000, delete=10**6)
    assert prices.of(counts) == pytest.approx(0.005 + 0.004 + 0.01)
    assert replace(prices, put=0.01).of(counts) == pytest.approx(0.01 + 0.004 + 0.01)
    assert prices.of_month(2e12) == pytest.approx(46)


def test_parts_of_the_price_add_up(stored: Report) -> None:
    context = price_context([Use(stored, Target(values)) for values in (1e9, 1e12)])
    assert sum(row["usd"] for row in context["works"]) == pytest.approx(context["days"][-1]["usd"])
    assert context["queries"]["cold"] == 2 * context["queries"]["warm"]
