"""TOML table that knows its own name, so that every error names the key."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

from quantide.errors import ConfigError, QuantideError

T = TypeVar("T")
MIN_SIMILARITY = 0.8  # of an unknown key to a missing one: value_type is not a misspelt value


class ConfigTable:
    """A table of a configuration file; keys that were never read are rejected at the end."""

    def __init__(self, values: Any, name: str, fix: str) -> None:
        if not isinstance(values, dict):
            raise ConfigError(f"{name} is {format_value(values)}; {fix}")
        self._values, self.name, self._known_keys = values, name, set[str]()

    def key(self, name: str) -> str:
        """Return the full name of a key."""
        return f"{self.name}.{name}" if self.name else name

    def get(self, name: str) -> Any:
        """Return the value of a key as it is, or None."""
        self._known_keys.add(name)
        return self._values.get(name)

    def text(self, name: str, example: str, needed: bool = False) -> str | None:
        """Return text that is not blank."""
        value = self.get(name)
        if value is None and needed:
            raise self.missing(name, example)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise ConfigError(f"{self.key(name)} is {format_value(value)}; write text, such as {name} = {example}")
        if value is not None and "\0" in value:  # no path and no name of a column has it
            raise ConfigError(
                f"{self.key(name)} has the character \\u0000; write it without, such as {name} = {example}"
            )
        return value

    def count(self, name: str, example: str) -> int | None:
        """Return a whole number above zero."""
        value = self.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ConfigError(
                f"{self.key(name)} is {format_value(value)}; write a whole number from 1 on, such as {example}"
            )
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise ConfigError(f"{self.key(name)} is {format_value(value)}; write {name} = true or {name} = false")
        return default if value is None else bool(value)

    def choice(self, name: str, choices: Iterable[str]) -> str:
        """Return one of the choices; the first one by default."""
        value, allowed = self.get(name), list(choices)
        if value is None:
            return allowed[0]
        if value not in allowed:
            similar = find_similar(value, allowed)
            hint = f"; did you mean {format_value(similar)}?" if similar else ""
            raise ConfigError(
                f"{self.key(name)} is {format_value(value)}; write one of {', '.join(map(format_value, allowed))}{hint}"
            )
        return str(value)

    def parse(self, name: str, parser: Callable[[Any], T], example: str) -> T | None:
        """Return the value that a function parses; its error gets the name of the key."""
        value = self.get(name)
        if value is None:
            return None
        try:
            return parser(value)
        except QuantideError as error:
            raise ConfigError(
                f"{self.key(name)} is {format_value(value)}: {error}. Write it as {name} = {example}"
            ) from error

    def table(self, name: str, fix: str) -> "ConfigTable | None":
        value = self.get(name)
        return None if value is None else ConfigTable(value, self.key(name), fix)

    def missing(self, name: str, example: str) -> ConfigError:
        """Return the error for a missing key; it names a similar unknown key."""
        similar = find_similar(name, [key for key in self._values if key not in self._known_keys], MIN_SIMILARITY)
        fix = f"{self.key(similar)} is not a setting: rename it to {name}" if similar else f"add {name} = {example}"
        return ConfigError(f"{self.key(name)} is missing; {fix}")

    def items(self) -> list[tuple[str, Any]]:
        """Return all items of a table whose keys are chosen by users."""
        self._known_keys |= set(self._values)
        return list(self._values.items())

    def reject_unknown_keys(self, hint: str = "") -> None:
        for name in self._values:
            if name not in self._known_keys:
                similar = find_similar(name, sorted(self._known_keys))
                fix = f"did you mean {similar}?" if similar else f"known here are {', '.join(sorted(self._known_keys))}"
                raise ConfigError(f"{self.key(name)} is not a setting; {fix}{hint}")


def find_similar(name: Any, names: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Return the most similar name, ignoring case; None if none is similar.

    >>> find_similar("Latency", ["latency_ms", "ts"])
    'latency_ms'
    """
    if not isinstance(name, str):
        return None
    by_lower_case = {candidate.lower(): candidate for candidate in names}
    matches = get_close_matches(name.lower(), by_lower_case, 1, cutoff)
    return by_lower_case[matches[0]] if matches else None


def format_value(value: Any) -> str:
    """Return a value for an error message, roughly as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
