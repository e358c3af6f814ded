"""The machine and the packages a result was measured on; no paths, no host names."""

import os
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = (
    "quantide",
    "numpy",
    "numba",
    "pyarrow",
    "datasketches",
    "fastdigest",
    "ddsketch",
    "river",
    "duckdb",
    "polars",
    "chdb",
    "pandas",
    "pyspark",
)
VECTORS = ("avx2", "avx512f", "asimd", "sve")  # numpy's sort is several times faster with them


def describe() -> dict[str, Any]:
    """What a reader needs to judge the numbers."""
    return {
        "cpu": _cpu_field("model name") or platform.machine(),
        "vector_units": sorted(set(VECTORS) & set(_cpu_flags())),
        "cores": os.cpu_count() or 1,
        "memory_gib": round(_memory_bytes() / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def version(package: str) -> str | None:
    """The installed version, None when it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_field(field: str) -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    for line in text.splitlines():
        name, _, content = line.partition(":")
        if name.strip() == field:
            return content.strip()
    return ""


def _cpu_flags() -> list[str]:
    return (_cpu_field("flags") or _cpu_field("Features")).split()


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


def loop() -> float:
    """Seconds that a fixed piece of work takes now: machines that are shared are not always as fast."""
    numbers = np.random.default_rng(1).random(1_000_000)
    begun = time.perf_counter()
    for _ in range(5_000_000):
        pass
    for _ in range(5):
        np.sort(numbers)
    return time.perf_counter() - begun
