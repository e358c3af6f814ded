"""The commands of Quantide."""

from collections.abc import Sequence

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. The commands are imported here, so that Ctrl-C meanwhile ends it quietly, too."""
    try:
        from quantide.cli.commands import main as run

        return run(argv)
    except KeyboardInterrupt:
        return INTERRUPTED
