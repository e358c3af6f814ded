"""Column selection: the value, time, weight, keys and filters of each row, from a table of source columns.

Arrow selects plain columns and evaluates simple filters. Spark computes any other SQL and adds the results to the
table, as columns whose names begin with "=".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from quantide.config import StreamConfig
from quantide.errors import InvalidArgumentError
from quantide.spark.row_source import quote_name
from quantide.spark.sql_expressions import columns_of, find_name, parse_condition, plain_name, replace_casts
from quantide.spark.stream.row_origin import COLUMN, CORRUPT, NO_ORIGIN, REASON, RowOrigin

VALUE, TIME, WEIGHT, FILTER = "=value", "=time", "=weight", "=filter:"
READ_ERROR, ERROR_COLUMN = "=problem", "=fault"  # the reason why Spark could not read a row, and the column
CAST_FAILED = "a CAST failed"


@dataclass(frozen=True)
class SelectedColumns:
    """Columns of the same rows; `read_error` is the reason why Spark could not read a row, in `error_column`."""

    value: Any
    time: Any | None
    keys: tuple[Any, ...]
    filters: tuple[Any, ...]
    read_error: Any | None
    error_column: Any | None
    weight: Any | None = None


@dataclass(frozen=True)
class ColumnSelection:
    """Expressions of a stream for the parts of a row. It is sent to the tasks."""

    value: str
    time: str | None
    keys: tuple[str, ...]
    filters: tuple[tuple[str, str], ...]
    timezone: str
    weight: str | None = None

    @classmethod
    def of(cls, stream: StreamConfig, timezone: str) -> "ColumnSelection":
        return cls(stream.value, stream.time, stream.keys, tuple(stream.filters.items()), timezone, stream.weight)

    @property
    def texts(self) -> list[str]:
        return [*self._computed.values(), *map(quote_name, self.keys), *(text for _, text in self.filters)]

    @property
    def _computed(self) -> dict[str, str]:
        """Expressions of value, time and weight, by the names of the columns that Spark adds for them."""
        texts = {VALUE: self.value, TIME: self.time, WEIGHT: self.weight}
        return {name: text for name, text in texts.items() if text is not None}

    def used_columns(self, names: Sequence[str]) -> list[str]:
        """Return the source's columns that the expressions use; all if that is not known."""
        used = [columns_of(text) for text in self.texts]
        if any(columns is None for columns in used):
            return list(names)
        resolved = [find_name(name, list(names)) for columns in used for name in columns or ()]
        corrupt = [CORRUPT] if CORRUPT in names else []
        return list(dict.fromkeys([name for name in resolved if name is not None] + corrupt))

    @property
    def required_columns(self) -> list[str]:
        """Columns of value, time, weight and keys, without which nothing is ingested."""
        texts = [*self._computed.values(), *map(quote_name, self.keys)]
        return [name for text in texts for name in columns_of(text) or ()]

    def missing_columns(self, names: Sequence[str]) -> list[str]:
        """Return required columns that a source does not have."""
        return [name for name in self.required_columns if find_name(name, list(names)) is None]

    def is_plain(self, schema: pa.Schema) -> bool:
        """Return True if Arrow can evaluate all expressions."""
        if any(plain_name(text) is None for text in self._computed.values()):
            return False
        try:
            for _, text in self.filters:
                self._parse_filter(text, schema)
        except InvalidArgumentError:
            return False
        return True

    def time_type(self, schema: pa.Schema) -> pa.DataType | None:
        """Return the type of the times; None without a time."""
        if self.time is None:
            return None
        name = TIME if TIME in schema.names else find_name(plain_name(self.time) or "", list(schema.names))
        return None if name is None else schema.field(name).type

    def select(self, table: pa.Table) -> SelectedColumns:
        """Select the parts of rows from a table of source columns and columns that Spark added."""
        names = table.column_names
        read_error = table[READ_ERROR] if READ_ERROR in names else None
        error_column = table[ERROR_COLUMN] if ERROR_COLUMN in names else None
        if CORRUPT in names:
            corrupt = table[CORRUPT].is_valid()
            reason = _fill(table[REASON] if REASON in names else None, "Spark cannot read this line")
            read_error = _fill(read_error, pa.compute.if_else(corrupt, reason, None))
            if COLUMN in names:  # a row of the quarantine
                error_column = _fill(error_column, pa.compute.if_else(corrupt, table[COLUMN], None))
        computed = {
            name: table[name] if name in names else self._column(text, table) for name, text in self._computed.items()
        }
        return SelectedColumns(
            computed[VALUE],
            computed.get(TIME),
            tuple(self._column(quote_name(key), table) for key in self.keys),
            tuple(self._filter_mask(name, text, table) for name, text in self.filters),
            read_error,
            error_column,
            computed.get(WEIGHT),
        )

    def compute(self, frame: DataFrame, origin: RowOrigin = NO_ORIGIN) -> DataFrame:
        """Select the source columns that are used, and add the columns that only Spark can compute."""
        added, errors, error_columns = list(origin.columns), [*origin.errors], [*origin.error_columns]
        for name, text in self._computed.items():
            if plain_name(text) is None:
                safe_text, failures = replace_casts(text)
                added.append(F.expr(safe_text).alias(name))
                if failures:
                    failed = F.expr(" OR ".join(failures))
                    errors.append(F.when(failed, F.lit(CAST_FAILED)))
                    error_columns.append(F.when(failed, F.lit(", ".join(columns_of(text) or [text]))))
        added += [F.expr(replace_casts(text)[0]).alias(FILTER + name) for name, text in self.filters]
        if errors:
            added += [F.coalesce(*errors).alias(READ_ERROR), F.coalesce(*error_columns).alias(ERROR_COLUMN)]
        used = [F.col(quote_name(name)) for name in self.used_columns(frame.columns)]
        return frame.select(*used, *added)

    def _column(self, text: str, table: pa.Table) -> Any:
        name = plain_name(text)
        resolved = None if name is None else find_name(name, table.column_names)
        if resolved is None:
            raise InvalidArgumentError(
                f"there is no column {name or text!r}; there are {', '.join(table.column_names)}"
            )
        column = table[resolved]
        return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column

    def _filter_mask(self, name: str, text: str, table: pa.Table) -> Any:
        """Return a mask of the rows that satisfy a filter; a missing or null column does not."""
        if FILTER + name in table.column_names:
            mask = table[FILTER + name]
        elif any(find_name(column, table.column_names) is None for column in columns_of(text) or ()):
            mask = pa.nulls(len(table), pa.bool_())
        else:
            from pyarrow import acero  # takes a quarter of a second to import, which only filters need

            source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
            projection = acero.ProjectNodeOptions([self._parse_filter(text, table.schema)], ["mask"])
            mask = acero.Declaration("project", projection, [source]).to_table(use_threads=False)["mask"]
        return mask.cast(pa.bool_()).fill_null(False)

    def _parse_filter(self, text: str, schema: pa.Schema) -> Any:
        return parse_condition(text, schema, self.timezone)


def _fill(column: Any | None, other: Any) -> Any:
    """Return the column with nulls replaced by `other`; return `other` if there is no column."""
    return other if column is None else pa.compute.coalesce(column, other)
