"""The client example of docs/tour.md, verbatim, against a real server."""

import re
from pathlib import Path

import numpy as np

from tests.server.running_server import configure, make_store, run_server, traffic

TOUR = (Path(__file__).parents[2] / "docs" / "tour.md").read_text(encoding="utf-8")
HERE = "http://127.0.0.1:8642"


def test_the_example_runs(tmp_path: Path) -> None:
    [example] = [one for one in re.findall(r"```python\n(.*?)```", TOUR, re.DOTALL) if "quantide.client" in one]
    assert "print(event.data)" in example
    with make_store(tmp_path) as history:
        traffic(history, np.random.default_rng(3), 1000, 0.0)
        with run_server(configure(tmp_path)) as client:
            names: dict[str, object] = {}
            program = example.replace(HERE, str(client.base_url).rstrip("/")).replace("print(event.data)", "break")
            exec(compile(program, "tour.md", "exec"), names)
            path = f"/api/streams/{re.findall(r'streams/(.*?)/quantiles', TOUR)[0]}/quantiles"
            answer = client.get(path, params={"phi": 0.99, "key": "/pay", "window": "within:5m"}).json()["answers"][0]
    assert getattr(names["p99"], "value", None) == answer["value"]
    assert getattr(names["event"], "kind", None) == "alarm"
