"""Commands that query a store: quantile, worst-keys."""

import argparse
import sys
from typing import Any

from quantide.cli.history_commands import history_command
from quantide.errors import InvalidArgumentError

MODES = ("accurate", "quick", "exact")


def _add_window_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--within", metavar="SPAN", help='a window of time up to the newest time: "5 min", "2 h"')
    parser.add_argument("--last", type=int, metavar="N", help="the N values that arrived last")
    parser.add_argument("--filter", metavar="NAME", help="only recent values that satisfy a filter of the store")
    parser.add_argument("--last-steps", type=int, metavar="N", help="only the last N steps and the open one")


def _add_quantile_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("phis", metavar="PHI", type=float, nargs="+", help="0.5 for the median, 0.99 for p99")
    parser.add_argument(
        "--mode",
        choices=MODES,
        default="accurate",
        help="accurate reads one block per run, quick reads no data, exact also makes the open step exact "
        "(%(default)s)",
    )
    _add_window_options(parser)
    parser.add_argument("--widen", action="store_true", help="include more steps if N of them would split a run")
    parser.add_argument("--key", action="append", metavar="KEY", help="one key; repeat for each of its columns")


def _scope(args: argparse.Namespace) -> dict[str, Any]:
    """Return the given arguments of a window."""
    names = ("within", "last", "filter", "last_steps")
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _quantile(args: argparse.Namespace) -> None:
    scope = _scope(args)
    if scope.keys() <= {"last_steps"}:
        from quantide.history.history_report import show_answers

        steps = (args.mode, args.last_steps, args.widen, args.key)
        show_answers(sys.stdout, args.path, args.phis, *steps, args.json, args.storage_options)
        return
    from quantide.live.live_report import show_window_answers

    if args.widen:
        raise InvalidArgumentError("--widen is about --last-steps; a window of recent values is never widened")
    if args.key is not None:
        scope["key"] = args.key[0] if len(args.key) == 1 else tuple(args.key)
    show_window_answers(sys.stdout, args.path, args.phis, scope, args.mode, args.json, args.storage_options)


QUANTILE = history_command(
    "quantile",
    "Print quantiles of a history or of a window, with their proved bounds",
    "Reads a store, also while another process writes it; needs no server and no Spark. --within, --last and --filter "
    "select recent values, and can be combined.",
    (
        "quantide quantile data/latency 0.5 0.99 --last-steps 7",
        "quantide quantile data/latency 0.99 --key /pay --json",
        "quantide quantile data/latency 0.99 --within 5min --key /pay",
    ),
    _quantile,
    _add_quantile_options,
)


def _add_worst_keys_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("phi", metavar="PHI", type=float, help="the quantile to compare: 0.99 for p99")
    parser.add_argument("--most", type=int, metavar="N", default=20, help="number of keys, at most (%(default)s)")
    parser.add_argument("--smallest", action="store_true", help="keys with the smallest quantile, not the largest")
    parser.add_argument("--min-n", type=int, metavar="N", default=1, help="leave out keys with fewer values")
    parser.add_argument("--mode", choices=MODES, help="in a window, exact reads all rows; over history only quick")
    _add_window_options(parser)


def _worst_keys(args: argparse.Namespace) -> None:
    from quantide.live.live_report import show_worst_keys

    ranking = {name: getattr(args, name) for name in ("most", "smallest", "min_n", "mode")}
    show_worst_keys(sys.stdout, args.path, args.phi, _scope(args), ranking, args.json, args.storage_options)


WORST_KEYS = history_command(
    "worst-keys",
    "Print the keys with the largest quantile, and the proved part of their order",
    "Compares all keys of everything, of the last steps or of a window. --last counts the values of all keys together.",
    (
        "quantide worst-keys data/latency 0.99 --within 5min --min-n 100",
        "quantide worst-keys data/latency 0.5 --smallest --most 5 --json",
    ),
    _worst_keys,
    _add_worst_keys_options,
)
