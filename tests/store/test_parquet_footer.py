"""Sizes of column chunks in a footer, compared with pyarrow, and footers for which pyarrow ends the process."""

import io
import struct
import subprocess
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from quantide.kernels.footer_scan import CODEC, COMPRESSED, FIELDS, UNCOMPRESSED, VALUES, scan_chunks
from quantide.kernels.jit import freeze
from quantide.store.parquet_footer import read_footer
from tests.contradicting_parquet import CONTRADICTIONS, contradicting_file, flip_bit

Rng = np.random.Generator

READ_STATISTICS = """
import io, resource, sys
from contextlib import suppress
import pyarrow.parquet as pq
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
with suppress(Exception):
    pq.ParquetFile(io.BytesIO(sys.stdin.buffer.read())).metadata.row_group(0).column(0).statistics
"""

CODECS = {"none": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4": 7}


def nested(rng: Rng, rows: int) -> pa.Table:
    """Make columns of every kind of level: required and nullable values, texts, lists and structs."""
    words = pa.array([None if x < 10 else "x" * x for x in rng.integers(0, 100, rows).tolist()])
    lists = pa.array([None if x == 0 else list(range(x - 1)) for x in rng.integers(0, 5, rows).tolist()])
    structs = pa.array([{"a": x, "b": {"c": [str(x)]}} for x in rng.integers(0, 9, rows).tolist()])
    schema = pa.schema(
        [pa.field("v", pa.float64(), nullable=False), ("w", pa.string()), ("l", lists.type), ("s", structs.type)]
    )
    return pa.table([pa.array(rng.random(rows)), words, lists, structs], schema=schema)


def to_bytes(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("groups", [0, 1, 3, 40])
def test_sizes_are_those_of_pyarrow(codec: str, groups: int, rng: Rng) -> None:
    data = to_bytes(nested(rng, 50 * groups), compression=codec, row_group_size=50, write_page_index=True)
    metadata, chunks = read_footer(io.BytesIO(data))
    assert chunks.shape == (FIELDS, metadata.num_row_groups, metadata.num_columns)
    for group, column in np.ndindex(chunks.shape[1:]):
        expected = metadata.row_group(group).column(column)
        found = chunks[[VALUES, UNCOMPRESSED, COMPRESSED], group, column].tolist()
        assert found == [expected.num_values, expected.total_uncompressed_size, expected.total_compressed_size]
        assert chunks[CODEC, group, column] == CODECS[codec]


def use_everything(metadata: Any, chunks: Any) -> None:
    """Use all metadata of chunks that pyarrow has; it ends the process where read_footer() should have raised."""
    for group, column in np.ndindex(chunks.shape[1:]):
        chunk = metadata.row_group(group).column(column)
        assert chunks[VALUES, group, column] == chunk.num_values
        with suppress(ValueError, pa.ArrowException):
            str(chunk.statistics)


def split(data: bytes) -> None:
    """Split a file by a filter, as batch queries with `where` do."""
    fragment = ds.ParquetFileFormat().make_fragment(pa.BufferReader(data))
    with suppress(OSError, ValueError, pa.ArrowException):
        list(fragment.split_by_row_group(pc.field("v") > 0.5))


@pytest.mark.parametrize("table", [pa.table({"v": [1.0, 2.0]}), pa.table({"v": pa.array([1, 2], pa.int32())})])
def test_every_flipped_bit_of_small_footers(table: pa.Table) -> None:
    data, accepted = to_bytes(table, store_schema=False), 0
    for offset in range(struct.unpack("<I", data[-8:-4])[0]):
        for bit in range(8):
            with suppress(OSError, ValueError, pa.ArrowException):
                metadata, chunks = read_footer(io.BytesIO(flip_bit(data, offset, bit)))
                accepted += 1
                use_everything(metadata, chunks)
                split(flip_bit(data, offset, bit))
    assert accepted > 100


def test_every_changed_byte_of_a_footer_is_read_or_refused(rng: Rng) -> None:
    """For footers that read_footer() accepts, pyarrow returns the metadata of each chunk, and splits by a filter."""
    data, accepted, refused = to_bytes(nested(rng, 20), row_group_size=10), 0, 0
    size = struct.unpack("<I", data[-8:-4])[0]
    for offset in range(size):
        for bit in rng.choice(8, 3, replace=False).tolist():
            try:
                metadata, chunks = read_footer(io.BytesIO(flip_bit(data, offset, bit)))
            except (OSError, ValueError, pa.ArrowException):
                refused += 1
                continue
            accepted += 1
            use_everything(metadata, chunks)
            split(flip_bit(data, offset, bit))
    assert min(accepted, refused) > 100


@pytest.mark.parametrize("contradiction", CONTRADICTIONS)
def test_a_file_that_ends_a_process_with_pyarrow_is_refused(contradiction: str) -> None:
    data = contradicting_file(contradiction=contradiction)
    process = subprocess.run([sys.executable, "-c", READ_STATISTICS], input=data, capture_output=True, timeout=60)
    if process.returncode == 0:
        pytest.skip(f"pyarrow {pa.__version__} survives statistics that contradict the schema")
    assert process.returncode < 0, process.stderr.decode()  # by a signal
    with pytest.raises(ValueError, match="the statistics of the column 'value' contradict its type"):
        read_footer(io.BytesIO(data))


def test_any_bytes_are_scanned_within_their_arrays(rng: Rng) -> None:
    data = to_bytes(nested(rng, 20), row_group_size=10)
    footer = np.frombuffer(data, np.uint8)[-8 - struct.unpack("<I", data[-8:-4])[0] : -8]
    for case in range(3_000):
        size = int(rng.integers(0, len(footer) + 1)) if case % 2 else len(footer)
        changed = footer[:size].copy()
        where = rng.integers(0, max(size, 1), size and int(rng.integers(0, 8)))
        changed[where] = rng.integers(0, 256, len(where))
        found = np.zeros((FIELDS, int(rng.integers(0, 13))), dtype=np.int64)
        assert -1 <= scan_chunks(freeze(changed), found) <= found.shape[1]
    for _ in range(3_000):
        noise = rng.choice(np.array([0, 0x19, 0x1C, 0x49, 0xFC, 0xFF, 0x15], np.uint8), int(rng.integers(0, 200)))
        assert scan_chunks(freeze(noise), np.zeros((FIELDS, 2), dtype=np.int64)) <= 2
