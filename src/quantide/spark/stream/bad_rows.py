"""Bad rows in quarantine, for people: how many of which file have which reason, and the first of them as they came."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quantide.errors import CorruptBytesError
from quantide.spark.stream.intake import COLUMN, REASON
from quantide.spark.stream.origin import CAME_FROM, CORRUPT, LINE
from quantide.store.place import open_regular

LONGEST = 500  # letters of a row that are shown
OWN = (REASON, COLUMN, CAME_FROM, LINE, CORRUPT)


@dataclass
class BadRows:
    """Rows of one file that are bad for one reason."""

    count: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)


def read_bad_rows(paths: Iterable[str], examples: int) -> list[dict[str, Any]]:
    """Bad rows in files of the quarantine by path and reason, with so many examples of each."""
    found: dict[tuple[str, str], BadRows] = {}
    for path in paths:
        try:
            with open_regular(path) as file, pq.ParquetFile(file) as parquet:
                for batch in parquet.iter_batches():
                    _add(found, pa.Table.from_batches([batch]), examples)
        except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as error:
            raise CorruptBytesError(
                f"{path} is damaged: {error}; it holds rows of the quarantine: restore it from a copy"
            ) from error
    return [
        {"path": path or None, "reason": reason, "count": rows.count, "examples": rows.examples}
        for (path, reason), rows in sorted(found.items())
    ]


def _add(found: dict[tuple[str, str], BadRows], table: pa.Table, examples: int) -> None:
    for group in table.group_by([CAME_FROM, REASON]).aggregate([([], "count_all")]).to_pylist():
        rows = found.setdefault((group[CAME_FROM] or "", group[REASON]), BadRows())
        rows.count += group["count_all"]
        left = examples - len(rows.examples)
        if left > 0:
            same = pc.and_kleene(pc.equal(table[CAME_FROM], group[CAME_FROM]), pc.equal(table[REASON], group[REASON]))
            rows.examples += [_example(row) for row in table.filter(same).slice(0, left).to_pylist()]


def _example(row: dict[str, Any]) -> dict[str, Any]:
    """A row: the line it came from, the column at fault, and its content: the line itself, or its columns as JSON."""
    columns = {name: value for name, value in row.items() if name not in OWN}
    content = row.get(CORRUPT) or json.dumps(columns, default=str, ensure_ascii=False)
    shown = content if len(content) <= LONGEST else content[: LONGEST - 3] + "..."
    return {"line": row.get(LINE), "column": row.get(COLUMN), "content": shown}
