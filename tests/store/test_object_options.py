"""Options of a store in object storage: the names of deltalake and of obstore, in any case, with or without prefix."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from quantide.errors import InvalidArgumentError, StorageError
from quantide.history import History
from quantide.store import object_storage
from quantide.store.location import open_storage
from quantide.store.object_storage import ObjectStorage
from tests.object_servers.object_location import ObjectLocation

URI = "s3://bucket/stream"


@pytest.mark.parametrize("spell", [str.lower, str.upper, str.title], ids=["lower", "upper", "title"])
@pytest.mark.parametrize("prefix", ["", "aws_"])
def test_names_in_any_case_with_or_without_prefix(prefix: str, spell: type[str], s3_store: ObjectLocation) -> None:
    options = {spell(f"{prefix}{name.removeprefix('aws_')}"): value for name, value in s3_store.options.items()}
    storage = ObjectStorage(f"{s3_store.uri}/names", options)
    storage.replace("file", b"content")
    assert ObjectStorage(f"{s3_store.uri}/names", s3_store.options).read("file") == b"content"


def test_the_endpoint_of_deltalake(s3_store: ObjectLocation) -> None:
    others = {name: value for name, value in s3_store.options.items() if not name.endswith("endpoint")}
    (endpoint,) = (value for name, value in s3_store.options.items() if name.endswith("endpoint"))
    for name in ("AWS_ENDPOINT_URL", "endpoint_url", "aws_endpoint"):
        assert ObjectStorage(s3_store.uri, others | {name: endpoint}).list_files("runs") == []


@pytest.mark.parametrize(
    "name",
    [
        "AWS_S3_ALLOW_UNSAFE_RENAME",
        "AWS_S3_LOCKING_PROVIDER",
        "DELTA_DYNAMO_TABLE_NAME",
        "AWS_ENDPOINT_URL_DYNAMODB",
        "aws_ec2_metadata_disabled",
        "AWS_S3_POOL_IDLE_TIMEOUT_SECONDS",
        "max_retries",
        "retry_timeout",
        "backoff_config.init_backoff",
    ],
)
def test_options_of_deltalake_alone_are_accepted(name: str) -> None:
    """Options of deltalake are accepted unchanged."""
    assert ObjectStorage(URI, {name: "1", "CACHE_BYTES": "0"}).path == URI


@pytest.mark.parametrize("name", ["regoin", "AWS_REGOIN", "aws_s3_allow_unsafe", "delta", "dynamic"])
def test_an_unknown_option_is_named(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"(?i)the storage option '{name}' of {URI} is unknown"):
        ObjectStorage(URI, {name: "x"})


@pytest.mark.parametrize("name", ["pool_idle_timeout", "http1_only", "AWS_ALLOW_HTTP", "proxy_url", "User_Agent"])
def test_options_of_the_client(name: str) -> None:
    values = {"pool_idle_timeout": "10s", "proxy_url": "http://127.0.0.1:9", "User_Agent": "someone"}
    ObjectStorage(URI, {name: values.get(name, "true")})


@pytest.mark.parametrize("text", ["", "-1", "1.5", "much", "1 GB"])
def test_a_limit_of_the_cache_is_a_number(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="cache_bytes is a number of bytes"):
        ObjectStorage(URI, {"cache_bytes": text})


def test_secrets_are_not_shown() -> None:
    options = {"aws_access_key_id": "known-id", "aws_secret_access_key": "very-secret", "aws_session_token": "a-token"}
    storage = ObjectStorage(URI, options)
    shown = f"{storage!r} {storage.path} {vars(storage.counts)}"
    with pytest.raises(InvalidArgumentError) as error:
        ObjectStorage(URI, options | {"regoin": "x"})
    for secret in options.values():
        assert secret not in shown + str(error.value) + repr(error.value)


def test_a_copy_for_a_task_has_the_same_options(s3_store: ObjectLocation) -> None:
    storage = ObjectStorage(s3_store.uri, s3_store.options | {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"})
    copy = pickle.loads(pickle.dumps(storage))
    storage.replace("file", b"content")
    assert copy.read("file") == b"content"


def test_deltalake_opens_the_table_with_these_options(s3_store: ObjectLocation) -> None:
    options = {name.upper() if name.startswith("aws") else name: value for name, value in s3_store.options.items()}
    with History(s3_store.uri, storage_options=options | {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}) as history:
        history.append(range(10))
        table = DeltaTable(history.path, storage_options=options)
        assert table.to_pyarrow_table().num_rows == 10


@pytest.mark.parametrize(
    "uri", ["s3://id:very-secret@bucket/x", "az://bucket/x?sig=very-secret", "http://u:very-secret@h"]
)
def test_a_uri_has_no_credentials(uri: str) -> None:
    """A URI with credentials is refused: most messages contain the URI."""
    with pytest.raises(InvalidArgumentError, match="put credentials into storage_options") as error:
        open_storage(uri, {"account_name": "x"})
    assert "very-secret" not in str(error.value)


def test_the_password_of_an_endpoint_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_storage, "ATTEMPTS", 1)
    options = {"endpoint": "http://user:very-secret@127.0.0.1:9", "allow_http": "true", "region": "x"}
    keys = {"access_key_id": "x", "secret_access_key": "y"}
    with pytest.raises(StorageError, match=r"http://\*\*\*@127\.0\.0\.1") as error:
        ObjectStorage(URI, options | keys).read("file")
    assert "very-secret" not in str(error.value)


@pytest.mark.parametrize("name", ["account_name", "endpoint"])
def test_services_share_no_cache(name: str) -> None:
    """Two services may have containers of one name, with copies of one store: each has its own cache."""
    for value in ("https://first", "https://second"):
        storage = ObjectStorage("az://container/x", {"account_name": "x", "account_key": "dGVzdGluZw==", name: value})
        storage.use_cache(f"identity of {name}")
        assert storage._cache is not None
        assert storage._cache.get("file", value.encode) == (value.encode(), False)


@pytest.mark.parametrize(
    ("uri", "options", "reason"),
    [
        (5, {}, "not 5"),
        ("", {}, "a store lies in a folder"),
        (Path("s3://bucket/stream"), {}, "removes one of them"),
        ("s3://", {}, "lies at s3://bucket/name"),
        ("s3://bucket/../stream", {}, "lies at s3://bucket/name"),
        ("s3://bucket/stream#1", {}, "a password or a query"),
        (URI, ["region"], "is a dictionary"),
        (URI, {"secret_access_key": "env:NO_SUCH_VARIABLE"}, "that variable is not set"),
        (URI, {"endpoint": "http://127.0.0.1:9"}, "use https, or set the storage option allow_http"),
    ],
)
def test_wrong_locations_and_options(uri: Any, options: Any, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    with pytest.raises(InvalidArgumentError, match=reason):
        open_storage(uri, options)


def test_an_option_can_name_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_SECRET", "hidden")
    storage = ObjectStorage(URI, {"access_key_id": "me", "secret_access_key": "env:OWN_SECRET"})
    assert storage.__reduce__()[1][1] == {"access_key_id": "me", "secret_access_key": "hidden"}


def test_errors_of_a_server_are_short_and_name_no_key(s3_store: ObjectLocation) -> None:
    error = PermissionError(
        "403: <?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Denied</Message><AWSAccessKeyId>me"
    )
    assert ObjectStorage(s3_store.uri, s3_store.options)._redact(error) == "403: AccessDenied: Denied"
