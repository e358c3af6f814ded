"""Location in an object store, as tests pass it on: a URI and its storage options."""

from datetime import timedelta
from typing import Any, NamedTuple

from obstore.store import ObjectStore, from_url

CLIENT_OPTIONS = ("allow_http", "timeout")


class ObjectLocation(NamedTuple):
    """URI of an empty bucket or container, with the storage options that open it."""

    uri: str
    options: dict[str, str]

    def open(self, retries: int = 0, **client_options: Any) -> ObjectStore:
        """Open it with obstore. Requests are not repeated by default, so that a test sees every failure."""
        config: Any = {name: value for name, value in self.options.items() if name not in CLIENT_OPTIONS}
        client: Any = {name: value for name, value in self.options.items() if name in CLIENT_OPTIONS}
        return from_url(
            self.uri,
            config=config,
            client_options=client | client_options,
            retry_config={"max_retries": retries, "backoff": {"init_backoff": timedelta(milliseconds=10)}},
        )
