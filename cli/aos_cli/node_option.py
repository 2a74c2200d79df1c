"""The node that a command talks to: ``--node``, else ``AOS_NODE`` (spec/cli.md, C-92)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aos_cli.options import option

if TYPE_CHECKING:
    from aos.client import Client

TOKEN_VARIABLE: Final = "AOS_TOKEN"  # noqa: S105  # the name of a variable


def _unless_folder(context: typer.Context, node: str | None) -> str | None:
    """Prefer ``--world`` on the command line to a node in the environment."""
    sources = [context.get_parameter_source(name) for name in ("node", "world")]
    is_folder = [source and source.name for source in sources] == ["ENVIRONMENT", "COMMANDLINE"]
    return None if is_folder else node


NodeUrl = Annotated[
    str | None,
    option(
        "URL",
        "The node: http://…, https://…, or the folder of a world on this machine.",
        envvar="AOS_NODE",
        callback=_unless_folder,
    ),
]


def node_token() -> str | None:
    """The secret of the token in ``AOS_TOKEN``, which is never given on a command line."""
    return os.environ.get(TOKEN_VARIABLE) or None


def client_of(node: str) -> Client:
    """Return a client of a node, with the token in ``AOS_TOKEN``."""
    # The client of a node imports much that the commands on a folder do not need.
    from aos.client import Client  # noqa: PLC0415

    return Client(node, token=node_token())
