"""Storage of a store: the operations that a store needs from a folder or from an object store.

Files are named by their path within the store, such as `runs/L0-S1-1-E1-1-P0.parquet`. A file is written once and
never changed, except for a few small ones that `replace` replaces as a whole. A name appears only with its whole
content. Every error is FileNotFoundError, FileExistsError, or a StorageError that names the file.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Any, ClassVar, Protocol, TypeVar

from quantide.errors import StorageError

A = TypeVar("A")
B = TypeVar("B")


class UncertainPutError(StorageError):
    """The outcome of a put is unknown: it may have succeeded, or may succeed later."""


@dataclass(frozen=True)
class FileStatus:
    """File in a folder: its path within the store, its size, and its time by the clock of the storage, in seconds.

    A file that `is_linked` has a second name: removing one of the two frees no space.
    """

    name: str
    size: int
    modified: float
    is_linked: bool = False


@dataclass
class StorageCounts:
    """Requests to an object store, those that were repeated, and bytes; all 0 for a folder."""

    requests: int = 0
    retries: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    cache_hits: int = 0


class Sink(Protocol):
    """File that is being written; pyarrow writes to it."""

    def write(self, data: Any) -> int: ...


class Lease(Protocol):
    """Right of one writer to write to a store, until it is released or lost."""

    def release(self) -> None: ...

    @property
    def is_lost(self) -> bool: ...


class Storage(ABC):
    """Files of one store. Thread-safe and picklable: tasks on other machines receive it."""

    path: str  # absolute folder, or URI without credentials
    durable: bool  # True if files must survive a power loss; an object store is always durable
    poll_seconds: ClassVar[float]  # pause between two polls for a new commit
    trusted_seconds: ClassVar[float]  # for which the newest version is assumed not to be trimmed
    loses_local_files: ClassVar[bool]  # True if local_folder() is not part of the store: other machines have their own
    stale_seconds: ClassVar[float]  # for which small files about the state of ingestion are not read again
    reads_ahead: ClassVar[bool]  # True if waiting for a block takes longer than reading one that is not needed

    def __init__(self) -> None:
        self.counts = StorageCounts()
        self._counts_lock = Lock()

    @property
    def source_options(self) -> dict[str, str]:
        """Options with which source files in object storage are read: those of the store, if it has any."""
        return {}

    @abstractmethod
    def full_path(self, name: str) -> str: ...

    # Reading

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return a small file."""

    @abstractmethod
    def map(self, name: str) -> Any:
        """Return the content of a file that never changes, as a buffer that is read where it is used."""

    @abstractmethod
    def open(self, name: str) -> Any:
        """Open a file that never changes, for pyarrow, which reads ranges of it."""

    @abstractmethod
    def stat(self, name: str) -> FileStatus: ...

    def exists(self, name: str) -> bool:
        try:
            self.stat(name)
        except FileNotFoundError:
            return False
        return True

    @abstractmethod
    def list_top(self) -> set[str]:
        """Return the names of the files and folders at the top; none if there is no store."""

    @abstractmethod
    def list_files(self, folder: str) -> list[FileStatus]:
        """Return the files of a folder without those of its subfolders, sorted by name; none if it does not exist."""

    @abstractmethod
    def map_all(self, read: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """Call a function that reads files for each item, in parallel where that is faster."""

    @abstractmethod
    def read_error(self, name: str, error: Exception) -> Exception:
        """Return the exception to raise for a file that could not be read as what it is."""

    # Writing

    @abstractmethod
    def prepare(self) -> None:
        """Create what a new store needs before its first file."""

    @abstractmethod
    def write(self, name: str, fill: Callable[[Sink], None], checked: bool = True) -> tuple[int, int]:
        """Write a file; return its size, and its CRC-32 if `checked`. A repeated task writes the same bytes again."""

    @abstractmethod
    def replace(self, name: str, data: bytes, durable: bool | None = None) -> None:
        """Write a small file, or replace it."""

    @abstractmethod
    def create(self, name: str, data: bytes) -> None:
        """Create a small file; raise FileExistsError if the name is taken. Of two writers exactly one succeeds.

        Raise UncertainPutError if the outcome is unknown.
        """

    @abstractmethod
    def read_version(self, name: str) -> tuple[bytes, dict[str, str]]:
        """Return a small file and its version."""

    @abstractmethod
    def update(self, name: str, data: bytes, version: Mapping[str, str] | None) -> dict[str, str]:
        """Replace a small file that is still of this version, or create it (None); return its new version.

        Raise FileExistsError if it is of another version. In a folder, the lock of the one writer prevents that.
        """

    @abstractmethod
    def remove(self, name: str) -> bool:
        """Remove a file; return False if it does not exist."""

    @abstractmethod
    def copy(self, name: str, second: str) -> bool:
        """Give a file that never changes a second name; return False if it does not exist."""

    @abstractmethod
    def move(self, name: str, target: str) -> None:
        """Move a file to another folder."""

    @abstractmethod
    def touch(self, *names: str) -> None:
        """Set the time of files to now, where the storage can do that."""

    @abstractmethod
    def sync(self, *names: str) -> None:
        """Make files and folders survive a power loss, if `durable`."""

    @abstractmethod
    def sync_all(self) -> None:
        """Make everything that was written survive a power loss, also what other processes wrote."""

    @abstractmethod
    def list_remains(self, folder: str) -> list[FileStatus]:
        """Return files of a folder that are being written, or were never completed, under their temporary names."""

    @abstractmethod
    def remove_remains(self, folder: str) -> int:
        """Remove files of a folder that were never completed; return their number."""

    @abstractmethod
    def check_space(self, needed: int) -> None:
        """Raise StorageError if there are not so many bytes free."""

    @abstractmethod
    def check_confined(self) -> None:
        """Raise StorageError if writing would change files outside of the store."""

    # The store as a whole

    @abstractmethod
    def acquire_lease(self) -> Lease:
        """Become the one writer; raise WriterConflictError with the holder's name if there is another."""

    @abstractmethod
    def lease_holder(self) -> str | None:
        """Return the holder of the lease; None if it is free."""

    @abstractmethod
    def is_same(self) -> bool:
        """Return False if the store was removed, or replaced by another, since it was opened."""

    @abstractmethod
    def local_folder(self, name: str) -> str:
        """Return a folder of this machine for files that belong to the store but may be lost."""

    def use_cache(self, identity: str) -> None:  # noqa: B027 (a folder has no cache)
        """Cache files on local disk under the identity of the table: another table may have the same path later."""

    def uncached(self) -> "Storage":
        """Return this storage without its cache: to check files, or to read large ones once."""
        return self

    # Counts

    def _count(self, requests: int = 0, retries: int = 0, read: int = 0, written: int = 0, hits: int = 0) -> None:
        for counts in (self.counts, *_measured.get()):
            with self._counts_lock:
                counts.requests += requests
                counts.retries += retries
                counts.bytes_read += read
                counts.bytes_written += written
                counts.cache_hits += hits


_measured: ContextVar[tuple[StorageCounts, ...]] = ContextVar("measured", default=())


@contextmanager
def measure_requests() -> Iterator[StorageCounts]:
    """Count the requests of this block, also those of blocks within it and of the threads of map_all()."""
    counts = StorageCounts()
    token = _measured.set((*_measured.get(), counts))
    try:
        yield counts
    finally:
        _measured.reset(token)
