"""Commands for the tokens of a server: create, list, revoke, open."""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from quantide.cli.command import Command, add_config
from quantide.summary.shown import write_line

if TYPE_CHECKING:
    from quantide.server.registry import Registry


@contextmanager
def opened(path: str) -> Iterator["Registry"]:
    """The registry of the server that a configuration describes; the server may run meanwhile."""
    from quantide.config import read_config
    from quantide.server.registry import Registry

    registry = Registry(read_config(path).server.state)
    try:
        yield registry
    finally:
        registry.close()


def _create_options(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument(
        "--role",
        required=True,
        help="a reader asks, a writer also makes queries and alarms, an admin also tokens",
    )
    parser.add_argument("--name", help="whose it is, for the list (the role)")
    parser.add_argument("--expires", metavar="TIME", help='after how long it ends, such as "90 days" (never)')


def _create(args: argparse.Namespace) -> None:
    from quantide.server.tokens import create_token
    from quantide.windows.clock import read_span

    expires = None if args.expires is None else time.time() + float(read_span(args.expires))
    name = args.role if args.name is None else args.name
    with opened(args.config) as registry:
        id, token = create_token(registry, name, args.role, expires)
    if args.json:
        body = {"id": id, "name": name, "role": args.role, "expires": _moment(expires), "token": token}
        write_line(sys.stdout, body)
        return
    print(token, flush=True)
    ends = "" if expires is None else f" until {_moment(expires)}"
    print(
        f"The token {id} of the {args.role} {name!r} holds{ends}. It is shown only now: keep it somewhere safe.\n"
        f"To end it: quantide token revoke {args.config} {id}",
        file=sys.stderr,
    )


def _list(args: argparse.Namespace) -> None:
    from quantide.server.tokens import are_needed, list_tokens

    with opened(args.config) as registry:
        tokens, closed = list_tokens(registry), are_needed(registry)
    now = time.time()
    if args.json:
        found = [
            {
                "id": one.id,
                "name": one.name,
                "role": one.role,
                "created": _moment(one.created),
                "expires": _moment(one.expires),
                "expired": one.expires is not None and one.expires <= now,
            }
            for one in tokens
        ]
        write_line(sys.stdout, {"tokens": found})
        return
    if not tokens:
        print(f"There are no tokens. To make one: quantide token create {args.config} --role reader")
        if closed:
            print(f"Without one every request is refused. To change that: quantide token open {args.config}")
        return
    print(f"{'id':<10}{'role':<8}{'created':<22}{'expires':<30}name")
    for one in tokens:
        ends = _moment(one.expires) or "never"
        over = " (over)" if one.expires is not None and one.expires <= now else ""
        print(f"{one.id:<10}{one.role:<8}{_moment(one.created):<22}{ends + over:<30}{one.name}")


def _revoke_options(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("id", metavar="ID", help="as `quantide token list` shows it; not the token itself")


def _revoke(args: argparse.Namespace) -> None:
    from quantide.server.tokens import revoke_token

    with opened(args.config) as registry:
        revoke_token(registry, args.id)
    if args.json:
        write_line(sys.stdout, {"id": args.id, "revoked": True})
    else:
        print(f"The token {args.id} holds no longer, from the next request on.")


def _open(args: argparse.Namespace) -> None:
    from quantide.server.tokens import allow_anonymous

    with opened(args.config) as registry:
        allow_anonymous(registry)
    if args.json:
        write_line(sys.stdout, {"open": True})
    else:
        print(
            "When the server starts again, everyone on this machine may ask and change everything, without a token.\n"
            f"To close it: quantide token create {args.config} --role admin"
        )


def _moment(seconds: float | None) -> str | None:
    """A time as people and programs read it: in UTC, to the second."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


TOKEN_CREATE = Command(
    "token create",
    "Make a token, with which a program or a person may ask the server",
    "It is written to standard output, once: only a hash of it is kept. The server may run meanwhile.",
    (
        'quantide token create quantide.toml --role reader --name grafana --expires "90 days"',
        "TOKEN=$(quantide token create quantide.toml --role writer)",
    ),
    _create_options,
    _create,
    ("server",),
)
TOKEN_LIST = Command(
    "token list",
    "The tokens of a server: ids, roles, names, when they end",
    "The tokens themselves are not known any more.",
    ("quantide token list quantide.toml",),
    add_config,
    _list,
    ("server",),
)
TOKEN_REVOKE = Command(
    "token revoke",
    "End a token; it takes effect at once",
    "Sessions that were opened with it end too.",
    ("quantide token revoke quantide.toml 1a2b3c4d",),
    _revoke_options,
    _revoke,
    ("server",),
)
TOKEN_OPEN = Command(
    "token open",
    "Let everyone on this machine use the server without a token",
    "Revoke all tokens first: without this command a server that had one answers no request without a token. It takes "
    "effect when the server starts again. Other machines always need a token.",
    ("quantide token open quantide.toml",),
    add_config,
    _open,
    ("server",),
)
