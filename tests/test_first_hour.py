"""The first hour works as it is written: all of it with Spark, and what needs no Spark in seconds."""

import json
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest

from quantide import History
from quantide.config import read_config
from tests.task_pages import BLOCK, DOCS, Reader, free_port

TEXT = (DOCS / "first-hour.md").read_text(encoding="utf-8")
BLOCKS = [body for kind, body in BLOCK.findall(TEXT) if kind == "bash"]
REAL = TEXT[TEXT.index("cat > streams.toml") - len("```bash\n") :]  # from the configuration of the real source on
SHOWN = [body for kind, body in BLOCK.findall(REAL) if kind in ("json", "text")]
INSTALL = next(block for block in BLOCKS if "pip install" in block)
CONFIG = next(block for block in BLOCKS if block.startswith("cat > streams.toml"))
WEBHOOKS = next(block for block in BLOCKS if "cat >> streams.toml" in block)
HERE = f"ln -s '{DOCS.parent}' quantide\n"  # installed already


@pytest.mark.slow
def test_the_hour_can_be_followed(tmp_path: Path) -> None:
    with Reader(
        tmp_path, {INSTALL: HERE + "quantide doctor\n", "quantide demo": "quantide demo --seconds 1"}
    ) as reader:
        assert reader.follow("first-hour.md") >= 21


def test_a_real_log_is_queried_and_every_bound_holds(tmp_path: Path) -> None:
    """The web server, its visitors, the questions, and the check; a program in place of Spark takes the log in."""
    with Reader(tmp_path, {}) as reader:
        for block in [HERE, *BLOCKS[BLOCKS.index(CONFIG) - 2 : BLOCKS.index(CONFIG) + 1]]:
            reader.do("bash", block, "")
        while len(list((tmp_path / "incoming").glob("*.json"))) < 3:
            time.sleep(0.1)
        reader.press("visitors.py")
        assert take_in(tmp_path) > 100
        reader.do("bash", "quantide serve streams.toml\n", "")
        begun = max(place for place, block in enumerate(BLOCKS) if block.startswith("until curl -sf '"))
        for block, shown in zip(BLOCKS[begun : begun + 3], SHOWN[:3], strict=True):
            reader.do("bash", block, shown)


def take_in(folder: Path) -> int:
    lines = [line for name in (folder / "incoming").glob("*.json") for line in name.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]
    config = read_config(folder / "streams.toml").streams["requests"]
    with History(config.folder, eps=config.eps, keys=config.keys, window="24 hours") as store:
        times = np.array([row["ts"].removesuffix("+00:00") for row in rows], "M8[us]")
        store.append([row["ms"] for row in rows], key=[row["path"] for row in rows], times=times)
    return len(rows)


def test_configurations_can_be_read(tmp_path: Path) -> None:
    [(_, config)] = re.findall(r"<<'(END)'\n(.*?)^END$", CONFIG, re.S | re.M)
    [(_, webhooks)] = re.findall(r"<<'(END)'\n(.*?)^END$", WEBHOOKS, re.S | re.M)
    path = tmp_path / "streams.toml"
    path.write_text(config + webhooks)
    assert list(read_config(path).server.webhooks.allow) == ["http://127.0.0.1:9000"]
    sources = re.findall(r"^- \w.*: `(\{ format .* \})`$", TEXT, re.M)
    assert len(sources) == 2
    for source in sources:
        path.write_text(re.sub(r"source = .*", f"source = {source}", config))
        assert read_config(path).streams["requests"].source.format in source


def test_the_web_server_prints_nothing_when_a_client_leaves_early(tmp_path: Path) -> None:
    port = int(free_port())
    program = DOCS.parent / "examples" / "first_hour" / "web.py"
    command = [sys.executable, str(program), str(port)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as web:
        try:
            while not is_answered(port, "index.md"):
                time.sleep(0.05)
            for _ in range(20):  # the larger page does not fit into the buffers of the connection
                with socket.create_connection(("127.0.0.1", port)) as line:
                    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # resets it
                    line.sendall(b"GET /images/page.png HTTP/1.0\r\n\r\n")
            assert is_answered(port, "tour.md")
        finally:
            web.send_signal(signal.SIGINT)
        assert web.communicate(timeout=60) == ("", "")


def is_answered(port: int, page: str) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/{page}") as response:
            return bool(response.read())
    except OSError:
        return False
