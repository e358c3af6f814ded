"""Routes that are asked a thousand times a second: their parameters are read at once, as one model.

FastAPI's general way of finding parameters takes longer than most answers. A route of this class is described in the
manual like any other, and its parameters mean the same.
"""

from collections.abc import Callable, Coroutine
from typing import Any, get_args, get_type_hints
from urllib.parse import parse_qsl

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from quantide.server.said import check, is_list

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class QuickRoute(APIRoute):
    """A GET route whose function takes the `request`, what is in its path, and a model `asked` of its parameters."""

    def get_route_handler(self) -> Handler:
        endpoint, read = (
            self.endpoint,
            reader_of(get_args(get_type_hints(self.endpoint, include_extras=True)["asked"])[0]),
        )

        async def handle(request: Request) -> Response:
            asked = read(request.scope["query_string"])
            answered: Response = await endpoint(request=request, asked=asked, **request.path_params)
            return answered

        return handle


def reader_of(model: type[BaseModel]) -> Callable[[bytes], BaseModel]:
    """What makes such a model of the query of an address."""
    lists = {name: is_list(schema) for name, schema in model.model_json_schema()["properties"].items()}

    def read(query: bytes) -> BaseModel:
        said: dict[str, list[str]] = {}
        for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            said.setdefault(name, []).append(value)
        check({name: len(values) for name, values in said.items()}, lists)
        try:
            return model.model_validate({name: values if lists[name] else values[0] for name, values in said.items()})
        except ValidationError as error:
            raise RequestValidationError(error.errors()) from error

    return read
