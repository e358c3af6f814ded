"""Commands that query a store: quantile, history."""

import argparse
import sys

from quantide.cli.command import Command, add_history_path


def _add_quantile_arguments(parser: argparse.ArgumentParser) -> None:
    add_history_path(parser)
    parser.add_argument("phis", metavar="PHI", type=float, nargs="+", help="0.5 for the median, 0.99 for p99")
    parser.add_argument(
        "--mode",
        choices=("accurate", "quick", "exact"),
        default="accurate",
        help="accurate reads one block per run, quick reads no data, exact also makes the open step exact "
        "(%(default)s)",
    )
    parser.add_argument("--last-steps", type=int, metavar="N", help="only the last N steps and the open one")
    parser.add_argument("--widen", action="store_true", help="include more steps if N of them would split a run")
    parser.add_argument("--key", action="append", metavar="KEY", help="one key; repeat for each of its columns")


def _quantile(args: argparse.Namespace) -> None:
    from quantide.history.history_report import show_answers

    show_answers(sys.stdout, args.path, args.phis, args.mode, args.last_steps, args.widen, args.key, args.json)


QUANTILE = Command(
    "quantile",
    "Print quantiles of a history, with their proved bounds",
    "Reads a store, also while another process writes it; needs no server and no Spark.",
    ("quantide quantile data/latency 0.5 0.99 --last-steps 7", "quantide quantile data/latency 0.99 --key /pay --json"),
    _add_quantile_arguments,
    _quantile,
    ("history",),
)


def _history(args: argparse.Namespace) -> None:
    from quantide.history.history_report import show_history

    show_history(sys.stdout, args.path, args.json)


HISTORY = Command(
    "history",
    "Show a history: values, steps, and a picture of its runs",
    "It also lists the values that --last-steps can have. `quantide history build` makes a history, "
    "`quantide history verify` checks one.",
    ("quantide history data/latency",),
    add_history_path,
    _history,
    ("history",),
)
