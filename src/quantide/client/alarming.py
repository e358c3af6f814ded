"""Alarming queries."""

from quantide.client.connection import Connection


class Alarming(Connection):
    pass
