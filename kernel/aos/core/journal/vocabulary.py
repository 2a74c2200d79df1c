"""The fixed words of inputs and records: statuses, outcomes, phases, modes, actions.

Text is checked where it enters: admission looks the word of an input up with ``word_of`` and
refuses an unknown one; for the record gate (``record_codec``) an unknown word is damage. Everywhere
else these words are ``Literal`` types, so that the type checker proves each ``match`` complete.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, TypeVar

ReceiptStatus: TypeAlias = Literal["ok", "error", "timeout", "canceled"]
STATUSES: Final[tuple[ReceiptStatus, ...]] = ("ok", "error", "timeout", "canceled")
"""The ways in which an effect ends; its receipt names one."""

ReceiptOutcome: TypeAlias = Literal["delivered", "rejected", "faulted", "abandoned", "overloaded"]
OUTCOMES: Final[tuple[ReceiptOutcome, ...]] = (
    "delivered", "rejected", "faulted", "abandoned", "overloaded",
)  # fmt: skip
"""The results of a receipt for its cell: see ``records.Receipt``."""

CellStatus: TypeAlias = Literal["running", "waiting", "completed", "failed"]
CELL_STATUSES: Final[tuple[CellStatus, ...]] = ("running", "waiting", "completed", "failed")

DeclaredStatus: TypeAlias = Literal["running", "completed", "failed"]
DECLARED_STATUSES: Final[tuple[DeclaredStatus, ...]] = ("running", "completed", "failed")
"""A module declares one of these about its instance, or nothing."""

TerminalStatus: TypeAlias = Literal["completed", "failed"]
TERMINAL: Final[tuple[TerminalStatus, ...]] = ("completed", "failed")

HaltPhase: TypeAlias = Literal["held", "parked"]
HALTS: Final[tuple[HaltPhase, ...]] = ("held", "parked")
"""Why an intent does not run although it is open: see ``records.Attempt``."""

AttemptPhase: TypeAlias = Literal["begun", "lost", "held", "parked"]
PHASES: Final[tuple[AttemptPhase, ...]] = ("begun", "lost", "held", "parked")

ApplyMode: TypeAlias = Literal["strict", "pin", "migrate"]
MODES: Final[tuple[ApplyMode, ...]] = ("strict", "pin", "migrate")
"""The ways in which a manifest comes into force: see ``STRICT``, ``PIN`` and ``MIGRATE`` of
``inputs``."""

OpenWork: TypeAlias = Literal["cancel", "keep"]
OPEN_WORK: Final[tuple[OpenWork, ...]] = ("cancel", "keep")
"""A fork cancels the open intents of its parent, or keeps them open."""

ControlAction: TypeAlias = Literal[
    "retry", "skip", "cancel", "erase", "unpin", "settle", "end", "remove", "clock"
]
ACTIONS: Final[tuple[ControlAction, ...]] = (
    "retry", "skip", "cancel", "erase", "unpin", "settle", "end", "remove", "clock",
)  # fmt: skip

GovernanceAction: TypeAlias = Literal["propose", "report", "approve", "reject", "withdraw"]
GOVERNANCE_ACTIONS: Final[tuple[GovernanceAction, ...]] = (
    "propose", "report", "approve", "reject", "withdraw",
)  # fmt: skip

Vote: TypeAlias = Literal["approve", "reject"]
VOTES: Final[tuple[Vote, ...]] = ("approve", "reject")

ClosedStatus: TypeAlias = Literal["rejected", "withdrawn", "applied", "stale"]
CLOSED_STATUSES: Final[tuple[ClosedStatus, ...]] = ("rejected", "withdrawn", "applied", "stale")
"""How a proposal ends: see ``proposals.Proposals``."""

ProposalStatus: TypeAlias = Literal["open", "approved", "rejected", "withdrawn", "applied", "stale"]

SettledStatus: TypeAlias = Literal["ok", "error"]
SETTLED_STATUSES: Final[tuple[SettledStatus, ...]] = ("ok", "error")
"""The ways in which an operator may settle an intent."""

ControlStatus: TypeAlias = Literal["ok", "error", "completed", "failed"]
CONTROL_STATUSES: Final[tuple[ControlStatus, ...]] = ("ok", "error", "completed", "failed")
"""The statuses that a command may name: those of ``SETTLED_STATUSES`` and ``TERMINAL``."""

Word = TypeVar("Word", bound=str)


def word_of(words: tuple[Word, ...], text: object) -> Word | None:
    """Return the word of a closed set that ``text`` spells; None if it spells none of them."""
    for word in words:
        if word == text:
            return word
    return None
