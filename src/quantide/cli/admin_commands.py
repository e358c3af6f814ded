"""Commands that maintain an installation: doctor, quarantine."""

import argparse
import sys

from quantide.cli.command import CHECK_FAILED, Command, add_config, add_master

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
    "Prints what to do about every problem, and exits with 1 if a check failed. It leaves no files. "
    "Starting Spark takes about ten seconds of it.",
    ("quantide doctor", "quantide doctor quantide.toml --json"),
    _add_doctor_arguments,
    _doctor,
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
