"""Read requests by name, as a process of a node is asked for them (spec/node-api.md, N-114).

Short documents are made in the front, from the follower's state. Those that may take long are made
in a reader process (``readers.py``) in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aos.errors import BadUsage
from aos.node.batches.batch_files import batch_items
from aos.read.operations import table
from aos.read.operations.operation import Query, ReadOperation, is_always_long
from aos.read.views.record_view import Document
from aos.read.views.view import View

LIST_BATCH_ITEMS: Final = ReadOperation(
    name="list_batch_items", summary="List the items of a batch before it begins.",
    document=batch_items, is_long=is_always_long,
)  # fmt: skip
"""The front needs it for itself."""

BY_NAME: Final[Mapping[str, ReadOperation]] = {
    **table.BY_NAME, LIST_BATCH_ITEMS.name: LIST_BATCH_ITEMS,
}  # fmt: skip


def read_document(view: View, operation: str, query: Query) -> Document:
    """Make the document of a read request.

    Raises:
        BadUsage: The query names something that the world does not have, or a record after the
            last one of the view.
    """
    request, end = BY_NAME[operation], view.state.next_seq - 1
    for parameter in request.parameters:
        seq = query.get(parameter.name, 0) if parameter.is_record else 0
        if seq > end:
            raise BadUsage(f"{parameter.name}: expected a record, 1 to {end}, found {seq}")
    return request.read(view, query)
