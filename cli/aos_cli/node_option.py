"""The node that a command talks to: ``--node``, else ``AOS_NODE`` (spec/cli.md, C-92)."""

from __future__ import annotations

import os
from typing import Annotated, Final

import typer

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
