"""The page at /: files of this package, and the charts' library out of an installed one, so that it works offline."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from threading import Thread

from fastapi import APIRouter, Request, Response

from quantide.server.problems import problem
from quantide.server.service import Service

CHARTS = "plotly.min.js"
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
WORTH = 1_000  # bytes that are worth packing


@dataclass(frozen=True)
class Part:
    """A file of the page, as it is and packed; `tag` tells its content from any other."""

    kind: str
    data: bytes
    packed: bytes | None
    tag: str


def routes(service: Service) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    async def told(request: Request, name: str) -> Response:
        found = await service.ask(lambda: part(name))
        headers = {"Cache-Control": "no-cache", "ETag": found.tag, "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == found.tag:
            headers["Content-Type"] = found.kind  # the policy goes with it, and a browser puts both on what it has
            return Response(status_code=304, headers=headers)
        if found.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            return Response(found.packed, media_type=found.kind, headers=headers | {"Content-Encoding": "gzip"})
        return Response(found.data, media_type=found.kind, headers=headers)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def page(request: Request) -> Response:
        return await told(request, "index.html")

    @router.api_route("/page/{name}", methods=["GET", "HEAD"])
    async def named(request: Request, name: str) -> Response:
        return await told(request, name)

    return router


def prepare() -> None:
    """Pack the largest part meanwhile, so that nobody waits for it who opens the page."""
    Thread(target=part, args=(CHARTS,), name="quantide-page", daemon=True).start()


@cache
def part(name: str) -> Part:
    """A part of the page, read once."""
    kind = KINDS.get(name.rpartition(".")[2])
    own = {file.name: file for file in files("quantide.server").joinpath("static").iterdir()}
    file = files("plotly").joinpath("package_data", CHARTS) if name == CHARTS else own.get(name)
    if kind is None or file is None:
        raise problem("not_found", "there is no such part of the page")
    data = file.read_bytes()
    packed = gzip.compress(data, 6, mtime=0) if len(data) > WORTH else None
    return Part(kind, data, packed, f'"{hashlib.sha256(data).hexdigest()[:20]}"')
