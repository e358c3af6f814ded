"""A history on Spark: merges as tasks, tables loaded into it, and the command that does so."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from quantide import History, errors
from quantide.cli import main
from quantide.history import compaction_plan
from quantide.history.compaction_tasks import LocalExecutor
from quantide.spark import source_files
from quantide.spark.history_build import build_history
from quantide.spark.spark_executor import SparkExecutor
from tests.history.history_model import MODES
from tests.history.test_level_compaction import bytes_of, fill
from tests.oracle import bound_faults, exact_quantile
from tests.sampling import one_in

Rng = np.random.Generator
PHIS = (1e-9, 0.1, 0.5, 0.77, 1.0)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small splits and ranges, which the driver cuts: little data makes many tasks."""
    monkeypatch.setattr(source_files, "MIN_SPLIT", 1)
    monkeypatch.setattr(source_files, "MAX_SPLIT", 8000)
    monkeypatch.setattr(compaction_plan, "TASK_ROWS", 300)


@pytest.fixture
def lake(rng: Rng) -> pa.Table:
    """Values, two key columns, a column too many; nulls in all but the last."""
    n = 5000
    hosts = [["a", "b", "c", None][i] for i in rng.integers(0, 4, n)]
    ports = pa.array([None if x == 9 else int(x) for x in rng.integers(7, 10, n)], pa.int32())
    values = [None if x < -2 else float(x) for x in rng.normal(size=n)]
    return pa.table({"host": hosts, "port": ports, "ms": values, "extra": np.arange(n)})


def written(table: pa.Table, folder: Path, form: str) -> str:
    """As one Parquet file, as a folder of several, or as a Delta table with a removed version behind it."""
    if form == "file":
        pq.write_table(table, folder / "lake.parquet", row_group_size=700)
        return str(folder / "lake.parquet")
    place = folder / "lake"
    if form == "delta":
        write_deltalake(str(place), table.slice(0, 10))
        write_deltalake(str(place), table.slice(0, 2000), mode="overwrite")
        write_deltalake(str(place), table.slice(2000), mode="append")
        return str(place)
    place.mkdir()
    for i in range(3):
        pq.write_table(table.slice(i * 1700, 1700), place / f"part-{i}.parquet", row_group_size=400)
    return str(place)


def values_of(table: pa.Table, key: tuple[Any, ...] | None = None, names: tuple[str, ...] = ()) -> Any:
    """The values of a key that are not null."""
    values = [
        row["ms"]
        for row in table.to_pylist()
        if row["ms"] is not None and (key is None or tuple(row[name] for name in names) == key)
    ]
    return np.array(values)


def check(history: History, data: Any, key: Any = None) -> None:
    for phi in PHIS:
        for mode in MODES:
            answer = history.answer(phi, mode, key=key)
            assert bound_faults(data, answer) == []
            assert mode == "quick" or answer.value == exact_quantile(data, phi)


@pytest.mark.parametrize("keyed", [False, True])
def test_spark_merges_to_the_same_bytes(keyed: bool, spark: SparkSession, tmp_path: Path) -> None:
    """The same task function runs in both executors: same files, same answers."""
    executors: list[Callable[[], Any]] = [LocalExecutor, lambda: SparkExecutor(spark)]
    results = []
    for number, make in enumerate(executors):
        folder = tmp_path / str(number)
        with History(folder, kappa=4, keys="k" if keyed else None, executor=make()) as history:
            fill(history, keyed)
            history.end_step()
            answers = [history.answer(phi, mode) for phi in PHIS for mode in MODES]
            history.verify()
        results.append((bytes_of(folder), answers))
    assert len(results[0][0]) > 30
    assert results[1] == results[0]


@pytest.mark.parametrize("form", one_in(2, ["folder", "file", "delta"]))
def test_a_lake_becomes_a_history(form: str, spark: SparkSession, tmp_path: Path, lake: pa.Table) -> None:
    with build_history(spark, written(lake, tmp_path, form), str(tmp_path / "s"), column="ms", eps=0.01) as history:
        stats = history.stats()
        assert (stats["steps"], stats["runs"], stats["stream_values"]) == (1, 1, 0)
        assert stats["nulls"] == lake["ms"].null_count > 0
        check(history, values_of(lake))
        history.verify()
        history.append([100.0])
    assert History(tmp_path / "s").quantile(1.0) == 100


@pytest.mark.parametrize(
    ("form", "by"),
    [
        ("folder", ["host", "port"]),
        ("delta", "host"),
        pytest.param("folder", "host", marks=pytest.mark.slow),
        pytest.param("delta", ["host", "port"], marks=pytest.mark.slow),
    ],
)
def test_a_lake_with_keys(form: str, by: Any, spark: SparkSession, tmp_path: Path, lake: pa.Table) -> None:
    names = (by,) if isinstance(by, str) else tuple(by)
    with build_history(spark, written(lake, tmp_path, form), str(tmp_path / "s"), column="ms", by=by) as history:
        keys = {tuple(row[name] for name in names) for row in lake.select(names).to_pylist()}
        assert len(keys) > 3
        for key in sorted(keys, key=repr)[:6]:
            check(history, values_of(lake, key, names), key)
        check(history, values_of(lake))
        history.verify()


