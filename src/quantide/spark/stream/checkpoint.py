"""Checkpoints: where Spark remembers what it has read, and what to do when that is lost.

A stream's checkpoint is a numbered folder of its store; its batches count upwards under that number. A checkpoint that
is gone, or older than the store, must not go unnoticed: its batches would be taken for ones that are in the store.
"""

import os
import re
import shutil

from quantide.config import StreamConfig
from quantide.errors import CheckpointError
from quantide.store.confine import check_tree
from quantide.store.ledger import Ledger
from quantide.store.names import CHECKPOINTS

_SOURCE = re.compile(r"c(0|[1-9][0-9]{0,8})")


def choose_checkpoint(stream: StreamConfig, ledger: Ledger, reset: bool, allow_duplicates: bool) -> str:
    """The name of the checkpoint to go on with, which is also that of the source its batches are of."""
    place = os.path.join(stream.folder, CHECKPOINTS)
    there = [name for name in (os.listdir(place) if os.path.isdir(place) else []) if _SOURCE.fullmatch(name)]
    known = [name for name in (*ledger.last, ledger.checkpoint) if _SOURCE.fullmatch(name)]
    newest = max([*there, *known], key=_number, default=None)
    if newest is None:
        return "c0"
    if not reset:
        _check(stream, place, newest, ledger)
        check_tree(os.path.join(place, newest))
        for name in there:
            if _number(name) < _number(newest):
                shutil.rmtree(os.path.join(place, name), ignore_errors=True)
        return newest
    if known and not stream.source.has_identity and not allow_duplicates:
        raise CheckpointError(
            f"{stream.key}: a source of format {stream.source.format} has no names for what it sends: with a new "
            "checkpoint, what is in the store may come again. Pass --allow-duplicates with --reset to accept that"
        )
    return next_checkpoint(newest)


def next_checkpoint(name: str) -> str:
    """The name of the checkpoint after this one."""
    return f"c{_number(name) + 1}"


def count_files(folder: str) -> int:
    """How many source files Spark's log in a checkpoint has: those of its newest compaction, and of what came after."""
    place = os.path.join(folder, "sources", "0")
    names = [name for name in (os.listdir(place) if os.path.isdir(place) else []) if _is_log(name)]
    logs = {name: int(name.split(".")[0]) for name in names}
    newest = max((number for name, number in logs.items() if name.endswith(".compact")), default=-1)
    read = [name for name, n in logs.items() if n > newest or (n == newest and name.endswith(".compact"))]
    return sum(_lines(os.path.join(place, name)) for name in read)


def checkpoint_folder(stream: StreamConfig, name: str) -> str:
    return os.path.join(stream.folder, CHECKPOINTS, name)


def offsets_of(stream: StreamConfig, name: str, batch: int) -> str:
    """Where a batch ends, as the source has it."""
    try:
        with open(os.path.join(checkpoint_folder(stream, name), "offsets", str(batch)), encoding="utf-8") as file:
            return file.read().strip().splitlines()[-1]
    except (OSError, IndexError):
        return ""


def _check(stream: StreamConfig, place: str, name: str, ledger: Ledger) -> None:
    """Refuse a checkpoint that does not know a batch that is in the store."""
    folder = os.path.join(place, name, "offsets")
    begun = [int(e) for e in (os.listdir(folder) if os.path.isdir(folder) else []) if re.fullmatch("[0-9]{1,18}", e)]
    last = ledger.last.get(name, -1)
    if max(begun, default=-1) >= last:
        return
    skips = (
        "source files that the store knows are skipped"
        if stream.source.is_files
        else "reading goes on where the store ends"
        if stream.source.has_identity
        else "what is in the store may come again, since this source has no names for what it sends"
    )
    raise CheckpointError(
        f"{stream.key}: the checkpoint {os.path.join(place, name)} is lost, or older than the store, which has "
        f"{last + 1:,} of its batches. Put it back, or pass --reset to begin a new one: {skips}"
    )


def _is_log(name: str) -> bool:
    return re.fullmatch(r"[0-9]{1,18}(\.compact)?", name) is not None


def _lines(path: str) -> int:
    """Lines after the first, which is the version; none where the file is gone."""
    try:
        with open(path, "rb") as file:
            return max(0, sum(1 for line in file if line.strip()) - 1)
    except OSError:
        return 0


def _number(name: str) -> int:
    found = _SOURCE.fullmatch(name)
    return int(found[1]) if found else -1
