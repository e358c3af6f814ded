"""Client: everything that a server can be asked."""

from quantide.client.alarming import Alarming
from quantide.client.listening import Listening
from quantide.client.reading import Reading
from quantide.client.standing import Standing


class Client(Reading, Standing, Alarming, Listening):
    """A server, as a Python program sees it: the questions of LiveStream, standing queries, alarms and events.

    Parameters: `address`, such as "http://127.0.0.1:8642"; `token`, which goes into a header and nowhere else, and
    over plain http to this machine only; `timeout`, how many seconds the server may say nothing; `ca`, a file of
    certificates (PEM) to trust instead of the usual ones, for servers with a certificate of their own.

    What the server refuses is raised as the error that the library itself would raise: UnknownKeyError for a key that
    nothing came for. A server that cannot be reached, or that answers what is not understood, is a ServerError.

    A question is asked a second time when the connection broke; a change, such as register(), is never sent twice.
    Threads may share a client. An iterator of events belongs to one thread at a time.

    How to use it: docs/client.md.
    """
