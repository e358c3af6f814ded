"""What a request says in its address: a parameter that a route does not have, or has once, is refused, not ignored."""

from typing import Any

from fastapi import Request

from quantide.errors import InvalidArgumentError


async def check_said(request: Request) -> None:
    """Refuse parameters that are not known, and those that are said twice where one is meant."""
    if not request.scope["query_string"]:
        return
    known = parameters(request.app.openapi(), request.scope["route"].path, request.method.lower())
    if known is not None:
        check(_by_name(request), known)


def check(said: dict[str, int], known: dict[str, bool]) -> None:
    """How often each parameter is said, against those there are and whether they may be said more than once."""
    for name, times in said.items():
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "there is none"
            raise InvalidArgumentError(f"{name[:80]!r} is not a parameter here; {there}")
        if times > 1 and not known[name]:
            raise InvalidArgumentError(f"{name} is said {times} times; say it once")


def parameters(manual: dict[str, Any], path: str, method: str) -> dict[str, bool] | None:
    """The parameters of a route, and whether each may be said more than once; None where the manual is silent."""
    described = manual["paths"].get(path, {}).get(method)
    if described is None:
        return None
    found = [one for one in described.get("parameters", ()) if one["in"] == "query"]
    return {one["name"]: is_list(one["schema"]) for one in found}


def is_list(schema: dict[str, Any]) -> bool:
    return any(one.get("type") == "array" for one in (schema, *schema.get("anyOf", ())))


def _by_name(request: Request) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, _ in request.query_params.multi_items():
        counts[name] = counts.get(name, 0) + 1
    return counts
