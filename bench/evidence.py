"""`make evidence`: every subject, each in its own process; a failure does not stop the others. Logs: build/evidence."""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

from bench import rendering, tables
from bench.collection import FULL, Collection
from bench.processes import ROOT
from bench.report import Report, Row, about, show
from bench.subjects import CHARACTERIZATION, RESULTS

LOGS = ROOT / "build" / "evidence"
FOLDER = RESULTS.folder
FLAGS: dict[bool, list[str]] = {False: [], True: ["--full"]}
COLLECTIONS = (RESULTS, CHARACTERIZATION)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench evidence", description="Measure every subject.")
    parser.add_argument("--full", action="store_true", help=FULL)
    flags = FLAGS[parser.parse_args(arguments).full]
    LOGS.mkdir(parents=True, exist_ok=True)
    report = Report("evidence", {}, {"parts": []}, about(" ".join(["python -m bench evidence", *flags])))
    for collection, name in [(one, name) for one in COLLECTIONS for name in one.default_subjects]:
        report.rows["parts"].append(_run(collection, name, flags))
        report.write(FOLDER)
    (FOLDER / "evidence.md").write_text(page(report), encoding="utf-8")
    show(page(report))
    return 1 if any(not row["done"] for row in report.rows["parts"]) else 0


def page(report: Report) -> str:
    """Render the page about the last run of everything."""
    flag = " --full" if "--full" in report.about["command"] else ""
    footer = rendering.environment_section(report, f"python -m bench evidence{flag}")
    return rendering.RENDERED.format(command="results") + rendering.page("results/evidence.md", report, {}, footer)[1]


def _run(collection: Collection, name: str, flags: list[str]) -> Row:
    begun, log = time.perf_counter(), LOGS / f"{collection.name}-{name}.log"
    show(f"{collection.name} {name}")
    with log.open("w", encoding="utf-8") as out:
        command = [sys.executable, *collection.program.split()[1:], name, *flags]
        done = subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT).returncode == 0
    seconds = round(time.perf_counter() - begun)
    taken = tables.minutes(seconds)
    show(f"    {taken}" if done else f"    FAILED after {taken}; see {log.relative_to(ROOT)}")
    return {"family": collection.name, "part": name, "seconds": seconds, "done": done}
