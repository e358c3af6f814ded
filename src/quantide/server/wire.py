"""The protocol of connections: uvicorn's, and a way to end one whose client does not read."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

ABORT = "quantide.abort"


class Protocol(HttpToolsProtocol):
    """A request finds a function, scope["extensions"]["quantide.abort"]["now"], that ends its connection at once.

    Closing a connection waits until everything was sent, which a client that never reads would put off forever.
    """

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: {"now": self.transport.abort}}
