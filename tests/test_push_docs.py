"""docs/sources/push.md works as it is written: `quantide run` with a push stream, and the recipe for OpenTelemetry."""

import re
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

from quantide.client import Client
from quantide.config import read_config
from tests.server.push_landing import landed, push_config
from tests.server.running_server import run_server
from tests.task_pages import BLOCK, DOCS, Reader

PAGE = "sources/push.md"
TEXT = (DOCS / PAGE).read_text(encoding="utf-8")


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    """The quick end-to-end case: rows are pushed in every way, ingested with Spark, and answered."""
    with Reader(tmp_path, {}) as reader:
        assert reader.follow(PAGE) >= 7


def test_its_configurations_can_be_read(tmp_path: Path) -> None:
    configurations = re.findall(r"^```toml\n(.*?)^```", TEXT, re.S | re.M)
    assert configurations
    for text in configurations:
        (tmp_path / "push.toml").write_text(text)
        push = read_config(tmp_path / "push.toml").streams["latency"].source.push
        assert push is not None
        assert (push.landing_bytes, push.landing_files) == (10**9, 20_000)


def test_spans_of_opentelemetry_are_pushed(tmp_path: Path) -> None:
    recipe = next(body for kind, body in BLOCK.findall(TEXT) if kind == "python" and "SpanProcessor" in body)
    names: dict[str, Any] = {}
    exec(recipe, names)
    with run_server(push_config(tmp_path)) as http, Client(str(http.base_url)) as client:
        provider = TracerProvider()
        provider.add_span_processor(names["DurationProcessor"](client, "plain"))
        tracer = provider.get_tracer("shop")
        with tracer.start_as_current_span("pay"), tracer.start_as_current_span("card"):
            pass
        provider.shutdown()
    rows = landed(tmp_path, "plain")
    assert sorted(row["name"] for row in rows) == ["card", "pay"]
    assert all(row["value"] >= 0 for row in rows)
