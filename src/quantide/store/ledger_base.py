"""Base of the ledger: one file in the place of many records, without the names of source files that are gone.

The first line names the checkpoint that begins with it and the order of the newest record in it; records follow as they
lie in files of their own. A record whose order is not above that of the base is in it, and does not count again.
"""

import json
import math
import os
import re
from collections.abc import Iterable
from typing import Any

from quantide.errors import CorruptBytesError

NAME = "base.jsonl"
_SOURCE = re.compile(r"[a-z0-9]{1,64}")
_HELD = re.compile(r"[a-z0-9]{1,64}-[0-9]{1,18}-[0-9]{1,18}-[0-9]{1,18}\.parquet")  # within the quarantine
_FIELDS = {
    *("source", "number", "order", "at", "rows", "bad", "newest", "origin", "offsets", "types"),
    *("held", "settled", "ahead", "config"),
}
_STATES = ("done", "waiting", "quarantined")

Line = dict[str, Any] | list[Any]
Records = list[tuple[dict[str, Any], list[list[Any]]]]


def write_base(checkpoint: str, order: int, records: Iterable[bytes]) -> bytes:
    """The bytes of a base."""
    return json.dumps({"checkpoint": checkpoint, "order": order}).encode() + b"\n" + b"".join(records)


def read_base(folder: str) -> tuple[str, int, Records]:
    """The checkpoint, the order, and each record with its files; ("", 0, []) when there is no base yet."""
    path = os.path.join(folder, NAME)
    try:
        with open(path, "rb") as file:
            lines = [json.loads(line) for line in file.read().splitlines()]
        return _checked(lines)
    except FileNotFoundError:
        return "", 0, []
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise CorruptBytesError(
            f"{path} is damaged: {error}; it says which source files are in the store: restore it from a copy"
        ) from error


def _checked(lines: list[Line]) -> tuple[str, int, Records]:
    first, out = lines[0], Records()
    if not isinstance(first, dict) or not _SOURCE.fullmatch(first["checkpoint"]) or not _is_int(first["order"], 0):
        raise ValueError("its first line is not that of a base")
    for line in lines[1:]:
        if isinstance(line, dict):
            out.append((_head(line), []))
        else:
            out[-1][1].append(_entry(line))
    return first["checkpoint"], first["order"], out


def _head(line: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record but its files, checked."""
    if not set(line) <= _FIELDS:
        raise ValueError("a batch has an unknown field")
    counts = (line["order"], line["rows"], line["bad"], line.get("ahead", 0))
    whole = _is_int(line["number"], -1) and all(_is_int(count, 0) for count in counts)
    times = _is_finite(line["at"]) and (line["newest"] is None or _is_finite(line["newest"]))
    origin = line["origin"]
    if origin is not None:
        step, place, span = origin
        times = times and _is_int(step, 0) and _is_int(place) and isinstance(span, str)
    texts = (
        isinstance(line["offsets"], str)
        and isinstance(line.get("config", ""), str)
        and all(isinstance(one, str) for one in line["types"].values())
    )
    if not (whole and times and texts and _SOURCE.fullmatch(line["source"])):
        raise ValueError("a batch has a field of another type")
    for name in (*line["held"], *line["settled"]):
        if not _HELD.fullmatch(name):
            raise ValueError(f"{name[:80]!r} is not the name of a file of the quarantine")
    lists = {"held": tuple(line["held"]), "settled": tuple(line["settled"])}
    return line | lists | {"origin": None if origin is None else tuple(origin)}


def _entry(line: Any) -> list[Any]:
    path, size, modified, state, reason, bad = line
    numbers = _is_int(size, 0) and _is_int(modified) and _is_int(bad, 0)
    if not (isinstance(path, str) and numbers and state in _STATES and isinstance(reason, str)):
        raise ValueError("a file has a field of another type")
    return [path, size, modified, state, reason, bad]


def _is_int(found: Any, low: int = -(2**63)) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and low <= found < 2**63


def _is_finite(found: Any) -> bool:
    return isinstance(found, (int, float)) and not isinstance(found, bool) and math.isfinite(found)
