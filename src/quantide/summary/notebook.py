"""HTML of answers and summaries for notebooks: small, without scripts, in the surrounding colours."""

from collections.abc import Sequence
from dataclasses import fields
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from quantide.summary.answer import Answer, format_error, format_percent
from quantide.summary.cdf_curve import curve_of

if TYPE_CHECKING:
    from quantide.summary.summary import Summary

WIDTH, HEIGHT = 240, 72
CURVE_POINTS = 60
BASIC_FIELDS = {field.name for field in fields(Answer)}


def answer_html(answer: Answer) -> str:
    """Render the value, its rank among all values, and the other fields of the answer."""
    more = [(field.name, getattr(answer, field.name)) for field in fields(answer) if field.name not in BASIC_FIELDS]
    rows = [
        ("asked for", f"rank {answer.target:,} of {_span(answer.n_lo, answer.n_hi)}"),
        ("proved", f"rank {_span(answer.rank_lo, answer.rank_hi)}"),
        ("off by at most", format_error(answer.error, answer.n)),
        *((name.replace("_", " "), str(value)) for name, value in more if value is not None),
    ]
    head = f"{phi_name(answer.phi)}: <b>{escape(str(answer.value))}</b>"
    return f"<div><div>{head}</div>{_bar(answer)}{html_table(rows)}</div>"


def summary_html(summary: "Summary") -> str:
    """Render the counts, the main quantiles with their proved ranks, and the curve of a summary."""
    skipped = [
        f", {count:,} {name} skipped" for name, count in (("null", summary.nulls), ("NaN", summary.nans)) if count
    ]
    if not summary.n:
        return f"<div><b>Summary</b>: no values{''.join(skipped)}</div>"
    counts = f"n = {summary.n:,}, type {escape(str(summary.type))}{''.join(skipped)}"
    size = f"tuples: {len(summary):,}, bytes: {summary.nbytes:,}"
    error = f"every answer off by at most {format_error(summary.error, summary.n)}{_tail(summary)}"
    head = f"<b>Summary</b>: {counts}<br>{size}, {error}"
    return f"<div><div>{head}</div>{html_table(_main_quantiles(summary))}{_curve(summary)}</div>"


def phi_name(phi: float) -> str:
    """Return the usual name of a quantile.

    >>> [phi_name(phi) for phi in (0.5, 0.9, 0.999, 0.07, 1.0)]
    ['median', 'p90', 'p99.9', 'p7', 'p100']
    """
    return "median" if phi == 0.5 else f"p{100 * phi:.12g}"


def _main_quantiles(summary: "Summary") -> list[tuple[str, ...]]:
    """Return rows of minimum, median, p90 to p99.99 and maximum with their proved ranks."""
    answers = {phi_name(phi): summary.answer(phi) for phi in (0.5, 0.9, 0.99, 0.999, 0.9999)}
    return [
        ("", "value", "proved rank"),
        ("min", str(summary.min), _span(int(summary.rmin[0]), int(summary.rmax[0]))),
        *((name, str(answer.value), _span(answer.rank_lo, answer.rank_hi)) for name, answer in answers.items()),
        ("max", str(summary.max), _span(int(summary.rmin[-1]), int(summary.rmax[-1]))),
    ]


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _tail(summary: "Summary") -> str:
    """Return the certified tail in words; nothing if there is none, or no error at all."""
    tail = summary.tail
    return f"<br>and by {format_percent(tail)} of the values beyond it, plus half a rank" if tail else ""


def html_table(rows: Sequence[tuple[str, ...]]) -> str:
    """Render rows of plain text."""
    lines = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f'<table style="color:inherit">{lines}</table>'


def _bar(answer: Answer) -> str:
    """Draw all ranks as a bar with a line at the target; below it, the proved ranks, magnified."""
    low, high = min(answer.rank_lo, answer.target) - 1, max(answer.rank_hi, answer.target)
    left, right = _x_position(low, 0, answer.n), _x_position(high, 0, answer.n)
    title = f"where rank {answer.target:,} of {answer.n:,} is, and ranks {_span(answer.rank_lo, answer.rank_hi)}"
    return (
        f'<svg width="{WIDTH}" height="40" role="img" fill="currentColor"><title>{title}</title>'
        f"{_ranks(answer, 0, answer.n, 0)}"
        f'<polygon points="{left},14 {right},14 {WIDTH},24 0,24" fill-opacity="0.1"/>'
        f"{_ranks(answer, low, high, 24)}</svg>"
    )


def _ranks(answer: Answer, low: int, high: int, top: int) -> str:
    """Draw ranks low + 1 to high as a bar, the proved ones dark, with a line at the target."""
    left, right = _x_position(answer.rank_lo - 1, low, high), _x_position(answer.rank_hi, low, high)
    target = _x_position(answer.target - 0.5, low, high)
    return (
        f'<rect x="0" y="{top + 4}" width="{WIDTH}" height="8" fill-opacity="0.15"/>'
        f'<rect x="{left}" y="{top + 4}" width="{right - left:.2f}" height="8" fill-opacity="0.5"/>'
        f'<line x1="{target}" x2="{target}" y1="{top}" y2="{top + 16}" stroke="currentColor"/>'
    )


def _x_position(rank: float, low: int, high: int) -> float:
    return round(WIDTH * (rank - low) / (high - low), 2)


def _curve(summary: "Summary") -> str:
    """Draw the curve and its band without the outermost 1% at either end; nothing if that is one value."""
    x, lo, hi = curve_of(summary, CURVE_POINTS)
    middle = (lo + hi) / 2 / summary.n
    ends = np.minimum(np.searchsorted(middle, [0.01, 0.99]), len(x) - 1)
    if not len(x) or x[ends[0]] == x[ends[1]]:
        return ""
    halves = x / 2.0  # the difference of two float64 may overflow
    low, high = halves[ends]
    across = WIDTH * ((np.clip(halves, low, high) - low) / (high - low))
    upper, line, lower = (stair_corners(across, HEIGHT * (1 - y)) for y in (hi / summary.n, middle, lo / summary.n))
    first, last = summary.type.restore(x[ends])
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" fill="currentColor">'
        f"<title>{escape(f'fraction of values at or below, from {first} to {last}')}</title>"
        f'<polygon points="{" ".join([*upper, *reversed(lower)])}" fill-opacity="0.25"/>'
        f'<polyline points="{" ".join(line)}" fill="none" stroke="currentColor"/></svg>'
    )


def stair_corners(x: Any, y: Any) -> list[str]:
    """Return the corners of a step function that is y[i] from x[i] on."""
    across, down = np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]
    return [f"{a:.1f},{b:.1f}" for a, b in zip(across.tolist(), down.tolist(), strict=True)]
