"""The pages of docs/tasks, done as a reader would do them: block by block, in an empty folder."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.shapes import shape

DOCS = Path(__file__).parents[1] / "docs"
ADDRESS = "http://127.0.0.1:8642"
BLOCK = re.compile(r"^```(bash|python|json|text)\n(.*?)^```", re.S | re.M)
PAGER = "9000"  # the port of what alarms call
PATIENCE = 180.0  # for what takes seconds, on a machine that is busy


class Reader:
    """Someone who copies what a page says; programs that go on are ended with it."""

    def __init__(self, folder: Path, shorter: dict[str, str]) -> None:
        self.folder, self.shorter = folder, shorter
        self.address = ADDRESS
        self.pager = free_port()
        self.stack = ExitStack()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *why: object) -> None:
        self.stack.close()

    def follow(self, page: str) -> int:
        """Do a whole page; how many of its blocks were done."""
        text = (DOCS / page).read_text(encoding="utf-8")
        blocks = [(kind, body) for kind, body in BLOCK.findall(text) if ">>>" not in body]
        done = 0
        for (kind, body), (next_kind, told) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
            if kind in ("bash", "python"):
                self.do(kind, body, told if next_kind in ("json", "text") else "")
                done += 1
        return done

    def do(self, kind: str, block: str, told: str) -> None:
        for long, short in self.shorter.items():
            block = block.replace(long, short)
        block = block.replace(PAGER, self.pager).replace(ADDRESS, self.address)
        block = block.replace('store = "data"', 'store = "data"\n[server]\nport = 0')
        if re.fullmatch(r"(quantide (run|serve)|python) \S+\n", block):
            self.start(block)
        elif block.startswith("curl -sN"):
            self.listen(block, told)
        else:
            command = [sys.executable, "-c", block] if kind == "python" else ["bash", "-eu", "-c", block]
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE)
            assert done.returncode == 0, (block, done.stderr)
            compare(done.stdout, told, block)

    def start(self, command: str) -> None:
        """A program that goes on; a server says where it is."""
        process = self.goes_on(["bash", "-c", f"exec {command}"])
        if command.startswith("quantide"):
            assert process.stdout is not None
            self.address = process.stdout.readline().strip()
            assert self.address.startswith("http://127.0.0.1:"), command

    def listen(self, command: str, told: str) -> None:
        """The first event is of the kind that is shown."""
        process = self.goes_on(["bash", "-c", f"exec {command.strip()} --max-time {PATIENCE}"])
        assert process.stdout is not None
        assert event(process.stdout) == event(iter(told.splitlines())), command

    def goes_on(self, command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True)
        self.stack.callback(end, process)
        return process


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return str(taken.getsockname()[1])


def event(lines: Iterator[str]) -> tuple[str, Any]:
    """The kind of the first event, and the shape of what it tells."""
    kind = next(line for line in lines if line.startswith("event:"))
    data = next(line for line in lines if line.startswith("data:"))
    return kind.strip(), shape(json.loads(data.removeprefix("data:")))


def end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate(timeout=PATIENCE)


def compare(found: str, told: str, block: str) -> None:
    """JSON has the names that are shown; each line of text one that is shown, but for numbers."""
    if told.lstrip().startswith("{"):
        assert shape(json.loads(found)) == shape(json.loads(told)), block
    elif told:
        assert found.strip(), block
        assert set(words(found)) <= set(words(told)), block


def words(text: str) -> list[str]:
    return [re.sub(r"[\W\d_]+", " ", line).strip() for line in text.strip().splitlines()]
