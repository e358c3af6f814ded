"""Deletes of many objects in one request, which obstore sends even for one object."""

import re
from urllib.parse import unquote
from xml.sax.saxutils import unescape

S3_KEY = re.compile(r"<Key>(.*?)</Key>", re.DOTALL)
AZURE_DELETE = re.compile(r"^DELETE (\S+) HTTP", re.MULTILINE)


def deleted_paths(method: str, path: str, query: str, body: bytes) -> list[str]:
    """Return the paths of the objects that a request deletes; none if it is another request."""
    if method == "DELETE":
        return [path]
    if method == "POST" and query == "delete":
        return [f"{path}/{unescape(key)}" for key in S3_KEY.findall(body.decode())]
    if method == "POST" and "comp=batch" in query:
        return [unquote(deleted) for deleted in AZURE_DELETE.findall(body.decode())]
    return []
