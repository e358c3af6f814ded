"""Write docs/glossary.md from glossary.toml."""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE, PAGE = ROOT / "glossary.toml", ROOT / "docs" / "glossary.md"
HEAD = """# Glossary

The terms of Quantide, each with one meaning. The last column has the term of the papers, where they have one.
"""


def page_of(source: Path = SOURCE) -> str:
    """Render the glossary as Markdown."""
    lines = [HEAD]
    for section in tomllib.loads(source.read_text(encoding="utf-8")).values():
        if isinstance(section, dict) and "terms" in section:
            lines += [f"## {section['title']}\n", "| term | meaning | in the papers |", "|---|---|---|"]
            for term, entry in sorted(section["terms"].items(), key=lambda item: item[0].lower()):
                lines.append(f"| {term} | {entry['text']} | {entry.get('paper', '')} |".replace("&", "&amp;"))
            lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page_of(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
