"""Commands that ingest data: ingest, history build."""

import argparse
import sys

from quantide.cli.command import Command, add_config, add_master, add_storage_options, check_path, read_storage_options


def add_ingest_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("--once", action="store_true", help="ingest the data that is there now, then exit")
    add_master(parser)
    parser.add_argument("--reset", action="store_true", help="start a new checkpoint; skips data the store already has")
    parser.add_argument(
        "--allow-duplicates",
        action="store_true",
        help="with --reset: accept duplicates from a source that cannot identify the data it has sent",
    )


def ingest(args: argparse.Namespace) -> None:
    from quantide.config import read_config

    config = read_config(args.config)
    from quantide.spark.ingest import ingest as run

    run(config, sys.stdout, args.master, args.once, args.reset, args.allow_duplicates, args.json, announce=True)


INGEST = Command(
    "ingest",
    "Ingest the streams of a configuration, with Spark",
    "Runs until SIGTERM or Ctrl-C and reports the progress of each stream now and then. kill -9 loses nothing.",
    ("quantide ingest quantide.toml", "quantide ingest quantide.toml --once"),
    add_ingest_arguments,
    ingest,
    ("history", "spark"),
)


def _add_build_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a Parquet file, folder or glob, or a Delta table")
    parser.add_argument("path", metavar="PATH", help="a new folder, or a URI such as s3://bucket/name, for the history")
    parser.add_argument("--column", help="the column of values (default: the only one that is not a key)")
    parser.add_argument("--by", action="append", metavar="COLUMN", help="a column to group by; repeat for more")
    parser.add_argument("--weights", metavar="COLUMN", help="a column of whole numbers: a value of weight w is w rows")
    parser.add_argument("--eps", type=float, help="error allowed on the open step (0.001)")
    parser.add_argument(
        "--tail",
        type=_read_tail,
        default=argparse.SUPPRESS,
        help="error allowed towards the ends, as a fraction of the distance from them, or none (10 * eps up to 0.01)",
    )
    parser.add_argument("--kappa", type=int, help="maximum number of runs per level (10)")
    add_storage_options(parser)
    add_master(parser)


def _read_tail(text: str) -> float | None:
    from quantide.summary.ranks import check_tail

    try:
        return None if text.lower() == "none" else check_tail(float(text), 1.0)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"write a number between 0 and 1, such as 0.01, or none, not {text!r}"
        ) from error


def _build(args: argparse.Namespace) -> None:
    from quantide.spark.history_build import build
    from quantide.summary.ranks import DEFAULT

    build(
        args.source,
        check_path(args.path),
        args.column,
        args.by,
        args.eps,
        args.kappa,
        args.master,
        sys.stdout,
        args.json,
        read_storage_options(args),
        getattr(args, "tail", DEFAULT),
        args.weights,
    )


BUILD = Command(
    "history build",
    "Build a history from a table in a lake, with Spark",
    "All of it becomes visible at once: a build that fails, or is killed, leaves an empty history.",
    ("quantide history build lake/requests.parquet data/latency --column ms --by endpoint",),
    _add_build_arguments,
    _build,
    ("history", "spark"),
)
