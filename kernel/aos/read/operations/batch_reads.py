"""Read requests about batches, which the front of a node carries out: only it has them."""

from __future__ import annotations

from typing import Final

from aos.read.operations.operation import Parameter, ReadOperation, Schema

BATCH_ID: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 64}

READ_BATCHES: Final = ReadOperation(
    name="read_batches", path="/v1/batches", command="batch list",
    summary="List batches, the newest first.", answers=("BatchesDocument",),
)  # fmt: skip

READ_BATCH: Final = ReadOperation(
    name="read_batch", path="/v1/batch", command="batch show",
    summary="Show a batch: its counts, and the first refusals.",
    parameters=(
        Parameter(
            name="id", schema=BATCH_ID, help="Its id.", required=True, metavar="ID",
            is_argument=True, command_help="The id of the batch.",
        ),
    ),
    answers=("BatchDocument",),
)  # fmt: skip
