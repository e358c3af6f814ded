"""The documentation as a site, and as files: every page has its place, and every link leads somewhere in both."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
CODE = re.compile(r"^```.*?^```|^ {4}.*?$|`[^`\n]+`", re.S | re.M)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]+))?\)")


def headings(page: Path) -> set[str]:
    """Return the anchors of a page."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere_in_the_repository(page: Path) -> None:
    for path, part in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert target.is_relative_to(ROOT), path
        assert not part or part in headings(target), (path, part)


def test_every_page_has_a_place_on_the_site() -> None:
    placed = re.findall(r"^ +- ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    assert sorted(placed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_the_site_can_be_built_and_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    built = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert len(built) > len(list(DOCS.rglob("*.md")))  # and one for what is not there
    loads = r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(?:https?:)?//"
    assert [path.name for path, text in built.items() if re.search(loads, text)] == []
    assert 'href="source/examples/embedded.py.txt"' in built[tmp_path / "live.html"]
    example = (ROOT / "examples" / "embedded.py").read_bytes()
    assert (tmp_path / "source/examples/embedded.py.txt").read_bytes() == example
