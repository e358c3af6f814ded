"""Standing queries."""

from quantide.client.connection import Connection


class Standing(Connection):
    pass
