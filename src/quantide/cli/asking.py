"""Commands that ask: quantile, history."""

import argparse
import sys

from quantide.cli.command import Command


def _quantile_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the folder of a history")
    parser.add_argument("phis", metavar="PHI", type=float, nargs="+", help="0.5 for the median, 0.99 for p99")
    parser.add_argument(
        "--mode",
        choices=("accurate", "quick", "exact"),
        default="accurate",
        help="accurate reads a block a run, quick reads no data, exact also makes the open step exact (%(default)s)",
    )
    parser.add_argument("--last-steps", type=int, metavar="N", help="only the last N steps, and the open one")
    parser.add_argument("--widen", action="store_true", help="take more steps where N of them would cut a run")
    parser.add_argument("--key", action="append", metavar="KEY", help="of one key; again for each of its columns")


def _quantile(args: argparse.Namespace) -> None:
    from quantide.history.show import show_answers

    show_answers(sys.stdout, args.path, args.phis, args.mode, args.last_steps, args.widen, args.key, args.json)


def _history_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the folder of a history")


def _history(args: argparse.Namespace) -> None:
    from quantide.history.show import show_history

    show_history(sys.stdout, args.path, args.json)


QUANTILE = Command(
    "quantile",
    "Quantiles of a history, with their proved bounds",
    "Reads a store, also while another process writes it; needs no server and no Spark.",
    ("quantide quantile data/latency 0.5 0.99 --last-steps 7", "quantide quantile data/latency 0.99 --key /pay --json"),
    _quantile_options,
    _quantile,
    ("history",),
)
HISTORY = Command(
    "history",
    "What is in a history: values, steps, and a picture of its runs",
    "It also lists the numbers of last steps that can be asked about. `quantide history build` makes a history, "
    "`quantide history verify` checks one.",
    ("quantide history data/latency",),
    _history_options,
    _history,
    ("history",),
)
