"""Commands that serve: serve; run, which ingests and serves; demo, which does both with generated data."""

import argparse
import sys

from quantide.cli.command import Command, add_config
from quantide.cli.ingest_commands import add_ingest_arguments, ingest


def _add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    _add_proxy_option(parser)
    parser.add_argument("--parent", type=int, metavar="PID", help=argparse.SUPPRESS)  # exit when that process does


def _add_proxy_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--behind-proxy", action="store_true", help="a proxy in front of the server handles TLS")


def _serve(args: argparse.Namespace) -> None:
    from quantide.config import read_config

    config = read_config(args.config)
    from quantide.server.serve import serve

    serve(config, sys.stdout, behind_proxy=args.behind_proxy, parent=args.parent, json=args.json)


SERVE = Command(
    "serve",
    "Serve the streams of a configuration over HTTP",
    "Answers queries and runs continuous queries, events and alarms. It reads stores that `quantide ingest`, or any "
    "other program, writes. Runs until SIGTERM or Ctrl-C.",
    ("quantide serve quantide.toml",),
    _add_serve_arguments,
    _serve,
    ("server",),
)


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    add_ingest_arguments(parser)
    _add_proxy_option(parser)


def _run(args: argparse.Namespace) -> int | None:
    from quantide.config import read_config

    read_config(args.config)
    from quantide.cli.server_process import ServerProcess
    from quantide.doctor import spark_checks

    spark_checks.require_java("streams are ingested with Spark")
    from quantide.demo.shutdown import sigterm_as_interrupt

    arguments = [args.config, *(["--behind-proxy"] if args.behind_proxy else []), *(["--json"] if args.json else [])]
    with sigterm_as_interrupt(), ServerProcess(arguments) as server:
        code = server.start()
        if code is None:
            ingest(args)
    return code


RUN = Command(
    "run",
    "Ingest the streams of a configuration and serve them: a whole installation",
    "Combines `quantide ingest` with `quantide serve` as a second process. The server starts first and is restarted if "
    "it fails; both end together, with SIGTERM or Ctrl-C.",
    ("quantide run quantide.toml",),
    _add_run_arguments,
    _run,
    ("server", "spark"),
)


def _add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, help="port of the page (8642, or a free one if that is taken)")
    parser.add_argument("--terminal", action="store_true", help="show it in this terminal, too")
    parser.add_argument("--folder", metavar="DIR", help="store everything there, to continue later (a temporary one)")
    parser.add_argument("--seconds", type=float, help="stop this long after the page is up (until Ctrl-C)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generated ticks (%(default)s)")


def _demo(args: argparse.Namespace) -> int | None:
    from quantide.demo.demo_run import DemoOptions, run_demo

    return run_demo(sys.stdout, DemoOptions(args.seed, args.seconds, args.folder, args.port, args.terminal, args.json))


DEMO = Command(
    "demo",
    "Run a whole installation on a generated market; prints the address of its page",
    "Thirty days of history, and live ticks through Spark. Its data is deleted when it ends, unless --folder is given.",
    ("quantide demo", "quantide demo --terminal", "quantide demo --folder market --port 8700"),
    _add_demo_arguments,
    _demo,
    ("server", "spark"),
)
