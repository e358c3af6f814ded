"""Lag of a new file in a folder with many files that are ingested already.

    python -m bench.folder_lag FOLDER parquet|json spark|lister FILES...

For each number of files: write that many small files, ingest them, then run ingestion and measure how long each of
some new files takes from its rename to the commit with its rows. FOLDER is empty at first; it is not removed.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from quantide import History

PROBES = 15
SETTINGS = {"parquet": 'format = "parquet"', "json": 'format = "json", schema = "v DOUBLE", settle = "100 ms"'}
LISTING = {"spark": "", "lister": ', listing = "direct"'}


def write_file(folder: Path, name: str, form: str) -> float:
    """Write a file with one row; return the time at which it appeared."""
    path = folder / f".{name}"
    if form == "parquet":
        pq.write_table(pa.table({"v": [1.0]}), path)
    else:
        path.write_text('{"v": 1.0}\n')
    os.rename(path, folder / name)
    return time.time()


def wait_for(history: Path, rows: int, process: "subprocess.Popen[bytes]", limit: float) -> float:
    """Wait until a store has that many rows; return the time."""
    end = time.time() + limit
    log = history / "_delta_log"
    last_count = -1
    while time.time() < end:
        assert process.poll() is None, "ingestion ended"
        count = len(os.listdir(log)) if log.exists() else 0
        if count != last_count:
            last_count = count
            if count and History(history).n >= rows:
                return time.time()
        time.sleep(0.005)
    raise AssertionError(f"no {rows} rows within {limit} s")


def measure(folder: Path, form: str, how: str, files: int) -> dict[str, object]:
    incoming = folder / "in"
    incoming.mkdir(parents=True, exist_ok=True)
    present = len(os.listdir(incoming))
    for number in range(present, files):
        write_file(incoming, f"{number:09}.{form}", form)
    config = folder / "quantide.toml"
    source = f'{SETTINGS[form]}{LISTING[how]}, path = "in"'
    config.write_text(f'store = "data"\n[streams.s]\nsource = {{ {source} }}\nvalue = "v"\n')
    command = [sys.executable, "-m", "quantide", "ingest", str(config), "--master", "local[2]"]
    store, lags = folder / "data" / "s", []
    began = time.time()
    with (folder / "ingest.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(store, files, process, 3600)
            ingested = time.time() - began
            time.sleep(3)
            for probe in range(PROBES):
                appeared = write_file(incoming, f"{files + probe:09}.{form}", form)
                lags.append(wait_for(store, files + probe + 1, process, 600) - appeared)
                time.sleep(0.35)
        finally:
            process.terminate()
            process.wait(60)
    lags.sort()
    return {
        "format": form,
        "listing": how,
        "files": files,
        "first_seconds": round(ingested, 1),
        "median": round(statistics.median(lags), 3),
        "max": round(lags[-1], 3),
    }


if __name__ == "__main__":
    root, form, how, *counts = sys.argv[1:]
    for count in counts:
        print(json.dumps(measure(Path(root), form, how, int(count))), flush=True)
