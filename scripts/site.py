"""Hook of mkdocs: links from the documentation to files beside it, such as ../examples/embedded.py, work on the site.

Such a file is brought along as text, below source/.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<=\]\()((?:\.\./)+[^)#]+)")


def outside(page: str, link: str) -> str | None:
    """The path in the project of what a page links to, unless that is in docs/ itself."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if path.startswith("docs/") else path


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = {file.src_uri: file.content_string for file in files.documentation_pages()}
    found = {outside(page, link) for page, text in pages.items() for link in LINK.findall(text)}
    for path in sorted(path for path in found if path and (ROOT / path).is_file()):
        files.append(File.generated(config, f"source/{path}.txt", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = posixpath.dirname(page.file.src_uri)

    def moved(link: re.Match[str]) -> str:
        path = outside(page.file.src_uri, link[0])
        return posixpath.relpath(f"source/{path}.txt", here) if path else link[0]

    return LINK.sub(moved, markdown)
