"""Pages of docs, done as a reader would do them: block by block, in an empty folder, a terminal for each program."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.shapes import shape

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(bash|python|json|text)\n(.*?)^```", re.S | re.M)
WORDS = re.compile(r"Press\s+(Ctrl-C)\s+in\s+the\s+terminal\s+of\s+`(.+?)`|terminal\s+of\s+`(.+?)`\s+(says):")
GOES_ON = re.compile(r"(quantide (run|serve)|python) \S+( \d+)?\n")
PORTS = ("8000", "8642", "9000")  # of a web server, of Quantide, and of what alarms call
PATIENCE = 180.0  # for what takes seconds, on a machine that is busy


class Reader:
    """A user who copies commands of a page; programs that still run end with the user."""

    def __init__(self, folder: Path, shorter: dict[str, str]) -> None:
        self.folder, self.shorter = folder, shorter
        self.ports = {port: free_port() for port in PORTS}
        self.terminals: dict[str, subprocess.Popen[str]] = {}  # by what was typed there
        self.stack = ExitStack()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *why: object) -> None:
        self.stack.close()

    def follow(self, page: str) -> int:
        """Do a whole page; how many of its blocks were done."""
        steps = read_steps((DOCS / page).read_text(encoding="utf-8"))
        done = 0
        for (kind, body), (next_kind, told) in zip(steps, [*steps[1:], ("", "")], strict=True):
            if kind in ("bash", "python"):
                self.do(kind, body, told if next_kind in ("json", "text") else "")
                done += 1
            elif kind == "Ctrl-C":
                self.press(body)
            elif kind == "says":
                self.hear(body, told)
        return done

    def do(self, kind: str, block: str, told: str) -> None:
        for long, short in self.shorter.items():
            block = block.replace(long, short)
        block = re.sub(r'^(store = ".*")$', r"\1\n[server]\nport = 8642", block, flags=re.M)
        for port, free in self.ports.items():
            block = block.replace(port, free)
        if GOES_ON.fullmatch(block):
            self.start(block)
        elif block.startswith("curl -sN"):
            self.listen(block, told)
        else:
            command = [sys.executable, "-c", block] if kind == "python" else ["bash", "-eu", "-c", block]
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE)
            assert done.returncode == 0, (block, done.stderr)
            compare(done.stdout, told, block)

    def start(self, command: str) -> None:
        """Start a program that keeps running; check the address that a server prints."""
        self.terminals[command] = process = self.goes_on(["bash", "-c", f"exec {command}"])
        if command.startswith("quantide"):
            assert process.stdout is not None
            assert process.stdout.readline() == f"http://127.0.0.1:{self.ports['8642']}\n", command

    def press(self, name: str) -> None:
        """Press Ctrl-C, a signal to all processes of a terminal; check that the program ends without an error."""
        [command] = [command for command in self.terminals if name in command]
        process = self.terminals.pop(command)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, command

    def hear(self, name: str, told: str) -> None:
        """Compare the lines that a running program prints with those shown, but for numbers."""
        [process] = [process for command, process in self.terminals.items() if name in command]
        assert process.stdout is not None
        tired = threading.Timer(PATIENCE, process.kill)
        tired.start()
        for line in told.splitlines():
            assert words(process.stdout.readline()) == words(line), line
        tired.cancel()

    def listen(self, command: str, told: str) -> None:
        """The first event is of the kind that is shown."""
        process = self.goes_on(["bash", "-c", f"exec {command.strip()} --max-time {PATIENCE}"])
        assert process.stdout is not None
        assert event(process.stdout) == event(iter(told.splitlines())), command

    def goes_on(self, command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.stack.callback(end, process)
        return process


def read_steps(text: str) -> list[tuple[str, str]]:
    """Return the steps and outputs of a page in their order: blocks, programs to end, and lines that programs print."""
    found = [(block.start(), block[1], block[2]) for block in BLOCK.finditer(text) if ">>>" not in block[2]]
    found += [(said.start(), said[1] or said[4], said[2] or said[3]) for said in WORDS.finditer(text)]
    return [(kind, body) for _, kind, body in sorted(found)]


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return str(taken.getsockname()[1])


def event(lines: Iterator[str]) -> tuple[str, Any]:
    """Return the kind of the first event, and the shape of its data."""
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
    """Return the words of each line; "1 file" has the same as "2 files"."""
    text = re.sub(r"\b1 (file|run|step|chunk|value|row)\b", r"\1s", text)
    return [re.sub(r"[\W\d_]+", " ", line).strip() for line in text.strip().splitlines()]
