"""Command that pushes the rows of a file to a server: push."""

import argparse
import csv
import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import IO, TYPE_CHECKING, Any
from uuid import uuid4

from quantide.cli.command import Command, UsageError
from quantide.errors import BacklogError, InvalidArgumentError, LimitError, NotReadyError, QuantideError
from quantide.summary.value_json import count, write_line

if TYPE_CHECKING:
    from quantide.client import Client

SUFFIXES = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
}
TOKEN_VARIABLE = "QUANTIDE_TOKEN"
REQUEST_ROWS = 20_000
MAX_WAIT = 60.0  # seconds for a server that is busy

Body = tuple[str, bytes]  # content type and content


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stream", metavar="STREAM", help='a stream whose source is "push"')
    parser.add_argument("file", metavar="FILE", help="CSV with a header, JSON lines, Parquet or Arrow; - reads stdin")
    parser.add_argument("--url", default="http://127.0.0.1:8642", help="address of the server (%(default)s)")
    parser.add_argument("--token", help=f"a token; better: the environment variable {TOKEN_VARIABLE}")
    parser.add_argument(
        "--format", choices=sorted(set(SUFFIXES.values())), help="of the file (default: by its name; csv for stdin)"
    )
    parser.add_argument("--idempotency-key", metavar="KEY", help="repeating the command with the same key adds nothing")


def _push(args: argparse.Namespace) -> None:
    from quantide.client import Client

    kind, key, rows = _file_format(args), args.idempotency_key or str(uuid4()), 0
    with Client(args.url, args.token or os.environ.get(TOKEN_VARIABLE)) as client, _open(args.file) as file:
        for number, (content_type, content) in enumerate(READERS[kind](file)):
            rows += _send(client, args.stream, content_type, content, f"{key}-{number}")
    if args.json:
        write_line(sys.stdout, {"stream": args.stream, "rows": rows})
    else:
        print(f"{count(rows, 'row')} pushed to the stream {args.stream}.")


def _file_format(args: argparse.Namespace) -> str:
    known = SUFFIXES.get(os.path.splitext(args.file)[1].lower(), "csv" if args.file == "-" else None)
    kind: str | None = args.format or known
    if kind is None:
        raise UsageError(f"the format of {args.file!r} is not known; add --format csv, jsonl, parquet or arrow")
    return kind


def _open(name: str) -> IO[bytes]:
    if name == "-":
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    try:
        return open(name, "rb")
    except OSError as error:
        raise InvalidArgumentError(
            f"{name} cannot be read: {error.strerror}; check the path, or write - to read standard input"
        ) from error


def _send(client: "Client", stream: str, content_type: str, content: bytes, key: str) -> int:
    """Send a request, again while the server is busy; return its number of rows."""
    deadline, pause = time.monotonic() + MAX_WAIT, 0.2
    while True:
        try:
            return client.push_encoded(stream, content_type, content, key).rows
        except (LimitError, NotReadyError) as error:
            wait = max(pause, error.retry_after) if isinstance(error, BacklogError) else pause
            if time.monotonic() + wait > deadline:
                raise
            time.sleep(wait)
            pause = min(2 * pause, 5.0)


def _read_csv(file: IO[bytes]) -> Iterator[Body]:
    lines = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        reader = csv.reader(lines)
        header = next(reader, None)
        if header is None:
            raise InvalidArgumentError("the file is empty; its first line must have the names of the columns")
        while rows := list(islice(reader, REQUEST_ROWS)):
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([header, *rows])
            yield "text/csv", text.getvalue().encode()
    finally:
        lines.detach()  # the caller closes the file


def _read_lines(file: IO[bytes]) -> Iterator[Body]:
    while lines := list(islice(file, REQUEST_ROWS)):
        yield "application/x-ndjson", b"".join(lines)


def _read_parquet(file: IO[bytes]) -> Iterator[Body]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    source: Any = file if file.seekable() else pa.BufferReader(file.read())
    yield from _encode_batches(pq.ParquetFile(source).iter_batches(REQUEST_ROWS))


def _read_arrow(file: IO[bytes]) -> Iterator[Body]:
    import pyarrow as pa
    import pyarrow.ipc

    data = pa.py_buffer(file.read())
    try:
        reader = pa.ipc.open_file(data)
        batches = (reader.get_batch(index) for index in range(reader.num_record_batches))
    except pa.ArrowInvalid:
        batches = iter(pa.ipc.open_stream(data))
    yield from _encode_batches(batches)


def _encode_batches(batches: Iterator[Any]) -> Iterator[Body]:
    from quantide.client.row_encoding import ARROW, encode_table, to_table

    for batch in batches:
        for start in range(0, len(batch), REQUEST_ROWS):
            yield ARROW, encode_table(to_table(batch.slice(start, REQUEST_ROWS)))


def _reading(read: Callable[[IO[bytes]], Iterator[Body]]) -> Callable[[IO[bytes]], Iterator[Body]]:
    """Return a reader that raises a named error if the file is not of its format."""

    def read_checked(file: IO[bytes]) -> Iterator[Body]:
        try:
            yield from read(file)
        except (ValueError, csv.Error) as error:  # among them those of Arrow, and text that is not UTF-8
            if isinstance(error, QuantideError):
                raise
            raise InvalidArgumentError(f"the file cannot be read: {error}; name its format with --format") from error

    return read_checked


READERS = {
    "csv": _reading(_read_csv),
    "jsonl": _reading(_read_lines),
    "parquet": _reading(_read_parquet),
    "arrow": _reading(_read_arrow),
}
PUSH = Command(
    "push",
    "Push the rows of a file to a stream of a running server",
    "A large file becomes several requests, each of which is added as a whole. The command ends when the server has "
    "all rows on disk.",
    (
        "quantide push latency requests.csv",
        "quantide push latency requests.parquet --url https://quantiles.example.com --idempotency-key requests-17",
        "zcat requests.jsonl.gz | quantide push latency - --format jsonl",
    ),
    _add_arguments,
    _push,
    ("server",),
)
