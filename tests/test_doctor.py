"""The doctor: reports problems and their fixes, and changes nothing."""

import io
import json
import os
import re
import resource
import shutil
import socket
import ssl
import sys
import time
import venv
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from quantide import History
from quantide.cli import main
from quantide.config import Config, read_config, server_probe
from quantide.doctor import config_checks, examination, installation_checks, machine_checks, spark_checks
from quantide.doctor.examination import CHECKS, run_checks
from quantide.doctor.finding import FAILED, OK, WARNING, Finding
from quantide.kernels import block_sort
from quantide.server.http.tokens import create_token, revoke_token
from quantide.server.server_registry import ServerRegistry
from quantide.store import object_storage
from tests.object_servers.object_location import ObjectLocation
from tests.object_servers.servers import ObjectServer
from tests.server.running_server import configure, make_store, run_server

Out = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


def only(findings: list[Finding]) -> Finding:
    [finding] = findings
    return finding


def files_below(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def fake_spark(monkeypatch: Patch) -> None:
    """Replace the probe, so that Spark does not start."""
    monkeypatch.setattr(spark_checks, "run_probe", lambda: {"spark": "4", "python": "3", "path": "/python"})


@pytest.mark.slow
def test_spark_really_starts_and_a_worker_runs(monkeypatch: Patch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    finding = only(list(spark_checks.check_spark()))
    assert finding.state == OK, finding
    assert f"workers run Python {'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}" in finding.found
    assert files_below(tmp_path) == {}


@pytest.mark.slow
def test_workers_without_packages(monkeypatch: Patch, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "bare" / "bin" / "python"))
    finding = only(list(spark_checks.check_spark()))
    assert finding.state == FAILED
    assert "No module named" in finding.found
    assert f"export PYSPARK_PYTHON={sys.executable}" in (finding.fix or "")


@pytest.mark.usefixtures("fake_spark")
def test_the_command(tmp_path: Path, monkeypatch: Patch, capsys: Out) -> None:
    """A good configuration: all checks pass, and no file changes."""
    monkeypatch.setattr(installation_checks, "list_uncompiled", lambda folder: [])
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=10**12, total=10**12))
    config = configure(tmp_path)
    (tmp_path / "in").mkdir()
    with make_store(tmp_path) as history:
        history.append([1.0, 2.0], key="/pay", times=1.0, filters={"errors": [True, False]})
        before = files_below(tmp_path)
        assert main(["doctor", config.path]) == 0
        shown = capsys.readouterr().out
        assert main(["doctor", config.path, "--json"]) == 0
        assert files_below(tmp_path) == before
    lines = shown.splitlines()
    assert all(line.startswith(("ok ", "warning ", "  ")) for line in lines[:-1])
    assert re.search(rf"2 values in 0 steps, version \d+; process {os.getpid()} on .* writes it", shown)
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is True
    assert {"configuration", "python", "kernels", "disk", "port", "registry", "latency", "java", "spark"} <= {
        check["check"] for check in document["checks"]
    }
    assert all(set(check) == {"check", "state", "found", "fix"} for check in document["checks"])
    assert all(check["fix"] for check in document["checks"] if check["state"] == WARNING)


@pytest.mark.usefixtures("fake_spark")
def test_something_failed(tmp_path: Path, capsys: Out) -> None:
    """An unreadable configuration ends it with 1; the machine is still checked."""
    assert main(["doctor", str(tmp_path / "none.toml")]) == 1
    shown = capsys.readouterr().out
    assert "failed   configuration" in shown
    assert "No such file" in shown
    assert "ok       python" in shown
    assert "1 failed" in shown.splitlines()[-1]


@pytest.mark.usefixtures("fake_spark")
@pytest.mark.parametrize("name", CHECKS)
def test_a_check_that_raises_has_failed_and_the_others_still_run(name: str, monkeypatch: Patch) -> None:
    def broken(config: Config | None) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setitem(CHECKS, name, broken)
    findings = [finding for finding in run_checks(None) if finding.check == name and finding.state == FAILED]
    assert only(findings).found == "this could not be checked: ZeroDivisionError: division by zero"


