"""Reports of a live reader for the command line: quantiles of a window, ranks of values, and worst keys."""

from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from quantide.live.live_stream import LiveStream
from quantide.live.live_view import LiveAnswer, LiveRank
from quantide.live.value_parsing import read_value
from quantide.summary.answer import format_error
from quantide.summary.key_ranking import KeyRankingAsOf
from quantide.summary.value_json import count, encode_answer, encode_key, encode_value, name_with_unit, write_line
from quantide.summary.value_types import type_named

Options = Mapping[str, str] | None  # of an object store
WIDTH = 24  # characters of a value


def show_window_answers(
    out: TextIO,
    path: str,
    phis: Sequence[float],
    scope: dict[str, Any],
    mode: str | None,
    json: bool = False,
    storage_options: Options = None,
) -> None:
    """Write a line for each phi of a window of recent values; `scope` has arguments of LiveStream.answer()."""
    with LiveStream(path, follow=False, storage_options=storage_options) as live:
        answers = live.answers(list(phis), mode=mode, **scope)
        value_type, unit = live.settings.value_type, live.read_unit()
    first = answers[0]
    if json:
        body = {"path": path, "key": encode_key(scope.get("key")), "mode": first.mode}
        body |= {"value_type": value_type, "unit": unit, "version": first.version, "n": first.n} | _window_json(
            scope, first
        )
        write_line(out, body | {"answers": [encode_answer(answer) for answer in answers]})
        return
    header = name_with_unit("value", unit)
    width = max(WIDTH, len(header))
    out.write(f"{'phi':>8}  {header:>{width}}  {'rank, proved':>31}  {'off by at most':>26}\n")
    for a in answers:
        ranks = f"{a.rank_lo:,} to {a.rank_hi:,}"
        out.write(f"{a.phi:>8g}  {a.value!s:>{width}}  {ranks:>31}  {format_error(a.error, a.n):>26}\n")
    out.write(f"{count(first.n, 'value')} of {_describe(scope, first)}; mode {first.mode}\n")


def show_ranks(
    out: TextIO,
    path: str,
    values: Sequence[str],
    scope: dict[str, Any],
    mode: str | None,
    inclusive: bool,
    json: bool = False,
    storage_options: Options = None,
) -> None:
    """Write a line for each value: how many values are at most that value, as bounds of its rank and as fractions."""
    with LiveStream(path, follow=False, storage_options=storage_options) as live:
        value_type, unit = live.settings.value_type, live.read_unit()
        numbers = [read_value(text, type_named(value_type)) for text in values]
        found = live.ranks(numbers, mode=mode, inclusive=inclusive, **scope)
    first = found[0]
    if json:
        body = {"path": path, "key": encode_key(scope.get("key")), "mode": first.mode}
        body |= {"value_type": value_type, "unit": unit, "version": first.version, "n": first.n, "inclusive": inclusive}
        items = [{"value": encode_value(r.value), "rank_lo": r.rank_lo, "rank_hi": r.rank_hi} for r in found]
        write_line(out, body | _window_json(scope, first) | {"ranks": items})
        return
    header = name_with_unit("value", unit)
    width = max(WIDTH, len(header))
    out.write(f"{header:>{width}}  {'rank, proved':>31}  {'fraction, proved':>26}\n")
    for r in found:
        fractions = f"{outward_percent(r.rank_lo, r.n, up=False)} to {outward_percent(r.rank_hi, r.n, up=True)}"
        out.write(f"{r.value!s:>{width}}  {f'{r.rank_lo:,} to {r.rank_hi:,}':>31}  {fractions:>26}\n")
    relation = "at most" if inclusive else "below"
    covered = f"{count(first.n, 'value')} of {_describe(scope, first) or 'everything'}"
    out.write(f"a rank is the number of values {relation} a value; {covered}; mode {first.mode}\n")


def outward_percent(rank: int, n: int, up: bool) -> str:
    """Return a fraction in percent, rounded outwards, so that a proved bound stays one.

    >>> outward_percent(1, 3, up=False), outward_percent(1, 3, up=True)
    ('33.3333 %', '33.3334 %')
    """
    parts = -(-(rank * 10**6) // n) if up else rank * 10**6 // n
    return f"{parts // 10**4}.{parts % 10**4:04} %"


def show_worst_keys(
    out: TextIO,
    path: str,
    phi: float,
    scope: dict[str, Any],
    ranking: dict[str, Any],
    json: bool = False,
    storage_options: Options = None,
) -> None:
    """Write a line for each of the worst keys; `ranking` has arguments of LiveStream.worst_keys()."""
    with LiveStream(path, follow=False, storage_options=storage_options) as live:
        worst = live.worst_keys(phi, **ranking, **scope)
        value_type, unit = live.settings.value_type, live.read_unit()
    if json:
        body = {"path": path, "value_type": value_type, "unit": unit, "mode": worst.mode, "version": worst.version}
        write_line(out, body | _window_json(scope, worst) | worst.to_json())
        return
    header = name_with_unit("value", unit)
    width = max(WIDTH, len(header))
    out.write(f"{header:>{width}}  {'proved between':>40}  {'position':>11}  {'values':>12}  key\n")
    for row in worst.listed:
        positions = (
            f"{row.position_lo:,}" if row.position_lo == row.position_hi else f"{row.position_lo}-{row.position_hi}"
        )
        band = f"{row.low} and {row.high}"
        key = " ".join(map(str, row.key)) if isinstance(row.key, tuple) else row.key
        out.write(f"{row.value!s:>{width}}  {band:>40}  {positions:>11}  {row.n:>12,}  {key}\n")
    out.write(f"{count(worst.keys, 'key')} of {_describe(scope, worst)}{_describe_ranking(worst)}\n")


def _describe_ranking(worst: KeyRankingAsOf) -> str:
    """Describe the keys that are not listed, and how many of the listed ones are proved; nothing if all are listed."""
    text = f"; {worst.too_few:,} more with too few values" if worst.too_few else ""
    if len(worst.listed) == worst.keys:
        return text
    proved = sum(row.proved for row in worst.listed)
    kind = "smallest" if worst.smallest else "largest"
    most = f"{proved} of {len(worst.listed)} proved to be among the {worst.most} with the {kind} quantile"
    return f"; {most}; {worst.contenders:,} more may be{text}"


def _describe(scope: dict[str, Any], answer: LiveAnswer | LiveRank | KeyRankingAsOf) -> str:
    """Describe a window in words."""
    parts = [f"the last {count(scope['last'], 'value')}"] if scope.get("last") is not None else []
    if answer.since is not None:
        parts.append(f"times after {answer.since}, up to {answer.until}")
    if scope.get("filter") is not None:
        parts.append(f"the filter {scope['filter']}")
    if answer.last_steps is not None:
        parts.append(f"{count(answer.last_steps, 'step')} and the open one")
    return ", ".join(parts)


def _window_json(scope: dict[str, Any], answer: LiveAnswer | LiveRank | KeyRankingAsOf) -> dict[str, Any]:
    names = ("last", "within", "filter")
    times = {"since": encode_value(answer.since), "until": encode_value(answer.until)}
    return {name: scope.get(name) for name in names} | times | {"last_steps": answer.last_steps}
