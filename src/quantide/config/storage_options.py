"""Options of a store in object storage: names are those of obstore; credentials come from environment variables."""

import os
import re
from collections.abc import Mapping
from typing import Any

from quantide.errors import ConfigError, InvalidArgumentError

ENVIRONMENT = "env:"  # begins a value that is the name of an environment variable
SERVER_STATE = "_server"
_SECRET = re.compile(r"secret|key|token|password|(^|_)sas(_|$)", re.IGNORECASE)
_PUBLIC = re.compile(r"_(file|url|enabled)$|kms_key_id$", re.IGNORECASE)  # where a secret is, or which one is used
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WITH_USER = ("abfs", "abfss", "az", "azure", "adl")  # schemes of URIs such as abfss://container@account/path


def is_uri(store: str) -> bool:
    """Return True for the URI of an object store, False for a folder."""
    return "://" in store


def check_uri(key: str, uri: str) -> str:
    """Return the URI of a store without a slash at its end; refuse one with credentials, without showing it."""
    scheme, _, rest = uri.partition("://")
    user, at, _ = rest.partition("/")[0].rpartition("@")
    if "?" in uri or "#" in uri or ":" in user or (at and scheme not in _WITH_USER):
        raise ConfigError(f'{key} is more than a location; write "s3://bucket/prefix", and the rest as storage_options')
    return uri.rstrip("/")


def resolve_option(key: str, name: str, value: Any) -> str:
    """Return the value of an option as text; `env:NAME` is the value of that environment variable.

    A credential in plain text is refused. No error shows a value.
    """
    if isinstance(value, bool):
        value = str(value).lower()
    if isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f'{key} must be text, a number, true or false, or "{ENVIRONMENT}NAME"')
    return resolve_text(key, name, value, is_secret(name) or _has_password(value))


def resolve_text(key: str, name: str, value: str, is_credential: bool) -> str:
    """Return a text, or the value of the environment variable that `env:NAME` names, as which a credential is given."""
    if value.startswith(ENVIRONMENT):
        return read_variable(key, value.removeprefix(ENVIRONMENT))
    if is_credential:
        variable = re.sub(r"\W", "_", name).upper()
        raise ConfigError(
            f"{key} is a credential in plain text; set an environment variable, and write its name: "
            f'"{ENVIRONMENT}{variable}"'
        )
    return value


def is_secret(name: str) -> bool:
    """Return True if an option of this name has a value that must not be shown.

    >>> [is_secret(name) for name in ("secret_access_key", "azure_sas_token", "region", "web_identity_token_file")]
    [True, True, False, False]
    """
    return _SECRET.search(name) is not None and _PUBLIC.search(name) is None


def state_folder(store: str, options: Mapping[str, str]) -> str:
    """Return the default folder of the server's registry for a store in object storage; refuse invalid options."""
    from quantide.store.location import open_storage

    try:
        return open_storage(store, options).local_folder(SERVER_STATE)
    except InvalidArgumentError as error:
        raise ConfigError(f"store: {error}") from error


def read_variable(key: str, name: str) -> str:
    """Return the value of an environment variable that the setting `key` names."""
    if not _VARIABLE.fullmatch(name):
        raise ConfigError(f'{key} is not the name of an environment variable; write "{ENVIRONMENT}NAME"')
    if not os.environ.get(name):
        raise ConfigError(f'{key} is "{ENVIRONMENT}{name}", and the environment variable {name} is not set; set it')
    return os.environ[name]


def _has_password(value: str) -> bool:
    """Return True for a URL with a password, such as that of a proxy."""
    return "://" in value and ":" in value.partition("://")[2].partition("/")[0].rpartition("@")[0]
