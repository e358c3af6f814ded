"""Documents written by hand, with the figures in them made anew from what is stored; and the pages about the papers and
about the last run of everything.

A figure stands between two marks, `<!-- figure: NAME -->` and `<!-- /figure -->`; figures.py gives its text.
"""

import re
from pathlib import Path

from benchmarks import page_evidence
from benchmarks.family import DOCS
from benchmarks.figures import FIGURES
from benchmarks.papers import page
from benchmarks.report import say
from benchmarks.stored import FOLDERS, Reports, stored

ROOT = DOCS.parent
FIGURE = re.compile(r"(<!-- figure: ([\w-]+) -->)(.*?)(<!-- /figure -->)", re.S)


def written() -> list[Path]:
    """Every document that is written by hand."""
    made = [DOCS / folder for folder in FOLDERS]
    pages = [path for path in DOCS.rglob("*.md") if path.parent not in made and path != DOCS / "scale.md"]
    return sorted([*ROOT.glob("*.md"), *pages])


def made() -> dict[Path, str]:
    """What each of them should say by the results that are stored, with the pages about all of them."""
    reports = stored()
    told = {path: insert(path.read_text(encoding="utf-8"), reports) for path in written()}
    pages = page.render(reports)
    if "results/evidence" in reports:
        pages["evidence.md"] = page_evidence.render(reports["results/evidence"])
    return told | {DOCS / "results" / name: text for name, text in pages.items()}


def insert(text: str, reports: Reports) -> str:
    """The text with its figures made anew."""
    return FIGURE.sub(lambda found: f"{found[1]}{FIGURES[found[2]](reports)}{found[4]}", text)


def write() -> None:
    for path, text in made().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            say(f"wrote {path.relative_to(ROOT)}")
