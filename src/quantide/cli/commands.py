"""All commands in their groups, and `main`, which finds the one that is meant, runs it, and tells what went wrong."""

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import version

from quantide.cli.asking import DEMO, HISTORY, QUANTILE
from quantide.cli.care import DOCTOR, QUARANTINE_LIST, QUARANTINE_RETRY, VERIFY
from quantide.cli.command import Command, UsageError
from quantide.cli.extras import extra_for
from quantide.cli.feeding import BUILD, INGEST
from quantide.cli.serving import RUN, SERVE
from quantide.cli.token import TOKEN_CREATE, TOKEN_LIST, TOKEN_REVOKE
from quantide.errors import QuantideError
from quantide.summary.shown import write_line

GROUPS: dict[str, tuple[Command, ...]] = {
    "ask": (DEMO, QUANTILE, HISTORY),
    "run": (RUN, INGEST, SERVE, BUILD),
    "look after": (DOCTOR, VERIFY, QUARANTINE_LIST, QUARANTINE_RETRY, TOKEN_CREATE, TOKEN_LIST, TOKEN_REVOKE),
}
COMMANDS = {command.name: command for group in GROUPS.values() for command in group}

DONE, REFUSED, INTERRUPTED = 0, 2, 130


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
    except KeyboardInterrupt:
        return INTERRUPTED


def run(words: list[str]) -> int:
    """Help and version, or the command that the first words name."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return DONE
    if words[0] == "--version":
        print(f"quantide {version('quantide')}")
        return DONE
    command, rest = find(words)
    args = command.parser().read(rest)
    return command.run(args) or DONE


def find(words: list[str]) -> tuple[Command, list[str]]:
    """The command that is meant, and what is said to it; `history build` and its like are named by two words."""
    for count in (2, 1):
        name = " ".join(words[:count])
        if len(words) >= count and name in COMMANDS:
            return COMMANDS[name], words[count:]
    parts = [name for name in COMMANDS if name.startswith(f"{words[0]} ")]
    if parts and (len(words) == 1 or words[1].startswith("-")):
        raise UsageError(f"say which: {', '.join(f'quantide {name}' for name in parts)}")
    near = get_close_matches(" ".join(words[:2]), parts or COMMANDS, 1) or get_close_matches(words[0], COMMANDS, 1)
    fix = f"did you mean: quantide {near[0]}" if near else "`quantide --help` lists those there are"
    raise UsageError(f"{' '.join(words[: 2 if parts else 1])!r} is not a command; {fix}")


def overview() -> str:
    """What `quantide --help` says."""
    width = max(map(len, COMMANDS)) + 2
    lines = [
        "usage: quantide COMMAND ...",
        "",
        "Quantiles of data that keeps arriving, with an error bound proved for every answer.",
    ]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {command.name:<{width}}{command.line}" for command in commands)]
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
