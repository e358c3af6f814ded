"""Command line: all commands in groups, and `main`, which runs one and reports its errors."""

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from io import TextIOWrapper

from quantide import __version__
from quantide.cli.admin_commands import DOCTOR, QUARANTINE_LIST, QUARANTINE_RETRY
from quantide.cli.command import Command, UsageError, describe_import_error
from quantide.cli.history_commands import CLOCK, DELETE, HISTORY, REPAIR, RESTORE, VERIFY
from quantide.cli.ingest_commands import BUILD, INGEST
from quantide.cli.push_commands import PUSH
from quantide.cli.query_commands import COMPARE, QUANTILE, RANK, WORST_KEYS
from quantide.cli.server_commands import DEMO, RUN, SERVE
from quantide.cli.token_commands import TOKEN_CREATE, TOKEN_LIST, TOKEN_OPEN, TOKEN_REVOKE
from quantide.errors import QuantideError
from quantide.summary.value_json import write_line

GROUPS: dict[str, tuple[Command, ...]] = {
    "query": (QUANTILE, RANK, COMPARE, WORST_KEYS, HISTORY),
    "run": (DEMO, RUN, INGEST, SERVE, PUSH, BUILD),
    "maintain": (
        *(DOCTOR, VERIFY, REPAIR, CLOCK, RESTORE, DELETE, QUARANTINE_LIST, QUARANTINE_RETRY),
        *(TOKEN_CREATE, TOKEN_LIST, TOKEN_REVOKE, TOKEN_OPEN),
    ),
}
COMMANDS = {command.name: command for group in GROUPS.values() for command in group}
WIDTH = max(map(len, COMMANDS)) + 2
HELP_OPTIONS = ("-h", "--help")

SUCCESS, ERROR = 0, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 1 if a check failed, 2 if the command could not be carried out."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # keys and units may have letters that a terminal lacks
    try:
        code = run(arguments)
        sys.stdout.flush()
        return code
    except QuantideError as error:
        return report_error(error.code, str(error), arguments)
    except BrokenPipeError:
        discard_output()
        return SUCCESS
    except ImportError as error:
        return report_error("missing_package", describe_import_error(error), arguments)
    except OSError as error:
        return report_error("storage", str(error), arguments)


def run(arguments: list[str]) -> int:
    """Print help or version, or run the command that the first arguments name."""
    if not arguments or arguments[0] in (*HELP_OPTIONS, "help"):
        print(format_overview())
        return SUCCESS
    if arguments[0] == "--version":
        print(f"quantide {__version__}")
        return SUCCESS
    subcommands = [command for name, command in COMMANDS.items() if name.startswith(f"{arguments[0]} ")]
    if arguments[0] not in COMMANDS and subcommands and arguments[1:] and arguments[1] in HELP_OPTIONS:
        print(*(f"quantide {command.name:<{WIDTH}}{command.summary}" for command in subcommands), sep="\n")
        return SUCCESS
    command, rest = find_command(arguments)
    args = command.make_parser().parse(rest)
    command.check_extras()
    return command.run(args) or SUCCESS


def find_command(arguments: list[str]) -> tuple[Command, list[str]]:
    """Return the named command and its arguments; names such as `history build` have two words."""
    first, rest = arguments[0], arguments[1:]
    subcommands = {name.split()[1]: name for name in COMMANDS if name.startswith(f"{first} ")}
    if rest and rest[0] in subcommands:
        return COMMANDS[subcommands[rest[0]]], rest[1:]
    similar = get_close_matches(rest[0], subcommands, 1) if rest else []
    if similar and not os.path.exists(rest[0]):
        raise UsageError(f"'{first} {rest[0]}' is not a command; did you mean: quantide {subcommands[similar[0]]}")
    if first in COMMANDS:
        return COMMANDS[first], rest
    if subcommands:
        raise UsageError(f"choose one of: {', '.join(f'quantide {name}' for name in subcommands.values())}")
    similar = get_close_matches(first, {name.split()[0] for name in COMMANDS}, 1)
    fix = f"did you mean: quantide {similar[0]}" if similar else "`quantide --help` lists the commands"
    raise UsageError(f"{first!r} is not a command; {fix}")


def format_overview() -> str:
    """Return the output of `quantide --help`."""
    lines = [
        "usage: quantide COMMAND ...",
        "",
        "Quantiles of data that keeps arriving, with an error bound proved for every answer.",
    ]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {command.name:<{WIDTH}}{command.summary}" for command in commands)]
    return "\n".join(
        [
            *lines,
            "",
            "`quantide COMMAND --help` explains a command. Every command takes --json. Version: --version.",
            "",
            "for example:",
            "  quantide quantile data/latency 0.5 0.99     the median and p99 of a store",
            "  quantide run quantide.toml                  ingest streams and serve them",
        ]
    )


def report_error(code: str, message: str, arguments: Sequence[str]) -> int:
    """Print an error as one line of text or JSON; return the exit code."""
    if "--json" in arguments:
        write_line(sys.stderr, {"error": {"code": code, "message": message}})
    else:
        print(f"quantide: {message}", file=sys.stderr)
    return ERROR


def discard_output() -> None:
    """Redirect standard output to the null device: its reader is gone, and flushing at exit must not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
