"""moto's server for S3, one request at a time: moto does not check a condition and write in one step, as S3 does."""

from collections.abc import Iterable
from threading import Lock
from typing import Any


def main() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import run_simple

    app, lock = DomainDispatcherApplication(create_backend_app), Lock()

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with lock:
            return list(app(environ, start_response))

    run_simple("127.0.0.1", 0, answer, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main()