def test_packages(monkeypatch: Patch) -> None:
    needed = ["numpy<3,>=2.1", "no-such-package<2,>=1.2; extra == 'history'", "pyarrow<2,>=1; extra == 'spark'"]
    monkeypatch.setattr(installation_checks, "requires", lambda name: needed)
    core, history, lake = installation_checks.check_packages()
    assert core.state == OK
    assert (history.state, lake.state) == (WARNING, WARNING)
    assert "no-such-package is missing" in history.found
    assert 'pip install "quantide[history]"' in (history.fix or "")
    assert "<2,>=1 is needed" in lake.found
    monkeypatch.setattr(installation_checks, "requires", lambda name: ["no-such-package>=1,<2"])
    assert only(list(installation_checks.check_packages())).state == FAILED


def test_an_old_python(monkeypatch: Patch) -> None:
    assert only(list(installation_checks.check_python())).state == OK
    monkeypatch.setattr(sys, "version_info", (3, 10, 4, "final", 0))
    assert only(list(installation_checks.check_python())).state == FAILED


def test_sorting(monkeypatch: Patch) -> None:
    finding = only(list(installation_checks.check_sorting()))
    assert finding.state == OK
    assert re.search(
        r"float64 by (np.sort|radix sort.*) \(\d+ million values/s by radix sort, \d+ by np.sort\)", finding.found
    )
    block_sort.radix_from.cache_clear()
    monkeypatch.setenv("QUANTIDE_SORT", "bogo")
    assert only(list(installation_checks.check_sorting())).fix == "unset QUANTIDE_SORT"
    monkeypatch.undo()
    block_sort.radix_from.cache_clear()


def test_kernels(monkeypatch: Patch, tmp_path: Path) -> None:
    monkeypatch.setattr(installation_checks, "find_kernel_cache", lambda: tmp_path / "cache")
    finding = only(list(installation_checks.check_kernels()))
    assert (finding.state, finding.fix) == (WARNING, "python -m quantide.kernels")
    (tmp_path / "cache").mkdir()
    for name in installation_checks.list_uncompiled(tmp_path / "cache"):
        (tmp_path / "cache" / f"{name}.f-9.{installation_checks.PYTHON_TAG}.nbi").touch()
    assert only(list(installation_checks.check_kernels())).state == OK
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "NUMBA_CACHE_DIR" in (only(list(installation_checks.check_kernels())).fix or "")
    monkeypatch.setattr(installation_checks, "find_kernel_cache", lambda: None)
    assert "NUMBA_CACHE_DIR" in (only(list(installation_checks.check_kernels())).fix or "")


def test_missing_java(monkeypatch: Patch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    finding = only(list(spark_checks.check_java()))
    assert finding.state == FAILED
    assert f"JAVA_HOME is {tmp_path}" in finding.found
    assert "17 or newer" in (finding.fix or "")
    assert "no Java" in only(list(spark_checks.check_spark())).found, "Spark is not even tried"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no java on the path" in only(list(spark_checks.check_java())).found


@pytest.mark.parametrize(
    ("script", "state"),
    [
        ("echo 'java version \"1.8.0_292\"' >&2", FAILED),
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", FAILED),
        ("echo 'openjdk version \"21.0.1\" 2023-10-17' >&2", OK),
        ("echo nothing", FAILED),
    ],
)
def test_the_version_of_java(script: str, state: str, monkeypatch: Patch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "java"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert only(list(spark_checks.check_java())).state == state


def test_reports_of_the_spark_probe(monkeypatch: Patch) -> None:
    monkeypatch.setattr(spark_checks, "find_java_problem", lambda: None)
    for command, message in (
        ('print(\'{"problem": "workers cannot run"}\')', "workers cannot run"),
        ("import sys; sys.exit('it broke')", "ended with 1: it broke"),
        ("import time; time.sleep(60)", "did not start within 1 s"),
    ):
        monkeypatch.setattr(spark_checks, "PROBE_COMMAND", [sys.executable, "-c", command])
        monkeypatch.setattr(spark_checks, "PROBE_TIMEOUT", 1)
        finding = only(list(spark_checks.check_spark()))
        assert finding.state == FAILED
        assert message in finding.found
        assert finding.fix


def test_a_full_disk(monkeypatch: Patch, tmp_path: Path) -> None:
    config = configure(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=10**9, total=10**10))
    little, written = machine_checks.check_disk(config)
    assert (little.state, written.state) == (WARNING, OK)
    assert "1.0 GB of 10.0 GB are free" in little.found
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quantide.toml"], "nothing is left, nothing made"


def test_a_disk_that_cannot_be_written(monkeypatch: Patch, tmp_path: Path) -> None:
    def refuse(handle: int) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "fsync", refuse)
    failed = list(machine_checks.check_disk(configure(tmp_path)))[1]
    assert failed.state == FAILED
    assert "Read-only file system" in failed.found
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quantide.toml"]


