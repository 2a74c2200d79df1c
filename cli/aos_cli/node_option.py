"""The node that a command talks to: ``--node``, else ``AOS_NODE`` (spec/cli.md, C-92)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from aos.audit.views.record_view import Document

TOKEN_VARIABLE: Final = "AOS_TOKEN"  # noqa: S105  # the name of a variable

NodeUrl = Annotated[
    str | None,
    typer.Option(
        "--node",
        envvar="AOS_NODE",
        metavar="URL",
        help="The node: http://…, https://…, or the folder of a world on this machine.",
    ),
]


def node_token() -> str | None:
    """The secret of the token in ``AOS_TOKEN``, which is never given on a command line."""
    return os.environ.get(TOKEN_VARIABLE) or None


def from_node(node: str, path: str, **query: object) -> Document:
    """Return the document of a reading route of a node. Parameters that are None or False are left
    out. Raises as ``Client``."""
    # The client of a node imports much that the reader of a folder does not need.
    from aos_cli import node_reading  # noqa: PLC0415

    given = {name: each for name, each in query.items() if each is not None and each is not False}
    return node_reading.document(node, path, **given)
