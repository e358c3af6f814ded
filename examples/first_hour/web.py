"""Web server that serves the documentation on 127.0.0.1 and writes an access log. Usage: python web.py PORT

The log has one line of JSON per request. Every second it is moved into the folder incoming, as logrotate would.
"""

import fcntl
import json
import logging
import os
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from logging.handlers import TimedRotatingFileHandler
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs"


class Web(SimpleHTTPRequestHandler):
    def handle(self) -> None:
        with suppress(ConnectionError):  # the client left before it had its response
            super().handle()

    def do_GET(self) -> None:
        begun = time.perf_counter()
        with open("pages.lock", "w") as lock:  # a writer of the pages locks it exclusively
            fcntl.flock(lock, fcntl.LOCK_SH)
            super().do_GET()
        ms = round((time.perf_counter() - begun) * 1000, 3)
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        access.info(json.dumps({"ts": now, "path": self.path, "status": self.status, "ms": ms}))

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        self.status = int(code)


os.makedirs("incoming", exist_ok=True)
log = TimedRotatingFileHandler("access.log", when="S")
log.rotator = lambda source, _: os.rename(source, f"incoming/{time.time_ns()}.json")
access = logging.getLogger("access")
access.setLevel("INFO")
access.addHandler(log)
with suppress(KeyboardInterrupt):
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), partial(Web, directory=str(PAGES))).serve_forever()