def test_memory_files_and_clock(monkeypatch: Patch) -> None:
    assert machine_checks.available_memory() > 0
    monkeypatch.setattr(machine_checks, "available_memory", lambda: 10**8)
    assert only(list(machine_checks.check_memory())).state == WARNING
    monkeypatch.setattr(machine_checks, "available_memory", lambda: 10**11)
    assert only(list(machine_checks.check_memory())).state == OK
    for hard, state in ((1024, WARNING), (resource.RLIM_INFINITY, OK), (65536, OK)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, hard=hard: (1024, hard))
        assert only(list(machine_checks.check_open_files())).state == state
    assert only(list(machine_checks.check_clock())).state == OK
    monkeypatch.setattr(time, "time", lambda: 0.0)
    finding = only(list(machine_checks.check_clock()))
    assert finding.state == FAILED
    assert "1970-01-01" in finding.found


def test_the_last_line_names_the_failed_checks(monkeypatch: Patch) -> None:
    def fail(_: Config | None = None) -> Iterator[Finding]:
        yield Finding("port", FAILED, "it is taken", "free it")
        yield Finding("disk", WARNING, "it is nearly full", "empty it")

    monkeypatch.setattr(examination, "CHECKS", {"port": fail})
    out = io.StringIO()
    assert not examination.examine(out)
    assert out.getvalue().splitlines()[-1] == "1 failed (port), 1 with a warning."


def at_port(folder: Path, port: int, server: str = "") -> Config:
    configure(folder)
    file = folder / "quantide.toml"
    file.write_text(file.read_text().replace("port = 0", f"port = {port}\n{server}"))
    return read_config(file)


