"""What a command is, and the parser of its options: errors in one line that says where to look."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NoReturn

from quantide.errors import InvalidArgumentError

EXAMPLE = "quantide.toml"
MASTER = "local[*]"


class UsageError(InvalidArgumentError):
    """A command line that cannot be understood."""


class Parser(argparse.ArgumentParser):
    """Reads the words behind a command. What it does not understand is a UsageError."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see: {self.prog} --help")

    def read(self, words: list[str]) -> argparse.Namespace:
        args, unknown = self.parse_known_args(words)
        if unknown:
            near = get_close_matches(unknown[0].split("=")[0], self._option_string_actions, 1)
            fix = f"did you mean {near[0]}?" if near else f"see: {self.prog} --help"
            raise UsageError(f"{unknown[0]!r} is not understood; {fix}")
        return args


@dataclass(frozen=True)
class Command:
    """A command: `run` does it, and gives its exit code where that is not 0."""

    name: str
    line: str
    """What the list of commands says."""
    about: str
    """A sentence or two more."""
    examples: tuple[str, ...]
    options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | None]
    needs: tuple[str, ...] = ()
    """Extras."""

    def parser(self) -> Parser:
        parser = Parser(
            prog=f"quantide {self.name}",
            description=f"{self.line}. {self.about}",
            epilog="\n".join(["for example:", *(f"  {example}" for example in self.examples)]),
            formatter_class=Look,
            allow_abbrev=False,
        )
        self.options(parser)
        parser.add_argument("--json", action="store_true", help="write JSON, for programs; errors too")
        return parser


class Look(argparse.RawDescriptionHelpFormatter):
    """Sentences are wrapped, examples are not."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("for example:"):
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help=f"a TOML file, such as {EXAMPLE}")


def add_master(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", default=MASTER, help="where Spark runs (%(default)s: here, on all cores)")
