"""An operator's command about something that a person has seen (spec/page.md, PG-62): it is carried
out on that, or refused as stale.

A person looks at a cell that failed at record 41, and presses Retry:

    cell still failed at 41 ──▶ a control record      it failed at 57 since, or runs ──▶ refused
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from aos.core.decide.answers import Refusal, Rule
from aos.core.decide.control import decide_control
from aos.core.journal.identity import ENTROPY_BYTES
from aos.core.journal.inputs import CANCEL, UNPIN, ControlInput
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, Stamp
from aos.core.state.state import State
from aos.core.state.version import is_pinned, runs_under
from aos.host.door.way import PAUSE_S
from aos.host.door.writer import SIGNED_AGAIN_MAX
from aos.node.operating import admitted, must_sign
from aos.node.problems import Problem
from aos.node.refusals import refused
from aos.node.services import Services
from aos.values.digests import Hash

STALE: Final = "form_is_stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCommand:
    """A command about a cell, or ``cancel`` about an intent."""

    action: str
    cell: CellId | None = None
    intent: Hash | None = None

    def answered_seq(self, state: State) -> int | None:
        """Return the record that the command answers: the fault of the cell, the manifest that it
        is pinned to, or the step that opened the intent. None if there is nothing to answer."""
        if self.action == CANCEL:
            intent = None if self.intent is None else state.intents.get(self.intent)
            is_ending = any(owed.intent == self.intent for owed in state.owed)
            return None if intent is None or is_ending else intent.seq
        cell = None if self.cell is None else state.cells.get(self.cell)
        if cell is None:
            return None
        if self.action == UNPIN:
            return runs_under(state, cell) if is_pinned(state, cell) else None
        return None if cell.fault is None else cell.fault_seq

    def refusal(self, state: State, read: BlobReader) -> Refusal | None:
        """Return why the world would refuse the command now; None if it would not. Nothing is
        changed."""
        control = ControlInput(
            action=self.action, principal="", serial=0, signature=b"", cell=self.cell,
            intent=self.intent, value=None, status=None, payload=None, why=None,
        )  # fmt: skip
        stamp = Stamp(ns=state.clock_ns, entropy=bytes(ENTROPY_BYTES))
        decided = decide_control(state, control, stamp, read)
        return decided if isinstance(decided, Refusal) else None


async def plan(services: Services, command: SeenCommand) -> int:
    """Return the record that a command would answer now.

    Raises:
        AosError, Problem: As the follower; or the world would refuse the command.
    """
    await services.follower.advance_to()
    state = services.follower.state
    refusal = command.refusal(state, services.follower.store.blob)
    if refusal is not None:
        raise refused(refusal, state.manifest)
    seen_seq = command.answered_seq(state)
    if seen_seq is None:
        raise _stale()
    return seen_seq


async def carry_out(services: Services, command: SeenCommand, seen_seq: int) -> int:
    """Submit a command, signed by the kernel process, and return its record.

    It is signed for the number of control records in the state that ``seen_seq`` was compared with.
    So the world refuses it if another command came in meanwhile, and the comparison is made again.

    Raises:
        AosError: As the link. The command may have been carried out.
        Problem: The node signs no commands (403), or it is refused or stale (409).
    """
    must_sign(services)
    for _ in range(SIGNED_AGAIN_MAX):
        await services.follower.advance_to()
        state = services.follower.state
        if command.answered_seq(state) != seen_seq:
            raise _stale()
        answer = await services.link.operate(
            command.action, cell=command.cell, intent=command.intent, controls=state.controls
        )
        if not (isinstance(answer, Refusal) and answer.rule is Rule.CONTROL_SERIAL_IS_WRONG):
            seq: int = admitted(services, answer)["seq"]
            return seq
        await asyncio.sleep(PAUSE_S)
    raise Problem(
        503, "commands_are_busy", "other commands came first several times (send it again)",
        retry_after_s=1,
    )  # fmt: skip


def _stale() -> Problem:
    return Problem(
        409, STALE,
        "this was done already, by this form or another command, or has changed since the form was "
        "shown (open the page again)",
    )  # fmt: skip
