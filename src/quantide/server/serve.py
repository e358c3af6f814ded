"""Runs the server: checks where it may listen, listens, and ends well."""

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
from quantide.config.server import Limits
from quantide.server.app import make_app
from quantide.server.binding import check_binding, listen, tls_of, urls_of
from quantide.server.lines import lines_of
from quantide.server.registry import Registry
from quantide.server.tokens import are_needed, count_valid

LOG = logging.getLogger("quantide.server")
IDLE = 20  # seconds that a connection may be open between two requests
FAREWELL = 5  # seconds for requests to end when the server does
OTHER_FILES = 1_000  # that are open beside connections
SWITCH = 0.001


def serve(
    config: Config, out: TextIO, behind_proxy: bool = False, parent: int | None = None, json: bool = False
) -> None:
    """Serve until a signal comes (Ctrl-C, SIGTERM), or until `parent`, the process that started this one, is gone.

    `out` gets a line for each address as soon as questions are answered there.
    """
    config = replace(config, server=replace(config.server, behind_proxy=behind_proxy or config.server.behind_proxy))
    registry = Registry(config.server.state)
    try:
        check_binding(config, registry)
        _prepare(config.server.limits)
        report_access(config, registry)
    finally:
        registry.close()
    with listen(config.server) as listening:
        urls = urls_of(config.server, listening.getsockname()[1])
        lines = [json_text.dumps({"url": url}) if json else url for url in urls]
        server = Server(make_app(config), config, parent, lambda: print(*lines, sep="\n", file=out, flush=True))
        server.run([listening])


class Server(uvicorn.Server):
    """Tells when it has begun, and lets those go who listen to events when it ends."""

    def __init__(self, app: FastAPI, config: Config, parent: int | None, begun: Callable[[], None]) -> None:
        super().__init__(settings_of(app, config))
        self._app, self._parent, self._begun = app, parent, begun

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        gc.freeze()  # what was imported stays: to look for garbage there would hold everyone up, 0.1 s at a time
        self._begun()

    async def on_tick(self, counter: int) -> bool:
        if self._parent is not None and os.getppid() != self._parent:
            self.should_exit = True
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Asked to end: that is how a server ends, and no failure. Asked again by Ctrl-C, it waits for nobody."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        hub = getattr(self._app.state.service, "hub", None)
        if hub is not None:
            hub.close()
        await super().shutdown(sockets)


def settings_of(app: FastAPI, config: Config) -> uvicorn.Config:
    """How uvicorn is to run. It is told nothing of proxies: what they say of clients is not used, so not trusted."""
    found = uvicorn.Config(
        app,
        http=lines_of(config.server.limits.connections),
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=FAREWELL,
    )
    found.load()
    found.ssl = tls_of(config.server)
    return found


def report_access(config: Config, registry: Registry) -> None:
    """Log that every request will be refused, where tokens are needed and none is valid."""
    if are_needed(registry) and not count_valid(registry, time.time()):
        LOG.warning(
            "this server needs tokens and none is valid: every request is refused. To make one: quantide token create "
            "%s --role reader. To let everyone on this machine in without: quantide token open %s",
            config.path,
            config.path,
        )


def _prepare(limits: Limits) -> None:
    """What holds for the whole process."""
    # A thread that computes gives the interpreter up every 5 ms unless told otherwise: with several of them the loop
    # would wait that long for each, and all who are connected with it.
    sys.setswitchinterval(SWITCH)
    # One line a problem. Requests are not logged, so no query, token or body is; uvicorn would complain of each one
    # that is malformed, which anybody can send.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    logging.getLogger("uvicorn.access").disabled = True
    _allow_files(limits.connections + OTHER_FILES)


def _allow_files(needed: int) -> None:
    """Let the process open a file for each connection, as far as the system does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < needed:
        LOG.warning(
            "the system lets this process open %d files; limits.connections needs %d: raise ulimit -n", hard, needed
        )
