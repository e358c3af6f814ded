"""What to install when an import fails."""

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


def extra_for(error: ImportError) -> str:
    """The command that brings the missing package; of one that no extra brings, what Python says.

    >>> extra_for(ModuleNotFoundError("No module named 'deltalake'", name="deltalake"))
    'this needs deltalake, which is not installed; run: pip install "quantide[history]"'
    """
    cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
    name = (cause.name or "").partition(".")[0]
    if name not in EXTRAS:
        return f"a package is missing or broken: {error}; `quantide doctor` says what to install"
    return f'this needs {name}, which is not installed; run: pip install "quantide[{EXTRAS[name]}]"'
