"""Parts that one command measures and one folder tells of: the benchmarks, and characterization."""

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.page import about, page, prose
from benchmarks.part import Part, Size
from benchmarks.report import Report, say

DOCS = Path(__file__).resolve().parent.parent / "docs"


@dataclass(frozen=True)
class Family:
    """`name` is that of the package, `folder` where JSON and pages go; `about` is the first paragraph of its index,
    `beside` lines that its list of pages begins with."""

    name: str
    title: str
    about: str
    folder: Path
    parts: Mapping[str, Part]
    beside: tuple[str, ...] = ()

    def reports(self, folder: Path) -> dict[str, Report]:
        """Of every part whose JSON is in the folder."""
        paths = {part: folder / f"{part}.json" for part in self.parts}
        return {part: Report.read(path) for part, path in paths.items() if path.exists()}

    def render(self, folder: Path) -> dict[str, str]:
        """File name to text, for every part whose JSON is in the folder."""
        reports = self.reports(folder)
        if not reports:
            return {}
        made = {"index.md": self._index(reports)}
        for part, report in reports.items():
            made[f"{part}.md"] = self.page(report)
            made |= self.parts[part].figures(report)
        return made

    def write(self, folder: Path) -> None:
        for name, text in self.render(folder).items():
            (folder / name).write_text(text, encoding="utf-8")
            say(f"wrote {name}")

    def page(self, report: Report) -> str:
        return page([self.parts[report.part].telling.render(report), *about(report)], self.name)

    def headlines(self, reports: Mapping[str, Report]) -> str:
        """The few numbers to remember, one a line."""
        return "\n".join(
            f"- {line}" for part, report in reports.items() for line in self.parts[part].telling.headlines(report)
        )

    def _index(self, reports: Mapping[str, Report]) -> str:
        links = [f"- [{part}]({part}.md): {self.parts[part].about} ([JSON]({part}.json))" for part in reports]
        listed = "\n".join([*self.beside, *links])
        return page([f"# {self.title}", prose(self.about), self.headlines(reports), listed], self.name)

    def main(self, arguments: Sequence[str] | None = None) -> Path | None:
        """Measure what was named, write pages, show them; the folder that was written to."""
        options = self._options(arguments)
        folder: Path | None = options.output or (None if options.size == "quick" else self.folder)
        begun = time.perf_counter()
        words = [*options.parts, *(["--" + options.size] if options.size != "hour" else [])]
        command = " ".join([f"python -m {self.name}", *words])
        chosen = [part for part in self.parts if not options.parts or part in options.parts]
        reports = {part: self._measured(part, options.size, command, folder) for part in chosen}
        if folder is not None:
            self.write(folder)
        for report in reports.values():
            say("\n" + self.page(report))
        say(f"{self.headlines(reports)}\n{time.perf_counter() - begun:.0f} s")
        return folder

    def _measured(self, part: str, size: Size, command: str, folder: Path | None) -> Report:
        """Written as soon as it is there: a later part may fail."""
        report = self.parts[part].measure(size, command, folder)
        if folder is not None:
            say(f"wrote {report.write(folder).name}")
        return report

    def _options(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        known = [*self.parts, "results"]
        parser = argparse.ArgumentParser(prog=f"python -m {self.name}", description=prose(self.about))
        parser.add_argument("parts", nargs="*", metavar="|".join(known), help="default: all; results: only the pages")
        sizes = parser.add_mutually_exclusive_group()
        quick = "a smoke run of seconds; its numbers mean nothing"
        sizes.add_argument("--quick", dest="size", action="store_const", const="quick", default="hour", help=quick)
        full = "the large sizes: hours, and some 100 GB of disk"
        sizes.add_argument("--full", dest="size", action="store_const", const="full", help=full)
        where = f"where JSON and pages go (default: docs/{self.folder.name}; quick: nowhere)"
        parser.add_argument("--output", type=Path, help=where)
        options = parser.parse_args(arguments)
        if unknown := set(options.parts) - set(known):
            parser.error(f"unknown part {sorted(unknown)[0]!r}; choose from {', '.join(known)}")
        return options
