"""Source log: the files that Spark plans for a batch, as its checkpoint records them.

Spark passes by a file that is empty, or removed before it is read, and never looks at that name again. The log has it.
"""

import json
import os
import re
from collections.abc import Iterator
from urllib.parse import unquote

from quantide.errors import StorageError
from quantide.spark.stream.source import BEING_WRITTEN

COMPACT = re.compile(r"[0-9]{1,18}\.compact")


def planned_files(checkpoint: str, batch: int) -> list[str]:
    """The paths of a batch's files, in the order of their names."""
    try:
        last = _offset(checkpoint, batch)
        first = _offset(checkpoint, batch - 1) + 1 if batch else 0
        paths = [path for number in range(first, last + 1) for path in _logged(checkpoint, number)]
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise StorageError(
            f"the checkpoint {checkpoint} does not tell the files of batch {batch}: {error!r}; the batch is tried again"
        ) from error
    return sorted(path for path in paths if not path.endswith(BEING_WRITTEN))


def _offset(checkpoint: str, batch: int) -> int:
    """The last entry of the log that belongs to a batch."""
    with open(os.path.join(checkpoint, "offsets", str(batch)), encoding="utf-8") as file:
        return int(json.loads(file.read().strip().splitlines()[-1])["logOffset"])


def _logged(checkpoint: str, number: int) -> Iterator[str]:
    """The paths of one entry, which may be found in a later one that has all before it, too."""
    folder = os.path.join(checkpoint, "sources", "0")
    compact = [int(name.split(".")[0]) for name in os.listdir(folder) if COMPACT.fullmatch(name)]
    path = os.path.join(folder, str(number))
    if not os.path.exists(path):
        path = os.path.join(folder, f"{min(later for later in compact if later >= number)}.compact")
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines()[1:]:
            entry = json.loads(line)
            if entry["batchId"] == number:
                yield unquote(entry["path"]).removeprefix("file://")