def test_a_lake_with_weights(spark: SparkSession, tmp_path: Path, lake: pa.Table) -> None:
    """A lake with weights gives the history of the repeated rows."""
    weights = pa.array(np.random.default_rng(5).integers(0, 4, len(lake)))
    source = written(lake.append_column("w", weights), tmp_path, "folder")
    repeated = lake.take(pa.array(np.repeat(np.arange(len(lake)), weights)))
    with build_history(spark, source, str(tmp_path / "s"), column="ms", by="host", weights="w") as history:
        check(history, values_of(repeated))
        check(history, values_of(repeated, ("a",), ("host",)), ("a",))
    with pytest.raises(errors.InvalidArgumentError, match="no column 'x'"):
        build_history(spark, source, str(tmp_path / "t"), column="ms", weights="x")
    with pytest.raises(Exception, match="a weight is null"):
        build_history(spark, source, str(tmp_path / "u"), column="ms", weights="ms")


def test_a_key_across_many_files(spark: SparkSession, tmp_path: Path, lake: pa.Table) -> None:
    """The driver cuts the merge, within keys too; one task a range."""
    source = written(lake, tmp_path, "folder")
    with build_history(spark, source, str(tmp_path / "s"), column="ms", by="host") as history:
        assert len(history.runs()[0].parts) > 8
        assert len(history.runs()[0].locate(("a",))) > 2


def test_other_types_of_values(spark: SparkSession, tmp_path: Path) -> None:
    """The history takes the type that the lake has."""
    whole = np.arange(1000)[::-1]
    columns = {
        "timestamp[us]": pa.array(whole.astype("M8[us]")),
        "int32": pa.array(whole.astype(np.int32)),
        "float32": pa.array(whole.astype(np.float32)),
        "date": pa.array(whole.astype(np.int32)).cast(pa.date32()),
        "decimal[2]": pa.array([Decimal(int(x)) for x in whole], pa.decimal128(18, 2)),
    }
    for number, (name, column) in enumerate(columns.items()):
        pq.write_table(pa.table({"v": column}), tmp_path / f"{number}.parquet")
        with build_history(spark, str(tmp_path / f"{number}.parquet"), str(tmp_path / str(number))) as history:
            assert history.settings.value_type == name
            assert history.n == 1000
            assert history.rank(history.quantile(0.5, "exact")) == (500, 500)


def test_what_cannot_be_built(spark: SparkSession, tmp_path: Path, lake: pa.Table) -> None:
    source, place = written(lake, tmp_path, "file"), str(tmp_path / "s")
    wrong: list[dict[str, Any]] = [
        {"column": "none"},
        {"column": None},
        {"column": "ms", "by": "none"},
        {"column": "host"},
        {"column": "ms", "kappa": 0},
    ]
    for arguments in wrong:
        with pytest.raises(errors.QuantideError):
            build_history(spark, source, place, **arguments)
    with pytest.raises(errors.QuantideError):
        build_history(spark, str(tmp_path / "missing"), place)
    assert not (tmp_path / "s").exists(), "nothing is created before the source is checked"
    build_history(spark, source, place, column="ms").close()
    with pytest.raises(errors.InvalidArgumentError, match="new folder"):
        build_history(spark, source, place, column="ms")


def test_nan_in_a_lake(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [1.0, float("nan"), 3.0]}), tmp_path / "lake.parquet")
    with pytest.raises(Exception, match='nan="skip"'):
        build_history(spark, str(tmp_path / "lake.parquet"), str(tmp_path / "refused"))
    assert History(tmp_path / "refused").n == 0
    with build_history(spark, str(tmp_path / "lake.parquet"), str(tmp_path / "skipped"), nan="skip") as history:
        assert (history.n, history.stats()["nans"]) == (2, 1)


def test_the_command(spark: SparkSession, tmp_path: Path, lake: pa.Table, capsys: pytest.CaptureFixture[str]) -> None:
    """The command shows progress, ends with what there is now, and leaves the caller's session running."""
    source, place = written(lake, tmp_path, "delta"), str(tmp_path / "s")
    arguments = ["--column", "ms", "--by", "host", "--by", "port", "--eps", "0.01", "--kappa", "3"]
    assert main(["history", "build", source, place, *arguments]) == 0
    shown = capsys.readouterr().out
    assert "loading" in shown
    assert "merging" in shown
    assert "#" * 40 in shown
    count = len(values_of(lake))
    assert f"{count:,} values" in shown
    history = History(place)
    assert (history.settings.kappa, history.settings.eps, history.settings.keys) == (3, 0.01, ("host", "port"))
    check(history, values_of(lake))
    assert main(["quantile", place, "0.5", "--key", "a", "--key", "7"]) == 0
    assert main(["history", "build", source, place, *arguments]) == 2
    assert "new folder" in capsys.readouterr().err
    assert spark.range(3).count() == 3
