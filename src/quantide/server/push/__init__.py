"""Push: rows that clients send, from the body of a request to a landing file."""
