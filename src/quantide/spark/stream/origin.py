"""Origin of rows that Spark reads: the file and the line, and for lines that it cannot read, the column at fault."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from quantide.spark.rows import quoted
from quantide.spark.stream.lines import BLOCK, ROW, TextFormat

CAME_FROM = "_quantide_file"  # the file a row is from, where Spark reads files
LINE = "_quantide_line"  # the line of a text file, or the row of any other, that a row is from
CORRUPT = "_corrupt_record"  # where Spark puts records of CSV, JSON and XML that it cannot read
WITH_CORRUPT = ("csv", "json", "xml")
NOT_WHOLE = {"csv": "the line has fewer or more columns than there should be", "json": "the line is not JSON"}
OF_LINES = ("sep", "delimiter", "quote", "escape", "comment", "ignoreleadingwhitespace", "ignoretrailingwhitespace",
            "nullvalue", "emptyvalue", "allowcomments", "allowunquotedfieldnames", "allowsinglequotes",
            "allownumericleadingzeros", "allowbackslashescapinganycharacter")  # fmt: skip


@dataclass(frozen=True)
class Origin:
    """Columns that say where rows are from, and what is wrong with those that Spark cannot read."""

    columns: tuple[Column, ...] = ()
    problems: tuple[Column, ...] = ()
    faults: tuple[Column, ...] = ()


NOWHERE = Origin()


def origin_of_files(
    frame: DataFrame, form: TextFormat, schema: StructType | None, options: Mapping[str, str]
) -> Origin:
    """The origin of rows of files; `schema` has the columns of a text file in its own order."""
    if CAME_FROM in frame.columns:  # rows of the quarantine know it already
        return Origin((F.col(CAME_FROM), *([F.col(LINE)] if LINE in frame.columns else [])))
    columns = [F.regexp_replace("_metadata.file_path", "^file:(//)?(?=/)", "").alias(CAME_FROM)]
    if form.kind == "parquet":
        columns.append((F.col("_metadata.row_index") + 1).alias(LINE))
    if form.is_lines:
        columns += [
            F.monotonically_increasing_id().alias(ROW),
            F.col("_metadata.file_block_start").alias(BLOCK),
        ]
    if form.kind not in NOT_WHOLE or schema is None:
        return Origin(tuple(columns))
    return Origin(tuple(columns), *_faults(form.kind, schema, options))


def _faults(kind: str, schema: StructType, options: Mapping[str, str]) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """A line that Spark cannot read, read as text once more: a column that is null only in its own type is at fault."""
    names = [*schema.names, CORRUPT]
    chosen = {name: value for name, value in options.items() if name.lower() in OF_LINES}
    text = ", ".join(f"{quoted(name)} STRING" for name in names)
    again = (F.from_csv if kind == "csv" else F.from_json)(F.col(CORRUPT), text, chosen)
    problems = [F.when(again[CORRUPT].isNotNull(), F.lit(NOT_WHOLE[kind]))]
    faults = [F.when(again[CORRUPT].isNotNull(), F.lit(""))]
    for column in schema.fields:
        wrong = F.col(quoted(column.name)).isNull() & again[column.name].isNotNull()
        kind_of = column.dataType.simpleString().upper()
        problems.append(F.when(wrong, F.lit(f"the column {column.name} is not {kind_of}")))
        faults.append(F.when(wrong, F.lit(column.name)))
    corrupt = F.col(CORRUPT).isNotNull()
    return (F.when(corrupt, F.coalesce(*problems)),), (F.when(corrupt, F.coalesce(*faults)),)
