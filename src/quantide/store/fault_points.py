"""Fault points: places at which tests inject a failure through the environment variable QUANTIDE_FAULT.

`QUANTIDE_FAULT=append.data:kill` ends the process at that point as kill -9 would; `:full` raises the error of a full
disk; `append.data@3:kill` does so the third time. Without the variable a point does nothing.
"""

import errno
import os
import signal

_armed = os.environ.get("QUANTIDE_FAULT", "")
_passed: dict[str, int] = {}


def point(name: str) -> None:
    """Inject the configured failure if it is for this point."""
    if not _armed:
        return
    target, _, failure = _armed.partition(":")
    armed_name, _, occurrence = target.partition("@")
    if armed_name != name:
        return
    _passed[name] = _passed.get(name, 0) + 1
    if _passed[name] == int(occurrence or 1):
        if failure == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
