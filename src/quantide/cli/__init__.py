"""Command-line interface of Quantide."""

import atexit
import gc
from collections.abc import Sequence

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Imports the commands inside the `try`, so that Ctrl-C during imports also exits quietly."""
    atexit.register(gc.freeze)  # the last search for garbage would visit every object, just before memory is freed
    try:
        from quantide.cli.command_line import main as run

        return run(argv)
    except KeyboardInterrupt:
        return INTERRUPTED
