"""`python -m characterization [spark] [queries] [history] [results] [--quick] [--output FOLDER]`."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import say
from characterization import pages
from characterization.subjects import SUBJECTS


def main(arguments: Sequence[str] | None = None) -> None:
    known = [*SUBJECTS, "results"]
    parser = argparse.ArgumentParser(prog="python -m characterization", description="How time and memory grow.")
    parser.add_argument("subjects", nargs="*", metavar="|".join(known), help="default: all; results: only the pages")
    parser.add_argument("--quick", action="store_true", help="a smoke run of seconds; its numbers mean nothing")
    where = "where JSON and pages go (default: docs/characterization; quick: nowhere)"
    parser.add_argument("--output", type=Path, help=where)
    options = parser.parse_args(arguments)
    if unknown := set(options.subjects) - set(known):
        parser.error(f"unknown subject {sorted(unknown)[0]!r}; choose from {', '.join(known)}")
    folder = options.output or (None if options.quick else pages.FOLDER)
    begun = time.perf_counter()
    command = " ".join(["python -m characterization", *options.subjects, *(["--quick"] if options.quick else [])])
    chosen = [name for name in SUBJECTS if not options.subjects or name in options.subjects]
    reports = {name: SUBJECTS[name].run(options.quick, command) for name in chosen}
    if folder is not None:
        for report in reports.values():
            say(f"wrote {report.write(folder).name}")
        pages.write(folder)
    for name, report in reports.items():
        say("\n" + pages.subject_page(name, report))
    say(f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
