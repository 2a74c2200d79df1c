"""The one table for reading: every read request, in the order of the HTTP API.

python -m aos.read.operations.table    print the table of spec/node-api.md (N-114)
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from aos.private_memory import keep_memory_private
from aos.read.operations import (
    batch_reads,
    cell_reads,
    cluster_reads,
    flow_reads,
    intent_reads,
    journal_reads,
    linear_reads,
    proposal_reads,
    schedule_reads,
    trace_reads,
    world_reads,
)
from aos.read.operations.operation import ReadOperation, is_always_long, is_never_long

WORLD: Final = (
    world_reads.READ_WORLD, world_reads.READ_CLOCK, world_reads.READ_MANIFEST,
    cell_reads.READ_CELLS, cell_reads.READ_CELL_COUNTS, cell_reads.READ_CELL,
    intent_reads.READ_INTENTS, intent_reads.READ_INTENT, cell_reads.READ_FAULTS,
    journal_reads.READ_RECORDS, journal_reads.READ_RECORD, journal_reads.READ_VALUE,
    journal_reads.READ_BLOB, trace_reads.READ_TRACE, world_reads.READ_WORK,
)  # fmt: skip
PROPOSALS: Final = (proposal_reads.READ_PROPOSALS, proposal_reads.READ_PROPOSAL)
FLOWS: Final = (flow_reads.READ_FLOWS, flow_reads.READ_FLOW)
LINEAR: Final = (
    linear_reads.READ_PLANS, linear_reads.READ_LINEAR_INSTANCES, linear_reads.READ_LINEAR_COUNTS,
    linear_reads.READ_LINEAR_INSTANCE,
)  # fmt: skip
SCHEDULES: Final = (schedule_reads.READ_SCHEDULES, schedule_reads.READ_SCHEDULE)
BATCHES: Final = (batch_reads.READ_BATCHES, batch_reads.READ_BATCH)
CLUSTER: Final = (cluster_reads.READ_CLUSTER, cluster_reads.READ_CLUSTER_CHECK)

OPERATIONS: Final = (*WORLD, *PROPOSALS, *FLOWS, *LINEAR, *SCHEDULES, *BATCHES, *CLUSTER)
"""The operations of the HTTP API."""

BY_NAME: Final[Mapping[str, ReadOperation]] = {
    operation.name: operation for operation in (*OPERATIONS, journal_reads.READ_MINUTES)
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


def _cost(operation: ReadOperation) -> str:
    if operation.document is None:
        return "never"
    if operation.is_long is is_always_long:
        return "always"
    conditions = ["with `at`"] if operation.has("at") else []
    if operation.is_long is not is_never_long:
        conditions.append("by its query")
    return " or ".join(conditions) or "never"


if __name__ == "__main__":
    keep_memory_private()
    sys.stdout.write(as_markdown())
