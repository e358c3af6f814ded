"""Storage in an object store: S3, Azure Blob Storage or Google Cloud Storage, through `obstore`.

Puts are atomic and durable. Two writers never overwrite each other's commits: an entry of the log is put on the
condition that it does not exist, and the lease on the condition that it is unchanged. A lost answer leaves the outcome
of such a put unknown; the object is then read back, and its content tells whose it is.

Failed requests are repeated a bounded number of times with growing pauses. Errors name the file and never contain
credentials.
"""

import hashlib
import os
import random
import re
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from copy import copy
from datetime import timedelta
from difflib import get_close_matches
from functools import cached_property
from io import RawIOBase
from typing import IO, Any, TypeVar

import pyarrow as pa

from quantide.errors import (
    AccessRefusedError,
    CorruptBytesError,
    InvalidArgumentError,
    MissingPackageError,
    StorageError,
)
from quantide.store import fault_points
from quantide.store.file_cache import FileCache, cache_folder
from quantide.store.object_lease import ObjectLease, describe_holder
from quantide.store.storage import A, B, FileStatus, Sink, Storage, UncertainPutError

try:
    import obstore
    from obstore import exceptions as failures
    from obstore.store import from_url
except ImportError as error:
    raise MissingPackageError.of("a store in object storage", "obstore", "history") from error

T = TypeVar("T")

SCHEMES = ("s3", "s3a", "az", "azure", "abfs", "abfss", "adl", "gs")
ATTEMPTS = 6
FIRST_PAUSE = 0.1  # seconds; doubles before each further attempt
CLIENT_DEFAULTS = {"timeout": "30s", "connect_timeout": "5s"}
CLIENT_OPTIONS = (  # of obstore's HTTP client; in its other options they would end the process
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "default_content_type",
    "http1_only",
    "http2_keep_alive_interval",
    "http2_keep_alive_timeout",
    "http2_keep_alive_while_idle",
    "http2_only",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "timeout",
    "user_agent",
)
ENDPOINTS = ("endpoint", "endpoint_url")
KNOWN_OPTIONS = (  # some names of obstore, for suggestions
    "access_key_id",
    "account_key",
    "account_name",
    "application_credentials",
    "cache_bytes",
    "client_id",
    "client_secret",
    "endpoint",
    "region",
    "sas_token",
    "secret_access_key",
    "service_account",
    "session_token",
    "skip_signature",
    "tenant_id",
    "virtual_hosted_style_request",
)
_DELTA_ONLY = re.compile(  # options of deltalake about its own commits and retries, which obstore refuses
    r".*dynamo.*|(aws_|mount_)?(s3_)?allow_unsafe_rename|(aws_)?s3_locking_provider|(aws_)?ec2_metadata_disabled|"
    r"aws_(s3|sts)_(pool_idle_timeout_seconds|get_internal_server_error_retries)|(aws_)?force_credential_load|"
    r"max_retries|retry_timeout|backoff_config\..*|(object_store_)?concurrency_limit"
)
_PREFIX = re.compile("aws_|azure_(storage_)?|google_")
ENVIRONMENT = "env:"  # begins a value that is the name of an environment variable
CACHE_BYTES = "cache_bytes"  # our own option: the limit of the cache on local disk
DEFAULT_CACHE_BYTES = 1 << 30
METADATA_SERVICE = "169.254.169.254"  # of cloud machines; asked when there are no other credentials
NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
SERVICE_VARIABLES = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ENDPOINT")
THREADS = 16  # requests at a time
PART_BYTES = 8 << 20  # of a multipart upload
FOOTER_BYTES = 1 << 18  # fetched at once of the end of a data file: the footer of 1,000 blocks and a key column
_URL = re.compile(r"https?://[^\s]+")
_REFUSED = re.compile(r"status code: 40[13]\b")  # in an error of a list request, which obstore does not classify
_SECRET_NAME = re.compile(r"key|secret|token|password|sas|credential", re.IGNORECASE)  # of an option
_XML = re.compile(r"<\?xml.*|<Error>.*")  # the body of an error; it has the name of the access key, too
_XML_REASON = re.compile(r"<(?:Code|Message)>([^<]*)")
_USER = re.compile(r"://[^\s/@]*@")  # of an endpoint or a proxy
_SECRET = re.compile(r"(sig|signature|token|key|secret|password|credential)[^\s,;=]*=[^\s,;&]+", re.IGNORECASE)


