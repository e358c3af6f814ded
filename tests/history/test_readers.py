"""Other readers of the data: delta-rs, Polars, DuckDB and plain Parquet see the same rows, also after compactions."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from quantide import History
from tests.history.history_model import BY_NAME, KINDS, SHAPES, Kind, Rng, small

KEYS = [("a", 1), ("a", 2), ("b", 1), (None, 7), ("ü", None)]


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small():
        yield


@pytest.fixture
def rows(tmp_path: Path, rng: Rng) -> list[tuple[Any, ...]]:
    """Make a store in `tmp_path / "s"` with runs of three levels and an open step; return its rows as appended."""
    out: list[tuple[Any, ...]] = []
    with History(tmp_path / "s", kappa=2, keys=["host", "port"]) as history:
        for step in range(8):
            own = [KEYS[i] for i in rng.integers(0, len(KEYS), 60)]
            values = BY_NAME["float64"].of(SHAPES["wide"](rng, 60))
            history.append(values, key=own)
            out += [(*key, value) for key, value in zip(own, values.tolist(), strict=True)]
            if step < 7:
                history.end_step()
        assert len(history.stats()["runs_by_level"]) == 3
    return sorted(out, key=repr)


def listed(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [table[name].to_pylist() for name in ("host", "port", "value")]
    return sorted(zip(*columns, strict=True), key=repr)


def active(folder: Path) -> list[str]:
    return [str(folder / path) for path in pa.table(DeltaTable(folder).get_add_actions())["path"].to_pylist()]


def test_delta_rs(tmp_path: Path, rows: list[tuple[Any, ...]]) -> None:
    table = DeltaTable(tmp_path / "s")
    assert listed(table.to_pyarrow_table()) == rows
    assert sum(pa.table(table.get_add_actions(flatten=True))["num_records"].to_pylist()) == len(rows)


def test_polars(tmp_path: Path, rows: list[tuple[Any, ...]]) -> None:
    assert listed(pl.read_delta(str(tmp_path / "s")).to_arrow()) == rows
    lazy = pl.scan_delta(str(tmp_path / "s")).filter(pl.col("host") == "a").select(pl.len(), pl.col("value").max())
    length, largest = lazy.collect().row(0)
    some = [row[2] for row in rows if row[0] == "a"]
    assert (length, largest) == (len(some), max(some))


DUCKDB = """
import json, sys, duckdb
read = duckdb.connect().execute("SELECT host, port, value FROM read_parquet(?)", [json.loads(sys.argv[1])])
print(json.dumps(read.fetchall()))
"""


def test_duckdb(tmp_path: Path, rows: list[tuple[Any, ...]]) -> None:
    """DuckDB runs in a process of its own: when it ends, it prints what its bindings leak."""
    command = [sys.executable, "-c", DUCKDB, json.dumps(active(tmp_path / "s"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert sorted((tuple(row) for row in json.loads(done.stdout)), key=repr) == rows


def test_plain_parquet_is_sorted(tmp_path: Path, rows: list[tuple[Any, ...]]) -> None:
    """Rows are sorted by key, nulls last, then by value, in row groups that are the blocks."""
    total = 0
    for path in active(tmp_path / "s"):
        file = pq.ParquetFile(path)
        assert file.schema_arrow.names == ["host", "port", "value"]
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        assert set(sizes[:-1]) <= {8}
        frame = pl.read_parquet(path)
        assert frame.equals(frame.sort("host", "port", "value", nulls_last=True))
        total += len(frame)
    assert total == len(rows)


def test_an_older_version_can_be_read_until_it_is_vacuumed(tmp_path: Path, rows: list[tuple[Any, ...]]) -> None:
    first = DeltaTable(tmp_path / "s")
    history = History(tmp_path / "s")
    history.append([1.0], key=("new", 1))
    history.end_step()
    assert listed(first.to_pyarrow_table()) == rows
    assert len(pl.read_delta(str(tmp_path / "s"))) == len(rows) + 1
    history.vacuum(0)
    assert len(pl.read_delta(str(tmp_path / "s"))) == len(rows) + 1


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.name))
def test_every_type_is_read_as_it_is(kind: Kind, tmp_path: Path, rng: Rng) -> None:
    """Readers get every type unchanged; types that Delta does not have are integers."""
    values = kind.of(SHAPES["wide"](rng, 100))
    with History(tmp_path / "s", kappa=1, value_type=kind.name) as history:
        for part in np.array_split(values, 3):
            history.append(kind.to_input(part))
            history.end_step()
    given = kind.to_input(np.sort(values))
    column = given if isinstance(given, pa.Array) else pa.array(given)
    if kind.name in ("timestamp[ns]", "duration[ms]"):
        column = column.cast(pa.int64())
    if kind.name == "uint32":
        column = column.cast(pa.int64())
    for table in (DeltaTable(tmp_path / "s").to_pyarrow_table(), pl.read_delta(str(tmp_path / "s")).to_arrow()):
        stored = table["value"].combine_chunks()
        assert sorted(stored.to_pylist()) == column.to_pylist()
