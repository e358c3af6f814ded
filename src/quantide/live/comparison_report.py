"""Report of a comparison for the command line: two windows, keys or stores, with proved bounds of each difference."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TextIO

from quantide.errors import InvalidArgumentError
from quantide.live.live_stream import LiveStream
from quantide.live.scope import QueryScope
from quantide.summary.comparison import MEASURES, Comparison
from quantide.summary.outward_rounding import interval_text
from quantide.summary.summary import Summary
from quantide.summary.value_json import count, encode_comparison, encode_key, write_line

NAMES = ("last", "within", "filter", "last_steps")


def show_comparison(
    out: TextIO,
    path: str,
    scope: dict[str, Any],
    reference: str | None,
    reference_scope: dict[str, Any],
    phis: Sequence[float],
    json: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Write the distances of two scopes, and the shift of each phi; without `reference`, both are of one store."""
    if reference is None and scope == reference_scope:
        raise InvalidArgumentError("both sides are the same; give a window or a key of one, such as --within 5min")
    with ExitStack() as stack:
        live = stack.enter_context(LiveStream(path, follow=False, storage_options=storage_options))
        other = live
        if reference is not None:
            other = stack.enter_context(LiveStream(reference, follow=False, storage_options=storage_options))
        version, own = live.pull_values(QueryScope.of(scope))
        other_version, theirs = other.pull_values(QueryScope.of(reference_scope))
        comparison = Comparison(own, theirs, phis)
        own_unit, other_unit = live.read_unit(), other.read_unit()
        sides = [
            _side_json(path, scope, version, own, own_unit),
            _side_json(reference or path, reference_scope, other_version, theirs, other_unit),
        ]
    unit = f" {own_unit}" if own_unit is not None and own_unit == other_unit else ""
    if json:
        write_line(out, sides[0] | {"against": sides[1]} | encode_comparison(comparison))
        return
    for name in MEASURES:
        text = interval_text(*getattr(comparison, name))
        out.write(f"{name:<12}  {text:>44}{unit if name == 'wasserstein' else ''}\n")
    for phi, shift in comparison.shifts.items():
        out.write(f"{f'shift {phi:g}':<12}  {interval_text(*shift):>44}{unit}  {_verdict(*shift)}\n")
    numbers = f"{count(own.n, 'value')} against {count(theirs.n, 'value')}"
    out.write(f"{numbers}; every bound is proved for the values that arrived, and leaves chance out of account\n")


def _verdict(low: Any, high: Any) -> str:
    """Return what the bounds of a shift prove."""
    if low == high == 0:
        return "equal, proved"
    if low > 0:
        return "higher, proved"
    if high < 0:
        return "lower, proved"
    return "not higher, proved" if high == 0 else "not lower, proved" if low == 0 else "open"


def _side_json(path: str, scope: dict[str, Any], version: int, summary: Summary, unit: str | None) -> dict[str, Any]:
    window = {name: scope.get(name) for name in NAMES}
    about = {"path": path, "key": encode_key(scope.get("key"))} | window | {"version": version}
    return about | {"n": summary.n, "error": summary.error, "value_type": summary.type.name, "unit": unit}
