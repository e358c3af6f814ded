"""mkdocs hook that makes links to files outside docs/, such as ../examples/embedded.py, work on the site.

Linked files are copied as text to source/.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<=\]\()((?:\.\./)+[^)#]+)")


def path_outside_docs(page: str, link: str) -> str | None:
    """Return the path of a linked file in the project; None if it is in docs/."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if path.startswith("docs/") else path


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = {file.src_uri: file.content_string for file in files.documentation_pages()}
    linked = {path_outside_docs(page, link) for page, text in pages.items() for link in LINK.findall(text)}
    for path in sorted(path for path in linked if path and (ROOT / path).is_file()):
        files.append(File.generated(config, f"source/{path}.txt", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    folder = posixpath.dirname(page.file.src_uri)

    def rewrite(link: re.Match[str]) -> str:
        path = path_outside_docs(page.file.src_uri, link[0])
        return posixpath.relpath(f"source/{path}.txt", folder) if path else link[0]

    return LINK.sub(rewrite, markdown)
