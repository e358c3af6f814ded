"""Selection: the value, time, keys and filters of each row, out of a table of source columns.

Plain columns and simple filters are taken by Arrow. Any other SQL is computed by Spark, which adds columns to the
table: their names begin with "=".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from quantide.config import StreamConfig
from quantide.errors import InvalidArgumentError
from quantide.spark.condition import read_condition
from quantide.spark.rows import quoted
from quantide.spark.stream.origin import CORRUPT, NOWHERE, Origin
from quantide.spark.stream.text import careful, columns_of, find_name, plain_name

VALUE, TIME, FILTER, PROBLEM, FAULT = "=value", "=time", "=filter:", "=problem", "=fault"
CAST_FAILED = "a CAST failed"


@dataclass(frozen=True)
class Selected:
    """Columns of the same rows; `problem` says what Spark could not read, and `fault` in which column."""

    value: Any
    time: Any | None
    keys: tuple[Any, ...]
    filters: tuple[Any, ...]
    problem: Any | None
    fault: Any | None


@dataclass(frozen=True)
class Selection:
    """What a stream wants of a row. It travels to the tasks."""

    value: str
    time: str | None
    keys: tuple[str, ...]
    filters: tuple[tuple[str, str], ...]
    timezone: str

    @classmethod
    def of(cls, stream: StreamConfig, timezone: str) -> "Selection":
        return cls(stream.value, stream.time, stream.keys, tuple(stream.filters.items()), timezone)

    @property
    def texts(self) -> list[str]:
        times = [] if self.time is None else [self.time]
        return [self.value, *times, *map(quoted, self.keys), *(text for _, text in self.filters)]

    def needed(self, names: Sequence[str]) -> list[str]:
        """Those of a source's columns that are used; all when that cannot be told."""
        used = [columns_of(text) for text in self.texts]
        if any(columns is None for columns in used):
            return list(names)
        found = [find_name(name, list(names)) for columns in used for name in columns or ()]
        corrupt = [CORRUPT] if CORRUPT in names else []
        return list(dict.fromkeys([name for name in found if name is not None] + corrupt))

    @property
    def required(self) -> list[str]:
        """The columns without which nothing can be taken: those of value, time and keys."""
        texts = [self.value, *([] if self.time is None else [self.time]), *map(quoted, self.keys)]
        return [name for text in texts for name in columns_of(text) or ()]

    def missing(self, names: Sequence[str]) -> list[str]:
        """Required columns that a source does not have."""
        return [name for name in self.required if find_name(name, list(names)) is None]

    def is_plain(self, schema: pa.Schema) -> bool:
        """Whether Arrow can do all of it."""
        if plain_name(self.value) is None or (self.time is not None and plain_name(self.time) is None):
            return False
        try:
            for _, text in self.filters:
                self._condition(text, schema)
        except InvalidArgumentError:
            return False
        return True

    def time_type(self, schema: pa.Schema) -> pa.DataType | None:
        """The type of the times, if there are any."""
        if self.time is None:
            return None
        name = TIME if TIME in schema.names else find_name(plain_name(self.time) or "", list(schema.names))
        return None if name is None else schema.field(name).type

    def select(self, table: pa.Table) -> Selected:
        """The columns that matter, of a table of source columns and what Spark added."""
        names = table.column_names
        problem = table[PROBLEM] if PROBLEM in names else None
        if CORRUPT in names:
            told = pa.compute.if_else(table[CORRUPT].is_valid(), "Spark cannot read this line", None)
            problem = told if problem is None else pa.compute.coalesce(problem, told)
        return Selected(
            table[VALUE] if VALUE in names else self._column(self.value, table),
            None if self.time is None else table[TIME] if TIME in names else self._column(self.time, table),
            tuple(self._column(quoted(key), table) for key in self.keys),
            tuple(self._said(name, text, table) for name, text in self.filters),
            problem,
            table[FAULT] if FAULT in names else None,
        )

    def computed(self, frame: DataFrame, origin: Origin = NOWHERE) -> DataFrame:
        """The source columns that are used, and beside them what only Spark can compute."""
        added, problems, faults = list(origin.columns), [*origin.problems], [*origin.faults]
        for name, text in ((VALUE, self.value), (TIME, self.time)):
            if text is not None and plain_name(text) is None:
                tried, failures = careful(text)
                added.append(F.expr(tried).alias(name))
                if failures:
                    failed = F.expr(" OR ".join(failures))
                    problems.append(F.when(failed, F.lit(CAST_FAILED)))
                    faults.append(F.when(failed, F.lit(", ".join(columns_of(text) or [text]))))
        added += [F.expr(careful(text)[0]).alias(FILTER + name) for name, text in self.filters]
        if problems:
            added += [F.coalesce(*problems).alias(PROBLEM), F.coalesce(*faults).alias(FAULT)]
        kept = [F.col(quoted(name)) for name in self.needed(frame.columns)]
        return frame.select(*kept, *added)

    def _column(self, text: str, table: pa.Table) -> Any:
        name = plain_name(text)
        found = None if name is None else find_name(name, table.column_names)
        if found is None:
            raise InvalidArgumentError(
                f"there is no column {name or text!r}; there are {', '.join(table.column_names)}"
            )
        column = table[found]
        return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column

    def _said(self, name: str, text: str, table: pa.Table) -> Any:
        """Whether a filter holds, row by row; it does not where a column is missing, or null."""
        if FILTER + name in table.column_names:
            said = table[FILTER + name]
        elif any(find_name(column, table.column_names) is None for column in columns_of(text) or ()):
            said = pa.nulls(len(table), pa.bool_())
        else:
            from pyarrow import acero  # a quarter of a second, for those alone who use filters

            source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
            asked = acero.ProjectNodeOptions([self._condition(text, table.schema)], ["said"])
            said = acero.Declaration("project", asked, [source]).to_table(use_threads=False)["said"]
        return said.cast(pa.bool_()).fill_null(False)

    def _condition(self, text: str, schema: pa.Schema) -> Any:
        return read_condition(text, schema, self.timezone)
