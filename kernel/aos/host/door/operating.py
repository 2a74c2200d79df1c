"""Sign commands of clients with an operator's key of this process (spec/host.md, H-59f).

The client has proved elsewhere that it may operate the world, for example with a token of the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from nacl.signing import SigningKey

from aos.core.decide.answers import Answer, Refusal, Rule
from aos.core.journal.governing import PROPOSE, GovernanceInput
from aos.core.journal.inputs import Input, ManifestInput
from aos.core.journal.records import Principal
from aos.core.journal.vocabulary import VOTES
from aos.errors import BadUsage
from aos.host.apply.commands import principal_of, sign_control
from aos.host.apply.signed_governance import governor_of
from aos.host.door.governance_messages import read_governance
from aos.host.door.protocol import SIGNED_FIELDS, read_control
from aos.host.door.way import PAUSE_S
from aos.host.door.writer import SIGNED_AGAIN_MAX
from aos.host.fields import Message, field
from aos.host.world.engine import Engine
from aos.values.cbor import Value
from aos.values.digests import Hash, content_hash

Submit = Callable[[Sequence[Input]], Awaitable[Sequence[Answer]]]


@dataclass(frozen=True, slots=True)
class Operating:
    """An operator's key, and the world that it operates."""

    key: SigningKey
    engine: Engine
    world: Hash
    operators: Sequence[Principal]

    def check(self) -> None:
        """Raises: Refused: The key is not an operator's."""
        principal_of(self.key, self.operators, action="operate")

    def takes(self, request: Message) -> bool:
        """Whether a command comes without a signature, and is to be signed here."""
        return not SIGNED_FIELDS & request.keys()

    async def control(self, request: Message, submit: Submit) -> Answer:
        """Sign and submit a command, again if another one took its serial (H-59b). A request with
        ``controls``, the number of control records that the client has seen, is for this serial
        alone.

        Raises:
            BadUsage: A field is malformed.
        """
        control = read_control({**request, "principal": "", "serial": 0, "signature": b""})
        expected_serial = field(request, "controls", int) if "controls" in request else None
        tries = SIGNED_AGAIN_MAX if expected_serial is None else 1
        while True:
            controls = self.engine.stats().figures.controls
            signed = sign_control(
                control.action, cell=control.cell, intent=control.intent, value=control.value,
                status=control.status, payload=control.payload, reason=control.why,
                world=self.world,
                serial=controls if expected_serial is None else expected_serial,
                operators=self.operators, key=self.key,
            )  # fmt: skip
            [answer] = await submit([signed])
            tries -= 1
            is_late = isinstance(answer, Refusal) and answer.rule is Rule.CONTROL_SERIAL_IS_WRONG
            if not (is_late and tries):
                return answer
            await asyncio.sleep(PAUSE_S)

    async def govern(
        self, request: Message, submit: Callable[[GovernanceInput], Awaitable[Answer]]
    ) -> Answer:
        """Sign and submit a proposal, a report or a withdrawal in the operator's name; a proposal
        again if another one took its serial. Votes are the approvers' own (GV-22).

        Raises:
            BadUsage: A field is malformed, or it is a vote.
            Refused: The world is not governed.
        """
        governance_input = read_governance({**request, "principal": "", "signature": b""})
        if governance_input.action in VOTES:
            raise BadUsage("action: a vote needs the signature of its approver")
        tries = SIGNED_AGAIN_MAX
        while True:
            answer = await submit(self._governing(governance_input))
            tries -= 1
            is_late = isinstance(answer, Refusal) and answer.rule is Rule.GOVERNANCE_SERIAL_IS_WRONG
            if not (is_late and tries):
                return answer
            await asyncio.sleep(PAUSE_S)

    def _governing(self, governance_input: GovernanceInput) -> GovernanceInput:
        figures = self.engine.stats().figures
        governance = None if figures.manifest is None else figures.manifest.governance
        principal = governor_of(
            self.key, governance_input.action, governance=governance, operators=self.operators
        )
        unsigned = replace(governance_input, principal=principal)
        if governance_input.action == PROPOSE:
            unsigned = replace(unsigned, serial=figures.proposed)
        change = governance_input.change or next(
            (
                proposal.change
                for proposal in figures.proposals
                if proposal.seq == governance_input.proposal
            ),
            None,
        )
        if change is None:
            return unsigned  # the core refuses it: it names no open proposal, or proposes nothing
        return replace(
            unsigned, signature=self.key.sign(unsigned.message(self.world, change)).signature
        )

    def manifest(
        self, document: bytes, mode: str, leaves: tuple[str, ...], proposal: int | None
    ) -> Mapping[str, Value]:
        """Return the fields of ``apply`` that its signer adds. The core checks the document."""
        serial, hash_ = self.engine.stats().figures.serial, content_hash(document)
        message = ManifestInput.message(
            self.world, serial, hash_, mode=mode, leaves=leaves, proposal=proposal
        )
        return {
            "principal": principal_of(self.key, self.operators, action="apply a manifest to"),
            "serial": serial,
            "signature": self.key.sign(message).signature,
        }
