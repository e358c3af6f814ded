"""Server process: checks the binding, listens, and shuts down gracefully."""

import gc
import json as json_text
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from socket import socket
from types import FrameType
from typing import TextIO

import uvicorn
from fastapi import FastAPI

from quantide.config import Config
from quantide.config.server_config import Limits
from quantide.server.app import make_app
from quantide.server.http.binding import check_binding, open_socket, server_urls, tls_context
from quantide.server.http.request_limits import limited_protocol
from quantide.server.http.tokens import count_valid_tokens, tokens_required
from quantide.server.server_registry import ServerRegistry

LOG = logging.getLogger("quantide.server")
KEEP_ALIVE = 20  # seconds that a connection may be open between two requests
SHUTDOWN_TIMEOUT = 5  # seconds for requests to end at shutdown
OTHER_FILES = 1_000  # open files beside connections
SWITCH_INTERVAL = 0.001


def serve(
    config: Config, out: TextIO, behind_proxy: bool = False, parent: int | None = None, json: bool = False
) -> None:
    """Serve until a signal arrives (Ctrl-C, SIGTERM), or until `parent`, the process that started this one, ends.

    `out` gets one line for each URL as soon as the server answers there.
    """
    config = replace(config, server=replace(config.server, behind_proxy=behind_proxy or config.server.behind_proxy))
    registry = ServerRegistry(config.server.state)
    try:
        check_binding(config, registry)
        _prepare_process(config.server.limits)
        report_access(config, registry)
    finally:
        registry.close()
    with open_socket(config.server) as listener:
        urls = server_urls(config.server, listener.getsockname()[1])
        lines = [json_text.dumps({"url": url}) if json else url for url in urls]
        server = Server(make_app(config), config, parent, lambda: print(*lines, sep="\n", file=out, flush=True))
        server.run([listener])


class Server(uvicorn.Server):
    """Uvicorn server that reports its start, follows its parent process, and ends event streams at shutdown."""

    def __init__(self, app: FastAPI, config: Config, parent: int | None, on_start: Callable[[], None]) -> None:
        super().__init__(uvicorn_config(app, config))
        self._app, self._parent, self._on_start = app, parent, on_start

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        gc.freeze()  # imported modules stay: collecting garbage among them would pause every request for 0.1 s
        self._on_start()

    async def on_tick(self, counter: int) -> bool:
        if self._parent is not None and os.getppid() != self._parent:
            self.should_exit = True
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down, which is no failure; a second Ctrl-C does not wait for requests to end."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        hub = getattr(self._app.state.service, "hub", None)
        if hub is not None:
            hub.close()
        await super().shutdown(sockets)


def uvicorn_config(app: FastAPI, config: Config) -> uvicorn.Config:
    """Return uvicorn's configuration. Proxy headers are off: client addresses are not used, so they are not trusted."""
    settings = uvicorn.Config(
        app,
        http=limited_protocol(config.server.limits.connections),
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
    )
    settings.load()
    settings.ssl = tls_context(config.server)
    return settings


def report_access(config: Config, registry: ServerRegistry) -> None:
    """Log that every request will be refused, where tokens are needed and none is valid."""
    if tokens_required(registry) and not count_valid_tokens(registry, time.time()):
        LOG.warning(
            "this server needs tokens and none is valid: every request is refused. To make one: quantide token create "
            "%s --role reader. To let everyone on this machine in without: quantide token open %s",
            config.path,
            config.path,
        )


def _prepare_process(limits: Limits) -> None:
    """Set the interpreter's switch interval, logging, and the limit of open files."""
    # By default a computing thread gives up the interpreter every 5 ms: with several of them the event loop, and all
    # its clients, would wait that long for each.
    sys.setswitchinterval(SWITCH_INTERVAL)
    # One line a problem. Requests are not logged, so no query, token or body is; uvicorn would log every malformed
    # request, which any client can send.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    logging.getLogger("uvicorn.access").disabled = True
    _raise_file_limit(limits.connections + OTHER_FILES)


def _raise_file_limit(needed: int) -> None:
    """Let the process open a file for each connection, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < needed:
        LOG.warning(
            "the system lets this process open %d files; limits.connections needs %d: raise ulimit -n", hard, needed
        )
