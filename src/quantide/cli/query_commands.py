"""Commands that query a store: quantile, rank, compare, worst-keys."""

import argparse
import sys
from typing import Any

from quantide.cli.command import check_path
from quantide.cli.history_commands import history_command
from quantide.errors import InvalidArgumentError

MODES = ("accurate", "quick", "exact")


def _add_window_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--within", metavar="SPAN", help='a window of time up to the newest time: "5 min", "2 h"')
    parser.add_argument("--last", type=int, metavar="N", help="the N values that arrived last")
    parser.add_argument("--filter", metavar="NAME", help="only recent values that satisfy a filter of the store")
    parser.add_argument("--last-steps", type=int, metavar="N", help="only the last N steps and the open one")


def _add_quantile_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("phis", metavar="PHI", type=_read_phi, nargs="+", help="0.5 for the median, 0.99 for p99")
    parser.add_argument(
        "--mode",
        choices=MODES,
        default="accurate",
        help="accurate reads one block per run (and key), quick reads no data, exact also makes the open step exact "
        "(%(default)s)",
    )
    _add_window_options(parser)
    parser.add_argument("--widen", action="store_true", help="include more steps if N of them would split a run")
    _add_key_option(parser)


def _add_key_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", action="append", metavar="KEY", help="one key; repeat for each of its columns")


def _read_phi(text: str) -> float:
    """Return a phi; numbers outside of [0, 1] are refused where the store is queried."""
    try:
        return float(text)
    except ValueError as error:
        from quantide.summary.ranks import describe_invalid_phi

        raise argparse.ArgumentTypeError(describe_invalid_phi(text)) from error


def _scope(args: argparse.Namespace, prefix: str = "") -> dict[str, Any]:
    """Return the given arguments of a window and a key."""
    given = {name: getattr(args, prefix + name, None) for name in ("within", "last", "filter", "last_steps", "key")}
    if given["key"] is not None:
        given["key"] = given["key"][0] if len(given["key"]) == 1 else tuple(given["key"])
    return {name: value for name, value in given.items() if value is not None}


def _quantile(args: argparse.Namespace) -> None:
    scope = _scope(args)
    if scope.keys() <= {"last_steps", "key"}:
        from quantide.history.history_report import show_answers

        steps = (args.mode, args.last_steps, args.widen, args.key)
        show_answers(sys.stdout, args.path, args.phis, *steps, args.json, args.storage_options)
        return
    from quantide.live.live_report import show_window_answers

    if args.widen:
        raise InvalidArgumentError("--widen is about --last-steps; a window of recent values is never widened")
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


def _add_rank_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("values", metavar="VALUE", nargs="+", help='values to count up to: 12.5, 2026-01-31, "1500 ms"')
    parser.add_argument("--mode", choices=MODES, help="as of `quantide quantile` (quick where that would read much)")
    parser.add_argument("--below", action="store_true", help="count values that are below, instead of at most, a value")
    _add_window_options(parser)
    _add_key_option(parser)


def _rank(args: argparse.Namespace) -> None:
    from quantide.live.live_report import show_ranks

    how = (args.mode, not args.below)
    show_ranks(sys.stdout, args.path, args.values, _scope(args), *how, args.json, args.storage_options)


RANK = history_command(
    "rank",
    "Print how many values are at most a value, with proved bounds",
    "Also their fraction. The inverse of `quantide quantile`, about the same windows and keys.",
    (
        "quantide rank data/latency 100 200 500",
        "quantide rank data/latency 200 --within 5min --key /pay --json",
    ),
    _rank,
    _add_rank_options,
)


def _add_compare_options(parser: argparse.ArgumentParser) -> None:
    shifted = "quantiles whose shift is printed (0.5 0.9 0.99)"
    parser.add_argument("--phi", metavar="PHI", type=_read_phi, nargs="+", help=shifted)
    _add_window_options(parser)
    _add_key_option(parser)
    group = parser.add_argument_group("the other side; by default everything in the same store")
    group.add_argument("--against", metavar="PATH", help="another store")
    group.add_argument("--against-within", metavar="SPAN", help="a window of time up to its newest time")
    group.add_argument("--against-last", type=int, metavar="N", help="the N values that arrived last")
    group.add_argument("--against-filter", metavar="NAME", help="only recent values that satisfy a filter of its store")
    group.add_argument("--against-last-steps", type=int, metavar="N", help="only the last N steps and the open one")
    group.add_argument("--against-key", action="append", metavar="KEY", help="one key; repeat for each of its columns")


def _compare(args: argparse.Namespace) -> None:
    from quantide.live.comparison_report import show_comparison
    from quantide.summary.comparison import PHIS

    own, other = _scope(args), _scope(args, "against_")
    reference = None if args.against is None else check_path(args.against)
    phis = args.phi or PHIS
    show_comparison(sys.stdout, args.path, own, reference, other, phis, args.json, args.storage_options)


COMPARE = history_command(
    "compare",
    "Compare two windows, keys or stores, with proved bounds of each difference",
    "Distances of the distributions, and shifts: a shift is a quantile of the first side minus that of the other one.",
    (
        "quantide compare data/latency --within 5min --against-last-steps 7",
        "quantide compare data/latency --key /pay --against-key /search",
        "quantide compare data/today --against data/yesterday --json",
    ),
    _compare,
    _add_compare_options,
)


def _add_worst_keys_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("phi", metavar="PHI", type=_read_phi, help="the quantile to compare: 0.99 for p99")
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
