"""The parameters that several read requests share."""

from __future__ import annotations

from typing import Final

from aos.read.operations.operation import SPELLED as SPELLED_NAME
from aos.read.operations.operation import Parameter, Schema
from aos.read.views.view import LIMIT, LIMIT_MAX
from aos.read.where import EXAMPLE

NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 512}
TEXT_KEY: Final[Schema] = {"type": "string", "maxLength": 65_536}
SEQ: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}
HASH: Final[Schema] = {"type": "string", "pattern": "^(blake3:)?[0-9a-f]{64}$"}
FLAG: Final[Schema] = {"type": "boolean"}

AT: Final = Parameter(
    name="at", schema=SEQ, metavar="SEQ",
    help="The world as it was after this record (default: now).",
)  # fmt: skip
LIMITED: Final = (
    Parameter(
        name="limit", metavar="N", help="Maximum number of rows.",
        schema={"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT},
    ),
    Parameter(
        name="offset", metavar="N", help="Number of rows to skip.",
        schema={"type": "integer", "minimum": 0, "maximum": 2**63 - 1, "default": 0},
    ),
)  # fmt: skip
WORKFLOW: Final = Parameter(
    name="workflow", schema=NAME, metavar="NAME",
    help="The name of the workflow, or a unique part of it.",
)  # fmt: skip
KEY: Final = Parameter(
    name="key", schema=TEXT_KEY, metavar="KEY", help="The key, as JSON or as plain text."
)
KEY_PREFIX: Final = Parameter(
    name="key_prefix", schema=TEXT_KEY, metavar="TEXT",
    help="Only cells whose key begins with this text.",
)  # fmt: skip
WHERE: Final = Parameter(
    name="where", schema={"type": "string", "minLength": 1, "maxLength": 1_024}, metavar="TEXT",
    help=f"Only those that pass this condition, such as {EXAMPLE}.",
)  # fmt: skip
GROUP_BY: Final = Parameter(
    name="group_by", schema=NAME, metavar="FIELD",
    help="Count also by the values of this name, which is one that a condition can have.",
)  # fmt: skip
SPELLED: Final = Parameter(
    name=SPELLED_NAME, schema=FLAG, is_for_people=True,
    help="Values as text for people: times, durations and bytes as the command shows them.",
)  # fmt: skip