def test_a_port_that_is_taken(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(server_probe, "REQUEST_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        finding = only(list(config_checks.check_port(at_port(tmp_path, port))))
        assert finding.state == FAILED
        assert f"127.0.0.1:{port} cannot be used" in finding.found
        assert str(port) in (finding.fix or "")
    assert only(list(config_checks.check_port(at_port(tmp_path, port)))).state == OK


def test_a_quantide_at_the_port(tmp_path: Path) -> None:
    with run_server(configure(tmp_path)) as client:
        finding = only(list(config_checks.check_port(at_port(tmp_path, client.base_url.port or 0))))
    assert (finding.state, "a Quantide answers" in finding.found) == (OK, True)


def test_an_address_of_another_machine(tmp_path: Path) -> None:
    findings = list(config_checks.check_port(at_port(tmp_path, 8642, 'host = "203.0.113.77"')))
    assert "no TLS" in findings[0].found
    assert "no address of this machine" in findings[1].found
    assert [one.state for one in findings] == [FAILED, FAILED]


def write_certificate(folder: Path, days: int, name: str = "server") -> tuple[str, str]:
    """Write a certificate that is valid for so many days, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    ends = datetime.now(UTC) + timedelta(days=days, minutes=1)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(ends - timedelta(days=1000))
        .not_valid_after(ends)
        .sign(key, hashes.SHA256())
    )
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
    paths[1].chmod(0o600)
    return str(paths[0]), str(paths[1])


@pytest.mark.parametrize(("days", "state"), [(90, OK), (3, WARNING), (-3, FAILED)])
def test_how_long_a_certificate_is_valid(days: int, state: str, tmp_path: Path) -> None:
    write_certificate(tmp_path, days)
    findings = list(config_checks.check_tls(configure(tmp_path, 'tls_cert = "server.crt"\ntls_key = "server.key"')))
    assert [one.state for one in findings] == [state, OK]
    assert ("expired" in findings[0].found) == (days < 0)


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    write_certificate(tmp_path, 90)
    write_certificate(tmp_path, 90, "other")
    config = configure(tmp_path, 'tls_cert = "server.crt"\ntls_key = "other.key"')
    assert "cannot be used together" in only(list(config_checks.check_tls(config))).found
    with pytest.raises(ssl.SSLError):
        config_checks.days_until_expiry(str(tmp_path / "quantide.toml"), str(tmp_path / "other.key"), 0.0)
    (tmp_path / "other.key").unlink()
    assert "does not exist" in only(list(config_checks.check_tls(config))).found


def test_files_that_others_may_read(tmp_path: Path) -> None:
    webhooks = '[server.webhooks]\nallow = ["https://a.example"]\nsecret_file = "secret"'
    config = configure(tmp_path, webhooks)
    assert only(list(config_checks.check_registry(config))).state == OK
    assert only(list(config_checks.check_secret(config))).state == FAILED
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0o640)
    finding = only(list(config_checks.check_secret(config)))
    assert (finding.state, finding.fix) == (WARNING, f"chmod 600 {tmp_path / 'secret'}")
    ServerRegistry(config.server.state).close()
    registry = Path(config.server.state, "registry.db")
    registry.chmod(0o644)
    assert next(iter(config_checks.check_registry(config))).fix == f"chmod 600 {registry}"
    registry.chmod(0o600)
    assert next(iter(config_checks.check_registry(config))).state == OK


def test_the_registry_shows_whether_requests_need_a_token(tmp_path: Path) -> None:
    config = configure(tmp_path)
    registry = ServerRegistry(config.server.state)
    assert "everyone on this machine" in list(config_checks.check_registry(config))[1].found
    id, _ = create_token(registry, "one", "reader")
    finding = list(config_checks.check_registry(config))[1]
    assert (finding.state, finding.found) == (OK, "requests need a token; 1 valid")
    revoke_token(registry, id)
    finding = list(config_checks.check_registry(config))[1]
    assert (finding.state, "refuses every request" in finding.found) == (WARNING, True)
    assert f"quantide token create {config.path}" in (finding.fix or "")
    registry.close()
    Path(config.server.state, "registry.db").write_bytes(b"")
    finding = list(config_checks.check_registry(config))[1]
    assert (finding.state, "the file is empty" in finding.found) == (FAILED, True)
    assert os.path.getsize(registry.path) == 0


def test_stores(tmp_path: Path) -> None:
    config = configure(tmp_path)
    source, store = config_checks.check_stores(config)
    assert (source.state, source.fix) == (
        FAILED,
        f"mkdir -p {tmp_path / 'in'}, or change source.path under [streams.latency]",
    )
    assert "nothing was ingested yet" in store.found
    assert not (tmp_path / "data").exists()
    (tmp_path / "in").mkdir()
    with make_store(tmp_path) as history:
        history.append([1.0], key="/pay", times=1.0, filters={"errors": [True]})
    assert "no process writes it now" in only(list(config_checks.check_stores(config))).found
    for file in (tmp_path / "data" / "latency" / "_delta_log").glob("*.json"):
        file.write_text("{")
    finding = only(list(config_checks.check_stores(config)))
    assert finding.state == FAILED
    assert "quantide history verify" in (finding.fix or "")


def configure_remote(tmp_path: Path, store: ObjectLocation, monkeypatch: Patch, uri: str | None = None) -> Config:
    """Write a configuration of a store in object storage, with a credential from the environment."""
    monkeypatch.setenv("QUANTIDE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("THE_SECRET", store.options["secret_access_key"])
    options = store.options | {"access_key_id": "env:THE_KEY", "secret_access_key": "env:THE_SECRET"}
    monkeypatch.setenv("THE_KEY", store.options["access_key_id"])
    lines = [f'{name} = "{value}"' for name, value in options.items()]
    (tmp_path / "in").mkdir(exist_ok=True)
    stream = '[streams.latency]\nsource = { format = "parquet", path = "in" }\nvalue = "v"\n'
    text = [f'store = "{uri or store.uri + "/quantide"}"', "[storage_options]", *lines, stream]
    (tmp_path / "quantide.toml").write_text("\n".join(text))
    return read_config(tmp_path / "quantide.toml")


def test_a_store_in_a_bucket(tmp_path: Path, s3_store: ObjectLocation, monkeypatch: Patch) -> None:
    config = configure_remote(tmp_path, s3_store, monkeypatch)
    probe, store = config_checks.check_stores(config)
    assert (probe.check, probe.state, store.state) == ("store", OK, OK)
    assert "can be reached, and objects can be written on conditions" in probe.found
    assert f"nothing was ingested yet; the store will be {s3_store.uri}/quantide/latency" in store.found
    assert [meta for page in s3_store.open().list() for meta in page] == [], "the probe is removed"
    stream = config.streams["latency"]
    with History(stream.folder, storage_options=stream.storage_options) as history:
        history.append([1.0])
        assert "1 value in 0 steps" in list(config_checks.check_stores(config))[1].found
        assert f"process {os.getpid()}" in list(config_checks.check_stores(config))[1].found
    disks = list(machine_checks.check_disk(config))
    assert f"free for {config.server.state}" in disks[0].found
    assert len(disks) == 6


def test_a_store_in_a_bucket_that_is_not_there(tmp_path: Path, s3_store: ObjectLocation, monkeypatch: Patch) -> None:
    config = configure_remote(tmp_path, s3_store, monkeypatch, "s3://no-such-bucket-here/x")
    finding = only(list(config_checks.check_stores(config)))
    assert (finding.state, finding.fix) == (FAILED, "create the bucket or container, or correct store")


def test_a_store_that_cannot_be_reached(tmp_path: Path, s3_store: ObjectLocation, monkeypatch: Patch) -> None:
    monkeypatch.setattr(object_storage, "FIRST_PAUSE", 0.001)
    nobody = ObjectLocation(s3_store.uri, s3_store.options | {"endpoint": "http://127.0.0.1:9"})
    finding = only(list(config_checks.check_stores(configure_remote(tmp_path, nobody, monkeypatch))))
    assert (finding.state, finding.fix) == (FAILED, config_checks.NETWORK_FIX)
    assert s3_store.options["secret_access_key"] not in finding.found


def test_a_store_with_wrong_credentials(
    tmp_path: Path, start_object_server: Callable[[str], ObjectServer], monkeypatch: Patch
) -> None:
    store = start_object_server("versitygw").new_location()  # moto accepts any
    other = ObjectLocation(store.uri, store.options | {"secret_access_key": "guessed-secret"})
    finding = only(list(config_checks.check_stores(configure_remote(tmp_path, other, monkeypatch))))
    assert (finding.state, finding.fix) == (FAILED, config_checks.ACCESS_FIX)
    assert "guessed-secret" not in finding.found


def test_a_store_that_ignores_conditions(tmp_path: Path, s3_store: ObjectLocation, monkeypatch: Patch) -> None:
    def put(storage: object_storage.ObjectStorage, name: str, data: bytes, version: object) -> dict[str, str]:
        storage.replace(name, data)
        return {"e_tag": "any"}

    monkeypatch.setattr(object_storage.ObjectStorage, "update", put)
    finding = only(list(config_checks.check_stores(configure_remote(tmp_path, s3_store, monkeypatch))))
    assert (finding.state, "two writers could overwrite" in finding.found) == (FAILED, True)
    assert "conditional puts" in (finding.fix or "")
