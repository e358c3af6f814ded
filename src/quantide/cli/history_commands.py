"""Commands about one history: history, and its verify, repair, clock, restore and delete."""

import argparse
import sys
from collections.abc import Callable

from quantide.cli.command import CHECK_FAILED, Command, add_storage_options, check_path, read_storage_options
from quantide.errors import InvalidArgumentError


def history_command(
    name: str,
    summary: str,
    description: str,
    examples: tuple[str, ...],
    run: Callable[[argparse.Namespace], int | None],
    add_options: Callable[[argparse.ArgumentParser], None] | None = None,
) -> Command:
    """Return a command whose first argument is the path of a history."""

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "path", metavar="PATH", help="the folder of a history, or its URI, such as s3://bucket/name"
        )
        if add_options is not None:
            add_options(parser)
        add_storage_options(parser)

    def run_at_path(args: argparse.Namespace) -> int | None:
        args.path, args.storage_options = check_path(args.path), read_storage_options(args)
        return run(args)

    return Command(name, summary, description, examples, add_arguments, run_at_path, ("history",))


def _history(args: argparse.Namespace) -> None:
    from quantide.history.history_report import show_history

    show_history(sys.stdout, args.path, args.json, args.storage_options)


HISTORY = history_command(
    "history",
    "Show a history: values, steps, and a picture of its runs",
    "It also lists the values that --last-steps can have. `quantide history build` makes a history, "
    "`quantide history verify` checks one.",
    ("quantide history data/latency", "quantide history s3://bucket/latency --storage-option region=eu-central-1"),
    _history,
)


def _verify(args: argparse.Namespace) -> int:
    from quantide.history.history_report import show_verified

    return 0 if show_verified(sys.stdout, args.path, args.json, args.storage_options) else CHECK_FAILED


VERIFY = history_command(
    "history verify",
    "Read all files of a history and compare their checksums",
    "Exits with 1 if a file is damaged or missing, and names it. It changes nothing.",
    ("quantide history verify data/latency",),
    _verify,
)


def _add_repair_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only list the damage and the repairs")
    parser.add_argument(
        "--roll-back",
        action="store_true",
        help="if an entry of the log is lost, set aside the commits after it, which cannot be read without it",
    )
    parser.add_argument(
        "--future",
        choices=("remove", "redate"),
        help="recent rows dated too far ahead of the clock: remove them from windows, or give them a new date",
    )
    parser.add_argument(
        "--newer-than", metavar="TIME", help="with --future: rows after this time; required if max_ahead is off"
    )


def _repair(args: argparse.Namespace) -> int:
    from quantide.history.history_report import show_repaired

    if args.newer_than is not None and args.future is None:
        raise InvalidArgumentError("--newer-than selects rows for --future; add --future remove or redate")
    future = None if args.future is None else (args.future, args.newer_than)
    options = args.storage_options
    repaired = show_repaired(sys.stdout, args.path, args.dry_run, args.roll_back, future, args.json, options)
    return 0 if repaired else CHECK_FAILED


REPAIR = history_command(
    "history repair",
    "Repair a history after a power loss or a disk error, and list what is lost",
    "Exits with 1 if data is lost. Stop the writer first: a store has one writer.",
    ("quantide history repair data/latency --dry-run", "quantide history repair data/latency --future redate"),
    _repair,
    _add_repair_options,
)


def _add_clock_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--accept", action="store_true", help="accept this machine's clock, even if implausible")


def _clock(args: argparse.Namespace) -> None:
    from quantide.history.history_report import show_clock

    show_clock(sys.stdout, args.path, args.accept, args.json, args.storage_options)


CLOCK = history_command(
    "history clock",
    "Show whether ingestion trusts the clock; accept the clock as it is",
    "While the clock is implausibly far from the open step, no step ends, so that no history expires because of it. "
    "After a long pause, --accept lets steps catch up. Ingestion may keep running.",
    ("quantide history clock data/latency", "quantide history clock data/latency --accept"),
    _clock,
    _add_clock_options,
)


def _restore(args: argparse.Namespace) -> None:
    from quantide.history.history_report import show_restored

    show_restored(sys.stdout, args.path, args.json, args.storage_options)


RESTORE = history_command(
    "history restore",
    "Restore runs that retention dropped",
    "For a store whose steps ended too early because a clock ran ahead. All runs then stay for one more retention. "
    "Stop ingestion first: a store has one writer.",
    ("quantide history restore data/latency",),
    _restore,
)


def _add_delete_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", action="append", metavar="KEY", help="a key; repeat for each of its columns")
    parser.add_argument(
        "--before",
        metavar="WHEN",
        help="all steps before this one, or all that ended before a time such as 2026-03-01T12:00 (UTC)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only print how much would be deleted")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation, as a terminal otherwise does")
    parser.add_argument("--vacuum", action="store_true", help="remove the files from disk at once, not an hour later")


def _delete(args: argparse.Namespace) -> None:
    from quantide.history.history_report import show_deleted

    if (args.key is None) == (args.before is None):
        raise InvalidArgumentError("give --key for the rows of a key, or --before for the oldest steps: one of them")
    chosen = (args.key, args.before, args.dry_run, args.vacuum)
    confirm = _confirm if sys.stdin is not None and sys.stdin.isatty() and not args.yes else None
    show_deleted(sys.stdout, args.path, *chosen, args.json, args.storage_options, confirm)


def _confirm(question: str) -> bool:
    """Ask on standard error, so that output stays that of the command; return True for y or yes."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


DELETE = history_command(
    "history delete",
    "Delete the rows of a key, or the oldest steps, for good",
    "One commit; readers see it at once, and restore does not bring the rows back. In a terminal it asks first. Stop "
    "ingestion first: a store has one writer.",
    (
        "quantide history delete data/latency --key /pay --dry-run",
        "quantide history delete data/latency --before 2026-03-01T12:00 --vacuum",
    ),
    _delete,
    _add_delete_options,
)
