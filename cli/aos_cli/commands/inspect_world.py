"""``aos inspect world`` and ``manifest`` (spec/cli.md, C-31, C-32).

They are apart from the other commands of ``inspect``, whose views take as long to import as these
commands take to run.
"""

from __future__ import annotations

from aos.errors import BadUsage
from aos.read.operations.world_reads import READ_MANIFEST, READ_WORLD
from aos.read.views.record_view import Document
from aos_cli import inspect_text as text
from aos_cli.reading_command import ReadingCall, printed, reading

inspect_world = printed(READ_WORLD, text.world)


@reading(READ_MANIFEST)
def inspect_manifest(call: ReadingCall) -> None:
    name, since = call.query["name"], call.query["since"]
    if name is not None and since is not None:
        raise BadUsage("expected one of NAME and --since")
    if since is not None:
        call.show(call.document(), _changes)
    else:
        call.show(call.document(), text.manifest if name is None else text.value)


def _changes(document: Document) -> None:
    from aos_cli.apply_text import show_changes  # noqa: PLC0415  # imports much

    show_changes(document["changes"])
