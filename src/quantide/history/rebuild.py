"""Rebuild: a lost side file out of its data file."""

import numpy as np
import pyarrow as pa

from quantide.errors import CorruptBytesError
from quantide.store import faults
from quantide.store.datafile import BLOCK, read_rows
from quantide.store.disk import write_bytes
from quantide.store.names import FileName
from quantide.store.place import Place, checksum
from quantide.store.rows import ALL, SortedRows
from quantide.store.settings import Settings
from quantide.store.sidefile import About, build_side
from quantide.summary.keys import encode_keys
from quantide.summary.types import type_named


def rebuild_side(place: Place, name: FileName, settings: Settings) -> bytes:
    """The bytes of a side file, from the data alone."""
    path = place.whole(name.data)
    rows = load(place, path, settings)
    size, crc = checksum(place, path)
    about = About(len(rows), settings.value_type, BLOCK, size, crc)
    return build_side(rows, bool(settings.keys), about, settings.chunk_eps, None)


def replace_side(place: Place, name: FileName, settings: Settings, durable: bool) -> None:
    """Write a side file again. Readers that have the old one mapped keep it: it is not written over."""
    write_bytes(place.whole(name.side), rebuild_side(place, name, settings), durable)
    faults.point("side.rebuilt")


def load(place: Place, path: str, settings: Settings) -> SortedRows:
    """All rows of a data file; CorruptBytesError when they are not sorted by (key, value)."""
    kind, names = type_named(settings.value_type), settings.keys
    keys: list[list[pa.Array]] = [[] for _ in names]
    pieces = [np.empty(0, kind.carrier)]
    for columns, values in read_rows(path, place, kind, names):
        pieces.append(values)
        for held, column in zip(keys, columns, strict=True):
            held.append(column)
    values = np.concatenate(pieces)
    if not names:
        bounds, distinct = np.array([0, len(values)]), ALL
    else:
        columns = [_joined(path, held) for held in keys]
        whole = columns[0] if len(names) == 1 else pa.StructArray.from_arrays(columns, names=list(names))
        codes, distinct = encode_keys(whole)
        if (codes[1:] < codes[:-1]).any():
            raise CorruptBytesError(f"{path} is damaged: its keys are not in order")
        bounds = np.searchsorted(codes, np.arange(len(distinct) + 1))
    falls = values[1:] < values[:-1]
    falls[bounds[1:-1] - 1] = False  # from one key to the next values may fall
    if falls.any():
        raise CorruptBytesError(f"{path} is damaged: its values are not in order")
    return SortedRows(kind, distinct, bounds, values)


def _joined(path: str, columns: list[pa.Array]) -> pa.Array:
    """A key column out of its pieces. Texts stay numbers into the distinct ones: written out they could be huge."""
    try:
        if not pa.types.is_dictionary(columns[0].type):
            return pa.concat_arrays(columns)
        return pa.chunked_array(columns).unify_dictionaries().combine_chunks()
    except (pa.ArrowException, LookupError) as error:
        raise CorruptBytesError(f"{path} is damaged: its keys cannot be read: {error}") from error
