"""Subjects that one command measures into one folder of docs/: `results`, and `characterization`."""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import rendering
from bench.processes import ROOT
from bench.report import Part, Report, Row, Size, say, settings_at

DOCS = ROOT / "docs"
FULL = "the large sizes: hours, and some 100 GB of disk"


def _nothing(report: Report) -> Row:
    return {}


def _unchanged(settings: Any) -> Any:
    return settings


@dataclass(frozen=True)
class Subject:
    """Something that is measured at three sizes, and its page.

    `parts`: functions that measure, or a context that yields them for some settings; `context`: more variables of the
    template; `plots`: SVG by file name; `packages`: optional peers; `adjust`: fits settings to the machine.
    """

    about: str
    settings: type[Any]
    parts: Mapping[str, Part] | Callable[[Any], AbstractContextManager[Mapping[str, Part]]]
    context: Callable[[Report], Row] = _nothing
    plots: Callable[[Report], Row] = _nothing
    packages: Sequence[str] = ()
    adjust: Callable[[Any], Any] = _unchanged

    def measure(self, name: str, settings: Any, command: str = "", folder: Path | None = None) -> Report:
        if not callable(self.parts):
            return Report.measure(name, settings, self.parts, command, folder, self.packages)
        with self.parts(settings) as parts:
            return Report.measure(name, settings, parts, command, folder, self.packages)


@dataclass(frozen=True)
class Collection:
    """`name` is stored by `make evidence`; `command` follows `python -m bench`; `folder` has JSON and pages."""

    name: str
    command: str
    folder: Path
    subjects: Mapping[str, Subject]

    def reports(self, folder: Path) -> dict[str, Report]:
        """Return the stored reports of a folder."""
        paths = {name: folder / f"{name}.json" for name in self.subjects}
        return {name: Report.read(path) for name, path in paths.items() if path.exists()}

    def render(self, folder: Path) -> dict[str, str]:
        """Return the text of every page and plot whose JSON is in the folder, by file name."""
        reports, rendered, headlines = self.reports(folder), {}, []
        if not reports:
            return {}
        for name, report in reports.items():
            lines, rendered[f"{name}.md"] = self.page(report)
            headlines += lines
            rendered |= self.subjects[name].plots(report)
        links = [f"- [{name}]({name}.md): {self.subjects[name].about} ([JSON]({name}.json))" for name in reports]
        index = rendering.render(f"{self.folder.name}/index.md", headlines="\n".join(headlines), links="\n".join(links))
        return rendered | {"index.md": self._comment() + index}

    def page(self, report: Report) -> tuple[list[str], str]:
        """Return the headlines and the page of a report."""
        flags = [word for word in report.about["command"].split() if word.startswith("--")]
        footer = rendering.environment_section(report, " ".join([self._program(), report.part, *flags]))
        template, more = f"{self.folder.name}/{report.part}.md", self.subjects[report.part].context(report)
        headlines, text = rendering.page(template, report, more, footer)
        return headlines, self._comment() + text

    def write(self, folder: Path) -> None:
        for name, text in self.render(folder).items():
            (folder / name).write_text(text, encoding="utf-8")
            say(f"wrote {name}")

    def main(self, arguments: Sequence[str] | None = None) -> Path | None:
        """Measure the chosen subjects, write and print their pages; return the folder written to."""
        options = self._options(arguments)
        folder: Path | None = options.output or (None if options.size == "quick" else self.folder)
        begun, flags = time.perf_counter(), [f"--{options.size}"] if options.size != "hour" else []
        command = " ".join([self._program(), *options.subjects, *flags])
        chosen = [name for name in self.subjects if not options.subjects or name in options.subjects]
        reports = [self._measure(name, options.size, command, folder) for name in chosen]
        if folder is not None:
            self.write(folder)
        pages = [self.page(report) for report in reports]
        say("\n".join(["", *(text for _, text in pages), *(line for lines, _ in pages for line in lines)]))
        say(f"{time.perf_counter() - begun:.0f} s")
        return folder

    def _measure(self, name: str, size: Size, command: str, folder: Path | None) -> Report:
        subject = self.subjects[name]
        return subject.measure(name, subject.adjust(settings_at(subject.settings, size)), command, folder)

    def _program(self) -> str:
        return " ".join(filter(None, ["python -m bench", self.command]))

    def _comment(self) -> str:
        return rendering.RENDERED.format(command=f"{self.command} results".strip())

    def _options(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        known = [*self.subjects, "results"]
        parser = argparse.ArgumentParser(
            prog=self._program(), description=f"Measure, and write docs/{self.folder.name}."
        )
        parser.add_argument(
            "subjects", nargs="*", metavar="|".join(known), help="default: all; results: only the pages"
        )
        sizes = parser.add_mutually_exclusive_group()
        quick = "a test of seconds; its numbers mean nothing"
        sizes.add_argument("--quick", dest="size", action="store_const", const="quick", default="hour", help=quick)
        sizes.add_argument("--full", dest="size", action="store_const", const="full", help=FULL)
        target = f"folder of JSON and pages (default: docs/{self.folder.name}; quick: none)"
        parser.add_argument("--output", type=Path, help=target)
        options = parser.parse_args(arguments)
        if unknown := set(options.subjects) - set(known):
            parser.error(f"unknown subject {sorted(unknown)[0]!r}; choose from {', '.join(known)}")
        return options
