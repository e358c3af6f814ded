"""Four clients that request pages of web.py in a loop until Ctrl-C. Usage: python visitors.py PORT"""

import itertools
import sys
import threading
import time
from contextlib import suppress
from urllib.request import urlopen


def visit() -> None:
    for page in itertools.cycle(["index.md", "tour.md", "images/page.png"]):
        try:
            with urlopen(f"http://127.0.0.1:{sys.argv[1]}/{page}") as response:
                response.read()
        except OSError as error:
            print("no response:", error, flush=True)
            time.sleep(1)
        time.sleep(0.01)


for _ in range(4):
    threading.Thread(target=visit, daemon=True).start()
with suppress(KeyboardInterrupt):
    threading.Event().wait()
