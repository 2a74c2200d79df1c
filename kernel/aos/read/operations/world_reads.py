"""Read requests about the world as a whole: its counts, its clock, its manifest,
and the executors' work."""

from __future__ import annotations

from typing import Final

from aos.errors import BadUsage
from aos.read.operations.across import ByShard, Same
from aos.read.operations.operation import AT, NAME, SEQ, Parameter, Query, ReadOperation
from aos.read.views import clock_view, world_view
from aos.read.views.record_view import Document
from aos.read.views.view import View


def _manifest(view: View, query: Query) -> Document:
    if "since" not in query:
        return world_view.manifest(view, query.get("name"))
    if "name" in query:
        raise BadUsage("manifest: expected one of name and since")
    from aos.read.views.manifest_changes import manifest_changes  # noqa: PLC0415  # few compare

    return manifest_changes(view, query["since"])


READ_WORLD: Final = ReadOperation(
    name="read_world", path="/v1/world", command="inspect world",
    summary="Show the world at a glance: journal, manifest, cells and effects.",
    parameters=(AT,),
    answers=("WorldDocument", "GroupDocument"), has_process=True, across=ByShard(),
    document=lambda view, _: world_view.world(view),
)  # fmt: skip

READ_CLOCK: Final = ReadOperation(
    name="read_clock", path="/v1/clock", command="clock",
    summary="Show the journal clock, the machine's clock, and timers that are too late.",
    answers=("ClockDocument",), document=lambda view, _: clock_view.clock(view),
)  # fmt: skip

READ_MANIFEST: Final = ReadOperation(
    name="read_manifest", path="/v1/manifest", command="inspect manifest",
    summary="Show the manifest in force, or one of its definitions.",
    parameters=(
        Parameter(
            name="name", schema=NAME, help="One definition, whole.", metavar="NAME",
            is_argument=True,
        ),
        Parameter(
            name="since", schema=SEQ, metavar="SEQ",
            help="Instead, the changes since the manifest in force after this record.",
        ),
        AT,
    ),
    answers=("ManifestDocument", "ManifestDifference", "Definition"), document=_manifest,
    across=Same(),
)  # fmt: skip

READ_WORK: Final = ReadOperation(
    name="read_work", path="/v1/work",
    summary="Show the current work of the executors in the kernel process.",
    answers=("WorkDocument",),
)  # fmt: skip
