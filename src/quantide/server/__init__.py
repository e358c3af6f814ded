"""The server: questions over HTTP, standing queries, events and alarms, for any number of clients."""
