"""Peak memory of a piece of work, as the system sees it: resident bytes, in a fresh process.

Not ru_maxrss: it is inherited, and a child's begins at the peak of the process that started it. VmHWM is the
process's own, and can be set back once everything is loaded.
"""

import gc
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Peak(Generic[T]):
    """What was resident before the work, how much more there was at the worst moment, what the work returned."""

    base: int
    more: int
    result: T


def peak_of(work: Callable[[], T]) -> Peak[T]:
    """Run the work; what it needs once (imports, kernels) must have been loaded before."""
    gc.collect()
    RESET.write_text("5", encoding="ascii")
    base = _bytes("VmRSS")
    result = work()
    return Peak(base, max(0, _bytes("VmHWM") - base), result)


def resident() -> int:
    """Bytes that are resident now."""
    gc.collect()
    return _bytes("VmRSS")


def in_fresh_process(module: str, request: dict[str, Any]) -> dict[str, Any]:
    """Hand a request to `python -m module` as JSON on its input, and read JSON from its output."""
    command = [sys.executable, "-m", module]
    done = subprocess.run(command, input=json.dumps(request), stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _bytes(field: str) -> int:
    lines = STATUS.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))
