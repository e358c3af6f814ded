"""Server that a test stops and restarts at the same address."""

import asyncio
import socket
import threading
from typing import Self

import uvicorn

from quantide.config import Config
from quantide.server.app import make_app
from quantide.server.http.request_limits import limited_protocol


class RestartableServer:
    """uvicorn in a thread. A restarted server reopens its registry and its stores."""

    def __init__(self, config: Config) -> None:
        self._config, self._port = config, 0
        self.start()

    def start(self) -> None:
        listener = socket.create_server(("127.0.0.1", self._port))
        self._port = listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self._port}"
        self._app = make_app(self._config)
        settings = uvicorn.Config(
            self._app, log_config=None, access_log=False, lifespan="on", http=limited_protocol(4000)
        )
        self._server, self._socket = uvicorn.Server(settings), listener
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve([listener])), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._app.state.service.hub.close()
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
