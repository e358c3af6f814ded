"""Names in JSON files: a file whose objects lack a column everywhere must not pass for one of nulls."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from quantide.spark.stream.lines import BLANK, TextFormat, open_lines
from quantide.spark.stream.missing import column_missing
from quantide.store.storage import Storage

WHOLE = 64 << 20  # letters of a file of one document that are looked through


def json_problem(storage: Storage, path: str, form: TextFormat, needed: Sequence[str]) -> str | None:
    """Find a column that no object of a file has, and return that as a reason. Most files are read to line one only."""
    left, names, objects = list(dict.fromkeys(needed)), dict[str, None](), 0
    with open_lines(storage, path, form) as lines:
        for line in lines if form.is_lines else [lines.read(WHOLE)]:
            for found in _objects(line):
                if isinstance(found, str):  # Spark may read what Python cannot
                    left = [name for name in left if name not in found]
                else:
                    objects += 1
                    names |= dict.fromkeys(found)
                    left = [name for name in left if name not in found]
            if not left:
                return None
    return column_missing(left[0], list(names)) if objects else None


def _objects(line: str) -> Iterator[dict[str, Any] | str]:
    """The objects of a line; the text itself where Python cannot read it."""
    if not line.strip(BLANK):
        return
    try:
        found = json.loads(line)
    except ValueError:
        yield line
        return
    for one in found if isinstance(found, list) else [found]:
        if isinstance(one, dict):
            yield one
