"""ClickHouse in this process (chdb): its quantile functions over a table in memory, on one thread."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import Values
from benchmarks.peers import Method, Phis, load_required

_numbers = count()


@dataclass(frozen=True)
class Function:
    """A family of functions: `prefix` is what comes before the phis. `rounded`: it keeps and gives float32."""

    title: str
    name: str
    prefix: tuple[float, ...] = ()
    kind: str = "none"
    bound: float | None = None
    rounded: bool = False
    note: str = ""

    def call(self, phis: Sequence[float], column: str = "v", suffix: str = "") -> str:
        """SQL of one call; `suffix` is State or Merge."""
        parameters = ", ".join(repr(float(phi)) for phi in phis)
        before = "".join(f"{parameter:g}, " for parameter in self.prefix)
        return f"{self.name}{suffix}({before}{parameters})({column})"


def functions(eps: float) -> list[Function]:
    return [
        Function("ClickHouse sample", "quantiles", note="a sample of 8,192 values"),
        Function("ClickHouse t-digest", "quantilesTDigest", rounded=True, note="as float32"),
        Function("ClickHouse GK", "quantilesGK", (round(1 / eps),), "stated", eps),
        Function("ClickHouse DD", "quantilesDD", (eps,), "value", eps),
        Function("ClickHouse exact", "quantilesExact", kind="exact", bound=0.0),
    ]


@cache
def connection() -> Any:
    """The one of this process."""
    return load_required("chdb").connect(":memory:")


def rows(query: str) -> Any:
    """An Arrow table."""
    return connection().query(f"{query} SETTINGS max_threads = 1", "ArrowTable")


class Table:
    """A table of the engine's own with the rows of an Arrow table, or of a query; gone with this object."""

    def __init__(self, given: Any) -> None:
        self.name = f"t{next(_numbers)}"
        source = given if isinstance(given, str) else "SELECT * FROM Python(given)"
        connection().query(f"CREATE TABLE {self.name} ENGINE = Memory AS {source}")

    def __del__(self) -> None:
        connection().query(f"DROP TABLE {self.name}")


def column(values: Values) -> Table:
    return Table(load_required("pyarrow").table({"v": values}))


def ask(function: Function, table: Table, phis: Phis) -> NDArray[np.float64]:
    found = rows(f"SELECT {function.call(phis.tolist())} FROM {table.name}")
    return np.array(found.column(0)[0].as_py(), dtype=np.float64)


def state_bytes(function: Function, table: Table) -> int:
    """Of the state as it is stored and sent."""
    found = rows(f"SELECT length(CAST({function.call([0.5], suffix='State')} AS String)) FROM {table.name}")
    return int(found.column(0)[0].as_py())


def methods(eps: float) -> list[Method]:
    """Feeding is nothing: a question reads the table and answers all its phis at once."""
    return [method(function, eps) for function in functions(eps)]


def method(function: Function, eps: float) -> Method:
    return Method(
        function.title,
        feed=lambda table: table,
        ask=lambda table, phis: ask(function, table, phis),
        size=lambda table: state_bytes(function, table),
        prepare=column,
        kind=function.kind,
        bound=function.bound,
        setting=function.name + (f"({function.prefix[0]:g}, ...)" if function.prefix else ""),
        note=function.note,
        rounded=function.rounded,
        eps=eps,
    )
