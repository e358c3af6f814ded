"""Summaries against a dictionary with one sorted list for each key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import Summaries, Summary, errors
from tests import oracle

PHIS = [1e-9, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0]
TIMES = ["datetime64[us]", "datetime64[D]", "timedelta64[ns]"]
Lists = dict[Any, list[Any]]


def by_key(keys: Any, values: Any) -> Lists:
    """Return the values of every key without None and NaN (the oracle)."""
    lists: Lists = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        lists[key] += [value] if value is not None and value == value else []
    return lists


def keys_of(s: Summaries) -> list[Any]:
    return list(s.keys.to_pylist())


def assert_true(s: Summaries, lists: Lists, eps: float) -> None:
    """Check every answer of the summaries for every key."""
    in_order = sorted((key for key in lists if key is not None), key=lambda key: key)
    assert keys_of(s) == in_order + ([None] if None in lists else [])
    assert len(s) == len(lists)
    assert [int(n) for n in s.n] == [len(lists[key]) for key in keys_of(s)]
    assert np.all(np.asarray(s.error) <= eps + 1e-12)
    for key in keys_of(s):
        assert key in s
        one = s[key]
        assert isinstance(one, Summary)
        assert oracle.summary_faults(one, lists[key]) == []
        assert one.error <= eps + 1e-12
    assert_rows(s, lists)


def assert_rows(s: Summaries, lists: Lists) -> None:
    """Check the answer table: one row for every key with values and every phi, each with a true error bound."""
    table = s.answer(PHIS)
    assert table.column_names == ["key", "phi", "value", "rank_lo", "rank_hi", "target", "n", "error"]
    rows = table.to_pylist()
    assert [(row["key"], row["phi"]) for row in rows] == [(key, phi) for key in keys_of(s) for phi in PHIS]
    matrix = s.quantiles(PHIS)
    assert matrix.shape == (len(s), len(PHIS))
    for row, value in zip(rows, matrix.ravel(), strict=True):
        alone = s[row["key"]].answer(row["phi"])
        assert oracle.bound_faults(lists[row["key"]], alone) == []
        assert (row["rank_lo"], row["rank_hi"], row["target"], row["n"]) == (
            *(alone.rank_lo, alone.rank_hi, alone.target),
            alone.n,
        )
        assert row["value"] == alone.value == value
        assert row["error"] == pytest.approx(alone.error, abs=1e-15)


def cases(rng: np.random.Generator) -> Iterator[tuple[list[Any], list[float]]]:
    """Few and many keys, equal and very unequal sizes, sorted and shuffled, one of each."""
    yield [7], [1.5]
    yield ["a"] * 500, rng.normal(size=500).tolist()
    yield [f"k{i}" for i in range(300)], rng.normal(size=300).tolist()
    sizes = np.concatenate([np.ones(150, int), [2, 3, 50, 1000, 8000]])
    names = [f"host-{i:03d}" for i in rng.permutation(len(sizes))]
    unequal = np.repeat(names, sizes)
    yield rng.permutation(unequal).tolist(), rng.integers(0, 99, len(unequal)).astype(float).tolist()
    numbers = rng.zipf(1.3, 6000) % 1000 - 500
    yield numbers.tolist(), rng.choice([0.0, -0.0, 1.0, -np.inf, np.inf, 2.5], 6000).tolist()
    holes = [None if key % 5 == 0 else int(key) for key in rng.integers(0, 40, 3000)]
    yield holes, rng.random(3000).tolist()
    texts = [None, "", "a", "ä", "Z", "zz", "a\x00b", "日本"]
    yield [texts[i] for i in rng.integers(0, len(texts), 4000)], rng.random(4000).tolist()


@pytest.mark.parametrize("eps", [0.2, 0.05, 0.001])
def test_of(eps: float, rng: np.random.Generator) -> None:
    for keys, values in cases(rng):
        assert_true(Summaries.of(keys, values, eps), by_key(keys, values), eps)


@pytest.mark.parametrize("eps", [0.2, 0.02])
def test_forms_of_keys_and_values(eps: float, rng: np.random.Generator) -> None:
    keys, values = rng.integers(-3, 30, 2500), rng.normal(size=2500)
    reference = Summaries.of(keys, values, eps)
    assert_true(reference, by_key(keys.tolist(), values.tolist()), eps)
    forms: list[tuple[Any, Any]] = [
        (keys.tolist(), values.tolist()),
        (pa.array(keys), pa.array(values)),
        (pa.chunked_array([keys[:700], keys[700:]]), pa.chunked_array([values[:100], values[100:]])),
        (keys, pa.array(values)),
    ]
    for form_of_keys, form_of_values in forms:
        same = Summaries.of(form_of_keys, form_of_values, eps)
        assert same.to_binary().equals(reference.to_binary())
        assert same.keys.equals(reference.keys)
    texts = pa.array([f"w{key}" for key in keys])
    plain, packed = Summaries.of(texts, values, eps), Summaries.of(texts.dictionary_encode(), values, eps)
    assert plain.to_binary().equals(packed.to_binary())
    assert keys_of(plain) == keys_of(packed) == sorted({f"w{key}" for key in keys})


def test_input_is_left_alone(rng: np.random.Generator) -> None:
    keys, values = rng.integers(0, 9, 3000), rng.normal(size=3000)
    originals = keys.copy(), values.copy()
    s = Summaries.of(keys, values, 0.1)
    assert np.array_equal(keys, originals[0])
    assert np.array_equal(values, originals[1])
    before = s.to_binary()
    keys[:], values[:] = 0, 0
    assert s.to_binary().equals(before)


@pytest.mark.parametrize("name", ["float64", "float32", "int8", "int64", "uint32", *TIMES])
def test_types_come_out(name: str, rng: np.random.Generator) -> None:
    keys, values = rng.integers(0, 5, 3000).tolist(), rng.integers(0, 100, 3000).astype("int64").astype(name)
    s = Summaries.of(keys, values, 0.05)
    for one in (s, s.compress(5), Summaries.merge(s, s), Summaries.from_arrow(s.to_arrow())):
        assert one.values.dtype == one.quantiles([0.5]).dtype == one[0].values.dtype == np.dtype(name)
        assert type(one[3].answer(0.5).value) is np.dtype(name).type
        assert one.answer([0.5]).column("value").type == pa.array(values).type
    lists = by_key(keys, list(values))
    for key in lists:
        assert oracle.summary_faults(s[key], lists[key]) == []


def test_decimals() -> None:
    keys, values = ["a", "b"] * 50, [Decimal(i).scaleb(-2) for i in range(100)]
    s = Summaries.of(keys, pa.array(values, pa.decimal128(8, 2)), 0.1)
    lists = by_key(keys, values)
    assert s["a"].answer(1.0).value == max(lists["a"])
    assert s.answer([1.0]).column("value").to_pylist() == [max(lists["a"]), max(lists["b"])]


def test_nulls_and_nan_are_counted_by_key() -> None:
    keys = ["a", "b", "a", "b", "b", None]
    values = [1.0, None, float("nan"), 2.0, 3.0, None]
    s = Summaries.of(keys, values, 0.1, nan="skip")
    assert keys_of(s) == ["a", "b", None]
    assert [int(n) for n in s.n] == [1, 2, 0]
    assert [int(n) for n in s.nulls] == [0, 1, 1]
    assert (s["a"].nans, s["b"].nulls, s[None].nulls) == (1, 1, 1)
    twice = Summaries.merge(s, s)
    assert [int(n) for n in twice.nulls] == [0, 2, 2]
    with pytest.raises(errors.NaNError):
        Summaries.of(keys, values, 0.1)


def test_nothing_at_all() -> None:
    empty = Summaries.of([], [], 0.1)
    assert len(empty) == 0
    assert empty.answer([0.5]).num_rows == 0
    assert empty.quantiles([0.5]).shape == (0, 1)
    s = Summaries.of(["a"], [1.0], 0.1)
    assert keys_of(Summaries.merge(s, empty)) == keys_of(Summaries.merge(empty, s)) == ["a"]
    assert len(s.answer([])) == 0


# --- merge and compress -------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_merge_by_key(parts: int, rng: np.random.Generator) -> None:
    """Merge parts with shared keys and keys of one part alone, of very unequal sizes."""
    eps, summaries = 0.1, []
    everything: Lists = defaultdict(list)
    for part in range(parts):
        keys = (rng.zipf(1.4, 3000) % (20 + 300 * part)).tolist()
        keys[:5] = [None] * 5
        values = rng.normal(part, 1, 3000).tolist()
        summaries.append(Summaries.of(keys, values, eps))
        for key, own in by_key(keys, values).items():
            everything[key] += own
    whole = Summaries.merge(*summaries)
    assert_true(whole, everything, eps)
    for key in keys_of(whole):
        alone = Summary.merge(*(s[key] for s in summaries if key in s))
        assert whole[key] == alone
    in_steps = summaries[0]
    for s in summaries[1:]:
        in_steps = Summaries.merge(in_steps, s)
    assert in_steps.to_binary().equals(whole.to_binary())


def test_merge_of_other_types_is_refused() -> None:
    floats, ints = Summaries.of(["a"], [1.0], 0.1), Summaries.of([1], [1.0], 0.1)
    times = Summaries.of(["a"], np.array([5], dtype="datetime64[s]"), 0.1)
    for other in (ints, times):
        with pytest.raises(errors.TypeMismatchError):
            Summaries.merge(floats, other)


@pytest.mark.parametrize("b", [1, 2, 10, 64])
def test_compress(b: int, rng: np.random.Generator) -> None:
    for keys, values in cases(rng):
        s = Summaries.of(keys, values, 0.001)
        small, lists = s.compress(b), by_key(keys, values)
        assert_true(small, lists, 1.0)
        assert np.all(np.diff(np.asarray(small.offsets)) <= b + 1)
        for key in lists:
            assert small[key] == s[key].compress(b)


@given(st.data())
def test_any_merges(data: st.DataObject) -> None:
    """Merge random parts of random keys with nulls and ties, compressed or not."""
    key = st.none() | st.sampled_from(["a", "b", "", "cc"]) | st.text(max_size=2)
    value = st.sampled_from([0.0, -0.0, 1.0, 2.0, float("inf")]) | st.floats(allow_nan=False)
    parts = []
    everything: Lists = defaultdict(list)
    for _ in range(data.draw(st.integers(1, 4))):
        rows = data.draw(st.lists(st.tuples(key, value), min_size=1, max_size=40))
        keys = pa.array([row[0] for row in rows], pa.string())
        s = Summaries.of(keys, [row[1] for row in rows], 0.01)
        parts.append(s.compress(data.draw(st.integers(1, 9))) if data.draw(st.booleans()) else s)
        for one, own in by_key(*zip(*rows, strict=True)).items():
            everything[one] += own
    assert_true(Summaries.merge(*parts), everything, 1.0)


# --- arrow and bytes ----------------------------------------------------------------------------------------


def addresses(arrow: Any) -> set[int]:
    """Return the addresses of the buffers of an Arrow table, batch or array."""
    if isinstance(arrow, pa.Table | pa.RecordBatch):
        return set().union(*(addresses(column) for column in arrow.columns))
    if isinstance(arrow, pa.ChunkedArray):
        return set().union(*(addresses(chunk) for chunk in arrow.chunks))
    return {buffer.address for buffer in arrow.buffers() if buffer is not None and buffer.size}


def address(array: Any) -> int:
    return int(np.asarray(array).__array_interface__["data"][0])


@pytest.mark.parametrize("name", ["float64", "float32", "int64", "datetime64[us]"])
def test_arrow_round_trip_copies_nothing(name: str, rng: np.random.Generator) -> None:
    keys = pa.array([f"k{i}" for i in rng.integers(0, 500, 20_000)])
    s = Summaries.of(keys, rng.integers(0, 10**6, 20_000).astype(name), 0.01)
    arrow = s.to_arrow()
    restored = Summaries.from_arrow(arrow)
    assert restored.to_binary().equals(s.to_binary())
    assert restored.keys.equals(s.keys)
    there = addresses(arrow)
    for part in ("values", "rmin", "rmax"):
        assert address(getattr(s, part)) in there, part
        assert address(getattr(restored, part)) == address(getattr(s, part)), part


def test_arrow_survives_ipc(rng: np.random.Generator) -> None:
    """A round trip through an Arrow stream, whole or in slices, changes nothing."""
    for keys, values in cases(rng):
        s = Summaries.of(keys, values, 0.05)
        arrow = s.to_arrow()
        table = arrow if isinstance(arrow, pa.Table) else pa.Table.from_batches([arrow])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        read = pa.ipc.open_stream(sink.getvalue()).read_all()
        restored = Summaries.from_arrow(read)
        assert_true(restored, by_key(keys, values), 0.05)


def test_arrow_slices_are_summaries(rng: np.random.Generator) -> None:
    """Some rows of the table are the summaries of some keys."""
    keys, values = rng.integers(0, 40, 3000), rng.normal(size=3000)
    lists = by_key(keys.tolist(), values.tolist())
    table = Summaries.of(keys, values, 0.1).to_arrow()
    for start, size in ((0, 40), (7, 1), (3, 20), (39, 1), (5, 0)):
        some = Summaries.from_arrow(table.slice(start, size))
        assert_true(some, {key: lists[key] for key in sorted(lists)[start : start + size]}, 0.1)
        assert keys_of(some.compress(3)) == keys_of(Summaries.merge(some, some)) == keys_of(some)
    parts = pa.concat_tables([table.slice(0, 11), table.slice(11)])
    assert_true(Summaries.from_arrow(parts), lists, 0.1)


def test_arrow_from_strangers_is_refused() -> None:
    """Return tables that are not summaries, or whose ranks contradict each other."""
    good = Summaries.of(["a", "b"], [1.0, 2.0], 0.1).to_arrow()
    bad = [good.drop_columns([name]) for name in good.column_names]
    bad += [good.replace_schema_metadata(None), pa.table({"a": [1]}), pa.concat_tables([good, good])]
    index = good.column_names.index("n")
    bad += [good.set_column(index, "n", pa.array([1, n], good["n"].type)) for n in (0, -1, 2**60)]
    for table in bad:
        with pytest.raises(errors.CorruptBytesError):
            Summaries.from_arrow(table)


def test_binary_round_trip(rng: np.random.Generator) -> None:
    for keys, values in cases(rng):
        s = Summaries.of(keys, values, 0.05)
        binary = s.to_binary()
        assert len(binary) == len(s)
        for key, blob in zip(keys_of(s), binary, strict=True):
            assert Summary.from_bytes(blob.as_py()) == s[key]
            assert s[key].to_bytes() == blob.as_py()
        restored = Summaries.from_binary(s.keys, binary)
        assert_true(restored, by_key(keys, values), 0.05)
        assert restored.to_binary().equals(binary)


def test_corrupt_binary_is_refused() -> None:
    s = Summaries.of(["a", "b"], [1.0, 2.0], 0.1)
    blobs = s.to_binary().to_pylist()
    for bad in (b"", b"nonsense", blobs[1][:-1], blobs[1][:-1] + bytes([blobs[1][-1] ^ 1])):
        with pytest.raises(errors.CorruptBytesError):
            Summaries.from_binary(s.keys, pa.array([blobs[0], bad], pa.binary()))


def test_bytes_of_another_type_are_named() -> None:
    """They are not damaged; also where the other type has the shorter name."""
    floats, times = pa.array([1.5]), pa.array([0], pa.timestamp("us", "Europe/Berlin"))
    names = ["float64", "timestamp[us, tz=Europe/Berlin]"]
    blobs = [Summary.of(values).to_bytes() for values in (floats, times)]
    for first, other in ((0, 1), (1, 0)):
        with pytest.raises(errors.TypeMismatchError) as failed:
            Summaries.from_binary(["a", "b"], [blobs[first], blobs[other]])
        assert f"number 1 has values of type {names[other]}, the first one of type {names[first]}" in str(failed.value)


def test_keys_that_are_and_are_not_there(rng: np.random.Generator) -> None:
    keys, values = rng.integers(0, 50, 1000), rng.random(1000)
    s = Summaries.of(keys, values, 0.1)
    assert int(keys[0]) in s
    for absent in (50, -1, 2**40):
        assert absent not in s
        with pytest.raises(errors.UnknownKeyError, match=str(absent)):
            s[absent]
    with pytest.raises(errors.UnknownKeyError):
        s[None]


def test_a_hundred_thousand_keys(rng: np.random.Generator) -> None:
    """Compare every count and median of a hundred thousand keys with one sort."""
    n, many = 400_000, 100_000
    keys, values = rng.integers(0, many, n), rng.normal(size=n)
    s = Summaries.of(keys, values, 0.01)
    order = np.lexsort((values, keys))
    distinct, starts, counts = np.unique(keys[order], return_index=True, return_counts=True)
    assert np.array_equal(np.asarray(s.keys), distinct)
    assert np.array_equal(np.asarray(s.n), counts)
    targets = np.array([oracle.target_rank(0.5, int(count)) for count in counts])
    assert np.array_equal(s.quantiles([0.5])[:, 0], values[order][starts + targets - 1])
    whole = Summaries.merge(s, s)
    assert np.array_equal(np.asarray(whole.n), 2 * counts)
    doubles = np.array([oracle.target_rank(0.3, 2 * int(count)) for count in counts])
    assert np.array_equal(whole.quantiles([0.3])[:, 0], values[order][starts + (doubles - 1) // 2])


def test_arrow_arrays_that_lead_outside_their_bytes_are_refused() -> None:
    """Arrow does not check the offsets of an array after its memory changed."""
    blob = Summary.of([1.0, 2.0]).to_bytes()
    good = Summaries.of(["a"], [1.0], 0.1).to_arrow()
    index = good.column_names.index("tuples")
    for wrong in ([0, 10**9], [-5, 1], [1, 0], [10**9, 10**9 + 60], [-(10**9), 1]):
        blob_offsets, offsets = np.array([0, len(blob)]), np.array([0, 1])
        packed = pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(blob_offsets), pa.py_buffer(blob)])
        lists = pa.LargeListArray.from_arrays(pa.array(offsets), good["tuples"].chunk(0).values)
        table = good.set_column(index, "tuples", lists)
        blob_offsets[:], offsets[:] = wrong, wrong
        with pytest.raises(errors.CorruptBytesError, match="not the bytes of summaries"):
            Summaries.from_binary(["k"], packed)
        with pytest.raises(errors.CorruptBytesError):
            Summaries.from_arrow(table)
