"""Commands that serve: serve; run, which takes in and serves; demo, which makes something up to take in and serve."""

import argparse
import sys

from quantide.cli.command import Command, add_config
from quantide.cli.feeding import ingest, ingest_options


def _serve_options(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    _proxy_option(parser)
    parser.add_argument("--parent", type=int, metavar="PID", help=argparse.SUPPRESS)  # it ends when that process does


def _proxy_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--behind-proxy", action="store_true", help="a proxy in front of it does TLS")


def _serve(args: argparse.Namespace) -> None:
    from quantide.config import read_config

    config = read_config(args.config)
    from quantide.server.serve import serve

    serve(config, sys.stdout, behind_proxy=args.behind_proxy, parent=args.parent, json=args.json)


def _run_options(parser: argparse.ArgumentParser) -> None:
    ingest_options(parser)
    _proxy_option(parser)


def _run(args: argparse.Namespace) -> int | None:
    from quantide.config import read_config

    read_config(args.config)
    from quantide.cli.child import Server
    from quantide.doctor import java

    java.require("streams are taken in with Spark")
    from quantide.demo.ending import ended_by_sigterm

    words = [args.config, *(["--behind-proxy"] if args.behind_proxy else []), *(["--json"] if args.json else [])]
    with ended_by_sigterm(), Server(words) as server:
        code = server.begin()
        if code is None:
            ingest(args)
    return code


def _demo_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, help="where the page is (8642, or a free one where that is taken)")
    parser.add_argument("--terminal", action="store_true", help="show it in this terminal, too")
    parser.add_argument("--folder", metavar="DIR", help="keep everything there, and go on with it (a temporary one)")
    parser.add_argument("--seconds", type=float, help="end by itself so long after the page is up (until Ctrl-C)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other ticks (%(default)s)")


def _demo(args: argparse.Namespace) -> int | None:
    from quantide.demo.play import Wishes, play

    return play(sys.stdout, Wishes(args.seed, args.seconds, args.folder, args.port, args.terminal, args.json))


SERVE = Command(
    "serve",
    "Serve the streams of a configuration over HTTP",
    "Answers questions, keeps standing queries, events and alarms. It reads stores that `quantide ingest`, or any "
    "other program, writes. Goes on until SIGTERM or Ctrl-C.",
    ("quantide serve quantide.toml",),
    _serve_options,
    _serve,
    ("server",),
)
RUN = Command(
    "run",
    "Take in the streams of a configuration, and serve them: a whole installation",
    "As `quantide ingest`, with `quantide serve` as a process beside it. The server is started first, and again should "
    "it ever die; both end together, with SIGTERM or Ctrl-C.",
    ("quantide run quantide.toml",),
    _run_options,
    _run,
    ("server", "spark"),
)
DEMO = Command(
    "demo",
    "A whole installation on a made-up market: open the page and watch",
    "Thirty days of history, and live ticks through Spark. What it writes is gone when it ends, unless --folder says "
    "where to keep it.",
    ("quantide demo", "quantide demo --terminal", "quantide demo --folder market --port 8700"),
    _demo_options,
    _demo,
    ("server", "spark"),
)
