"""Confinement: a writer changes and removes files of its store, and of nothing else.

Names that are read from files are checked where they are parsed (quantide.store.names). What is left are links: where a
folder of the store is a link, a name that is in order leads elsewhere. A file that is a link does no harm: removing or
replacing it leaves alone what it points to.
"""

import os
import stat

from quantide.errors import StorageError
from quantide.store.names import DATA

INNER = "_quantide"


def check_confined(folder: str) -> None:
    """Refuse to write to a store whose own folders, or what Quantide keeps beside them, are links."""
    for name in ("_delta_log", DATA, INNER):
        _check_folder(os.path.join(folder, name))
    inner = os.path.join(folder, INNER)
    for name in os.listdir(inner) if os.path.isdir(inner) else ():
        if os.path.islink(os.path.join(inner, name)):
            raise _leads_out(os.path.join(inner, name))


def check_tree(folder: str) -> None:
    """Refuse a folder that others write into, Spark's checkpoint, where a folder in it is a link."""
    if not os.path.lexists(folder):
        return
    _check_folder(folder)
    for path, folders, _ in os.walk(folder):
        for name in folders:
            if os.path.islink(os.path.join(path, name)):
                raise _leads_out(os.path.join(path, name))


def _check_folder(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise _leads_out(path)
    if not stat.S_ISDIR(mode):
        raise StorageError(f"{path} is a file where a store has a folder; restore the store from a copy")


def _leads_out(path: str) -> StorageError:
    return StorageError(
        f"{path} is a link to {os.readlink(path)!r}: a writer would change and remove files outside of the store. Put "
        "the folder itself in its place; the folder of the whole store may be a link"
    )
