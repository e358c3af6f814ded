"""Untrusted filters: a few bytes that expand to many are rejected before they use memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from quantide import ConstrainedWindow, errors, where
from quantide.windows.arrow_file import check_arrow_file
from quantide.windows.filter_expressions import pack_filter
from tests.sampling import one_in
from tests.windows.hostile_filters import FILTERS, window_of

ROOT = Path(__file__).parent.parent.parent
FEW, EACH = 4 << 20, 20  # bytes of memory that reading may take: in any case, and for each byte


@pytest.mark.parametrize("name", one_in(3, FILTERS))
def test_hostile_filters_are_refused_and_take_no_memory(name: str, tmp_path: Path) -> None:
    blob = tmp_path / "window"
    blob.write_bytes(window_of(FILTERS[name](), "text"))
    command = [sys.executable, "-W", "error", "-m", "tests.windows.hostile_filters", str(blob)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    message, length, rise = done.stdout.rsplit(maxsplit=2)
    assert message.startswith("refused: these bytes are not a filter")
    assert int(rise) <= FEW + EACH * int(length)


def test_plain_filters_are_read() -> None:
    """Every filter that can be written can be read, whatever its types."""
    a, long = pc.field("a"), [f"key {i}" for i in range(50_000)]
    for filter in (
        a == "x" * 100_000,
        a.isin(long),
        a.isin(range(200_000)),
        a.isin(pa.array([True, False] * 500)),
        a.isin(pa.array(long).dictionary_encode()),
        a.isin(pa.array(long, pa.string_view())),
        a.isin(pa.array([b"x", None] * 1000, pa.large_binary())),
        a.isin(pa.array([3, 4], pa.timestamp("ns", "Europe/Vienna"))),
        a.isin(pa.array(range(1000)).cast(pa.decimal128(25, 3))),
        a == pa.scalar([1, 2, 3]),
        a == pa.scalar([[1], [2, 3], None]),
        a == pa.scalar({"x": 1, "y": [True, None]}),
        a == pa.scalar(None, pa.null()),
        pc.equal(a.cast(pa.list_(pa.struct([("x", pa.map_(pa.string(), pa.int8()))]))), a),
        pc.field("n", "m", "o") > 3,
        pc.strptime(a, format="%Y-%m-%d", unit="s") > pa.scalar(0, pa.timestamp("s")),
        pc.if_else(pc.match_substring_regex(a, "^x+"), pc.is_null(a), pc.starts_with(a, pattern="y")),
    ):
        window = ConstrainedWindow(where(filter), 0.5)
        blob = window.to_bytes()
        assert ConstrainedWindow.from_bytes(blob).to_bytes() == blob


def test_filters_that_cannot_be_kept_are_refused_at_once() -> None:
    one, same = pa.array([0], pa.int32()), pa.array([2], pa.int32())
    views = pa.ListViewArray.from_arrays(one, same, pa.array([1, 2]))
    with pytest.raises(errors.InvalidArgumentError, match="list view"):
        where(pc.field("a").isin(views))


def test_every_truncation_of_an_arrow_file() -> None:
    """The check of a file ends with ValueError wherever its bytes end, or are cut out."""
    data = pack_filter((pc.field("a") == "x") & pc.field("b").isin(["y", "z"]))
    assert check_arrow_file(data) > 0
    for at in range(0, len(data), 3):
        for broken in (data[:at], data[at:], data[:at] + b"\xff" * 4 + data[at + 4 :], data[:at] + data[at + 8 :]):
            try:
                check_arrow_file(broken)
            except ValueError:
                continue