class ObjectStorage(Storage):
    """Prefix in a bucket or container."""

    poll_seconds = 0.2
    trusted_seconds = 30.0  # versions are removed from the log when they are older
    loses_local_files = True
    stale_seconds = 5.0
    reads_ahead = True
    durable = True

    def __init__(self, uri: str, options: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.path = uri.rstrip("/")
        self._options = {name.lower(): _resolve(name, value) for name, value in _check_options(options).items()}
        self._max_cache_bytes = self._read_cache_bytes()
        self._cache: FileCache | None = None
        _ = self._objects  # refuses bad options now

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectStorage, (self.path, self._options)

    def __repr__(self) -> str:
        return f"ObjectStorage({self.path!r})"

    @property
    def source_options(self) -> dict[str, str]:
        return dict(self._options)

    @cached_property
    def _objects(self) -> Any:
        own = (name for name in self._options if name != CACHE_BYTES and not _DELTA_ONLY.fullmatch(name))
        options = {name: self._options[name] for name in own}
        names = {name: _PREFIX.sub("", name, count=1) for name in options}
        client = {names[name]: value for name, value in options.items() if names[name] in CLIENT_OPTIONS}
        client.setdefault("allow_http", os.environ.get("AWS_ALLOW_HTTP", "false"))  # obstore reads it without options
        config: Any = {name: value for name, value in options.items() if names[name] not in CLIENT_OPTIONS}
        client_options: Any = CLIENT_DEFAULTS | {
            name: value.lower() == "true" if value.lower() in ("true", "false") else value
            for name, value in client.items()
        }
        for name, value in config.items():
            if names[name] in ENDPOINTS and not _URL.fullmatch(value):  # obstore would panic
                raise InvalidArgumentError(
                    f"the storage option {name!r} of {self.path} is not a URL with http or https"
                )
        endpoints = [value for name, value in config.items() if names[name] in ENDPOINTS]
        endpoints = endpoints or [os.environ.get(name, "") for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")]
        if self.path.startswith("s3") and client_options["allow_http"] is not True and endpoints[0].startswith("http:"):
            raise InvalidArgumentError(
                f"the endpoint of {self.path} is http, which sends data in plain text; use https, or set the storage "
                "option allow_http to true for a server that needs no encryption"
            )
        retries: Any = {"max_retries": 0, "retry_timeout": timedelta(seconds=30)}
        try:
            return from_url(self.path, config=config, client_options=client_options, retry_config=retries)
        except failures.UnknownConfigurationKeyError as error:
            unknown = next((name for name in config if f"'{name}'" in str(error)), "")
            similar = get_close_matches(names.get(unknown, ""), (*KNOWN_OPTIONS, *CLIENT_OPTIONS), 1)
            fix = f"did you mean {similar[0]!r}?" if similar else "names are those of obstore, such as region"
            raise InvalidArgumentError(f"the storage option {unknown!r} of {self.path} is unknown; {fix}") from None
        except Exception as error:
            raise InvalidArgumentError(
                f"{self.path} is not a location of an object store: {self._redact(error)}. Check its storage_options"
            ) from None

    @property
    def _is_azure(self) -> bool:
        return self.path.startswith(("az", "abfs", "adl"))

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(THREADS, thread_name_prefix="quantide-storage")

    def full_path(self, name: str) -> str:
        return f"{self.path}/{name}"

    # Reading

    def read(self, name: str) -> bytes:
        data = bytes(self._request(name, lambda: obstore.get(self._objects, name).bytes()))
        self._count(read=len(data))
        return data

    def map(self, name: str) -> Any:
        if self._cache is None:
            return self.read(name)
        data, is_hit = self._cache.get(name, lambda: self.read(name))
        self._count(hits=is_hit)
        return data

    def open(self, name: str) -> Any:
        return pa.PythonFile(_RangeFile(self, name), "r")

    def read_range(self, name: str, start: int, end: int) -> Any:
        """Return bytes start to end of a file that never changes."""

        def fetch() -> bytes:
            data = bytes(self._request(name, lambda: obstore.get_range(self._objects, name, start=start, end=end)))
            self._count(read=len(data))
            return data

        if self._cache is None:
            return fetch()
        data, is_hit = self._cache.get(f"{name}?{start}-{end}", fetch)
        self._count(hits=is_hit)
        return data

    def read_end(self, name: str) -> tuple[int, bytes]:
        """Return the size of a file and its last bytes; with one request where the store has ranges from the end."""

        def fetch() -> tuple[int, bytes]:
            if self._is_azure:
                size = self.stat(name).size
                start = max(0, size - FOOTER_BYTES)
                return size, bytes(obstore.get_range(self._objects, name, start=start, end=size))
            result = obstore.get(self._objects, name, options={"range": {"suffix": FOOTER_BYTES}})
            return int(result.meta["size"]), bytes(result.bytes())

        def fetch_bytes() -> bytes:
            size, data = self._request(name, fetch)
            self._count(read=len(data))
            return size.to_bytes(8, "little") + data

        if self._cache is None:
            data, is_hit = fetch_bytes(), False
        else:
            data, is_hit = self._cache.get(f"{name}?end", fetch_bytes)
        self._count(hits=is_hit)
        return int.from_bytes(data[:8], "little"), bytes(data[8:])

    def stat(self, name: str) -> FileStatus:
        return _status(self._request(name, lambda: obstore.head(self._objects, name)))

    def list_top(self) -> set[str]:
        listed = self._request("", lambda: obstore.list_with_delimiter(self._objects))
        return {*(str(meta["path"]) for meta in listed["objects"]), *listed["common_prefixes"]}

    def list_files(self, folder: str) -> list[FileStatus]:
        listed = self._request(folder, lambda: obstore.list_with_delimiter(self._objects, f"{folder}/")["objects"])
        return sorted(map(_status, listed), key=lambda file: file.name)

    def list_below(self, prefix: str, offset: str | None = None) -> list[FileStatus]:
        """Return all objects below a prefix, sorted by name; only those whose name sorts after `offset`, if given."""

        def fetch() -> list[Any]:
            pages = obstore.list(self._objects, prefix or None, offset=offset, chunk_size=1000)
            return [meta for page in pages for meta in page]

        return sorted(map(_status, self._request(prefix, fetch)), key=lambda file: file.name)

    def open_whole(self, name: str, max_bytes: int) -> Any:
        """Open a file; fetch one of up to `max_bytes` at once instead of by ranges."""
        file = _RangeFile(self, name)
        return pa.BufferReader(file.readall_at_once()) if file.size() <= max_bytes else pa.PythonFile(file, "r")

    def map_all(self, read: Callable[[A], B], items: Iterable[A]) -> list[B]:
        todo = list(items)
        if len(todo) < 2:
            return [read(item) for item in todo]
        return list(self._pool.map(lambda pair: pair[0].run(read, pair[1]), [(copy_context(), item) for item in todo]))

    def read_error(self, name: str, error: Exception) -> Exception:
        if isinstance(error, FileNotFoundError | StorageError):
            return error
        return CorruptBytesError(f"{self.path}/{name} is damaged: {self._redact(error)}")

    # Writing

    def prepare(self) -> None:
        """Do nothing: an object needs no folder."""

    def write(self, name: str, fill: Callable[[Sink], None], checked: bool = True) -> tuple[int, int]:
        try:
            with tempfile.TemporaryFile() as file:
                sink = _CountingSink(file, checked)
                fill(sink)
                fault_points.point("disk.named")
                self._upload(name, file, sink.size)
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(
                f"{self.path}/{name} cannot be prepared in {tempfile.gettempdir()}: {error}. Nothing was committed; "
                "free some space there, or set TMPDIR, and repeat"
            ) from error
        return sink.size, sink.crc

    def _upload(self, name: str, file: IO[bytes], size: int) -> None:
        def put() -> None:
            file.seek(0)
            if size <= PART_BYTES:
                obstore.put(self._objects, name, file.read(), use_multipart=False)
            else:
                obstore.put(self._objects, name, file, use_multipart=True, chunk_size=PART_BYTES, max_concurrency=4)

        try:
            self._request(name, put)
        except FileNotFoundError as error:
            raise self._no_bucket_error() from error
        self._count(requests=0 if size <= PART_BYTES else -(-size // PART_BYTES) + 1, written=size)

    def replace(self, name: str, data: bytes, durable: bool | None = None) -> None:
        fault_points.point("disk.write")
        self._request(name, lambda: obstore.put(self._objects, name, data, use_multipart=False))
        self._count(written=len(data))
        if self._cache is not None:
            self._cache.remove(name)

    def create(self, name: str, data: bytes) -> None:
        """Create an object, on the condition that it does not exist."""
        fault_points.point("disk.write")
        self._put_if(name, data, "create")

    def update(self, name: str, data: bytes, version: Mapping[str, str] | None) -> dict[str, str]:
        """Replace an object if it is still of this version, or create it (None); return the new version.

        Raise FileExistsError if another version is there.
        """
        return self._put_if(name, data, "create" if version is None else dict(version))

    def read_version(self, name: str) -> tuple[bytes, dict[str, str]]:
        """Return an object and its version."""

        def get() -> tuple[bytes, dict[str, str]]:
            result = obstore.get(self._objects, name)
            return bytes(result.bytes()), _version(result.meta)

        return self._request(name, get)

    def _find_version(self, name: str) -> tuple[bytes | None, dict[str, str]]:
        try:
            return self.read_version(name)
        except FileNotFoundError:
            return None, {}

    def _put_if(self, name: str, data: bytes, condition: Any) -> dict[str, str]:
        unclear: list[Exception] = []

        def put() -> dict[str, str]:
            try:
                return _version(obstore.put(self._objects, name, data, mode=condition, use_multipart=False))
            except (failures.AlreadyExistsError, failures.PreconditionError) as error:
                stored, version = self._find_version(name)
                if unclear and stored == data:  # an earlier attempt succeeded although its answer was lost
                    return version
                if (condition == "create" and stored is None) or version == condition:
                    raise  # another put or a delete of this object was under way: this one is repeated
                raise FileExistsError(f"{self.path}/{name} exists, or is of another version") from error
            except failures.GenericError as error:
                if not _has_expired(str(error)) and not _is_refused(error):
                    unclear.append(error)
                raise

        try:
            version = self._request(name, put)
        except StorageError as error:
            if unclear:
                raise UncertainPutError(str(error)) from error
            raise
        self._count(written=len(data))
        return version

    def remove(self, name: str) -> bool:
        try:
            self._request(name, lambda: obstore.delete(self._objects, name))
        except FileNotFoundError:
            return False
        return True

    def copy(self, name: str, second: str) -> bool:
        try:
            self._request(name, lambda: obstore.copy(self._objects, name, second))
        except FileNotFoundError:
            return False
        return True

    def move(self, name: str, target: str) -> None:
        if not self.copy(name, target):
            raise FileNotFoundError(f"{self.path}/{name} does not exist")
        self.remove(name)

    def touch(self, *names: str) -> None:
        """Do nothing: an object has the time at which it was written."""

    def sync(self, *names: str) -> None:
        """Do nothing: an object is durable once it is put."""

    def sync_all(self) -> None:
        """Do nothing: an object is durable once it is put."""

    def list_remains(self, folder: str) -> list[FileStatus]:
        """Return nothing: an object appears only once it is complete."""
        return []

    def remove_remains(self, folder: str) -> int:
        """Do nothing: an object appears only once it is complete."""
        return 0

    def check_space(self, needed: int) -> None:
        """Do nothing: an object store has no limit."""

    def check_confined(self) -> None:
        """Do nothing: an object store has no links."""

    # The store as a whole

    def acquire_lease(self) -> ObjectLease:
        return ObjectLease(self)

    def lease_holder(self) -> str | None:
        return describe_holder(self)

    def is_same(self) -> bool:
        """Return True: a replaced table shows in its log, whose entries name the commits before them."""
        return True

    def local_folder(self, name: str) -> str:
        home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        root = os.environ.get("QUANTIDE_STATE") or os.path.join(home, "quantide")
        place = f"{self._objects.config.get('account_name') or ''}{self.path}"  # accounts may have equal containers
        return os.path.join(root, hashlib.sha256(place.encode()).hexdigest()[:16], name)

    def use_cache(self, identity: str) -> None:
        if self._max_cache_bytes:
            # A copy elsewhere has the same identity, and may use the same names.
            self._cache = FileCache(cache_folder(), f"{self._service} {self.path} {identity}", self._max_cache_bytes)

    @property
    def _service(self) -> str:
        """Endpoint and account, which a URI may lack: two services can have buckets of the same name."""
        options = [self._objects.config.get(name) for name in ("endpoint", "account_name")]
        return repr([*options, *map(os.environ.get, SERVICE_VARIABLES)])

    def uncached(self) -> Storage:
        _ = self._pool  # one for both
        storage = copy(self)
        storage._cache = None
        return storage

    def _read_cache_bytes(self) -> int:
        text = self._options.get(CACHE_BYTES, str(DEFAULT_CACHE_BYTES))
        if not re.fullmatch("[0-9]{1,18}", text):
            raise InvalidArgumentError(
                f"the storage option {CACHE_BYTES} is a number of bytes, 0 for none, not {text!r}"
            )
        return int(text)

    # Requests

    def _request(self, name: str, call: Callable[[], T]) -> T:
        """Make a request; repeat it after a failure that may pass."""
        pause = FIRST_PAUSE
        for attempts_left in reversed(range(ATTEMPTS)):
            self._count(requests=1)
            try:
                return call()
            except (failures.NotFoundError, FileNotFoundError) as error:
                raise FileNotFoundError(f"{self.path}/{name} does not exist") from error
            except (FileExistsError, StorageError):
                raise
            except (failures.BaseError, OSError) as error:
                text = self._redact(error)
                if _has_expired(text):
                    raise AccessRefusedError(
                        f"{self.path}/{name}: the credentials have expired: {text}. Set new ones and reopen the store"
                    ) from None
                if METADATA_SERVICE in text:
                    raise AccessRefusedError(
                        f"{self.path}/{name} cannot be reached: no credentials were found, neither in storage_options "
                        "nor in the environment, and this machine has none of its own"
                    ) from None
                if _is_refused(error):
                    raise AccessRefusedError(
                        f"{self.path}/{name}: access was refused: {text}. Check the credentials in the environment or "
                        "in storage_options"
                    ) from None
                if any(code in text for code in NO_BUCKET):  # of a list request: another is a NotFoundError
                    raise self._no_bucket_error() from None
                if not attempts_left:
                    raise StorageError(
                        f"{self.path}/{name} cannot be reached: {text}. It failed after {ATTEMPTS} attempts; check the "
                        "network and the storage_options"
                    ) from None
            self._count(retries=1)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause *= 2
        raise AssertionError("unreachable")

    def _no_bucket_error(self) -> StorageError:
        return StorageError(
            f"{self.path} cannot be reached: there is no such bucket or container. Create it, or check the URI and the "
            "storage_options"
        )

    def _redact(self, error: Exception) -> str:
        """Return the first line of an error without credentials."""
        text = " ".join(str(error).partition("Debug source:")[0].split())
        text = _XML.sub(lambda xml: ": ".join(_XML_REASON.findall(xml[0])), text)
        for name, value in self._options.items():
            if value and _SECRET_NAME.search(name):
                text = text.replace(value, "***")
        return _SECRET.sub("***", _USER.sub("://***@", text))[:500]


def _check_options(options: Any) -> Mapping[str, Any]:
    """Return options whose names are text; raise InvalidArgumentError for anything but a mapping."""
    if not isinstance(options, Mapping | None) or not all(isinstance(name, str) for name in options or ()):
        raise InvalidArgumentError(
            'storage_options is a dictionary of names and values, such as {"region": "eu-west-1"}'
        )
    return options or {}


def _resolve(name: str, value: Any) -> str:
    """Return the value of an option as text; `env:NAME` is the value of that environment variable."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not text.startswith(ENVIRONMENT):
        return text
    variable = text.removeprefix(ENVIRONMENT)
    if not os.environ.get(variable):
        raise InvalidArgumentError(f"the storage option {name!r} is {text!r}, and that variable is not set; set it")
    return os.environ[variable]


def _has_expired(text: str) -> bool:
    """Return True if an error is about expired credentials: then the request was not executed."""
    return "ExpiredToken" in text or "TokenRefreshRequired" in text


def _is_refused(error: Exception) -> bool:
    """Return True if the credentials of a request were refused: then it was not executed."""
    is_classified = isinstance(error, failures.UnauthenticatedError | failures.PermissionDeniedError)
    return is_classified or _REFUSED.search(str(error)) is not None


def _status(meta: Any) -> FileStatus:
    return FileStatus(str(meta["path"]), int(meta["size"]), meta["last_modified"].timestamp())


def _version(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return what identifies the version of an object for a conditional put."""
    return {name: str(meta[name]) for name in ("e_tag", "version") if meta.get(name) is not None}


class _CountingSink:
    """Temporary file for pyarrow that tracks its size and, if `checked`, a checksum of all bytes."""

    def __init__(self, file: IO[bytes], checked: bool) -> None:
        self._file, self._checked = file, checked
        self.size = self.crc = 0
        self.closed = False

    def write(self, data: Any) -> int:
        fault_points.point("disk.write")
        view = memoryview(data).cast("B")
        self._file.write(view)
        self.crc = zlib.crc32(view, self.crc) if self._checked else 0
        self.size += len(view)
        return len(view)

    def flush(self) -> None:
        """Do nothing: the upload reads from the beginning."""

    def close(self) -> None:
        self.closed = True


class _RangeFile(RawIOBase):
    """Object as a file that is read by ranges. Its end, which has the footer of a data file, is fetched first."""

    def __init__(self, storage: ObjectStorage, name: str) -> None:
        self._storage, self._name, self._position = storage, name, 0
        self._size, self._end = storage.read_end(name)

    def size(self) -> int:
        return self._size

    def readall_at_once(self) -> bytes:
        """Return the whole object: the end is there, the rest takes one request."""
        rest = self._size - len(self._end)
        return bytes(self._storage.read_range(self._name, 0, rest)) + self._end if rest else self._end

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> Any:
        start = self._position
        end = self._size if size < 0 else min(start + size, self._size)
        self._position = max(start, end)
        if end <= start:
            return b""
        kept = self._size - len(self._end)
        if start >= kept:
            return self._end[start - kept : end - kept]
        return bytes(self._storage.read_range(self._name, start, end))
