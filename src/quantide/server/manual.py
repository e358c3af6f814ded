"""The manual of the API at /docs: Swagger UI out of an installed package, so that it works without a network."""

from importlib.resources import files

from fastapi import APIRouter, Response

from quantide.server.problems import problem
from quantide.server.service import Service

PAGE = """<!doctype html>
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
START = """SwaggerUIBundle({ url: "/openapi.json", dom_id: "#manual", deepLinking: true, validatorUrl: null });
"""
SHIPPED = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}


def routes(service: Service) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    async def page() -> Response:
        return Response(PAGE, media_type="text/html")

    @router.get("/docs/start.js")
    async def start() -> Response:
        return Response(START, media_type="text/javascript")

    @router.get("/docs/{name}")
    async def shipped(name: str) -> Response:
        if name not in SHIPPED:
            raise problem("not_found", "there is nothing here")
        data = await service.ask(lambda: files("fastapi_offline").joinpath("static", name).read_bytes())
        return Response(data, media_type=SHIPPED[name], headers={"Cache-Control": "max-age=86400"})

    return router
