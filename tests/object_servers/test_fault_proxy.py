"""The proxy: it injects what a test chose, and forwards everything else unchanged."""

from contextlib import ExitStack

import obstore
import pytest
from obstore.exceptions import GenericError, PermissionDeniedError, UnauthenticatedError

from tests.object_servers import faults
from tests.object_servers.exchange import Request
from tests.object_servers.fault_proxy import FaultProxy
from tests.object_servers.object_location import ObjectLocation
from tests.object_servers.servers import ObjectServer

CONTENT = b"0123456789" * 1000
SIGNATURE_CHECKED = pytest.mark.parametrize("object_server", ["versitygw", "azurite"], indirect=True)


@SIGNATURE_CHECKED
def test_signatures_are_checked(object_store: ObjectLocation, fault_proxy: FaultProxy) -> None:
    """Servers check signatures of requests through the proxy, too: the proxy does not change what they cover."""
    obstore.put(fault_proxy.redirect(object_store).open(), "a b", b"x")
    secret = "secret_access_key" if "secret_access_key" in object_store.options else "account_key"
    wrong = object_store._replace(options=object_store.options | {secret: "d3Jvbmc="})
    for location in (wrong, fault_proxy.redirect(wrong)):
        with pytest.raises(PermissionDeniedError):
            obstore.get(location.open(), "a b")


def test_log(object_store: ObjectLocation, fault_proxy: FaultProxy) -> None:
    location = fault_proxy.redirect(object_store)
    store = location.open()
    obstore.put(store, "x & y/z=1", CONTENT)
    obstore.get_range(store, "x & y/z=1", start=10, length=20)
    with pytest.raises(FileNotFoundError):
        obstore.head(store, "nothing")
    obstore.delete(store, ["x & y/z=1"])
    put, get, head, delete = fault_proxy.log
    assert (put.method, put.sent, put.range) == ("PUT", len(CONTENT), None)
    assert put.status in (200, 201)
    assert put.path.endswith("/x & y/z=1")
    assert get == Request("GET", put.path, "", "bytes=10-29", 0, 206, 20)
    assert (head.method, head.status, head.received) == ("HEAD", 404, 0)
    assert (delete.method, delete.path) == ("DELETE", put.path)
    assert fault_proxy.count() == 4
    assert fault_proxy.count("GET", "z=1") == 1


def test_rules_choose_requests(s3_store: ObjectLocation, fault_proxy: FaultProxy) -> None:
    store = fault_proxy.redirect(s3_store).open()
    fault_proxy.inject(faults.slow_down(), "PUT", "log/", skip=1, times=2)
    for name in ("log/1", "data/1"):
        obstore.put(store, name, b"x")
    for name in ("log/2", "log/3"):
        with pytest.raises(GenericError, match="SlowDown"):
            obstore.put(store, name, b"x")
    for name in ("data/2", "log/4"):
        obstore.put(store, name, b"x")
    assert [request.status for request in fault_proxy.log] == [200, 200, 503, 503, 200, 200]


@pytest.mark.parametrize(
    "fault", [faults.slow_down(), faults.lose_answer, faults.cut_answer], ids=["slow_down", "lose_answer", "cut_answer"]
)
def test_reads_that_are_repeated(object_store: ObjectLocation, fault_proxy: FaultProxy, fault: faults.Fault) -> None:
    obstore.put(object_store.open(), "x", CONTENT)
    location = fault_proxy.redirect(object_store)
    fault_proxy.inject(fault, "GET", times=2)
    with pytest.raises(GenericError):
        obstore.get(location.open(), "x").bytes()
    assert bytes(obstore.get(location.open(retries=2), "x").bytes()) == CONTENT
    assert fault_proxy.count("GET") == 3


def test_expired_credentials(object_store: ObjectLocation, fault_proxy: FaultProxy) -> None:
    """Requests with expired credentials are not tried again."""
    store = fault_proxy.redirect(object_store).open(retries=3)
    fault_proxy.inject(faults.expired_token(), "PUT", times=None)
    fault_proxy.inject(faults.expired_token(401), "GET")
    with pytest.raises(PermissionDeniedError, match="ExpiredToken"):
        obstore.put(store, "x", b"x")
    with pytest.raises(UnauthenticatedError, match="ExpiredToken"):
        obstore.get(store, "x")
    fault_proxy.clear()
    obstore.put(store, "x", b"x")
    assert fault_proxy.count() == 1


def test_a_write_that_arrives_late(object_store: ObjectLocation, fault_proxy: FaultProxy) -> None:
    """The client gave up; then the server executes the write."""
    late = faults.Hold()
    fault_proxy.inject(late, "PUT")
    with pytest.raises(GenericError):
        obstore.put(fault_proxy.redirect(object_store).open(timeout="500ms"), "x", b"late", mode="create")
    store = object_store.open()
    late.wait()
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "x")
    late.release()
    assert bytes(obstore.get(store, "x").bytes()) == b"late"


def test_a_timeout(s3_store: ObjectLocation, fault_proxy: FaultProxy) -> None:
    obstore.put(s3_store.open(), "x", CONTENT)
    fault_proxy.inject(faults.delay(3600), "GET")
    store = fault_proxy.redirect(s3_store).open(retries=5, timeout="1s")
    assert bytes(obstore.get(store, "x").bytes()) == CONTENT
    assert fault_proxy.log[0].status is None
    assert fault_proxy.log[-1].status == 200


def test_deletes_that_are_seen_late(object_store: ObjectLocation, fault_proxy: FaultProxy) -> None:
    store = fault_proxy.redirect(object_store).open()
    fault_proxy.delay_deletes(3, path="runs/")
    for name in ("runs/1", "log/1"):
        obstore.put(store, name, b"0123456789")
        obstore.delete(store, name)
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "log/1")
    assert bytes(obstore.get(store, "runs/1").bytes()) == b"0123456789"
    assert bytes(obstore.get_range(store, "runs/1", start=2, length=3)) == b"234"
    assert obstore.head(store, "runs/1")["size"] == 10
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "runs/1")


def test_an_error_of_a_fault_fails_the_test(s3_server: ObjectServer) -> None:
    with ExitStack() as stack:
        proxy = stack.enter_context(FaultProxy(s3_server.port))
        proxy.inject(faults.cut_request)
        with pytest.raises(GenericError):
            obstore.get(proxy.redirect(s3_server.new_location()).open(), "x")
        with pytest.raises(AssertionError, match="without a body"):
            stack.close()
