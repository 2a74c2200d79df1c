"""Names below the state of a flow, whose values have schemas of their own (spec/search.md, SE-5a).

input                 by the schema of the flow's start
output, view          the state names the schema: of all schemas of the manifest that have the
                      name, the type if it is one; else a value has the type that it looks like
error                 kind, code, message and path of the failure
status                one of the statuses of a flow
"""

from __future__ import annotations

from typing import Any, Final

from aos.flow.declaration import declared_flow
from aos.flow.flow_state import FLOW_STATUSES, OTHER_SPELLINGS
from aos.manifest.effective import Effective
from aos.values.cbor import decode_record
from aos.values.errors import ValueProblem
from aos.values.expressions import Type

INPUT: Final = "input"
PACKED: Final = (INPUT, "output", "view")
"""Fields of a flow's state that hold canonical CBOR of a schema."""

ERROR: Final = "error"
FAILURE_FIELDS: Final = ("kind", "code", "message", "path")
"""The first items of a failure (FL-12)."""

STATUS: Final = "status"

_OF_THE_KERNEL: Final = ("aos/", "sys/")


def packed_types(manifest: Effective, workflow: str, field: str) -> list[Type]:
    """The types that a value of one of ``PACKED`` may have: the schema of the input, or all
    schemas of the world."""
    declaration = declared_flow(manifest, workflow)
    if field == INPUT and declaration is not None:
        return [declaration.start.type]
    return [
        schema.type
        for name, schema in sorted(manifest.schemas.items())
        if not name.startswith(_OF_THE_KERNEL)
    ]


def unpacked(state: Any, field: str) -> Any:
    """The decoded value of one of ``PACKED``, or the failure; None if there is none."""
    data = state.get(field) if isinstance(state, dict) else None
    if not isinstance(data, bytes):
        return None
    try:
        value = decode_record(data)
    except ValueProblem:
        return None
    if field != ERROR:
        return value
    fields = value if isinstance(value, list) else []
    return dict(zip(FAILURE_FIELDS, fields, strict=False))


def status_of(leaf: Any) -> str | None:
    """A status as it is shown, of one that states may store in another spelling."""
    status = OTHER_SPELLINGS.get(leaf, leaf) if isinstance(leaf, str) else None
    return status if status in FLOW_STATUSES else None
