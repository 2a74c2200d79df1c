"""The closed set of fault kinds. A fault fails one instance and nothing else (K-33).

A recorded fault is a kind and our own words; the engine's text is never hashed. Semantic faults
must be reproduced by replay. Environmental ones depend on the machine: replay takes the record and
reports how many it did not reproduce.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from aos.errors import Unavailable, sentence

MESSAGE_BYTES_MAX: Final = 4096
"""Longest message of a fault, and longest problem of a receipt; both are in the journal."""


class FaultKind(enum.Enum):
    """Spelling is part of the journal format."""

    # Faults of the module while it ran.
    TRAP = "trap"
    FUEL = "fuel"
    MEMORY = "memory"
    OUTPUT_TOO_LARGE = "output_too_large"
    # Faults of its output.
    OUTPUT_MALFORMED = "output_malformed"
    STATE_INVALID = "state_invalid"
    ANNOTATION_INVALID = "annotation_invalid"
    EVENT_INVALID = "event_invalid"
    KEY_INVALID = "key_invalid"
    EFFECT_UNDECLARED = "effect_undeclared"
    PARAMS_INVALID = "params_invalid"
    TOO_MANY_EVENTS = "too_many_events"
    TOO_MANY_EFFECTS = "too_many_effects"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    OPEN_WORK_EXCEEDED = "open_work_exceeded"
    DELETED_WITH_EFFECTS = "deleted_with_effects"
    CASCADE_TOO_DEEP = "cascade_too_deep"
    CASCADE_TOO_LONG = "cascade_too_long"
    GUEST = "guest"
    # Faults of its mail.
    RECEIPT_INVALID = "receipt_invalid"
    OVERLOADED = "overloaded"
    # Faults of the machine.
    STACK = "stack"
    HOST_MEMORY = "host_memory"
    WATCHDOG = "watchdog"


ENVIRONMENTAL: Final = frozenset({FaultKind.STACK, FaultKind.HOST_MEMORY, FaultKind.WATCHDOG})
FROM_OUTSIDE: Final = frozenset({FaultKind.RECEIPT_INVALID, FaultKind.OVERLOADED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why an instance failed. ``detail`` are bytes that a module added to its own fault."""

    kind: FaultKind
    message: str
    detail: bytes | None = None

    @property
    def by_entry(self) -> bool:
        """Whether running an entry failed the instance; the entry is still first in the mailbox."""
        return self.kind not in FROM_OUTSIDE

    @property
    def environmental(self) -> bool:
        return self.kind in ENVIRONMENTAL


def refuse_host_memory(fault: Fault, location: str) -> None:
    """Raise Unavailable if a step that was only tried lacked memory (A-85, FL-90): a machine with
    more of it could decide the step. ``location`` names the step."""
    if fault.kind is FaultKind.HOST_MEMORY:
        raise Unavailable(
            sentence(
                f"this machine could not run it: {fault.message}",
                location=location,
                hint="try where there is more memory",
            )
        )


def clipped(text: str) -> str:
    """``text``, cut so that it fits a record. The path into a hostile value can be very long."""
    data = text.encode()
    if len(data) <= MESSAGE_BYTES_MAX:
        return text
    return data[: MESSAGE_BYTES_MAX - 3].decode(errors="ignore") + "…"
