"""Subjects that one command measures into one folder of docs/, `results` or `characterization`; stored reports."""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import rendering
from bench.processes import ROOT
from bench.report import Part, Report, Row, about, settings_at, show

Reports = Mapping[str, Report]  # by folder and subject, such as "results/fast"
DOCS = ROOT / "docs"
FOLDERS = ("results", "characterization")
FULL = "the large sizes: hours, and some 100 GB of disk"


@dataclass(frozen=True)
class Subject:
    """Something that is measured at three sizes, and its page.

    `parts`: functions that measure, or a context that yields them for some settings; `context`: more variables of the
    template; `plots`: SVG by file name; `packages`: optional peers; `by_name`: it is measured only if it is named.
    """

    about: str
    settings: type[Any]
    parts: Mapping[str, Part] | Callable[[Any], AbstractContextManager[Mapping[str, Part]]]
    context: Callable[[Report], Row] = lambda report: {}
    plots: Callable[[Report], Row] = lambda report: {}
    packages: Sequence[str] = ()
    by_name: bool = False

    def measure(self, name: str, settings: Any, command: str = "", folder: Path | None = None) -> Report:
        report = Report(name, asdict(settings), {}, about(command, self.packages))
        for package in report.about["not_installed"]:
            show(f"{name}: {package} is not installed, skipped")
        with self.parts(settings) if callable(self.parts) else nullcontext(self.parts) as parts:
            return report.measure(settings, parts, folder)


@dataclass(frozen=True)
class Collection:
    """`name` is stored by `make evidence`; `command` follows `python -m bench`; `folder` has JSON and pages."""

    name: str
    command: str
    folder: Path
    subjects: Mapping[str, Subject]

    @property
    def program(self) -> str:
        return f"python -m bench {self.command}".strip()

    @property
    def default_subjects(self) -> list[str]:
        """Names of the subjects that are measured if none is named."""
        return [name for name, subject in self.subjects.items() if not subject.by_name]

    def render(self, folder: Path) -> dict[str, str]:
        """Return the text of every page and plot whose JSON is in the folder, by file name."""
        paths = {name: folder / f"{name}.json" for name in self.subjects}
        rendered, headlines, links = dict[str, str](), list[str](), list[str]()
        for name, report in ((name, Report.read(path)) for name, path in paths.items() if path.exists()):
            lines, rendered[f"{name}.md"] = self.page(report)
            rendered |= self.subjects[name].plots(report)
            headlines += lines
            links.append(f"- [{name}]({name}.md): {self.subjects[name].about} ([JSON]({name}.json))")
        index = rendering.render(f"{self.folder.name}/index.md", headlines="\n".join(headlines), links="\n".join(links))
        return rendered | {"index.md": self._comment() + index} if links else {}

    def page(self, report: Report) -> tuple[list[str], str]:
        """Return the headlines and the page of a report."""
        flags = [word for word in report.about["command"].split() if word.startswith("--")]
        footer = rendering.environment_section(report, " ".join([self.program, report.part, *flags]))
        template, more = f"{self.folder.name}/{report.part}.md", self.subjects[report.part].context(report)
        headlines, text = rendering.page(template, report, more, footer)
        return headlines, self._comment() + text

    def main(self, arguments: Sequence[str] | None = None) -> Path | None:
        """Measure the chosen subjects, write and print their pages; return the folder written to."""
        options, begun = self._options(arguments), time.perf_counter()
        folder: Path | None = options.output or (None if options.size == "quick" else self.folder)
        command = " ".join([self.program, *options.subjects, *[f"--{options.size}"] * (options.size != "hour")])
        reports = []
        for name, subject in self.subjects.items():
            if name not in (options.subjects or self.default_subjects):
                continue
            settings = settings_at(subject.settings, options.size)
            reports.append(subject.measure(name, settings, command, folder))
        if folder:
            for name, text in self.render(folder).items():
                (folder / name).write_text(text, encoding="utf-8")
        show("\n".join(["", *(self.page(report)[1] for report in reports), f"{time.perf_counter() - begun:.0f} s"]))
        return folder

    def _comment(self) -> str:
        return rendering.RENDERED.format(command=f"{self.command} results".strip())

    def _options(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        known, docs = [*self.subjects, "results"], f"docs/{self.folder.name}"
        others = ", ".join(name for name in self.subjects if name not in self.default_subjects)
        chosen = f"default: all{f' but {others}' if others else ''}; results: only pages"
        parser = argparse.ArgumentParser(prog=self.program, description=f"Measure, and write {docs}.")
        parser.add_argument("subjects", nargs="*", metavar="|".join(known), help=chosen)
        sizes = parser.add_mutually_exclusive_group()
        sizes.set_defaults(size="hour")
        for size, text in (("quick", "a test of seconds; its numbers mean nothing"), ("full", FULL)):
            sizes.add_argument(f"--{size}", dest="size", action="store_const", const=size, help=text)
        parser.add_argument("--output", type=Path, help=f"folder of JSON and pages (default: {docs}; quick: none)")
        options = parser.parse_args(arguments)
        if unknown := set(options.subjects) - set(known):
            parser.error(f"unknown subject {sorted(unknown)[0]!r}; choose from {', '.join(known)}")
        return options


class NotMeasuredError(LookupError):
    """The stored results do not have it: the run was interrupted, or had smaller settings."""


def stored() -> dict[str, Report]:
    paths = sorted(path for folder in FOLDERS for path in (DOCS / folder).glob("*.json"))
    return {f"{path.parent.name}/{path.stem}": Report.read(path) for path in paths}


def settings(reports: Reports, name: str) -> Row:
    if name not in reports:
        raise NotMeasuredError(name)
    return reports[name].settings


def select(reports: Reports, name: str, part: str, **fields: Any) -> list[Row]:
    """Return the rows with these values, at least one."""
    rows = reports[name].rows.get(part, []) if name in reports else []
    if not (found := [row for row in rows if fields.items() <= row.items()]):
        raise NotMeasuredError(f"{name}: {part} with {fields}")
    return found
