"""The commands of Quantide."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from quantide.errors import QuantideError


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


def abandon_output() -> None:
    """Whoever read our output has gone: let what is left of it vanish without another error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
