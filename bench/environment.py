"""Machine and packages of a measurement, without paths or host names, and optional packages of peers."""

import importlib
import os
import platform
import time
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES: tuple[str, ...] = ("quantide", "numpy", "numba", "pyarrow", "datasketches", "fastdigest", "ddsketch", "river")
PACKAGES += ("duckdb", "polars", "chdb", "pandas", "pyspark")
VECTORS = ("avx2", "avx512f", "asimd", "sve")  # numpy's sort is several times faster with them


def describe() -> dict[str, Any]:
    """Return the facts that a reader needs to judge the numbers."""
    return {
        "cpu": _cpu_field("model name") or platform.machine(),
        "vector_units": sorted(set(VECTORS) & set((_cpu_field("flags") or _cpu_field("Features")).split())),
        "cores": os.cpu_count() or 1,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def version(package: str) -> str | None:
    """Return the installed version, None if there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_field(field: str) -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, content = line.partition(":")
        if name.strip() == field:
            return content.strip()
    return ""


def loop() -> float:
    """Return the seconds of a fixed workload: shared machines change their speed."""
    numbers, begun = np.random.default_rng(1).random(1_000_000), time.perf_counter()
    for _ in range(5_000_000):
        pass
    for _ in range(5):
        np.sort(numbers)
    return time.perf_counter() - begun


@cache
def load(package: str) -> Any | None:
    """Import a module of the `bench` extra, None if it is not installed. Polars reads its thread count at import."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    try:
        return importlib.import_module(package)
    except ImportError:
        return None


def load_required(package: str) -> Any:
    if (module := load(package)) is None:
        raise ModuleNotFoundError(f"{package} is not installed; pip install 'quantide[bench]'")
    return module


def missing(packages: Iterable[str]) -> list[str]:
    """Return the packages that are not installed."""
    return [package for package in packages if load(package) is None]
