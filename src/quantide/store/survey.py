"""A survey of the log's files: the newest version that can be read, and every file that is torn.

A loss of power, or a damaged disk, leaves files empty, cut short, or full of zeros. Delta's own reader takes an empty
entry for a commit that changed nothing, and fails on most of the rest.
"""

import json
import os
import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from quantide.store.entry import is_whole

_ENTRY = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")


@dataclass(frozen=True)
class LogSurvey:
    """`version` is the newest one that can be read, from the checkpoint `base` (None: from the first entry) on.

    `torn` entries come after it, and `stranded` ones, which are whole, after a torn or missing one. `checkpoints` are
    damaged and newer than `base`. `hint` is the version that _last_checkpoint names where it has no checkpoint that can
    be read, -1 when the file is damaged, and None when it is in order or missing.
    """

    base: int | None
    version: int | None
    torn: tuple[int, ...] = ()
    stranded: tuple[int, ...] = ()
    checkpoints: tuple[int, ...] = ()
    hint: int | None = None

    @property
    def is_clean(self) -> bool:
        return not (self.torn or self.stranded or self.checkpoints) and self.hint is None

    @property
    def is_empty(self) -> bool:
        """Return True if no commit was ever acknowledged: there is nothing, or only a first entry that is torn."""
        return self.version is None and not self.stranded and not self.checkpoints and self.torn in ((), (0,))

    @property
    def needs_links(self) -> bool:
        """Return True if Delta's reader would choose a checkpoint that is damaged or missing."""
        return bool(self.checkpoints) or self.hint not in (None, -1)


def survey_log(folder: str, deep: bool = False) -> LogSurvey:
    """Survey the log in a folder; `deep` reads checkpoints as a whole. FileNotFoundError when it changes meanwhile."""
    hint = _hint(folder)  # first: it is written after its checkpoint
    names = [entry.name for entry in os.scandir(folder) if entry.is_file()]
    entries = {int(found[1]) for name in names if (found := _ENTRY.fullmatch(name))}
    known = sorted((int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name))), reverse=True)
    damaged: list[int] = []
    base: int | None = None
    for at in known:
        if is_checkpoint(os.path.join(folder, f"{at:020}.checkpoint.parquet"), deep):
            base = at
            break
        damaged.append(at)
    last = -1 if base is None else base
    while last + 1 in entries and _entry_is_whole(folder, last + 1):
        last += 1
    torn: list[int] = []
    stranded: list[int] = []
    for at in sorted(entry for entry in entries if entry > last):
        (stranded if _entry_is_whole(folder, at) else torn).append(at)
    misleads = hint is not None and (hint < 0 or hint > (-1 if base is None else base) or hint in damaged)
    version = None if last < 0 else last
    return LogSurvey(base, version, tuple(torn), tuple(stranded), tuple(damaged), hint if misleads else None)


def is_checkpoint(path: str, deep: bool = False) -> bool:
    """Return True if a checkpoint can be read."""
    try:
        with pq.ParquetFile(path) as file:
            if deep:
                file.read()
        return True
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        return False


def _entry_is_whole(folder: str, version: int) -> bool:
    with open(os.path.join(folder, f"{version:020}.json"), "rb") as file:
        return is_whole(file.read(), version)


def _hint(folder: str) -> int | None:
    """The version that _last_checkpoint names, -1 when it cannot be read; None when there is no such file."""
    try:
        with open(os.path.join(folder, "_last_checkpoint"), "rb") as file:
            version = json.loads(file.read())["version"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return -1
    return version if isinstance(version, int) and version >= 0 else -1
