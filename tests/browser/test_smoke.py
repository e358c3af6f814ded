"""The page opens in a browser, and the tests notice its errors."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page

from tests.browser import chrome
from tests.browser.chrome import Complaints, find_browser, picture
from tests.server.running_server import configure, make_store, run_server, traffic


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server over a small store."""
    folder = tmp_path_factory.mktemp("page")
    with make_store(folder) as history:
        traffic(history, np.random.default_rng(1), 500, 0.0)
        with run_server(configure(folder)) as client:
            yield str(client.base_url)


def test_the_page_opens_and_does_not_complain(
    address: str, page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUANTIDE_ARTIFACTS", str(tmp_path / "kept"))
    page.goto(address)
    page.wait_for_selector("#lines .scatterlayer .js-line", state="attached")
    assert page.title() == "latency · Quantide"
    path = picture(page, "the page [1/2]")
    assert path == tmp_path / "kept" / "the-page-1-2-.png"
    assert path.read_bytes().startswith(b"\x89PNG")


PROVOKED = {
    "console.error('broken')": "console: broken",
    "setTimeout(() => { throw new Error('thrown') })": "exception: thrown",
    "fetch('/page/nothing.js')": "console: Failed to load resource.*404",
    "document.head.append(Object.assign(document.createElement('style'), {textContent: 'p {color: red}'}))": (
        "console: .*Content Security Policy"
    ),
}


def test_complaints_are_noticed(address: str, blank: Page, complaints: Complaints) -> None:
    blank.goto(address)
    assert complaints.all() == []
    for script, complaint in PROVOKED.items():
        check_noticed(blank, complaints, script, complaint)


def test_a_request_that_leaves_the_machine_is_noticed(blank: Page, complaints: Complaints) -> None:
    check_noticed(blank, complaints, "fetch('http://quantide.invalid/x').catch(() => 0)", "leaves this machine")


def check_noticed(page: Page, complaints: Complaints, script: str, complaint: str) -> None:
    page.evaluate(f"() => {{ {script} }}")
    until = time.monotonic() + 20
    while not (found := complaints.all()):
        assert time.monotonic() < until
        page.wait_for_timeout(20)
    assert re.search(complaint, found[0])
    complaints.expect(complaint)
    assert found[0] not in complaints.all()


def test_without_a_browser_the_error_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTIDE_BROWSER", "/nowhere/chromium")
    with pytest.raises(match=r"none of /nowhere/chromium\. Run make setup"):
        find_browser()
    monkeypatch.delenv("QUANTIDE_BROWSER")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(match="chromium, chromium-browser, google-chrome"):
        find_browser()


def test_only_root_goes_without_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "--no-sandbox" not in chrome.flags()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "--no-sandbox" in chrome.flags()


def test_set_up_marks_only_a_browser_that_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Path(__file__).parents[2] / "scripts" / "setup.sh"
    mark, program = tmp_path / "mark", tmp_path / "chrome"
    monkeypatch.setenv("QUANTIDE_BROWSER", str(program))
    found = subprocess.run([script, "browser", mark], capture_output=True, text=True)
    assert (found.returncode, mark.exists()) == (1, False)
    assert f"QUANTIDE_BROWSER is {program}, which does not start" in found.stderr
    program.write_text("#!/bin/sh\necho Chrome 1.2\n")
    program.chmod(0o755)
    found = subprocess.run([script, "browser", mark], capture_output=True, text=True)
    assert (found.stdout, mark.exists()) == ("==> Browser found: Chrome 1.2\n", True)


ROUNDED = """async (pairs) => {
    const format = await import("/page/format.js"), { phiRange } = await import("/page/series.js");
    return pairs.map(([low, high]) => [format.bounds(low, high), phiRange(low / 1e6, high / 1e6)]);
}"""


def test_what_is_proved_is_rounded_outwards_where_it_is_written(address: str, page: Page) -> None:
    rng = np.random.default_rng(1)
    lows = np.concatenate(
        [10 ** rng.uniform(-4, 6, 300), np.round(rng.uniform(0, 1e5, 100), 2), [1234.56, 0.0, 999996.0]]
    )
    highs = np.minimum(lows + np.concatenate([10 ** rng.uniform(-6, 3, 300), rng.choice([0, 0.01], 103)]), 1e6)
    page.goto(address)
    rounded = page.evaluate(ROUNDED, np.column_stack([lows, highs]).tolist())
    for low, high, ((least, most), phis) in zip(lows, highs, rounded, strict=True):
        assert float(least.replace(",", "")) <= low <= high <= float(most.replace(",", ""))
        ends = [float(end) * 1e4 for end in re.findall(r"p([0-9.]+)", phis)]
        assert ends[0] - 1e-6 <= low
        assert high <= ends[-1] + 1e-6
