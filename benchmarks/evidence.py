"""`make evidence`: every part of the benchmarks and of characterization, each in a process of its own.

A part that fails is told and does not stop the others. What each of them said is in build/evidence.
"""

import argparse
import datetime
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks import machine, page_evidence
from benchmarks.family import DOCS, Family
from benchmarks.page_evidence import duration
from benchmarks.parts import BENCHMARKS
from benchmarks.report import Report, Row, say
from characterization.subjects import CHARACTERIZATION

ROOT = DOCS.parent
LOGS = ROOT / "build" / "evidence"
SIZES: dict[bool, list[str]] = {False: [], True: ["--full"]}
FAMILIES = (BENCHMARKS, CHARACTERIZATION)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence", description="Measure everything.")
    parser.add_argument("--full", action="store_true", help="the large sizes: hours, and some 100 GB of disk")
    size = SIZES[parser.parse_args(arguments).full]
    LOGS.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    report = _report(rows, " ".join(["python -m benchmarks.evidence", *size]))
    chosen = [(family, part) for family in FAMILIES for part in family.parts]
    for number, (family, part) in enumerate(chosen, 1):
        say(f"{number} of {len(chosen)}: {family.name} {part}")
        rows.append(_run(family, part, size))
        report.write(BENCHMARKS.folder)
    (BENCHMARKS.folder / "evidence.md").write_text(page_evidence.render(report), encoding="utf-8")
    say(page_evidence.told(rows))
    return 1 if any(not row["done"] for row in rows) else 0


def _run(family: Family, part: str, size: list[str]) -> Row:
    loop, begun = machine.loop(), time.perf_counter()
    log = LOGS / f"{family.name}-{part}.log"
    with log.open("w", encoding="utf-8") as words:
        command = [sys.executable, "-m", family.name, part, *size]
        done = subprocess.run(command, cwd=ROOT, stdout=words, stderr=subprocess.STDOUT).returncode == 0
    seconds = round(time.perf_counter() - begun)
    say(f"    {duration(seconds)}" if done else f"    FAILED after {duration(seconds)}; see {log.relative_to(ROOT)}")
    return {"family": family.name, "part": part, "seconds": seconds, "done": done, "loop": round(loop, 3)}


def _report(rows: list[Row], command: str) -> Report:
    now = {"date": datetime.date.today().isoformat(), "command": command}
    return Report("evidence", {}, {"parts": rows}, {**now, "machine": machine.describe(), "not_installed": []})


if __name__ == "__main__":
    sys.exit(main())
