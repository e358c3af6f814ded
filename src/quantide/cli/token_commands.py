"""Commands for the tokens of a server: create, list, revoke, open."""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from quantide.cli.command import Command, add_config
from quantide.errors import InvalidArgumentError
from quantide.summary.value_json import write_line

if TYPE_CHECKING:
    from quantide.server.server_registry import ServerRegistry


@contextmanager
def open_registry(config_path: str) -> Iterator["ServerRegistry"]:
    """Open the registry of a configuration's server; the server may be running."""
    from quantide.config import read_config
    from quantide.server.server_registry import ServerRegistry

    registry = ServerRegistry(read_config(config_path).server.state)
    try:
        yield registry
    finally:
        registry.close()


def _add_create_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument(
        "--role",
        required=True,
        help="a pusher pushes rows and nothing else, a reader queries, a writer also pushes rows and registers queries "
        "and alarms, an admin also manages tokens",
    )
    parser.add_argument("--streams", metavar="NAMES", help="streams it is limited to, such as latency,errors (all)")
    parser.add_argument("--name", help="its owner, for `quantide token list` (default: the role)")
    parser.add_argument("--expires", metavar="TIME", help='how long it is valid, such as "90 days" (default: forever)')


def _create(args: argparse.Namespace) -> None:
    from quantide.server.http.tokens import create_token
    from quantide.windows.time_clock import read_span

    expires = None if args.expires is None else time.time() + float(read_span(args.expires))
    name = args.role if args.name is None else args.name
    streams = None if args.streams is None else _read_streams(args.config, args.streams)
    with open_registry(args.config) as registry:
        id, token = create_token(registry, name, args.role, expires, streams)
    if args.json:
        body = {
            "id": id,
            "name": name,
            "role": args.role,
            "expires": _format_time(expires),
            "streams": streams,
            "token": token,
        }
        write_line(sys.stdout, body)
        return
    print(token, flush=True)
    validity = "" if expires is None else f" until {_format_time(expires)}"
    validity += "" if streams is None else f" for {', '.join(streams)}"
    print(
        f"The token {id} of the {args.role} {name!r} is valid{validity}. It is shown only now: store it safely.\n"
        f"To revoke it: quantide token revoke {args.config} {id}",
        file=sys.stderr,
    )


def _read_streams(config_path: str, text: str) -> list[str]:
    """Return the names in a list with commas; raise if one is not a stream of the configuration."""
    from quantide.config import read_config

    names, known = [name.strip() for name in text.split(",")], read_config(config_path).streams
    for name in names:
        if name not in known:
            raise InvalidArgumentError(f"--streams: there is no stream {name!r}; there are {', '.join(known)}")
    return sorted(set(names))


def _list(args: argparse.Namespace) -> None:
    from quantide.server.http.tokens import list_tokens, tokens_required

    with open_registry(args.config) as registry:
        tokens, closed = list_tokens(registry), tokens_required(registry)
    now = time.time()
    if args.json:
        entries = [
            {
                "id": token.id,
                "name": token.name,
                "role": token.role,
                "created": _format_time(token.created),
                "expires": _format_time(token.expires),
                "expired": token.expires is not None and token.expires <= now,
                "streams": None if token.streams is None else sorted(token.streams),
            }
            for token in tokens
        ]
        write_line(sys.stdout, {"tokens": entries, "open": not closed})
        return
    if not tokens:
        print(f"There are no tokens. To create one: quantide token create {args.config} --role reader")
        if closed:
            print(f"Without one every request is refused. To change that: quantide token open {args.config}")
        return
    print(f"{'id':<10}{'role':<8}{'created':<22}{'expires':<30}name")
    for token in tokens:
        expires = _format_time(token.expires) or "never"
        expired = " (expired)" if token.expires is not None and token.expires <= now else ""
        limited = "" if token.streams is None else f"  ({', '.join(sorted(token.streams))})"
        columns = f"{token.id:<10}{token.role:<8}{_format_time(token.created):<22}{expires + expired:<30}"
        print(f"{columns}{token.name}{limited}")


def _add_revoke_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("id", metavar="ID", help="the id that `quantide token list` shows, not the token itself")


def _revoke(args: argparse.Namespace) -> None:
    from quantide.server.http.tokens import revoke_token

    with open_registry(args.config) as registry:
        revoke_token(registry, args.id)
    if args.json:
        write_line(sys.stdout, {"id": args.id, "revoked": True})
    else:
        print(f"The token {args.id} is revoked, from the next request on.")


def _open(args: argparse.Namespace) -> None:
    from quantide.server.http.tokens import allow_anonymous

    with open_registry(args.config) as registry:
        allow_anonymous(registry)
    if args.json:
        write_line(sys.stdout, {"open": True})
    else:
        print(
            "After its next start, everyone on this machine may read and change everything without a token.\n"
            f"To close it: quantide token create {args.config} --role admin"
        )


def _format_time(seconds: float | None) -> str | None:
    """Return a time as ISO 8601 text in UTC, to the second."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


TOKEN_CREATE = Command(
    "token create",
    "Create a token for a program or a person that uses the server",
    "Prints it to standard output, once: only a hash of it is stored. The server may be running.",
    (
        'quantide token create quantide.toml --role reader --name grafana --expires "90 days"',
        "TOKEN=$(quantide token create quantide.toml --role writer)",
        "quantide token create quantide.toml --role pusher --streams latency,errors",
    ),
    _add_create_arguments,
    _create,
    ("server",),
)
TOKEN_LIST = Command(
    "token list",
    "List the tokens of a server: ids, roles, names, expiry",
    "The tokens themselves are not stored and cannot be shown.",
    ("quantide token list quantide.toml",),
    add_config,
    _list,
    ("server",),
)
TOKEN_REVOKE = Command(
    "token revoke",
    "Revoke a token; it takes effect at once",
    "Sessions opened with it end too.",
    ("quantide token revoke quantide.toml 1a2b3c4d",),
    _add_revoke_arguments,
    _revoke,
    ("server",),
)
TOKEN_OPEN = Command(
    "token open",
    "Let everyone on this machine use the server without a token",
    "Revoke all tokens first. Without this command, a server that ever had a token rejects requests without one. It "
    "takes effect when the server restarts. Other machines always need a token.",
    ("quantide token open quantide.toml",),
    add_config,
    _open,
    ("server",),
)
