"""Lister of Iceberg tables: the data files that each snapshot appends.

The position is a snapshot. Reading begins with the files of one snapshot, then follows the snapshots whose ancestor it
is. Snapshots that only rewrite files (`replace`) are skipped, because their rows are in the store.
"""

import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from quantide.config import StreamConfig
from quantide.errors import MissingPackageError, SourceTableError, StorageError
from quantide.spark.stream.file_lister import IsRecorded, Listing, read_position, write_position
from quantide.spark.stream.source_access import source_access
from quantide.store.ingest_log import IngestedFile
from quantide.store.location import StorageOptions, open_storage

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
    from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent, ManifestEntry, ManifestEntryStatus
    from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
    from pyiceberg.table.snapshots import Operation, Snapshot
except ImportError as error:
    raise MissingPackageError.of("an Iceberg table as a source", "pyiceberg", "iceberg") from error

KIND = "iceberg"
PAUSE = 1.0  # seconds between two reads of a table's metadata
MAX_LISTED = 10_000  # files of one listing, unless one snapshot has more
_METADATA = re.compile(r"(?:.*/)?v?(\d+)(?:-[^/]*)?(?:\.gz)?\.metadata\.json(?:\.gz)?")


class IcebergLister:
    """Finds the files that were appended to a table: at a location, or of a catalog."""

    def __init__(self, stream: StreamConfig) -> None:
        self._source, self._key, self.pause = stream.source, stream.key, PAUSE
        self._name = stream.source.table or stream.source.path or ""
        self._files = IcebergFiles(source_access(stream.source))
        self._catalog: Catalog | None = None

    def list_new(self, position: str, is_recorded: IsRecorded) -> Listing:
        metadata, fields = self._read_metadata(), read_position(position, KIND)
        table = str(metadata.table_uuid)
        if fields is None:
            return self._start(metadata, is_recorded)
        if fields["table"] != table:
            raise SourceTableError(
                f"{self._key}: {self._name} is another table ({table}) than the one that the store has rows of "
                f"({fields['table']}). Pass --reset with --allow-duplicates to read it, too, or give it a stream of "
                "its own"
            )
        if fields.get("initial"):
            return self._list_initial(metadata, fields["snapshot"], is_recorded)
        return self._follow(metadata, fields["snapshot"], is_recorded)

    def list_present(self) -> Mapping[str, IngestedFile]:
        metadata = self._read_metadata()
        current = metadata.current_snapshot()
        files = [] if current is None else self._list_snapshot(current)
        return {file.path: file for file in files}

    def _start(self, metadata: TableMetadata, is_recorded: IsRecorded) -> Listing:
        """Begin with the table as it is, with rows that are added from now on, or with a snapshot."""
        current, start = metadata.current_snapshot(), self._source.start
        if start not in ("all", "new"):
            first = metadata.snapshot_by_id(int(start))
            if first is None:
                raise SourceTableError(
                    f"{self._key}.source.start is {start}, and {self._name} has no such snapshot; write the id of one "
                    'that it has, "all" or "new"'
                )
            return Listing((), self._position(metadata, first.parent_snapshot_id), True)
        if current is None:
            return Listing((), self._position(metadata, None))
        if start == "new":
            return Listing((), self._position(metadata, current.snapshot_id), True)
        return self._list_initial(metadata, current.snapshot_id, is_recorded)

    def _list_initial(self, metadata: TableMetadata, number: int, is_recorded: IsRecorded) -> Listing:
        """Return all files of the snapshot that reading begins with."""
        snapshot = metadata.snapshot_by_id(number)
        if snapshot is None:
            raise self._expired_error(number)
        files = tuple(file for file in self._list_snapshot(snapshot) if not is_recorded(file.path))
        partial = write_position(KIND, table=str(metadata.table_uuid), snapshot=number, initial=True)
        return Listing(files, self._position(metadata, number), True, partial)

    def _follow(self, metadata: TableMetadata, last: int | None, is_recorded: IsRecorded) -> Listing:
        """Return the files of the snapshots after one, up to MAX_LISTED."""
        files: list[IngestedFile] = []
        for snapshot in self._snapshots_after(metadata, last):
            if files and (len(files) >= MAX_LISTED or self._is_change(snapshot)):
                return Listing(tuple(files), self._position(metadata, last), True)
            files += [file for file in self._list_appended(snapshot) if not is_recorded(file.path)]
            last = snapshot.snapshot_id
        return Listing(tuple(files), self._position(metadata, last))

    def _snapshots_after(self, metadata: TableMetadata, last: int | None) -> list[Snapshot]:
        """Return the snapshots between one and the current one, oldest first."""
        chain: list[Snapshot] = []
        snapshot = metadata.current_snapshot()
        while snapshot is not None and snapshot.snapshot_id != last:
            chain.append(snapshot)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else metadata.snapshot_by_id(parent)
        reaches = snapshot is not None or (last is None and (not chain or chain[-1].parent_snapshot_id is None))
        if not reaches:
            raise self._expired_error(last)
        return chain[::-1]

    def _expired_error(self, snapshot: int | None) -> SourceTableError:
        return SourceTableError(
            f"{self._key}: the snapshots of {self._name} do not reach back to {snapshot}, the last one that the store "
            f'has: it has expired, or the table was rolled back. Set {self._key}.source.start = "new" and pass '
            "--reset to go on without the rows in between, or ingest the table into a new store"
        )

    def _is_change(self, snapshot: Snapshot) -> bool:
        """Return True if a snapshot deletes or overwrites rows."""
        operation = snapshot.summary.operation if snapshot.summary else Operation.OVERWRITE
        return operation not in (Operation.APPEND, Operation.REPLACE)

    def _list_appended(self, snapshot: Snapshot) -> Iterator[IngestedFile]:
        """Yield the files that a snapshot appends; raise if the stream cannot follow it."""
        if self._is_change(snapshot):
            if self._source.on_change == "skip":
                return
            operation = snapshot.summary.operation.value if snapshot.summary else "unknown"
            raise SourceTableError(
                f"{self._key}: snapshot {snapshot.snapshot_id} of {self._name} deletes or changes rows ({operation}), "
                f'and the store has them already. Set {self._key}.source.on_change = "skip" to ignore such snapshots '
                f'with all that they add, or set source.start = "new" and pass --reset'
            )
        if snapshot.summary is None or snapshot.summary.operation == Operation.REPLACE:
            return
        for manifest in snapshot.manifests(self._files):
            if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id == snapshot.snapshot_id:
                for entry in manifest.fetch_manifest_entry(self._files):
                    if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id:
                        yield self._file(entry, snapshot)

    def _list_snapshot(self, snapshot: Snapshot) -> Iterator[IngestedFile]:
        """Yield all files of a snapshot; raise if some of their rows are deleted."""
        for manifest in snapshot.manifests(self._files):
            if manifest.content == ManifestContent.DELETES and manifest.fetch_manifest_entry(self._files):
                raise SourceTableError(
                    f"{self._key}: snapshot {snapshot.snapshot_id} of {self._name} has delete files, and the deleted "
                    "rows would be read. Rewrite its data files (rewrite_data_files), or set "
                    f'{self._key}.source.start = "new"'
                )
            if manifest.content == ManifestContent.DATA:
                for entry in manifest.fetch_manifest_entry(self._files):
                    yield self._file(entry, snapshot)

    def _file(self, entry: ManifestEntry, snapshot: Snapshot) -> IngestedFile:
        data = entry.data_file
        if data.file_format != FileFormat.PARQUET or data.content != DataFileContent.DATA:
            raise SourceTableError(
                f"{self._key}: {data.file_path} is {data.file_format}, and Quantide reads Parquet files of tables; "
                "set the table's write.format.default to parquet, and rewrite its files"
            )
        path = data.file_path.removeprefix("file://")
        path = path.removeprefix("file:") if path.startswith("file:/") else path
        return IngestedFile(path, data.file_size_in_bytes, snapshot.timestamp_ms)

    def _position(self, metadata: TableMetadata, snapshot: int | None) -> str:
        return write_position(KIND, table=str(metadata.table_uuid), snapshot=snapshot)

    def _read_metadata(self) -> TableMetadata:
        """Return the newest metadata of the table; raise if a column has had several names."""
        source = self._source
        if source.table:
            metadata = self._load_from_catalog(source.table)
        else:
            with self._files.new_input(self._find_metadata(source.path or "")).open() as stream:
                metadata = TableMetadataUtil.parse_raw(stream.read().decode())
        names, numbers = dict[int, str](), dict[str, int]()
        for field in (field for schema in metadata.schemas for field in schema.fields):
            if numbers.setdefault(field.name, field.field_id) != field.field_id:
                raise SourceTableError(
                    f"{self._key}: {self._name} has dropped the column {field.name!r} and added another one of that "
                    "name, and older files have the values of the dropped one. Rewrite the table"
                )
            if names.setdefault(field.field_id, field.name) != field.name:
                raise SourceTableError(
                    f"{self._key}: {self._name} has renamed the column {names[field.field_id]!r} to {field.name!r}, "
                    "and older files have the old name, which Quantide does not map. Rewrite the table"
                )
        return metadata

    def _load_from_catalog(self, name: str) -> TableMetadata:
        try:
            if self._catalog is None:
                settings = dict(self._source.catalog)
                self._catalog = load_catalog(settings.pop("name", "default"), **settings)
            return self._catalog.load_table(name).metadata
        except NoSuchTableError as error:
            raise SourceTableError(
                f"{self._key}.source.table: the catalog has no table {name}; correct the name"
            ) from error
        except Exception as error:  # of whatever client the catalog has
            raise StorageError(
                f"{self._key}.source.catalog cannot be reached: {type(error).__name__}. Check its settings and the "
                "network"
            ) from error

    def _find_metadata(self, path: str) -> str:
        """Return the newest metadata file of the table at a location."""
        if _METADATA.fullmatch(path):
            return path
        storage = open_storage(path, dict(self._source.storage_options) if self._source.is_remote else None)
        matches = [match for file in storage.list_files("metadata") if (match := _METADATA.fullmatch(file.name))]
        if not matches:
            raise SourceTableError(f"{self._key}.source.path: there is no Iceberg table at {path}; correct the path")
        newest = max(matches, key=lambda match: int(match[1]))
        return storage.full_path(newest[0])


class IcebergFiles(FileIO):
    """Files of a table for pyiceberg, by the access of the source: options are the same as for its data files."""

    def __init__(self, access: StorageOptions) -> None:
        super().__init__()
        self._access = access

    def new_input(self, location: str) -> "IcebergFile":
        return IcebergFile(location, self._access)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError("a source is only read")

    def delete(self, location: Any) -> None:
        raise NotImplementedError("a source is only read")


class IcebergFile(InputFile):
    """Metadata file or manifest, which is read as a whole."""

    def __init__(self, location: str, access: StorageOptions) -> None:
        super().__init__(location)
        self._access = access

    def __len__(self) -> int:
        filesystem, path = self._access.locate(self.location)
        return int(filesystem.get_file_info(path).size)

    def exists(self) -> bool:
        filesystem, path = self._access.locate(self.location)
        return bool(filesystem.get_file_info(path).type.name == "File")

    def open(self, seekable: bool = True) -> InputStream:
        filesystem, path = self._access.locate(self.location)
        with filesystem.open_input_file(path) as file:
            return io.BytesIO(file.read())
