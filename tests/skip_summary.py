"""Summary at the end of a run: which tests did not run, and why.

With pytest-xdist the processes of the run collect the tests, so each sends its numbers of deselected tests.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter

DESELECTED = pytest.StashKey[Counter[str]]()
ALL_REASONS = {"slow": "marked slow; `make test-all` runs them", "other": "deselected by options"}


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[DESELECTED] = Counter()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        item.config.stash[DESELECTED]["slow" if item.get_closest_marker("slow") else "other"] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        deselected = session.config.stash[DESELECTED]
        session.config.workeroutput["deselected"] = dict(deselected)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the larger numbers, because every process deselects the same tests."""
    if output := getattr(node, "workeroutput", None):  # a process that crashed has none
        node.config.stash[DESELECTED] |= Counter(output["deselected"])


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    skipped = Counter(reason(report) for report in terminalreporter.stats.get("skipped", ()))
    rows = [(number, f"skipped: {text}") for text, number in sorted(skipped.items())]
    rows += [(number, ALL_REASONS[kind]) for kind, number in config.stash[DESELECTED].items()]
    if rows:
        terminalreporter.section("tests that did not run")
        for number, text in rows:
            terminalreporter.write_line(f"{number:6} {text}")


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the reason of a skipped test; its place if it names none."""
    place, line, text = report.longrepr if isinstance(report.longrepr, tuple) else ("", 0, str(report.longrepr))
    return text.removeprefix("Skipped: ") or f"{place}:{line}"
