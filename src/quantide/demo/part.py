"""Parts of the demo that go on beside ingestion, each in a thread."""

import os
import signal
import threading
from abc import ABC, abstractmethod
from typing import Self

from quantide.client import Client
from quantide.demo.standing import LABEL


class Part(threading.Thread, ABC):
    """What goes wrong with it ends the demo as Ctrl-C would, and is raised there."""

    def __init__(self, name: str) -> None:
        super().__init__(name=f"quantide-demo-{name}", daemon=True)
        self.problem: Exception | None = None
        self.ends = threading.Event()

    @abstractmethod
    def work(self) -> None:
        """Goes on until it ends."""

    def wake(self) -> None:
        """It ends: whatever it waits for."""

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.problem = error
            os.kill(os.getpid(), signal.SIGINT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        self.wake()
        self.join()


class Listener(Part):
    """Listens to everything there is: queries that nobody listens to are not looked at."""

    def __init__(self, client: Client, stream: str) -> None:
        super().__init__("events")
        self.moved = threading.Event()
        self.changes = 0  # of standing queries
        self._events = client.events(label=LABEL, streams=stream, alarms=True)

    def work(self) -> None:
        for event in self._events:
            if event.kind == "queries":
                self.changes += len(event.data)
            else:
                self.moved.set()

    def wake(self) -> None:
        self._events.close()
