"""Object stores on loopback: moto and versitygw (S3) and Azurite (Azure). `make setup` installs them."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pyarrow.fs as pafs

from tests.object_servers.object_location import ObjectLocation
from tests.object_servers.server_process import kill, launch, listening, reserve_port

TOOLS = Path(__file__).resolve().parents[2] / "build" / "tools"
VERSITYGW = TOOLS / "versitygw"
AZURITE = TOOLS / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"

ACCOUNT, SECRET = "testing", "testing+secret"
AZURE_KEY = "dGVzdGluZw=="  # base64


@dataclass
class ObjectServer:
    """Running server."""

    scheme: str
    port: int
    options: dict[str, str]
    create_bucket: Callable[[str], None]
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def new_location(self) -> ObjectLocation:
        """Create a bucket."""
        name = f"bucket-{next(self._numbers)}"
        self.create_bucket(name)
        return ObjectLocation(f"{self.scheme}://{name}", dict(self.options))


@contextmanager
def run_moto(folder: Path) -> Iterator[ObjectServer]:
    """moto 5: written in Python, in memory; accepts any signature."""
    command = [sys.executable, "-P", str(Path(__file__).with_name("moto_server.py"))]
    with listening(command, folder, {}) as port:
        yield s3_server_at(port)


@contextmanager
def run_versitygw(folder: Path, keep_alive: bool = False) -> Iterator[ObjectServer]:
    """versitygw: written in Go, objects are files of a folder; checks signatures.

    With `keep_alive` it is faster, but misreads requests that follow a chunked one, which pyarrow sends.
    """
    server = VersityServer(folder, keep_alive)
    try:
        yield s3_server_at(server.port)
    finally:
        server.kill()


class VersityServer:
    """versitygw that can be killed and started again at the same port; its objects stay."""

    def __init__(self, folder: Path, keep_alive: bool = False) -> None:
        self._folder, self.port = folder, reserve_port()
        self._flags = ["--quiet", *(["--keep-alive"] if keep_alive else [])]
        (folder / "objects").mkdir(exist_ok=True)
        self.start()

    def start(self) -> None:
        """Start the server and wait until it listens."""
        address = ["--port", f"127.0.0.1:{self.port}"]
        command = [str(VERSITYGW), *address, *self._flags, "posix", str(self._folder / "objects")]
        env = {"ROOT_ACCESS_KEY": ACCOUNT, "ROOT_SECRET_KEY": SECRET}
        self._process, _ = launch(command, self._folder, env)

    def kill(self) -> None:
        kill(self._process)


@contextmanager
def run_azurite(folder: Path) -> Iterator[ObjectServer]:
    """Azurite, Microsoft's emulator: in memory; checks signatures."""
    flags = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    command = ["node", str(AZURITE), "--blobPort", "0", *flags]
    with listening(command, folder, {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{AZURE_KEY}"}) as port:
        endpoint = f"127.0.0.1:{port}"
        files = pafs.AzureFileSystem(
            account_name=ACCOUNT,
            account_key=AZURE_KEY,
            blob_storage_authority=endpoint,
            blob_storage_scheme="http",
            dfs_storage_authority=endpoint,
            dfs_storage_scheme="http",
        )
        options = {
            "account_name": ACCOUNT,
            "account_key": AZURE_KEY,
            "endpoint": f"http://{endpoint}/{ACCOUNT}",
            "allow_http": "true",
        }
        yield ObjectServer("az", port, options, lambda name: files.create_dir(name, recursive=False))


def s3_server_at(port: int) -> ObjectServer:
    """Return the S3 server that listens at a port."""
    options = {
        "access_key_id": ACCOUNT,
        "secret_access_key": SECRET,
        "region": "us-east-1",
        "endpoint": f"http://127.0.0.1:{port}",
        "allow_http": "true",
    }
    return ObjectServer("s3", port, options, s3_files(options).create_dir)


def s3_files(options: dict[str, str]) -> pafs.S3FileSystem:
    """Return pyarrow's filesystem of an S3 server, which can create buckets."""
    return pafs.S3FileSystem(
        access_key=options["access_key_id"],
        secret_key=options["secret_access_key"],
        region=options["region"],
        endpoint_override=options["endpoint"],
        allow_bucket_creation=True,
    )


def aws_names(options: dict[str, str]) -> dict[str, str]:
    """Return the options of an S3 server by the names of AWS's environment variables."""
    names = {name: f"AWS_{name.upper()}" for name in options} | {"endpoint": "AWS_ENDPOINT_URL"}
    return {names[name]: value for name, value in options.items()}


SERVERS: dict[str, Callable[[Path], AbstractContextManager[ObjectServer]]] = {
    "versitygw": run_versitygw,
    "moto": run_moto,
    "azurite": run_azurite,
}
S3_SERVERS = ("versitygw", "moto")  # the fastest first


def missing_reason(name: str) -> str | None:
    """Return why a server cannot be started here; None if it can."""
    if name == "versitygw" and not VERSITYGW.exists():
        return "versitygw is not installed: run make setup, which needs Go"
    if name == "azurite" and not (AZURITE.exists() and shutil.which("node")):
        return "Azurite is not installed: run make setup, which needs npm"
    return None
