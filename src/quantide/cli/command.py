"""Command: a subcommand's parser, help text, and required extras."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from typing import NoReturn

from quantide.errors import ConfigError, InvalidArgumentError, MissingPackageError

CHECK_FAILED = 1  # exit code
EXAMPLE_CONFIG = "quantide.toml"
DEFAULT_MASTER = "local[*]"
# One package of each extra: if it is missing, so is the extra.
EXTRA_PACKAGES = {"history": "deltalake", "spark": "pyspark", "server": "fastapi"}
PACKAGE_EXTRAS = {
    "deltalake": "history",
    "obstore": "history",
    "pyspark": "spark",
    "py4j": "spark",
    "pandas": "spark",
    "sqlglot": "spark",
    "fastapi": "server",
    "uvicorn": "server",
    "orjson": "server",
    "pydantic": "server",
    "starlette": "server",
    "prometheus_client": "server",
    "fastapi_offline": "server",
    "httpx": "server",
}


class UsageError(InvalidArgumentError):
    """Invalid command line."""


class CommandParser(argparse.ArgumentParser):
    """Parser of a command's arguments; raises UsageError instead of exiting."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see: {self.prog} --help")

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        args, unknown = self.parse_known_args(arguments)
        if unknown:
            similar = get_close_matches(unknown[0].split("=")[0], self._option_string_actions, 1)
            fix = f"did you mean {similar[0]}?" if similar else f"see: {self.prog} --help"
            if "--phi" in self._option_string_actions and is_number(unknown[0]):
                fix = f"did you mean --phi {unknown[0]}?"
            raise UsageError(f"{unknown[0]!r} is not understood; {fix}")
        return args


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Command:
    """A subcommand; `run` returns its exit code, or None for 0."""

    name: str
    summary: str
    """One line for the list of commands."""
    description: str
    """One or two more sentences for its own help."""
    examples: tuple[str, ...]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | None]
    extras: tuple[str, ...] = ()

    def make_parser(self) -> CommandParser:
        parser = CommandParser(
            prog=f"quantide {self.name}",
            description=f"{self.summary}. {self.description}",
            epilog="\n".join(["for example:", *(f"  {example}" for example in self.examples)]),
            formatter_class=CommandHelp,
            allow_abbrev=False,
        )
        self.add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="write output and errors as JSON, for programs")
        return parser

    def check_extras(self) -> None:
        """Raise MissingPackageError, naming all missing extras at once."""
        missing = [extra for extra in self.extras if find_spec(EXTRA_PACKAGES[extra]) is None]
        if missing:
            packages = " and ".join(EXTRA_PACKAGES[extra] for extra in missing)
            raise MissingPackageError.of(f"quantide {self.name}", packages, ",".join(missing))


class CommandHelp(argparse.RawDescriptionHelpFormatter):
    """Help formatter that wraps sentences but not examples."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("for example:"):
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)


def describe_import_error(error: ImportError) -> str:
    """Return a message with the `pip install` that provides the missing package, if an extra does.

    >>> describe_import_error(ModuleNotFoundError("No module named 'deltalake'", name="deltalake"))
    'this needs deltalake, which is not installed; run: pip install "quantide[history]"'
    """
    cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
    name = (cause.name or "").partition(".")[0]
    if name not in PACKAGE_EXTRAS:
        return f"a package is missing or broken: {error}; run `quantide doctor` to see what to install"
    return str(MissingPackageError.of("this", name, PACKAGE_EXTRAS[name]))


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help=f"a TOML file, such as {EXAMPLE_CONFIG}")


def add_storage_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="NAME=VALUE, an option of a store in object storage, such as region=eu-central-1; a credential is written "
        "as NAME=env:VARIABLE; repeat for more",
    )


def read_storage_options(args: argparse.Namespace) -> dict[str, str] | None:
    """Return the options that were given; None without any."""
    from quantide.config.storage_options import resolve_option

    options = {}
    for item in args.storage_option:
        name, sign, value = item.partition("=")
        if name in options:
            raise UsageError(f"--storage-option {name} is given twice; leave one out")
        if not name or not sign:
            raise UsageError("--storage-option is not understood; write it as NAME=VALUE, such as region=eu-central-1")
        try:
            options[name] = resolve_option(f"--storage-option {name}", name, value)
        except ConfigError as error:
            raise UsageError(str(error)) from error
    return options or None


def check_path(path: str) -> str:
    """Return the path of a history; refuse a URI with credentials."""
    from quantide.config.storage_options import check_uri, is_uri

    return check_uri("PATH", path) if is_uri(path) else path


def add_master(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", default=DEFAULT_MASTER, help="where Spark runs (%(default)s: here, on all cores)")
