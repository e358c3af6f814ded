"""The commands of Quantide."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from quantide.errors import InvalidArgumentError, QuantideError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 2 when it was asked for what cannot be done."""
    args = parser().parse_args(argv)
    try:
        args.command(args)
    except QuantideError as error:
        print(f"quantide: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        abandon_output()
    except KeyboardInterrupt:
        return 130
    return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="quantide",
        description="Quantiles of data that keeps arriving, with an error bound proved for every answer.",
    )
    top.add_argument("--version", action="version", version=f"quantide {version('quantide')}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_demo(commands.add_parser("demo", help="watch a sketch answer, beside the exact quantiles"))
    add_quantile(commands.add_parser("quantile", help="quantiles of a history, with their proved bounds"))
    add_history(commands.add_parser("history", help="the runs of a history; `history build` makes one of a lake"))
    add_ingest(commands.add_parser("ingest", help="take in the streams of a configuration, with Spark"))
    add_ingest(commands.add_parser("run", help="as ingest; the command to start a whole installation with"))
    add_quarantine(commands.add_parser("quarantine", help="bad records and files: list them, or try them again"))
    return top


def add_demo(command: argparse.ArgumentParser) -> None:
    command.add_argument("--seconds", type=float, help="how long it runs (until Ctrl-C; 8 without a terminal)")
    command.add_argument("--eps", type=float, default=0.001, help="largest error allowed (%(default)s)")
    command.add_argument("--rate", type=float, default=5e6, help="values a second (%(default).0f)")
    command.add_argument("--seed", type=int, default=1, help="another seed, other values (%(default)s)")
    command.set_defaults(command=demo)


def demo(args: argparse.Namespace) -> None:
    from quantide.demo import run

    run(sys.stdout, eps=args.eps, rate=args.rate, seed=args.seed, seconds=args.seconds)


def add_quantile(command: argparse.ArgumentParser) -> None:
    command.add_argument("path", metavar="PATH", help="the folder of a history")
    command.add_argument("phis", metavar="PHI", type=float, nargs="+", help="0.5 for the median, 0.99 for p99")
    command.add_argument("--mode", choices=("accurate", "quick", "exact"), default="accurate", help="(%(default)s)")
    command.add_argument("--last-steps", type=int, metavar="N", help="only the last N steps, and the open one")
    command.add_argument("--widen", action="store_true", help="take more steps where N of them would cut a run")
    command.add_argument("--key", action="append", metavar="KEY", help="of one key; again for each of its columns")
    command.set_defaults(command=quantile)


def quantile(args: argparse.Namespace) -> None:
    from quantide.history.show import show_answers

    show_answers(sys.stdout, args.path, args.phis, args.mode, args.last_steps, args.widen, args.key)


def add_history(command: argparse.ArgumentParser) -> None:
    command.add_argument("path", metavar="PATH", help="the folder of a history; or: build SOURCE PATH")
    command.add_argument("rest", nargs="*", metavar="SOURCE PATH", help="with build: a lake table, and a new folder")
    command.add_argument("--column", help="build: the column of values (the only one)")
    command.add_argument("--by", action="append", metavar="COLUMN", help="build: a key column; again for more")
    command.add_argument("--eps", type=float, help="build: error allowed on the open step (0.001)")
    command.add_argument("--kappa", type=int, help="build: runs a level may have (10)")
    command.add_argument("--master", default="local[*]", help="build: the Spark master (%(default)s)")
    command.set_defaults(command=history)


def history(args: argparse.Namespace) -> None:
    if args.path == "build":
        if len(args.rest) != 2:
            raise InvalidArgumentError(
                "history build needs a SOURCE and a PATH: quantide history build lake.parquet store"
            )
        from quantide.spark.build import build

        source, path = args.rest
        build(source, path, args.column, args.by, args.eps, args.kappa, args.master, sys.stdout)
        return
    if args.rest:
        raise InvalidArgumentError("history shows one PATH; to make one: quantide history build SOURCE PATH")
    from quantide.history.show import show_history

    show_history(sys.stdout, args.path)


def add_ingest(command: argparse.ArgumentParser) -> None:
    command.add_argument("config", metavar="CONFIG", help="a TOML file")
    command.add_argument("--once", action="store_true", help="take in what is there, then end")
    command.add_argument("--master", default="local[*]", help="the Spark master (%(default)s)")
    command.add_argument("--reset", action="store_true", help="begin a new checkpoint; what the store has is skipped")
    command.add_argument(
        "--allow-duplicates", action="store_true", help="with --reset: of a source that cannot tell what it has sent"
    )
    command.set_defaults(command=ingest)


def ingest(args: argparse.Namespace) -> None:
    from quantide.config import read_config

    config = read_config(args.config)
    from quantide.spark.ingest import ingest as run

    run(config, sys.stdout, args.master, args.once, args.reset, args.allow_duplicates)


def add_quarantine(command: argparse.ArgumentParser) -> None:
    command.add_argument("what", choices=("list", "retry"), help="show what is held, or try it again")
    command.add_argument("config", metavar="CONFIG", help="a TOML file")
    command.add_argument("--stream", metavar="NAME", help="of one stream only")
    command.add_argument("--master", default="local[*]", help="retry: the Spark master (%(default)s)")
    command.set_defaults(command=quarantine)


def quarantine(args: argparse.Namespace) -> None:
    from quantide.config import read_config

    config = read_config(args.config)
    from quantide.spark.stream.quarantine import retry, show

    if args.what == "list":
        show(config, args.stream, sys.stdout)
    else:
        retry(config, args.stream, args.master, sys.stdout)


def abandon_output() -> None:
    """Whoever read our output has gone: let what is left of it vanish without another error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
