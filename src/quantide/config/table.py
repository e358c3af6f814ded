"""A table of a configuration file that knows its own name, so that every complaint can say which key it is about."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

from quantide.errors import ConfigError, QuantideError

T = TypeVar("T")
ALIKE = 0.8  # how like a key must be to one that is needed: value_type is not meant for value


class Table:
    """Keys are taken one by one; what is left at the end is unknown."""

    def __init__(self, found: Any, name: str, fix: str) -> None:
        if not isinstance(found, dict):
            raise ConfigError(f"{name} is {shown(found)}; {fix}")
        self._found, self.name, self._known = found, name, set[str]()

    def key(self, name: str) -> str:
        """The whole name of a key."""
        return f"{self.name}.{name}" if self.name else name

    def raw(self, name: str) -> Any:
        """Whatever is there; None when nothing is."""
        self._known.add(name)
        return self._found.get(name)

    def text(self, name: str, example: str, needed: bool = False) -> str | None:
        """Text that says something."""
        found = self.raw(name)
        if found is None and needed:
            raise self.missing(name, example)
        if found is not None and (not isinstance(found, str) or not found.strip()):
            raise ConfigError(f"{self.key(name)} is {shown(found)}; write text, such as {name} = {example}")
        return found

    def count(self, name: str, example: str) -> int | None:
        """A whole number above zero."""
        found = self.raw(name)
        if found is not None and (isinstance(found, bool) or not isinstance(found, int) or found < 1):
            raise ConfigError(f"{self.key(name)} is {shown(found)}; write a whole number from 1 on, such as {example}")
        return found

    def flag(self, name: str) -> bool:
        found = self.raw(name)
        if found is not None and not isinstance(found, bool):
            raise ConfigError(f"{self.key(name)} is {shown(found)}; write {name} = true or {name} = false")
        return bool(found)

    def choice(self, name: str, choices: Iterable[str]) -> str:
        """One of some words; the first when nothing is said."""
        found, words = self.raw(name), list(choices)
        if found is None:
            return words[0]
        if found not in words:
            near = nearest(found, words)
            hint = f"; did you mean {shown(near)}?" if near else ""
            raise ConfigError(f"{self.key(name)} is {shown(found)}; write one of {', '.join(map(shown, words))}{hint}")
        return str(found)

    def read(self, name: str, reader: Callable[[Any], T], example: str) -> T | None:
        """What a function makes of it; its complaint gets the name of the key."""
        found = self.raw(name)
        if found is None:
            return None
        try:
            return reader(found)
        except QuantideError as error:
            raise ConfigError(f"{self.key(name)} is {shown(found)}: {error}. Write it as {name} = {example}") from error

    def table(self, name: str, fix: str) -> "Table | None":
        found = self.raw(name)
        return None if found is None else Table(found, self.key(name), fix)

    def missing(self, name: str, example: str) -> ConfigError:
        """The error about a key that is needed; it names the key that was probably meant for it."""
        near = nearest(name, [given for given in self._found if given not in self._known], ALIKE)
        fix = f"{self.key(near)} is not a setting: rename it to {name}" if near else f"add {name} = {example}"
        return ConfigError(f"{self.key(name)} is missing; {fix}")

    def items(self) -> list[tuple[str, Any]]:
        """All keys of a table whose keys are names that users choose."""
        self._known |= set(self._found)
        return list(self._found.items())

    def check_all_known(self, hint: str = "") -> None:
        for name in self._found:
            if name not in self._known:
                near = nearest(name, sorted(self._known))
                fix = f"did you mean {near}?" if near else f"known here are {', '.join(sorted(self._known))}"
                raise ConfigError(f"{self.key(name)} is not a setting; {fix}{hint if not near else ''}")


def nearest(name: Any, names: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The name most like another one, upper and lower case being the same; None if none is like it.

    >>> nearest("Latency", ["latency_ms", "ts"])
    'latency_ms'
    """
    if not isinstance(name, str):
        return None
    lower = {known.lower(): known for known in names}
    near = get_close_matches(name.lower(), lower, 1, cutoff)
    return lower[near[0]] if near else None


def shown(found: Any) -> str:
    """A value as an error shows it: as TOML has it, about."""
    if isinstance(found, bool):
        return str(found).lower()
    text = f'"{found}"' if isinstance(found, str) else repr(found)
    return text if len(text) <= 60 else text[:57] + "..."
