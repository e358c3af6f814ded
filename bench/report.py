"""Stored result of a subject: settings, environment and rows, with the three sizes at which a subject is measured."""

import datetime
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from bench import environment

Row = dict[str, Any]
Part = Callable[[Any], dict[str, list[Row]] | list[Row]]
Size = Literal["quick", "hour", "full"]
T = TypeVar("T")


def sized(full: T, hour: T | None = None, quick: T | None = None) -> T:
    """Dataclass field whose default is the full size; `hour` fits a run of everything in an hour, `quick` a test."""
    return field(default=full, metadata={"hour": hour, "quick": quick})


def settings_at(settings: Callable[..., T], size: Size) -> T:
    """Return the settings of a size; a size that a field does not give has the full value."""
    given = {one.name: one.metadata.get(size) for one in fields(settings)}  # type: ignore[arg-type]
    return settings(**{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True)
class Report:
    """Result of one subject; the same in memory and as JSON."""

    part: str
    settings: Row
    rows: dict[str, list[Row]]
    about: Row

    def measure(self, settings: Any, parts: Mapping[str, Part], folder: Path | None) -> "Report":
        """Measure part by part and write after each, so that an interrupted run keeps its finished parts.

        A part returns its rows, or several lists of rows by name.
        """
        begun = time.perf_counter()
        for name, measure in parts.items():
            found = measure(settings)
            self.rows.update(found if isinstance(found, dict) else {name: found})
            self.about["seconds"] = round(time.perf_counter() - begun)
            if folder is not None:
                show(f"wrote {self.write(folder).name}, with {name}")
        return self

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
        rows = {name: value for name, value in content.items() if isinstance(value, list) and name != "not_installed"}
        return cls(part, settings, rows, {name: value for name, value in content.items() if name not in rows})


def about(command: str, packages: Sequence[str] = ()) -> Row:
    """Return the facts about a run that begins; `packages`: optional peers. Outside a checkout there is no commit."""
    today, missing = datetime.date.today().isoformat(), [name for name in packages if environment.load(name) is None]
    code = {"commit": commit} if (commit := environment.commit()) else {}
    return {"date": today, "command": command, **code, "machine": environment.describe(), "not_installed": missing}


def show(text: str) -> None:
    """Print progress without buffering."""
    print(text, flush=True)
