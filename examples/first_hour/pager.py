"""Webhook receiver that prints a line when an alarm starts or stops. Usage: python pager.py PORT

It does not verify signatures; the receiver in docs/tasks/alarm.md does.
"""

import json
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer


class Pager(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(message["name"], "starts:" if message["firing"] else "stops:", message["value"], "ms", flush=True)
        self.send_response(204)
        self.end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


with suppress(KeyboardInterrupt):
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Pager).serve_forever()
