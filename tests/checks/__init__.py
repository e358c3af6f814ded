"""Promises of every sketch and window; `tests/test_checks.py` crosses the checks with the classes.

A check is a function `check_*(kind, rng)`, or `check_*(kind, order, rng)` to be run on every order, in any module here.
`@needs("merge")` keeps a check to the kinds that promise that much.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules


def all_checks() -> list[Callable[..., None]]:
    """Return every check, by name."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    checks = [check for module in modules for name, check in vars(module).items() if name.startswith("check_")]
    return sorted(checks, key=lambda check: check.__name__)
