"""Rows of a torn commit: append_files() adds them again from the files that a repair set aside, whatever their type."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide import History
from quantide.errors import RepairWarning, StorageError
from quantide.store.file_names import LOG
from quantide.store.location import open_storage
from quantide.store.log_repair import ASIDE
from tests.object_servers.object_location import ObjectLocation

NUMBERS = np.arange(1, 101)
VALUES = {
    "float64": NUMBERS.astype(float),
    "uint8": NUMBERS.astype(np.uint8),
    "timestamp[s]": NUMBERS.astype("M8[s]"),
    "timestamp[ns]": NUMBERS.astype("M8[ns]"),
    "duration[ms]": NUMBERS.astype("m8[ms]"),
}


def add_again(uri: str, options: Mapping[str, str] | None, value_type: str) -> None:
    values = VALUES[value_type]
    with History(uri, eps=0.1, value_type=value_type, storage_options=options) as history:
        history.append(values[:40])
        history.append(values[40:])
    storage = open_storage(uri, options)
    newest = max(file.name for file in storage.list_files(LOG) if file.name.endswith(".json"))
    storage.replace(newest, storage.read(newest)[:-10])
    with History(uri, storage_options=options) as history:
        with pytest.warns(RepairWarning, match="60 rows may be lost"):
            history.open()
        names = [file.name for file in storage.list_files(ASIDE) if file.name.endswith(".parquet")]
        with pytest.raises(StorageError, match="is not there"):
            history.append_files(storage.full_path(f"{ASIDE}/missing.parquet"))
        assert history.append_files([storage.full_path(name) for name in names]) == 60
        exact: Any = history.quantiles([0.01, 0.5, 1], mode="exact")
        assert np.array_equal(exact, values[[0, 49, 99]])


@pytest.mark.parametrize("value_type", VALUES)
def test_rows_of_every_stored_type(tmp_path: Path, value_type: str) -> None:
    add_again(str(tmp_path / "store"), None, value_type)


def test_in_an_object_store(s3_store: ObjectLocation) -> None:
    add_again(s3_store.uri, s3_store.options, "duration[ms]")
