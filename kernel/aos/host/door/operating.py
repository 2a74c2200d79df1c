"""Sign commands of clients with an operator's key of this process (spec/host.md, H-59f).

The client has proved elsewhere that it may operate the world, for example with a token of the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from nacl.signing import SigningKey

from aos.core.decide.answers import Answer, Refusal, Rule
from aos.core.journal.inputs import Input, ManifestInput
from aos.core.journal.records import Principal
from aos.host.apply.commands import principal_of, sign_control
from aos.host.door.protocol import SIGNED_FIELDS, read_control
from aos.host.door.way import PAUSE_S
from aos.host.door.writer import SIGNED_AGAIN_MAX
from aos.host.fields import Message
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
        principal_of(self.key, self.operators, what="operate")

    def takes(self, request: Message) -> bool:
        """Whether a command comes without a signature, and is to be signed here."""
        return not SIGNED_FIELDS & request.keys()

    async def control(self, request: Message, submit: Submit) -> Answer:
        """Sign and submit a command, again if another one took its serial (H-59b).

        Raises:
            BadUsage: A field is malformed.
        """
        given = read_control({**request, "principal": "", "serial": 0, "signature": b""})
        tries = SIGNED_AGAIN_MAX
        while True:
            signed = sign_control(
                given.action, cell=given.cell, intent=given.intent, value=given.value,
                status=given.status, payload=given.payload, why=given.why, world=self.world,
                serial=self.engine.stats().figures.controls, operators=self.operators,
                key=self.key,
            )  # fmt: skip
            [answer] = await submit([signed])
            tries -= 1
            is_late = isinstance(answer, Refusal) and answer.rule is Rule.CONTROL_SERIAL_IS_WRONG
            if not (is_late and tries):
                return answer
            await asyncio.sleep(PAUSE_S)

    def manifest(self, document: bytes, mode: str, leaves: tuple[str, ...]) -> Mapping[str, Value]:
        """Return the fields of ``apply`` that its signer adds. The core checks the document."""
        serial, hash_ = self.engine.stats().figures.serial, content_hash(document)
        message = ManifestInput.message(self.world, serial, hash_, mode=mode, leaves=leaves)
        return {
            "principal": principal_of(self.key, self.operators, what="apply a manifest to"),
            "serial": serial,
            "signature": self.key.sign(message).signature,
        }
