"""``aos inspect world`` and ``manifest`` (spec/cli.md, C-31, C-32).

They are apart from the other commands of ``inspect``, whose views take as long to import as these
commands take to run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from aos.errors import AosError, BadUsage
from aos.host.folder.folder import open_folder
from aos.host.transfer.adopting import origin_at
from aos.read.views import world_view
from aos.read.views.process_view import process_document
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos_cli import inspect_text as text
from aos_cli.node_option import NodeUrl, from_node
from aos_cli.open_view import looking_at, work_of
from aos_cli.options import DEFAULT_WORLD, At, Json, World, number


def inspect_world(
    *, at: At = None, node: NodeUrl = None, world: World = DEFAULT_WORLD, json: Json = False
) -> None:
    if node is not None:
        document = {**from_node(node, "/v1/world", at=at), "path": node}
        text.show(document, text.world, json=json)
        return
    with looking_at(world, at) as view:
        document = world_view.world(view)
    origin = origin_at(world)
    document = {
        "path": str(world),
        **document,
        "process": _process(world) if at is None else None,
        "origin": None if origin is None else origin.value,
    }
    text.show(document, text.world, json=json)


def _process(world: Path) -> Document | None:
    """The process that runs the world now; None if there is none or it does not answer."""
    if not os.path.lexists(open_folder(world).socket):
        return None
    # The client imports the writing half of the kernel, which only this answer needs.
    from aos.host.door.remote import ask_running  # noqa: PLC0415

    try:
        status = ask_running(world, "status")
    except AosError:
        return None
    return process_document(status, work_of(world))


def inspect_manifest(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One definition, whole.")
    ] = None,
    *,
    since: Annotated[
        int | None,
        typer.Option(
            metavar="SEQ",
            parser=number,
            help="Show the changes since the manifest that was in force after this record.",
        ),
    ] = None,
    at: At = None,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if name is not None and since is not None:
        raise BadUsage("expected one of NAME and --since")
    if node is not None:
        document = from_node(node, "/v1/manifest", name=name, since=since, at=at)
    else:
        with looking_at(world, at) as view:
            document = _manifest(view, name, since)
    if since is not None:
        text.show(document, _changes, json=json)
        return
    text.show(document, text.manifest if name is None else text.value, json=json)


def _manifest(view: View, name: str | None, since: int | None) -> Document:
    if since is None:
        return world_view.manifest(view, name)
    from aos.read.views.manifest_changes import manifest_changes  # noqa: PLC0415  # imports much

    return manifest_changes(view, since)


def _changes(document: Document) -> None:
    from aos_cli.apply_text import show_changes  # noqa: PLC0415  # as above

    show_changes(document["changes"])
