"""Checks of the installation: Python, the packages of each extra, the compiled kernels, the way to sort."""

import os
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from types import ModuleType

from quantide.config import Config
from quantide.doctor.finding import FAILED, OK, WARNING, Finding
from quantide.errors import InvalidArgumentError
from quantide.kernels import block_sort, run_merge, warm_up
from quantide.kernels.jit import CHECKED_SUFFIX

OLDEST_PYTHON = (3, 11)
PURPOSES = {
    "": "sketches and windows",
    "history": "stores on disk",
    "spark": "ingestion and lakes",
    "server": "the server",
    "client": "programs that query a server",
    "histograms": "sketches of other systems",
    "plot": "pictures of summaries",
}
REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[^]]*\])?\s*([^;]*)(?:;.*extra == ['\"](\w+)['\"])?")
VERSION_BOUND = re.compile(r"(>=|<)\s*([0-9.]+)")
WARM_UP_COMMAND = "python -m quantide.kernels"
PYTHON_TAG = f"py{sys.version_info[0]}{sys.version_info[1]}"


def check_python(_config: Config | None = None) -> Iterator[Finding]:
    python = f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        yield Finding("python", FAILED, python, "use Python 3.11 or newer")
    else:
        yield Finding("python", OK, python)


# Packages


def check_packages(_config: Config | None = None) -> Iterator[Finding]:
    """Check each extra for missing packages and unsupported versions."""
    requirements = parse_requirements(requires("quantide") or [])
    for extra, purpose in PURPOSES.items():
        if extra not in requirements:
            continue
        name = f"quantide[{extra}]" if extra else "quantide"
        reasons = [
            reason for package, bounds in requirements[extra].items() if (reason := check_package(package, bounds))
        ]
        if reasons:
            state = WARNING if extra else FAILED
            text = f"for {purpose}: {', '.join(reasons)}"
            yield Finding("packages", state, text, f'python -m pip install "{name}"; not needed without {purpose}')
        else:
            yield Finding("packages", OK, f"{name}: all packages for {purpose}")


def parse_requirements(lines: list[str]) -> dict[str, dict[str, str]]:
    """Return the packages of each extra, with their version bounds.

    >>> parse_requirements(["numpy<3,>=2.1", "deltalake<2,>=1.2; extra == 'history'"])
    {'': {'numpy': '<3,>=2.1'}, 'history': {'deltalake': '<2,>=1.2'}}
    """
    extras: dict[str, dict[str, str]] = {}
    for line in lines:
        match = REQUIREMENT.match(line)
        if match is not None and match[1] != "quantide":
            extras.setdefault(match[3] or "", {})[match[1]] = match[2].strip()
    return extras


def check_package(package: str, bounds: str) -> str:
    """Return the reason why a package cannot be used; empty if it is installed in a supported version."""
    try:
        installed = version(package)
    except PackageNotFoundError:
        return f"{package} is missing"
    return "" if is_within(installed, bounds) else f"{package} {installed} is installed, {bounds} is needed"


def is_within(installed: str, bounds: str) -> bool:
    """
    >>> is_within("2.10.1", "<3,>=2.2"), is_within("3.0.0rc1", "<3,>=2.2"), is_within("2.1", "<3,>=2.2")
    (True, False, False)
    """
    numbers = parse_version(installed)
    return all(
        numbers >= parse_version(bound) if sign == ">=" else numbers < parse_version(bound)
        for sign, bound in VERSION_BOUND.findall(bounds)
    )


def parse_version(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text.split("rc")[0].split("+")[0])]


# Kernels


def check_kernels(_config: Config | None = None) -> Iterator[Finding]:
    """Check that compiled kernels can be cached, and that they are."""
    folder = find_kernel_cache()
    if folder is None or not is_writable(folder):
        text = (
            f"{folder or 'the kernel cache'} cannot be written to, so every process compiles its kernels, for a minute"
        )
        yield Finding("kernels", WARNING, text, f"export NUMBA_CACHE_DIR=/a/folder/of/yours, then {WARM_UP_COMMAND}")
        return
    missing = list_uncompiled(folder)
    if missing:
        text = f"not compiled yet: {', '.join(missing)}; the first process that needs them compiles them"
        yield Finding("kernels", WARNING, text, WARM_UP_COMMAND)
    else:
        yield Finding("kernels", OK, f"compiled and cached in {folder}")


def check_sorting(_config: Config | None = None) -> Iterator[Finding]:
    """Report how arrays are sorted, and how fast."""
    try:
        texts = []
        for carrier in block_sort.CARRIERS:
            size, first = block_sort.SIZES[0], block_sort.radix_from(carrier)
            radix, plain = (round(speed / 1e6) for speed in block_sort.sort_speeds(carrier, size))
            chosen = "np.sort" if first > size else f"radix sort from {first:,} values on" if first else "radix sort"
            texts.append(f"{carrier} by {chosen} ({radix} million values/s by radix sort, {plain} by np.sort)")
    except InvalidArgumentError as error:
        yield Finding("sorting", FAILED, str(error), f"unset {block_sort.VARIABLE}")
        return
    yield Finding("sorting", OK, "; ".join(texts))


def find_kernel_cache() -> Path | None:
    """Return the folder in which numba caches machine code; None if it has none."""
    stats = getattr(run_merge.merge_pair, "stats", None)
    return Path(stats.cache_path) if stats is not None and stats.cache_path else None


def is_writable(folder: Path) -> bool:
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)


def list_uncompiled(folder: Path) -> list[str]:
    """Return the kernels without machine code for this Python, or with machine code older than their source."""
    uncompiled = []
    for module in vars(warm_up).values():
        name = getattr(module, "__name__", "") if isinstance(module, ModuleType) else ""
        if name.startswith("quantide.kernels."):
            source = Path(module.__file__)
            files = folder.glob(f"{source.stem}.*.{PYTHON_TAG}.nbi")
            compiled = [file.stat().st_mtime for file in files if f"{CHECKED_SUFFIX}-" not in file.name]
            if max(compiled, default=0.0) < source.stat().st_mtime:
                uncompiled.append(source.stem)
    return uncompiled
