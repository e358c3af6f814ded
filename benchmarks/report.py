"""A result as it is stored: settings, machine, rows."""

import datetime
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import machine, peers

Row = dict[str, Any]


@dataclass(frozen=True)
class Report:
    """What one part of the benchmarks, or one subject of characterization, found; the same in memory and as JSON."""

    part: str
    settings: Row
    rows: dict[str, list[Row]]
    about: Row

    @classmethod
    def in_parts(
        cls,
        part: str,
        settings: Any,
        parts: Mapping[str, Callable[[Any], dict[str, list[Row]] | list[Row]]],
        command: str,
        folder: Path | None,
        missing: Sequence[str] | None = None,
    ) -> "Report":
        """Measured part by part; what was found so far is written after each, so that little is lost when a run ends
        early. A part gives its own rows, or several lists of rows by their names. `missing`: packages that would have
        been measured; those of the peers when it is not given."""
        about: Row = {
            "date": datetime.date.today().isoformat(),
            "command": command,
            "machine": machine.describe(),
            "not_installed": peers.missing() if missing is None else list(missing),
        }
        begun = time.perf_counter()
        rows: dict[str, list[Row]] = {}
        report = cls(part, asdict(settings), rows, about)
        for name, measure in parts.items():
            found = measure(settings)
            rows |= found if isinstance(found, dict) else {name: found}
            about["seconds"] = round(time.perf_counter() - begun)
            if folder is not None:
                say(f"wrote {report.write(folder).name}, with {name}")
        return report

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.part}.json"
        content = {"part": self.part, **self.about, "settings": self.settings, **self.rows}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return path

    @classmethod
    def read(cls, path: Path) -> "Report":
        content = json.loads(path.read_text(encoding="utf-8"))
        part, settings = content.pop("part"), content.pop("settings")
        rows = {name: value for name, value in content.items() if _is_rows(value)}
        about = {name: value for name, value in content.items() if name not in rows}
        return cls(part, settings, rows, about)


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value) and bool(value)


def say(text: str) -> None:
    """Progress, at once."""
    print(text, flush=True)
