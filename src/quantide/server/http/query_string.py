"""Query strings: rejection of unknown and duplicated parameters, and a fast route class that parses one model."""

from collections.abc import Callable, Coroutine
from typing import Any, get_args, get_type_hints
from urllib.parse import parse_qsl

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from quantide.errors import InvalidArgumentError

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


async def reject_unknown_parameters(request: Request) -> None:
    """Reject unknown parameters, and duplicates of those that take one value."""
    if not request.scope["query_string"]:
        return
    parameters = route_parameters(request.app.openapi(), request.scope["route"].path, request.method.lower())
    if parameters is not None:
        check_parameters(_count_names(request), parameters)


def check_parameters(counts: dict[str, int], parameters: dict[str, bool]) -> None:
    """Check how often each parameter is given; `parameters` maps the allowed names to True for lists."""
    for name, count in counts.items():
        if name not in parameters:
            choices = f"there are {', '.join(parameters)}" if parameters else "there is none"
            raise InvalidArgumentError(f"{name[:80]!r} is not a parameter here; {choices}")
        if count > 1 and not parameters[name]:
            raise InvalidArgumentError(f"{name} is given {count} times; give it once")


def route_parameters(openapi: dict[str, Any], path: str, method: str) -> dict[str, bool] | None:
    """Return the query parameters of a route, True for lists; None if OpenAPI does not describe the route."""
    operation = openapi["paths"].get(path, {}).get(method)
    if operation is None:
        return None
    parameters = [parameter for parameter in operation.get("parameters", ()) if parameter["in"] == "query"]
    return {parameter["name"]: is_list(parameter["schema"]) for parameter in parameters}


def is_list(schema: dict[str, Any]) -> bool:
    return any(choice.get("type") == "array" for choice in (schema, *schema.get("anyOf", ())))


class FastRoute(APIRoute):
    """GET route whose function takes `request`, the path parameters, and one model `query` of the query string.

    FastAPI's general parameter resolution takes longer than most answers. Routes of this class appear in OpenAPI like
    any other, and their parameters mean the same.
    """

    def get_route_handler(self) -> Handler:
        endpoint = self.endpoint
        parse = model_parser(get_args(get_type_hints(endpoint, include_extras=True)["query"])[0])

        async def handle(request: Request) -> Response:
            query = parse(request.scope["query_string"])
            response: Response = await endpoint(request=request, query=query, **request.path_params)
            return response

        return handle


def model_parser(model: type[BaseModel]) -> Callable[[bytes], BaseModel]:
    """Return a function that parses a query string into the model."""
    lists = {name: is_list(schema) for name, schema in model.model_json_schema()["properties"].items()}

    def parse(query_string: bytes) -> BaseModel:
        values: dict[str, list[str]] = {}
        for name, value in parse_qsl(query_string.decode("latin-1"), keep_blank_values=True):
            values.setdefault(name, []).append(value)
        check_parameters({name: len(given) for name, given in values.items()}, lists)
        try:
            return model.model_validate({name: given if lists[name] else given[0] for name, given in values.items()})
        except ValidationError as error:
            raise RequestValidationError(error.errors()) from error

    return parse


def _count_names(request: Request) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, _ in request.query_params.multi_items():
        counts[name] = counts.get(name, 0) + 1
    return counts
