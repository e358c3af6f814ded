"""Machine and packages of a measurement, without paths or host names, and optional packages of peers."""

import importlib
import os
import platform
import re
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = "quantide numpy numba pyarrow datasketches fastdigest ddsketch river duckdb polars chdb pandas pyspark"
ZEN = {23: "Zen 1 or 2", 25: "Zen 3", 26: "Zen 5"}  # by family of AMD; Zen 4 shares its family with Zen 3
VECTORS = ("avx2", "avx512f", "asimd", "sve")  # numpy's sort is several times faster with them


def describe() -> dict[str, Any]:
    """Return the facts that a reader needs to judge the numbers."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    fields: dict[str, str] = dict(re.findall(r"^(.*?)\s*: (.*)$", text, re.M))
    units = fields.get("flags", fields.get("Features", "")).split()
    installed = {one.metadata["Name"]: one.version for one in metadata.distributions()}
    return {
        "cpu": processor(fields),
        "vector_units": sorted(set(VECTORS) & set(units)),
        "numpy_disabled": os.environ.get("NPY_DISABLE_CPU_FEATURES"),
        "cores": os.cpu_count() or 1,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: installed.get(name) for name in PACKAGES.split()},
    }


def commit() -> str | None:
    """Return the commit that is measured, None outside a checkout.

    It is `-dirty` if the code differs from the commit. Results differ during a run: each subject writes its own.
    """
    if not (ROOT / ".git").exists():
        return None
    named = _git("describe", "--always")
    return f"{named}-dirty" if named and _git("status", "--porcelain", "--", "src", "bench") else named


def _git(*arguments: str) -> str | None:
    try:
        found = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()


def processor(fields: dict[str, str]) -> str:
    """Return the model of a processor in /proc/cpuinfo, of AMD with its generation: clouds hide the rest of the name.

    >>> processor({"model name": "AMD EPYC", "vendor_id": "AuthenticAMD", "cpu family": "26"})
    'AMD EPYC (Zen 5)'
    """
    name = fields.get("model name", platform.machine())
    if fields.get("vendor_id") != "AuthenticAMD":
        return name
    family = int(fields["cpu family"])
    zen = "Zen 4" if family == 25 and "avx512f" in fields.get("flags", "") else ZEN.get(family, f"family {family}")
    return f"{name} ({zen})"


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
