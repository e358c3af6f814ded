"""Which extras a command needs, and what to install when one is missing or an import fails."""

from importlib.util import find_spec

from quantide.cli.command import Command
from quantide.errors import MissingPackageError

# One package of each extra: where it is missing, the extra is.
FIRST = {"history": "deltalake", "spark": "pyspark", "server": "fastapi"}
EXTRAS = {
    "deltalake": "history",
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


def check_extras(command: Command) -> None:
    """Refuse a command that lacks packages, and name all of its extras at once."""
    missing = [extra for extra in command.needs if find_spec(FIRST[extra]) is None]
    if missing:
        packages = " and ".join(FIRST[extra] for extra in missing)
        raise MissingPackageError.of(f"quantide {command.name}", packages, ",".join(missing))


def extra_for(error: ImportError) -> str:
    """The command that brings the missing package; of one that no extra brings, what Python says.

    >>> extra_for(ModuleNotFoundError("No module named 'deltalake'", name="deltalake"))
    'this needs deltalake, which is not installed; run: pip install "quantide[history]"'
    """
    cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
    name = (cause.name or "").partition(".")[0]
    if name not in EXTRAS:
        return f"a package is missing or broken: {error}; `quantide doctor` says what to install"
    return str(MissingPackageError.of("this", name, EXTRAS[name]))
