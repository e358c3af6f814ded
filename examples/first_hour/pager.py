"""Somebody who is called when an alarm starts or stops, on the port that is named.

It believes whoever calls; docs/tasks/alarm.md has one that checks the signature first.
"""

import json
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer


class Pager(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(told["name"], "starts:" if told["firing"] else "stops:", told["value"], "ms", flush=True)
        self.send_response(204)
        self.end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


with suppress(KeyboardInterrupt):
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Pager).serve_forever()
