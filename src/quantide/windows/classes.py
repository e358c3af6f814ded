"""Classes: the rows of a table, divided by what filters say of them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.windows.constraint import UNKNOWN
from quantide.windows.filters import shown

Said = tuple[int, ...]  # what each filter says of an element


def as_table(table: Any) -> pa.Table:
    try:
        table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else pa.table(table)
        return _without_views(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TypeMismatchError(
            f"an Arrow table or record batch is asked for, not {type(table).__name__}: {error}"
        ) from error


def _without_views(table: pa.Table) -> pa.Table:
    """Polars hands over text as views, which Arrow's filters do not compare."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    for i, field in enumerate(table.schema):
        if field.type in plain:
            table = table.set_column(i, field.name, table.column(i).cast(plain[field.type]))
        elif pa.types.is_dictionary(field.type) and field.type.value_type in plain:
            kind = pa.dictionary(field.type.index_type, plain[field.type.value_type])
            chunks = [
                pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(kind.value_type))
                for chunk in table.column(i).chunks
            ]
            table = table.set_column(i, field.name, pa.chunked_array(chunks, kind))
    return table


def codes_of(table: pa.Table, filters: dict[str, Any]) -> NDArray[np.int64]:
    """What all filters together say of each row, as one number with a digit for each filter."""
    from pyarrow import acero  # a quarter of a second, for those alone who use filters

    codes = np.zeros(table.num_rows, dtype=np.int64)
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    for place, (name, filter) in enumerate(filters.items()):
        asked = acero.Declaration("project", acero.ProjectNodeOptions([filter], ["said"]), [source])
        try:
            said = asked.to_table(use_threads=False)["said"]
            if pa.types.is_null(said.type):
                said = said.cast(pa.bool_())
        except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(f"the filter {shown(name)} does not fit these columns: {error}") from error
        if not pa.types.is_boolean(said.type):
            raise InvalidArgumentError(f"the filter {shown(name)} gives {said.type}, not true or false")
        digits = said.cast(pa.int8()).fill_null(UNKNOWN).to_numpy()
        codes += digits.astype(np.int64) * 3**place
    return codes


def classes(codes: NDArray[np.int64], filters: int) -> Iterator[tuple[Said, Any]]:
    """Each class that occurs, and its rows in the order of arrival."""
    first = int(codes[0])
    if (codes == first).all():
        yield _digits(first, filters), slice(None)
        return
    order = np.argsort(codes, kind="stable")
    found, starts = np.unique(codes[order], return_index=True)
    for code, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        yield _digits(code, filters), rows


def _digits(code: int, filters: int) -> Said:
    return tuple(code // 3**place % 3 for place in range(filters))
