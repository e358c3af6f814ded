"""Commands that take data in: ingest, history build."""

import argparse
import sys

from quantide.cli.command import Command, add_config, add_master


def ingest_options(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("--once", action="store_true", help="take in what is there, then end")
    add_master(parser)
    parser.add_argument("--reset", action="store_true", help="begin a new checkpoint; what the store has is skipped")
    parser.add_argument(
        "--allow-duplicates", action="store_true", help="with --reset: of a source that cannot tell what it has sent"
    )


def ingest(args: argparse.Namespace) -> None:
    from quantide.config import read_config

    config = read_config(args.config)
    from quantide.spark.ingest import ingest as run

    run(config, sys.stdout, args.master, args.once, args.reset, args.allow_duplicates, args.json)


def _build_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a Parquet file, folder or glob, or a Delta table")
    parser.add_argument("path", metavar="PATH", help="a new folder, for the history")
    parser.add_argument("--column", help="the column of values (the only one that is no key)")
    parser.add_argument("--by", action="append", metavar="COLUMN", help="a key column; again for more")
    parser.add_argument("--eps", type=float, help="error allowed on the open step (0.001)")
    parser.add_argument("--kappa", type=int, help="runs a level may have (10)")
    add_master(parser)


def _build(args: argparse.Namespace) -> None:
    from quantide.spark.build import build

    build(
        args.source,
        args.path,
        args.column,
        args.by,
        args.eps,
        args.kappa,
        args.master,
        sys.stdout,
        args.json,
    )


INGEST = Command(
    "ingest",
    "Take in the streams of a configuration, with Spark",
    "Goes on until SIGTERM or Ctrl-C, and says now and then how each stream does. kill -9 loses nothing.",
    ("quantide ingest quantide.toml", "quantide ingest quantide.toml --once"),
    ingest_options,
    ingest,
    ("history", "spark"),
)
BUILD = Command(
    "history build",
    "Make a history of a table in a lake, with Spark",
    "All of it becomes visible at once: a build that fails, or is killed, leaves an empty history.",
    ("quantide history build lake/requests.parquet data/latency --column ms --by endpoint",),
    _build_options,
    _build,
    ("history", "spark"),
)
