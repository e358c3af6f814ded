"""Restore: runs that retention dropped are added to the table again, while their files are still there."""

import os
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from quantide.errors import CorruptBytesError
from quantide.store import faults
from quantide.store.commits import WritableTable
from quantide.store.disk import sync_filesystem
from quantide.store.names import File, FileName
from quantide.store.retired import RetiredFiles


@dataclass(frozen=True)
class Restored:
    """Files that are in the table again, and their values."""

    files: int
    values: int


def restore(table: WritableTable, retired: RetiredFiles) -> Restored:
    """Add every retired file to the table in one commit; runs that are there now stay for one more retention."""
    with retired.lock:
        active, known = set(table.files()), retired.names()
        names = [name for name in known if name not in active]
        retired.bring_back(names)
        files = [_file(table, name) for name in names]
        faults.point("restore.linked")
        if files:
            table.commit(add=files, held=range(table.step))
        faults.point("restore.committed")
        sync_filesystem(table.path)  # a commit that is lost with power must find the second names again
        retired.forget(known)  # those of runs that are active already, too
    return Restored(len(files), sum(rows for _, _, rows in files))


def _file(table: WritableTable, name: FileName) -> File:
    path = os.path.join(table.path, name.data)
    try:
        return name, os.path.getsize(path), pq.read_metadata(path).num_rows
    except (pa.ArrowException, OSError) as error:
        raise CorruptBytesError(f"{path} cannot be restored: {error}; nothing was changed") from error
