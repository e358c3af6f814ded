"""Python and the packages of each extra."""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from quantide.config import Config
from quantide.doctor.finding import FAILED, OK, WARNING, Finding

OLDEST = (3, 11)
EXTRAS = {
    "": "sketches and windows",
    "history": "stores on disk",
    "spark": "ingestion and lakes",
    "server": "the server",
    "client": "programs that ask a server",
    "plot": "pictures of summaries",
}
REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[^]]*\])?\s*([^;]*)(?:;.*extra == ['\"](\w+)['\"])?")
LIMIT = re.compile(r"(>=|<)\s*([0-9.]+)")


def check_python(_config: Config | None = None) -> Iterator[Finding]:
    found = f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}"
    if sys.version_info < OLDEST:
        yield Finding("python", FAILED, found, "use Python 3.11 or newer")
    else:
        yield Finding("python", OK, found)


def check_packages(_config: Config | None = None) -> Iterator[Finding]:
    """A line for each extra: what is missing, or has a version that Quantide was not made for."""
    needed = needs(requires("quantide") or [])
    for extra, use in EXTRAS.items():
        if extra not in needed:
            continue
        name = f"quantide[{extra}]" if extra else "quantide"
        wrong = [said for package, limits in needed[extra].items() if (said := problem(package, limits))]
        if wrong:
            state = WARNING if extra else FAILED
            told = f"for {use}: {', '.join(wrong)}"
            yield Finding("packages", state, told, f'python -m pip install "{name}"; not needed without {use}')
        else:
            yield Finding("packages", OK, f"{name}: all that {use} need" + ("s" if use == "the server" else ""))


def needs(lines: list[str]) -> dict[str, dict[str, str]]:
    """The packages of each extra, and the versions that are allowed.

    >>> needs(["numpy<3,>=2.1", "deltalake<2,>=1.2; extra == 'history'"])
    {'': {'numpy': '<3,>=2.1'}, 'history': {'deltalake': '<2,>=1.2'}}
    """
    out: dict[str, dict[str, str]] = {}
    for line in lines:
        found = REQUIREMENT.match(line)
        if found is not None and found[1] != "quantide":
            out.setdefault(found[3] or "", {})[found[1]] = found[2].strip()
    return out


def problem(package: str, limits: str) -> str:
    """What is wrong with a package; nothing when it is there in a version that is allowed."""
    try:
        found = version(package)
    except PackageNotFoundError:
        return f"{package} is missing"
    return "" if within(found, limits) else f"{package} {found} is there, {limits} is needed"


def within(found: str, limits: str) -> bool:
    """
    >>> within("2.10.1", "<3,>=2.2"), within("3.0.0rc1", "<3,>=2.2"), within("2.1", "<3,>=2.2")
    (True, False, False)
    """
    has = numbers(found)
    return all(has >= numbers(limit) if sign == ">=" else has < numbers(limit) for sign, limit in LIMIT.findall(limits))


def numbers(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text.split("rc")[0].split("+")[0])]
