"""Commands that look after an installation: doctor, history verify and repair, quarantine."""

import argparse
import sys

from quantide.cli.command import Command, add_config, add_master
from quantide.errors import InvalidArgumentError

FAILED = 1


def _doctor_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config", metavar="CONFIG", nargs="?", help="a TOML file: its stores and its server are looked at too"
    )


def _doctor(args: argparse.Namespace) -> int:
    from quantide.doctor import examine

    return 0 if examine(sys.stdout, args.config, args.json) else FAILED


def _verify_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the folder of a history")


def _verify(args: argparse.Namespace) -> int:
    from quantide.history.show import show_verified

    return 0 if show_verified(sys.stdout, args.path, args.json) else FAILED


def _repair_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the folder of a history")
    parser.add_argument("--dry-run", action="store_true", help="only say what is damaged, and what would be done")
    parser.add_argument(
        "--roll-back",
        action="store_true",
        help="where an entry of the log is lost, set aside the commits after it, which cannot be read without it",
    )
    parser.add_argument(
        "--future",
        choices=("remove", "redate"),
        help="recent rows that are dated too far ahead of the clock: remove them from windows, or date them anew",
    )
    parser.add_argument(
        "--newer-than", metavar="TIME", help="with --future: rows after this time; needed where max_ahead is off"
    )


def _repair(args: argparse.Namespace) -> int:
    from quantide.history.show import show_repaired

    if args.newer_than is not None and args.future is None:
        raise InvalidArgumentError("--newer-than says which rows are dated too late; add --future remove or redate")
    future = None if args.future is None else (args.future, args.newer_than)
    return 0 if show_repaired(sys.stdout, args.path, args.dry_run, args.roll_back, future, args.json) else FAILED


def _list_options(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("--stream", metavar="NAME", help="of one stream only")


def _list_rows_options(parser: argparse.ArgumentParser) -> None:
    _list_options(parser)
    parser.add_argument("--rows", metavar="N", type=int, default=3, help="bad rows to show of each kind (%(default)s)")


def _list(args: argparse.Namespace) -> None:
    from quantide.config import read_config

    config = read_config(args.config)
    from quantide.spark.stream.quarantine import show

    show(config, args.stream, sys.stdout, args.json, args.rows)


def _retry_options(parser: argparse.ArgumentParser) -> None:
    _list_options(parser)
    add_master(parser)


def _retry(args: argparse.Namespace) -> None:
    from quantide.config import read_config

    config = read_config(args.config)
    from quantide.spark.stream.quarantine import retry

    retry(config, args.stream, args.master, sys.stdout, args.json)


DOCTOR = Command(
    "doctor",
    "Check this machine, the packages, Java, Spark, the disk; and a configuration",
    "Says what to do about all that is not right, and ends with 1 when something failed. It changes nothing. "
    "Starting Spark takes about ten seconds of it.",
    ("quantide doctor", "quantide doctor quantide.toml --json"),
    _doctor_options,
    _doctor,
)
VERIFY = Command(
    "history verify",
    "Read all files of a history again and compare their checksums",
    "Ends with 1 when a file is damaged or missing, and names it. It changes nothing.",
    ("quantide history verify data/latency",),
    _verify_options,
    _verify,
    ("history",),
)
REPAIR = Command(
    "history repair",
    "Mend a history after a loss of power or a damaged disk, and name what is lost",
    "Ends with 1 when something is lost. Stop its writer before: a store has one writer.",
    ("quantide history repair data/latency --dry-run", "quantide history repair data/latency --future redate"),
    _repair_options,
    _repair,
    ("history",),
)
QUARANTINE_LIST = Command(
    "quarantine list",
    "Files and rows that could not be taken in, and why",
    "They are held beside the store, so that nothing is lost.",
    ("quantide quarantine list quantide.toml --stream latency --rows 20",),
    _list_rows_options,
    _list,
    ("history", "spark"),
)
QUARANTINE_RETRY = Command(
    "quarantine retry",
    "Take in again what is held, with Spark",
    "By the configuration as it is now: change it first, or mend the files. What fails again is held again. "
    "Stop ingestion before: a store has one writer.",
    ("quantide quarantine retry quantide.toml",),
    _retry_options,
    _retry,
    ("history", "spark"),
)
