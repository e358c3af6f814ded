"""Parquet files to be asked about: random float64 in `v`, and in `k` which of so many keys a row has."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write(folder: Path, rows: int, files: int, keys: int, values: int, group: int) -> list[str]:
    """The paths of the files, all of about the same size. With `values`, v has only so many different ones."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng([rows, files, keys, values])
    cuts = np.arange(files + 1) * rows // files
    paths = []
    for part, n in enumerate(np.diff(cuts).tolist()):
        columns = {"k": rng.integers(0, keys, n)} if keys else {}
        columns["v"] = rng.integers(0, values, n).astype(np.float64) if values else rng.normal(size=n)
        # A dictionary of random values would be given up half way; of few values it leaves some bits of each.
        packed = [name for name in columns if name == "k" or values]
        path = folder / f"{part:06}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=group, use_dictionary=packed)
        paths.append(str(path))
    return paths
