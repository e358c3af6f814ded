"""Commands about retention: history clock, history restore."""

import argparse
import sys

from quantide.cli.command import Command


def _clock_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the folder of a history")
    parser.add_argument("--accept", action="store_true", help="the clock of this machine is right, however it looks")


def _clock(args: argparse.Namespace) -> None:
    from quantide.history.retention import show_clock

    show_clock(sys.stdout, args.path, args.accept, args.json)


def _restore_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the folder of a history")


def _restore(args: argparse.Namespace) -> None:
    from quantide.history.retention import show_restored

    show_restored(sys.stdout, args.path, args.json)


CLOCK = Command(
    "history clock",
    "Show whether ingestion believes the clock; accept the clock as it is",
    "A clock that is implausibly far from the open step ends no steps, so that no history expires because of it. "
    "After a long pause, --accept lets steps catch up. Ingestion may run meanwhile.",
    ("quantide history clock data/latency", "quantide history clock data/latency --accept"),
    _clock_options,
    _clock,
    ("history",),
)
RESTORE = Command(
    "history restore",
    "Bring back runs that retention dropped",
    "For a store whose steps ended too early, because a clock ran ahead. All runs then stay for one more retention. "
    "Stop ingestion before: a store has one writer.",
    ("quantide history restore data/latency",),
    _restore_options,
    _restore,
    ("history",),
)
