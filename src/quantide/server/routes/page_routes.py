"""Routes of pages: the dashboard at / and the API documentation at /docs, all from installed files, to work offline."""

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from threading import Thread

from fastapi import APIRouter, Request, Response

from quantide.server.http.response_json import Problem
from quantide.server.service import Service

PLOTLY = "plotly.min.js"
MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
MAP_STYLE = re.compile(rb'getElementById\("([0-9a-f]{64})"\)')
MIN_COMPRESSED = 1_000  # bytes
DOCS_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Quantide: the API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="icon" href="data:,">
</head>
<body>
<div id="manual"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
DOCS_SCRIPT = """SwaggerUIBundle({ url: "/openapi.json", dom_id: "#manual", deepLinking: true, validatorUrl: null });
"""
SWAGGER_FILES = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}


@dataclass(frozen=True)
class PageFile:
    """File of the page, plain and compressed; `etag` identifies its content."""

    media_type: str
    data: bytes
    compressed: bytes | None
    etag: str


def routes(service: Service) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    async def respond(request: Request, name: str) -> Response:
        file = await service.compute(lambda: read_page_file(name))
        headers = {"Cache-Control": "no-cache", "ETag": file.etag, "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == file.etag:
            headers["Content-Type"] = file.media_type  # selects the policy that the browser applies to its copy
            return Response(status_code=304, headers=headers)
        if file.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(file.compressed, media_type=file.media_type, headers=headers)
        return Response(file.data, media_type=file.media_type, headers=headers)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def page(request: Request) -> Response:
        return await respond(request, "index.html")

    @router.api_route("/page/{name}", methods=["GET", "HEAD"])
    async def page_file(request: Request, name: str) -> Response:
        return await respond(request, name)

    @router.get("/docs")
    async def docs() -> Response:
        return Response(DOCS_PAGE, media_type="text/html")

    @router.get("/docs/start.js")
    async def docs_script() -> Response:
        return Response(DOCS_SCRIPT, media_type="text/javascript")

    @router.get("/docs/{name}")
    async def swagger_file(name: str) -> Response:
        if name not in SWAGGER_FILES:
            raise Problem("not_found", "there is no such file")
        data = await service.compute(lambda: files("fastapi_offline").joinpath("static", name).read_bytes())
        return Response(data, media_type=SWAGGER_FILES[name], headers={"Cache-Control": "max-age=86400"})

    return router


def compress_early() -> None:
    """Compress the largest file in a thread, before a browser requests it."""
    Thread(target=read_page_file, args=(PLOTLY,), name="quantide-page", daemon=True).start()


def find_map_style() -> bytes:
    """Return the id of the style for maps that plotly.js adds to a page without an element of this id.

    The policy of the page blocks that style, with an error in the console; no map is drawn.
    """
    match = MAP_STYLE.search(files("plotly").joinpath("package_data", PLOTLY).read_bytes())
    return match[1] if match else b"map-style"


@cache
def read_page_file(name: str) -> PageFile:
    media_type = MEDIA_TYPES.get(name.rpartition(".")[2])
    own = {file.name: file for file in files("quantide.server").joinpath("static").iterdir()}
    file = files("plotly").joinpath("package_data", PLOTLY) if name == PLOTLY else own.get(name)
    if media_type is None or file is None:
        raise Problem("not_found", "the page has no such file")
    data = file.read_bytes()
    if name == "index.html":
        data = data.replace(b'"map-style"', b'"%s"' % find_map_style(), 1)
    compressed = gzip.compress(data, 6, mtime=0) if len(data) > MIN_COMPRESSED else None
    return PageFile(media_type, data, compressed, f'"{hashlib.sha256(data).hexdigest()[:20]}"')
