"""Commands that look after an installation: doctor, history verify, quarantine."""

import argparse
import sys

from quantide.cli.command import Command, add_config, add_master

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


def _list_options(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("--stream", metavar="NAME", help="of one stream only")


def _list(args: argparse.Namespace) -> None:
    from quantide.config import read_config

    config = read_config(args.config)
    from quantide.spark.stream.quarantine import show

    show(config, args.stream, sys.stdout, args.json)


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
QUARANTINE_LIST = Command(
    "quarantine list",
    "Files and rows that could not be taken in, and why",
    "They are held beside the store, so that nothing is lost.",
    ("quantide quarantine list quantide.toml --stream latency",),
    _list_options,
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
