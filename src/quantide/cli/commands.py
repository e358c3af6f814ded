"""All commands in their groups, and `main`, which finds the one that is meant, runs it, and tells what went wrong."""

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches

from quantide import __version__
from quantide.cli.asking import HISTORY, QUANTILE
from quantide.cli.care import DOCTOR, QUARANTINE_LIST, QUARANTINE_RETRY, REPAIR, VERIFY
from quantide.cli.command import Command, UsageError
from quantide.cli.extras import check_extras, extra_for
from quantide.cli.feeding import BUILD, INGEST
from quantide.cli.retention import CLOCK, RESTORE
from quantide.cli.serving import DEMO, RUN, SERVE
from quantide.cli.token import TOKEN_CREATE, TOKEN_LIST, TOKEN_OPEN, TOKEN_REVOKE
from quantide.errors import QuantideError
from quantide.summary.shown import write_line

GROUPS: dict[str, tuple[Command, ...]] = {
    "ask": (QUANTILE, HISTORY),
    "run": (DEMO, RUN, INGEST, SERVE, BUILD),
    "look after": (
        *(DOCTOR, VERIFY, REPAIR, CLOCK, RESTORE, QUARANTINE_LIST, QUARANTINE_RETRY),
        *(TOKEN_CREATE, TOKEN_LIST, TOKEN_REVOKE, TOKEN_OPEN),
    ),
}
COMMANDS = {command.name: command for group in GROUPS.values() for command in group}
WIDTH = max(map(len, COMMANDS)) + 2
HELP = ("-h", "--help")

DONE, REFUSED = 0, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 1 when a check failed, 2 when asked for what cannot be done."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = run(words)
        sys.stdout.flush()
        return code
    except QuantideError as error:
        return refuse(error.code, str(error), words)
    except BrokenPipeError:
        abandon_output()
        return DONE
    except ImportError as error:
        return refuse("missing_package", extra_for(error), words)
    except OSError as error:
        return refuse("storage", str(error), words)


def run(words: list[str]) -> int:
    """Help and version, or the command that the first words name."""
    if not words or words[0] in (*HELP, "help"):
        print(overview())
        return DONE
    if words[0] == "--version":
        print(f"quantide {__version__}")
        return DONE
    parts = [command for name, command in COMMANDS.items() if name.startswith(f"{words[0]} ")]
    if words[0] not in COMMANDS and parts and words[1:] and words[1] in HELP:
        print(*(f"quantide {command.name:<{WIDTH}}{command.line}" for command in parts), sep="\n")
        return DONE
    command, rest = find(words)
    args = command.parser().read(rest)
    check_extras(command)
    return command.run(args) or DONE


def find(words: list[str]) -> tuple[Command, list[str]]:
    """The command that is meant, and what is said to it; `history build` and its like are named by two words."""
    first, rest = words[0], words[1:]
    parts = {name.split()[1]: name for name in COMMANDS if name.startswith(f"{first} ")}
    if rest and rest[0] in parts:
        return COMMANDS[parts[rest[0]]], rest[1:]
    near = get_close_matches(rest[0], parts, 1) if rest else []
    if near and not os.path.exists(rest[0]):
        raise UsageError(f"'{first} {rest[0]}' is not a command; did you mean: quantide {parts[near[0]]}")
    if first in COMMANDS:
        return COMMANDS[first], rest
    if parts:
        raise UsageError(f"say which: {', '.join(f'quantide {name}' for name in parts.values())}")
    near = get_close_matches(first, {name.split()[0] for name in COMMANDS}, 1)
    fix = f"did you mean: quantide {near[0]}" if near else "`quantide --help` lists those there are"
    raise UsageError(f"{first!r} is not a command; {fix}")


def overview() -> str:
    """What `quantide --help` says."""
    lines = [
        "usage: quantide COMMAND ...",
        "",
        "Quantiles of data that keeps arriving, with an error bound proved for every answer.",
    ]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {command.name:<{WIDTH}}{command.line}" for command in commands)]
    return "\n".join(
        [
            *lines,
            "",
            "`quantide COMMAND --help` tells more; --json, on every command, writes JSON; --version the version.",
            "",
            "for example:",
            "  quantide quantile data/latency 0.5 0.99     the median and p99 of a store",
            "  quantide run quantide.toml                  take in streams and serve them",
        ]
    )


def refuse(code: str, message: str, words: Sequence[str]) -> int:
    """Say what cannot be done, in one line of text or of JSON."""
    if "--json" in words:
        write_line(sys.stderr, {"error": {"code": code, "message": message}})
    else:
        print(f"quantide: {message}", file=sys.stderr)
    return REFUSED


def abandon_output() -> None:
    """Whoever read our output has gone: let what is left of it vanish without another error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
