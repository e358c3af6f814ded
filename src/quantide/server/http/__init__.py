"""HTTP handling: security, authentication, requests and responses."""
