"""A message to a flow that no operation has consumed for good (spec/flow.md, FL-14, FL-25)."""

from __future__ import annotations

from dataclasses import dataclass

from aos.flow.shapes import expect_bytes, expect_list, expect_nat, expect_text
from aos.values.cbor import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An event of ``schema``, as canonical CBOR. ``number`` is how many messages came to the flow
    before it."""

    number: int
    schema: str
    value: bytes


def read_messages(value: Value, value_path: str) -> tuple[Message, ...]:
    """Read a list of messages at ``value_path``. Raises ``ValueProblem``."""
    return tuple(
        _message(message, f"{value_path}[{index}]")
        for index, message in enumerate(expect_list(value, value_path))
    )


def _message(value: Value, value_path: str) -> Message:
    number, schema, data = expect_list(value, value_path, 3)
    return Message(
        number=expect_nat(number, f"{value_path}[0]"),
        schema=expect_text(schema, f"{value_path}[1]"),
        value=expect_bytes(data, f"{value_path}[2]"),
    )
