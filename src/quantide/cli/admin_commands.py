"""Commands that maintain an installation: doctor, history verify, repair, clock and restore, quarantine."""

import argparse
import sys

from quantide.cli.command import Command, add_config, add_history_path, add_master
from quantide.errors import InvalidArgumentError

CHECK_FAILED = 1


# doctor


def _add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config", metavar="CONFIG", nargs="?", help="a TOML file: its stores and its server are checked too"
    )


def _doctor(args: argparse.Namespace) -> int:
    from quantide.doctor import examine

    return 0 if examine(sys.stdout, args.config, args.json) else CHECK_FAILED


DOCTOR = Command(
    "doctor",
    "Check this machine, the packages, Java, Spark, the disk; and a configuration",
    "Prints what to do about every problem, and exits with 1 if a check failed. It changes nothing. "
    "Starting Spark takes about ten seconds of it.",
    ("quantide doctor", "quantide doctor quantide.toml --json"),
    _add_doctor_arguments,
    _doctor,
)


# history verify, repair, clock, restore


def _verify(args: argparse.Namespace) -> int:
    from quantide.history.history_report import show_verified

    return 0 if show_verified(sys.stdout, args.path, args.json) else CHECK_FAILED


VERIFY = Command(
    "history verify",
    "Read all files of a history and compare their checksums",
    "Exits with 1 if a file is damaged or missing, and names it. It changes nothing.",
    ("quantide history verify data/latency",),
    add_history_path,
    _verify,
    ("history",),
)


def _add_repair_arguments(parser: argparse.ArgumentParser) -> None:
    add_history_path(parser)
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
    repaired = show_repaired(sys.stdout, args.path, args.dry_run, args.roll_back, future, args.json)
    return 0 if repaired else CHECK_FAILED


REPAIR = Command(
    "history repair",
    "Repair a history after a power loss or a disk error, and list what is lost",
    "Exits with 1 if data is lost. Stop the writer first: a store has one writer.",
    ("quantide history repair data/latency --dry-run", "quantide history repair data/latency --future redate"),
    _add_repair_arguments,
    _repair,
    ("history",),
)


def _add_clock_arguments(parser: argparse.ArgumentParser) -> None:
    add_history_path(parser)
    parser.add_argument("--accept", action="store_true", help="accept this machine's clock, even if implausible")


def _clock(args: argparse.Namespace) -> None:
    from quantide.history.history_report import show_clock

    show_clock(sys.stdout, args.path, args.accept, args.json)


CLOCK = Command(
    "history clock",
    "Show whether ingestion trusts the clock; accept the clock as it is",
    "While the clock is implausibly far from the open step, no step ends, so that no history expires because of it. "
    "After a long pause, --accept lets steps catch up. Ingestion may keep running.",
    ("quantide history clock data/latency", "quantide history clock data/latency --accept"),
    _add_clock_arguments,
    _clock,
    ("history",),
)


def _restore(args: argparse.Namespace) -> None:
    from quantide.history.history_report import show_restored

    show_restored(sys.stdout, args.path, args.json)


RESTORE = Command(
    "history restore",
    "Restore runs that retention dropped",
    "For a store whose steps ended too early because a clock ran ahead. All runs then stay for one more retention. "
    "Stop ingestion first: a store has one writer.",
    ("quantide history restore data/latency",),
    add_history_path,
    _restore,
    ("history",),
)


# quarantine


def _add_stream_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("--stream", metavar="NAME", help="only this stream")


def _add_list_arguments(parser: argparse.ArgumentParser) -> None:
    _add_stream_arguments(parser)
    parser.add_argument("--rows", metavar="N", type=int, default=3, help="bad rows to show of each kind (%(default)s)")


def _list(args: argparse.Namespace) -> None:
    from quantide.config import read_config

    config = read_config(args.config)
    from quantide.spark.stream.quarantine import show

    show(config, args.stream, sys.stdout, args.json, args.rows)


QUARANTINE_LIST = Command(
    "quarantine list",
    "List files and rows that could not be ingested, with the reasons",
    "They are stored beside the table, so that nothing is lost.",
    ("quantide quarantine list quantide.toml --stream latency --rows 20",),
    _add_list_arguments,
    _list,
    ("history", "spark"),
)


def _add_retry_arguments(parser: argparse.ArgumentParser) -> None:
    _add_stream_arguments(parser)
    add_master(parser)


def _retry(args: argparse.Namespace) -> None:
    from quantide.config import read_config

    config = read_config(args.config)
    from quantide.spark.stream.quarantine import retry

    retry(config, args.stream, args.master, sys.stdout, args.json)


QUARANTINE_RETRY = Command(
    "quarantine retry",
    "Ingest quarantined files and rows, with Spark",
    "Uses the current configuration: change it first, or repair the files. Data that fails again stays in quarantine. "
    "Stop ingestion first: a store has one writer.",
    ("quantide quarantine retry quantide.toml",),
    _add_retry_arguments,
    _retry,
    ("history", "spark"),
)
