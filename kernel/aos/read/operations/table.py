"""The one table for reading: every read request, in the order of the HTTP API.

python -m aos.read.operations.table    print the table of spec/node-api.md (N-114)
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from aos.read.operations.batch_reads import READ_BATCH, READ_BATCHES
from aos.read.operations.cell_reads import READ_CELL, READ_CELL_COUNTS, READ_CELLS, READ_FAULTS
from aos.read.operations.flow_reads import READ_FLOW, READ_FLOWS
from aos.read.operations.intent_reads import READ_INTENT, READ_INTENTS
from aos.read.operations.journal_reads import (
    READ_BLOB,
    READ_MINUTES,
    READ_RECORD,
    READ_RECORDS,
    READ_VALUE,
)
from aos.read.operations.linear_reads import (
    READ_LINEAR_COUNTS,
    READ_LINEAR_INSTANCE,
    READ_LINEAR_INSTANCES,
    READ_PLANS,
)
from aos.read.operations.operation import Operation, is_always_long, is_never_long
from aos.read.operations.proposal_reads import READ_PROPOSAL, READ_PROPOSALS
from aos.read.operations.schedule_reads import READ_SCHEDULE, READ_SCHEDULES
from aos.read.operations.trace_reads import READ_TRACE
from aos.read.operations.world_reads import READ_CLOCK, READ_MANIFEST, READ_WORK, READ_WORLD

WORLD: Final = (
    READ_WORLD, READ_CLOCK, READ_MANIFEST, READ_CELLS, READ_CELL_COUNTS, READ_CELL, READ_INTENTS,
    READ_INTENT, READ_FAULTS, READ_RECORDS, READ_RECORD, READ_VALUE, READ_BLOB, READ_TRACE,
    READ_WORK,
)  # fmt: skip
PROPOSALS: Final = (READ_PROPOSALS, READ_PROPOSAL)
FLOWS: Final = (READ_FLOWS, READ_FLOW)
LINEAR: Final = (
    READ_PLANS, READ_LINEAR_INSTANCES, READ_LINEAR_COUNTS, READ_LINEAR_INSTANCE,
)  # fmt: skip
SCHEDULES: Final = (READ_SCHEDULES, READ_SCHEDULE)
BATCHES: Final = (READ_BATCHES, READ_BATCH)

OPERATIONS: Final = (*WORLD, *PROPOSALS, *FLOWS, *LINEAR, *SCHEDULES, *BATCHES)
"""The operations of the HTTP API."""

BY_NAME: Final[Mapping[str, Operation]] = {
    operation.name: operation for operation in (*OPERATIONS, READ_MINUTES)
}


def as_markdown() -> str:
    """The table of spec/node-api.md: a row for each operation of the HTTP API."""
    rows = ["| `GET` | the command | parameters | takes long |", "|---|---|---|---|"]
    for operation in OPERATIONS:
        command = f"`aos {operation.command}`" if operation.command else ""
        parameters = ", ".join(
            f"`{parameter.name}`" + (" (required)" if parameter.required else "")
            for parameter in operation.parameters
        )
        rows.append(f"| `{operation.path}` | {command} | {parameters} | {_cost(operation)} |")
    return "\n".join(rows) + "\n"


def _cost(operation: Operation) -> str:
    if operation.document is None:
        return "never"
    if operation.is_long is is_always_long:
        return "always"
    conditions = ["with `at`"] if operation.has("at") else []
    if operation.is_long is not is_never_long:
        conditions.append("by its query")
    return " or ".join(conditions) or "never"


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
