"""Which role a route needs. What no table names needs one that is safe: a reader to read, a writer for all else."""

READING = ("GET", "HEAD")
OPEN = {(method, path) for method in READING for path in ("/healthz", "/readyz", "/")} | {("POST", "/api/session")}
PAGE = "/page/"  # files of the page, which tell nothing: what it shows is asked for by its own
OF_READERS = {("DELETE", "/api/session")}
OF_ADMINS = ("/api/tokens",)


def role_for(method: str, path: str) -> str | None:
    """The role that a request needs; None where anyone may come."""
    if path.startswith(OF_ADMINS):
        return "admin"
    if (method, path) in OPEN or (method in READING and path.startswith(PAGE)):
        return None
    return "reader" if method in READING or (method, path) in OF_READERS else "writer"
