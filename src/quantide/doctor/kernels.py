"""The compiled loops: whether there is a place to keep them, and whether they are there."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from quantide.config import Config
from quantide.doctor.finding import OK, WARNING, Finding
from quantide.kernels import merge, warm
from quantide.kernels.compiled import CHECKED

WARM = "python -m quantide.kernels"
VERSION = f"py{sys.version_info[0]}{sys.version_info[1]}"


def check_kernels(_config: Config | None = None) -> Iterator[Finding]:
    place = cache_place()
    if place is None or not writable(place):
        told = f"{place or 'no place'} cannot be written to, so every process compiles its loops anew, for a minute"
        yield Finding("kernels", WARNING, told, f"export NUMBA_CACHE_DIR=/a/folder/of/yours, then {WARM}")
        return
    missing = not_compiled(place)
    if missing:
        told = f"not compiled yet: {', '.join(missing)}; whoever needs them first waits for it"
        yield Finding("kernels", WARNING, told, WARM)
    else:
        yield Finding("kernels", OK, f"compiled, and kept in {place}")


def cache_place() -> Path | None:
    """Where numba keeps machine code; None when it found no place."""
    found = getattr(merge.merge_halves, "stats", None)
    return Path(found.cache_path) if found is not None and found.cache_path else None


def writable(place: Path) -> bool:
    while not place.exists():
        place = place.parent
    return os.access(place, os.W_OK | os.X_OK)


def not_compiled(place: Path) -> list[str]:
    """Kernels without machine code for this Python, or with such that is older than they are."""
    out = []
    for module in vars(warm).values():
        name = getattr(module, "__name__", "") if isinstance(module, ModuleType) else ""
        if name.startswith("quantide.kernels."):
            source = Path(module.__file__)
            files = place.glob(f"{source.stem}.*.{VERSION}.nbi")
            kept = [file.stat().st_mtime for file in files if f"{CHECKED}-" not in file.name]
            if max(kept, default=0.0) < source.stat().st_mtime:
                out.append(source.stem)
    return out
