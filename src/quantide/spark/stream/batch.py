"""Batches: some files, or the rows of a micro-batch, become chunks of a history and one commit."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from quantide.config import StreamConfig
from quantide.errors import CommitUncertainError, ConfigError, StorageError, TypeMismatchError
from quantide.history.history import History
from quantide.history.keys import plain_type
from quantide.history.load import Loaded, Slot
from quantide.spark.executor import TEXT
from quantide.spark.rows import Batches
from quantide.spark.stream.casts import LOOKS_LIKE, clock_of
from quantide.spark.stream.intake import AHEAD, Rules
from quantide.spark.stream.lateness import reference_time
from quantide.spark.stream.listing import list_files
from quantide.spark.stream.missing import is_mistake
from quantide.spark.stream.origin import CORRUPT
from quantide.spark.stream.selection import TIME, Selection
from quantide.spark.stream.share import Share, Shares
from quantide.spark.stream.source import our_errors
from quantide.spark.stream.text import find_name
from quantide.spark.stream.work import CHANGED, Done, Job, Output, look, schema_problem, work, work_table
from quantide.store import faults
from quantide.store.ledger import DONE, HELD, WAITING, Entry, Ledger, Record, SourceFile
from quantide.store.storage import Storage
from quantide.windows.ahead import Horizon
from quantide.windows.wall_clock import wall_clock

EMPTY = "it is empty; it is taken when something is written to it"
GONE = "it was removed before it was read"
OTHERS = 20  # files that are looked into before a configuration is said to fit none
LITTLE = 4 << 20  # bytes of files that are read right here: tasks would take longer to start


@dataclass(frozen=True)
class Batch:
    """A batch to be taken in. With `last_try` what fails goes into quarantine instead of waiting."""

    source: str
    number: int
    last_try: bool = False
    offsets: str = ""
    settled: tuple[str, ...] = ()
    keep_late: bool = False

    @property
    def id(self) -> tuple[str, int]:
        return self.source, self.number

    @property
    def name(self) -> str:
        return f"{self.source}-{self.number}"


class BatchWriter:
    """Takes batches into the history of a stream; the ledger says what it took."""

    def __init__(self, stream: StreamConfig, history: History, ledger: Ledger, session: SparkSession) -> None:
        self.stream, self.history, self.ledger, self.session = stream, history, ledger, session
        self.storage = Storage()
        self.selection = Selection.of(stream, str(session.conf.get("spark.sql.session.timeZone")))
        self.shares = Shares(stream, session, self.storage, self.selection)
        self.origin: tuple[int, int, str] | None = None
        self._uncertain: Record | None = None  # of a batch that may be in the table

    def settle(self) -> Record | None:
        """Apply the record of a batch that is in the table although its commit raised CommitUncertainError."""
        record = self._uncertain
        if record is None:
            return None
        in_table = self.history.batch_seen((record.source, record.number))
        self._uncertain = None
        if in_table:
            self.ledger.committed(record)
        return record if in_table else None

    def take_files(self, batch: Batch, files: Sequence[SourceFile], gone: Sequence[str] = ()) -> Record | None:
        """Files that are not in the store yet, in one commit; None when there was nothing to do. Those that are `gone`
        are recorded."""
        form = self.stream.source.format
        if not (files or gone) or self.history.batch_seen(batch.id):
            return None
        entries = [Entry(SourceFile(path, 0, 0), HELD, GONE) for path in gone]
        entries += [Entry(file, WAITING, EMPTY) for file in files if not file.size]
        files = [file for file in files if file.size]
        unsettled = [] if batch.last_try or form == "parquet" else [file for file in files if not self._is_old(file)]
        whole = [file for file in files if file not in unsettled]
        share = self.shares.of_files(whole, form, batch.name, self._schema_problem) if whole else Share()
        entries += [Entry(file, WAITING, "it may still be written to") for file in unsettled]
        return self._commit(batch, share, whole, entries)

    def take_again(self, batch: Batch, paths: Iterable[str]) -> Record | None:
        """Files by their names, as they are now, in one commit."""
        found = {path: look(self.storage, path) for path in paths}
        files = [file for file in found.values() if file is not None]
        return self.take_files(batch, files, [path for path, file in found.items() if file is None])

    def take_rows(self, batch: Batch, files: Sequence[SourceFile], held: tuple[str, ...]) -> Record | None:
        """Rows out of the quarantine's own files, in one commit, after which those files are not needed."""
        share = self.shares.of_files(files, "parquet", batch.name, self._schema_problem)
        return self._commit(replace(batch, settled=held), share, [], [])

    def take_frame(self, batch: Batch, frame: DataFrame) -> Record | None:
        """The rows of a micro-batch, in one commit."""
        if self.history.batch_seen(batch.id):
            return None
        share = self.shares.of_rows(frame, batch.name)
        if share.table is not None and not len(share.table):
            return None
        return self._commit(batch, share, [], [])

    def _commit(
        self, batch: Batch, share: Share, files: Sequence[SourceFile], entries: Sequence[Entry]
    ) -> Record | None:
        types = self._types(share.schema)
        rules = self._rules(batch, share)
        known = {file.path: file for file in files}
        written: list[Record] = []

        def write(slot: Slot) -> Iterator[Loaded]:
            mine = (known, types) if share.direct else ({}, {})
            job = Job(slot, rules, batch.name, self.storage, *mine, self.stream.schema_change, share.numbering)
            found = self._run(job, share)
            record = self._record(batch, share, found, files, entries, types)
            failed = {entry.file.path for entry in record.entries if entry.state != DONE}
            yield from (one for output in _good(found, failed) for one in output.loaded)
            written.append(self.ledger.write(record))
            faults.point("ingest.recorded")

        try:
            self.history.load(max(1, len(share.splits)), write, rules.key_types, batch.id)
            faults.point("ingest.committed")
            self.ledger.committed(written[0])
            return written[0]
        except CommitUncertainError:
            self._uncertain = written[0]
            raise
        finally:
            if share.staged is not None:
                shutil.rmtree(share.staged, ignore_errors=True)

    def _run(self, job: Job, share: Share) -> list[Done]:
        if share.table is not None:
            return [work_table(job, share.table)]
        splits = share.splits
        if share.size <= LITTLE:
            return [work(job, number, split) for number, split in enumerate(splits)]

        def run(batches: Batches) -> Batches:
            for found in batches:
                for number in found.column(0).to_pylist():
                    done = work(job, number, splits[number])
                    yield pa.RecordBatch.from_pydict({"text": [json.dumps(done.to_dict())]})

        frame = self.session.range(0, len(splits), 1, len(splits)).mapInArrow(run, TEXT)
        with our_errors():
            rows = frame.collect()
        return [Done.from_dict(json.loads(row["text"])) for row in rows]

    def _record(
        self,
        batch: Batch,
        share: Share,
        found: Sequence[Done],
        files: Sequence[SourceFile],
        entries: Sequence[Entry],
        types: dict[str, str],
    ) -> Record:
        failed = dict(share.failed)
        for done in found:
            failed |= done.failed
        settled = tuple(name for name in batch.settled if not any(path.endswith("/" + name) for path in failed))
        self._check_staged(failed, {file.path for file in files}, batch)
        states = []
        for file in files:
            state, reason = failed.get(file.path, (DONE, ""))
            if state == WAITING and batch.last_try:
                state = HELD
            bad = sum(done.bad.get(file.path, 0) for done in found)
            states.append(Entry(file, state, reason, bad))
        good = _good(found, {entry.file.path for entry in states if entry.state != DONE})
        self._check_columns(states)
        self._check_units(found, sum(output.rows for output in good))
        self._check_policies(found, states, sum(output.bad for output in good))
        newest = [done.newest for done in found if done.newest is not None]
        return Record(
            batch.source,
            batch.number,
            at=wall_clock(),
            rows=sum(output.rows for output in good),
            bad=sum(output.bad for output in good),
            newest=max(newest, default=None),
            origin=self.origin,
            offsets=batch.offsets,
            types=types,
            held=tuple(name for output in good for name in output.held),
            settled=settled,
            ahead=sum(count for done in found for reason, count in done.reasons.items() if reason.startswith(AHEAD)),
            config=self.stream.fingerprint,
            entries=(*entries, *states),
        )

    def _check_staged(self, failed: Mapping[str, tuple[str, str]], files: set[str], batch: Batch) -> None:
        """Files of our own that cannot be read: nothing of the batch is taken then."""
        for path, (_, reason) in failed.items():
            if path not in files and os.path.basename(path) not in batch.settled:
                raise StorageError(f"{self.stream.key}: {path} cannot be read, the batch is tried again: {reason}")

    def _check_columns(self, states: Sequence[Entry]) -> None:
        """Stop when no file has the columns that are configured: nothing is held then, and all are read later."""
        wrong = [entry for entry in states if entry.state == HELD and is_mistake(entry.reason)]
        if wrong and len(wrong) == len(states) and not self.ledger.types and not self._others_fit(states):
            self.check_found(wrong)

    def _others_fit(self, states: Sequence[Entry]) -> bool:
        """Return True if some other file of the source has the columns."""
        mine = {entry.file.path for entry in states}
        others = [file for path, file in list_files(self.stream.source, self.storage).items() if path not in mine]
        return any(self.shares.fits(file) for file in others[:OTHERS])

    def check_found(self, held: Iterable[Entry]) -> None:
        """Raise when nothing was ever taken, and files are held for what the configuration says of their columns."""
        wrong = [entry for entry in held if is_mistake(entry.reason)]
        if wrong and not self.ledger.types:
            reason = wrong[0].reason.removeprefix(f"{CHANGED}: ")
            raise ConfigError(
                f"{self.stream.key}: no file can be read by this configuration. {wrong[0].file.path}: "
                f"{reason}{'' if reason.endswith('?') else '.'} Correct {self.stream.key} and start again: the files "
                "are read then"
            )

    def _check_units(self, found: Sequence[Done], rows: int) -> None:
        """Stop when no time was ever right, and they look like those of another unit."""
        reasons = {reason for done in found for reason in done.reasons}
        if not (rows or self.ledger.rows) and any(reason.startswith(LOOKS_LIKE) for reason in reasons):
            raise ConfigError(f"{self.stream.key}.time: {'; '.join(sorted(reasons))}. Then start again")

    def _check_policies(self, found: Sequence[Done], states: Sequence[Entry], bad: int) -> None:
        """What a stream is configured to stop at."""
        if bad and self.stream.bad_records == "fail":
            reasons = {reason for done in found for reason in done.reasons}
            raise TypeMismatchError(
                f"{self.stream.key}: {bad:,} bad records ({'; '.join(sorted(reasons))}); correct the source, or set "
                f'{self.stream.key}.bad_records = "quarantine" to go on without them'
            )
        changed = [entry for entry in states if entry.state == HELD and entry.reason.startswith(CHANGED)]
        if changed and self.stream.schema_change == "fail":
            raise TypeMismatchError(
                f"{self.stream.key}: {changed[0].file.path}: {changed[0].reason}. Correct the file, or set "
                f'{self.stream.key}.schema_change = "quarantine", or "adapt"'
            )

    def _rules(self, batch: Batch, share: Share) -> Rules:
        stream, ahead = self.stream, self.history.settings.ahead
        newest = reference_time(self.ledger, ahead, wall_clock())
        late = stream.late == "quarantine" and not batch.keep_late
        before = newest - float(stream.late_after or stream.window) if late and newest is not None else None
        clock = self._types(share.schema).get(TIME, "timestamp")
        if stream.time_unit is not None and self._types(share.schema).get(TIME) == "timestamp":
            raise ConfigError(
                f'{stream.key}.time_unit is "{stream.time_unit}", and the times are timestamps; leave it out'
            )
        return Rules(
            self.selection,
            stream.keys,
            self._key_types(share),
            self.history.settings.value_type,
            stream.nan,
            clock,
            late,
            before,
            time_unit=stream.time_unit,
            horizon=None if ahead is None else Horizon.of(ahead),
        )

    def _key_types(self, share: Share) -> tuple[pa.DataType, ...]:
        known = self.history.key_types if self.stream.keys else []
        if known is not None:
            return tuple(known)
        if share.schema is None:
            return ()
        found = [(find_name(name, share.schema.names) or name, name) for name in self.stream.keys]
        return tuple(plain_type(_decoded(share.schema.field(there).type), name) for there, name in found)

    def _types(self, schema: pa.Schema | None) -> dict[str, str]:
        """The types of the columns in use, as the stream's first files had them."""
        if schema is None:
            return self.ledger.types
        needed = self.selection.needed(schema.names)
        types = {name: str(schema.field(name).type) for name in needed if name != CORRUPT}
        time = self.selection.time_type(schema)
        if time is not None:
            types[TIME] = clock_of(time)
        return {name: self.ledger.types.get(name, kind) for name, kind in types.items()}

    def _schema_problem(self, first: pa.Schema, schema: pa.Schema) -> str | None:
        return schema_problem(self.selection, schema, self._types(first), self.stream.schema_change)

    def _is_old(self, file: SourceFile) -> bool:
        """Return True if a file was not changed for a while; a clock that jumps ahead makes no file older."""
        return self.history.table.file_time() - file.modified / 1000 >= self.stream.source.settle


def _good(found: Iterable[Done], failed: set[str]) -> list[Output]:
    """What was written of files that are in order."""
    return [output for done in found for output in done.outputs if output.file not in failed]


def _decoded(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
