"""Examination: runs all checks in order and prints each finding at once."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TextIO

from quantide.config import Config, read_config
from quantide.doctor.config_checks import check_port, check_registry, check_secret, check_stores, check_tls
from quantide.doctor.finding import FAILED, OK, WARNING, Check, Finding
from quantide.doctor.installation_checks import check_kernels, check_packages, check_python, check_sorting
from quantide.doctor.kafka_checks import check_kafka
from quantide.doctor.machine_checks import check_clock, check_disk, check_memory, check_open_files
from quantide.doctor.spark_checks import check_java, check_spark
from quantide.errors import QuantideError
from quantide.summary.value_json import count, write_line

CHECKS: dict[str, Check] = {
    "python": check_python,
    "packages": check_packages,
    "kernels": check_kernels,
    "sorting": check_sorting,
    "memory": check_memory,
    "open files": check_open_files,
    "clock": check_clock,
    "disk": check_disk,
    "port": check_port,
    "tls": check_tls,
    "registry": check_registry,
    "webhooks": check_secret,
    "stores": check_stores,
    "kafka": check_kafka,
    "java": check_java,
    "spark": check_spark,
}
SLOW_CHECKS = {"spark": "starting Spark, which takes about ten seconds"}
INDENT = " " * 9


def examine(out: TextIO, config_path: str | None = None, json: bool = False) -> bool:
    """Check this machine and, if given, a configuration; return True if no check failed."""
    findings = []
    for finding in run_checks(config_path, None if json or not out.isatty() else out):
        findings.append(finding)
        if not json:
            print_finding(out, finding)
    failed = [finding.check for finding in findings if finding.state == FAILED]
    passed = not failed
    if json:
        write_line(out, {"ok": passed, "checks": [asdict(finding) for finding in findings]})
    else:
        out.write(format_verdict(failed, [finding.state for finding in findings].count(WARNING)))
    return passed


def run_checks(config_path: str | None, progress: TextIO | None = None) -> Iterator[Finding]:
    """Yield the findings of all checks. A check that raises has failed; the others still run."""
    config = None
    if config_path is not None:
        try:
            config = read_config(config_path)
            yield Finding(
                "configuration", OK, f"{config_path}: {count(len(config.streams), 'stream')}, store {config.store}"
            )
        except Exception as error:
            yield failed_check("configuration", error)
    for name, check in CHECKS.items():
        if progress is not None and name in SLOW_CHECKS:
            progress.write(f"...      {name:<14} {SLOW_CHECKS[name]}\r")
            progress.flush()
        yield from run_check(name, check, config)


def run_check(name: str, check: Check, config: Config | None) -> Iterator[Finding]:
    try:
        yield from check(config)
    except Exception as error:
        yield failed_check(name, error)


def failed_check(name: str, error: Exception) -> Finding:
    if isinstance(error, QuantideError):  # its message says what to do
        return Finding(name, FAILED, str(error))
    return Finding(name, FAILED, f"this could not be checked: {type(error).__name__}: {error}")


def print_finding(out: TextIO, finding: Finding) -> None:
    end = "\x1b[K\n" if out.isatty() else "\n"
    out.write(f"{finding.state:<8} {finding.check:<14} {finding.found}{end}")
    if finding.fix:
        out.write(f"{INDENT}{'':<14} -> {finding.fix}\n")
    out.flush()


def format_verdict(failed: Sequence[str], warnings: int) -> str:
    """Return the last line, which names the failed checks.

    >>> format_verdict([], 0), format_verdict(["port"], 2)
    ('All checks passed.\\n', '1 failed (port), 2 with a warning.\\n')
    """
    names = ", ".join(dict.fromkeys(failed))
    counts = [f"{len(failed)} failed ({names})"] * bool(failed) + [f"{warnings} with a warning"] * bool(warnings)
    return (", ".join(counts) or "All checks passed") + ".\n"
