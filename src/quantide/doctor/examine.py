"""All checks, one after the other; what each found is shown at once."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TextIO

from quantide.config import Config, read_config
from quantide.doctor.door import check_port, check_registry, check_secret, check_tls
from quantide.doctor.finding import FAILED, OK, WARNING, Check, Finding
from quantide.doctor.java import check_java
from quantide.doctor.kernels import check_kernels
from quantide.doctor.machine import check_clock, check_disk, check_memory, check_open_files
from quantide.doctor.packages import check_packages, check_python
from quantide.doctor.spark import check_spark
from quantide.doctor.stores import check_stores
from quantide.errors import QuantideError
from quantide.summary.shown import write_line

CHECKS: dict[str, Check] = {
    "python": check_python,
    "packages": check_packages,
    "kernels": check_kernels,
    "memory": check_memory,
    "open files": check_open_files,
    "clock": check_clock,
    "disk": check_disk,
    "port": check_port,
    "tls": check_tls,
    "registry": check_registry,
    "webhooks": check_secret,
    "stores": check_stores,
    "java": check_java,
    "spark": check_spark,
}
SLOW = {"spark": "starting Spark, which takes about ten seconds"}
ASIDE = " " * 9


def examine(out: TextIO, path: str | None = None, json: bool = False) -> bool:
    """Look at this machine, and at the configuration in a file; whether nothing failed."""
    found = []
    for finding in findings(path, None if json or not out.isatty() else out):
        found.append(finding)
        if not json:
            show(out, finding)
    states = [finding.state for finding in found]
    well = FAILED not in states
    if json:
        write_line(out, {"ok": well, "checks": [asdict(finding) for finding in found]})
    else:
        out.write(verdict(states.count(FAILED), states.count(WARNING)))
    return well


def findings(path: str | None, progress: TextIO | None = None) -> Iterator[Finding]:
    """What there is to say, check by check. A check that breaks has failed; the others go on."""
    config = None
    if path is not None:
        try:
            config = read_config(path)
            yield Finding("configuration", OK, f"{path}: {len(config.streams)} streams, store {config.store}")
        except Exception as error:
            yield broken("configuration", error)
    for name, check in CHECKS.items():
        if progress is not None and name in SLOW:
            progress.write(f"...      {name:<14} {SLOW[name]}\r")
            progress.flush()
        yield from guarded(name, check, config)


def guarded(name: str, check: Check, config: Config | None) -> Iterator[Finding]:
    try:
        yield from check(config)
    except Exception as error:
        yield broken(name, error)


def broken(name: str, error: Exception) -> Finding:
    if isinstance(error, QuantideError):  # it says itself what to do
        return Finding(name, FAILED, str(error))
    return Finding(name, FAILED, f"this could not be checked: {type(error).__name__}: {error}")


def show(out: TextIO, finding: Finding) -> None:
    end = "\x1b[K\n" if out.isatty() else "\n"
    out.write(f"{finding.state:<8} {finding.check:<14} {finding.found}{end}")
    if finding.fix:
        out.write(f"{ASIDE}{'':<14} -> {finding.fix}\n")
    out.flush()


def verdict(failed: int, warnings: int) -> str:
    """
    >>> verdict(0, 0), verdict(1, 2)
    ('All is well.\\n', '1 failed, 2 to be warned of.\\n')
    """
    told = [f"{failed} failed"] * bool(failed) + [f"{warnings} to be warned of"] * bool(warnings)
    return (", ".join(told) or "All is well") + ".\n"
