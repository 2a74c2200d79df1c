"""Requests of clients for which the server keeps something of its own.

``Operating`` signs their commands with an operator's key of this process (spec/host.md, H-59f): the
client has proved elsewhere that it may operate the world, for example with a token of the node.
``RoomQueue`` has the requests that wait for room in the inbox, in their order.
``WorkRequests`` answers requests about effects that another process runs (H-53b). ``Staging`` has
the modules that clients send before they apply a manifest, with one bound for all (H-51a): a module
counts from the moment it is staged until its manifest is answered or its connection ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from nacl.signing import SigningKey

from aos.core.decide.answers import Answer, Refusal, Rule
from aos.core.journal.governing import PROPOSE, GovernanceInput
from aos.core.journal.inputs import Input, ManifestInput
from aos.core.journal.records import Principal
from aos.core.journal.vocabulary import VOTES
from aos.errors import BadUsage, Refused
from aos.host.apply.commands import principal_of, sign_control
from aos.host.apply.signed_governance import governor_of
from aos.host.door.governance_messages import read_governance
from aos.host.door.protocol import (
    SIGNED_FIELDS,
    STAGED_BYTES_MAX,
    STAGED_MODULES_MAX,
    STAGED_TOGETHER_MAX,
    read_control,
)
from aos.host.door.way import PAUSE_S
from aos.host.door.work_messages import read_attempt, read_items, told_fields
from aos.host.door.writer import SIGNED_AGAIN_MAX
from aos.host.errors import Busy
from aos.host.executors.receipts import Receipts
from aos.host.executors.task import Lost, WorkItem
from aos.host.world.engine import Engine
from aos.message_fields import Message, field
from aos.values.cbor import Value
from aos.values.digests import Hash, content_hash
from aos.worker.outcome import read_frame, read_outcome

T = TypeVar("T")

Submit = Callable[[Sequence[Input]], Awaitable[Sequence[Answer]]]

ROOM_PAUSE_S: Final = 0.01
"""Interval at which something waits for room in the inbox, in seconds."""


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


class RoomQueue:
    """Requests that wait for room in one lane of the inbox, for up to ``busy_after_s`` seconds each
    (H-57). Room is theirs in the order in which they came: what a front has sent before it ended is
    taken before the requests of the next one (N-52a). Used from one event loop.
    """

    def __init__(self, busy_after_s: float) -> None:
        self._busy_after_s = busy_after_s
        self._turn = asyncio.Lock()
        self._problem = Busy("the world is busy (try again in a moment)")
        """Why the first request waits."""

    async def submit(self, submit: Callable[[], T]) -> T:
        """Return what ``submit`` returns, which raises Busy as long as there is no room.

        Raises:
            Busy: There was no room in time. The request was not submitted.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._busy_after_s
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._turn.acquire()
        except TimeoutError:
            raise self._problem from None
        try:
            while True:
                try:
                    return submit()
                except Busy as problem:
                    if loop.time() >= deadline_s:
                        raise
                    self._problem = problem
                await asyncio.sleep(ROOM_PAUSE_S)
        finally:
            self._turn.release()


class WorkRequests:
    """Submits outcomes, attempts and stream frames of clients, as those of executors here (H-32).

    Used from one event loop. While the inbox has no room, an outcome or an attempt waits for up to
    ``busy_after_s`` seconds (H-57).
    """

    def __init__(self, receipts: Receipts, *, busy_after_s: float) -> None:
        self._receipts = receipts
        self._busy_after_s = busy_after_s

    async def answers(self, request: Message) -> Mapping[str, Value]:
        """Submit the items of a request; answer once each is durable, refused or dropped."""
        items: Sequence[WorkItem] = read_items(request, _READERS[request["op"]])
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._busy_after_s
        results: dict[int, Answer | Lost | BaseException] = {}
        remaining: Sequence[int] = range(len(items))
        while True:
            # Those of one turn of the loop are submitted together. One that fails does not cancel
            # the others: they may be on their way to the disk.
            answers = [self._receipts.answer(items[index]) for index in remaining]
            answered = await asyncio.gather(*answers, return_exceptions=True)
            results.update(zip(remaining, answered, strict=True))
            remaining = [index for index in remaining if isinstance(results[index], Busy)]
            if not remaining or loop.time() >= deadline_s:
                break
            await asyncio.sleep(ROOM_PAUSE_S)
        fields: list[Value] = []
        for index in range(len(items)):
            result = results[index]
            if isinstance(result, BaseException):
                raise result
            fields.append(told_fields(result))
        return {"answers": fields}


_READERS: Final[Mapping[str, Callable[[Message], WorkItem]]] = {
    "settle": read_outcome,
    "attempt": read_attempt,
    "tell": read_frame,
}


class Staging:
    """The modules of all connections of one server. Used from one event loop."""

    def __init__(
        self,
        *,
        modules_max: int = STAGED_MODULES_MAX,
        bytes_max: int = STAGED_BYTES_MAX,
        together_max: int = STAGED_TOGETHER_MAX,
    ) -> None:
        self.modules_max = modules_max
        self.bytes_max = bytes_max
        self.together_max = together_max
        self.bytes = 0

    @contextmanager
    def connection(self) -> Iterator[StagedModules]:
        """The modules of one connection; all of them are released at the end of the block."""
        staged = StagedModules(self)
        try:
            yield staged
        finally:
            staged.release()


class StagedModules:
    """The modules that one connection has staged for its next manifest."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._modules: list[bytes] = []

    @property
    def count(self) -> int:
        """How many modules are staged."""
        return len(self._modules)

    def add(self, wasm: bytes) -> int:
        """Stage one more module; return how many are staged now.

        Raises:
            Refused: One manifest may not bring so much. Modules staged before stay.
            Busy: Other connections have staged too much. The module was not staged.
        """
        staging = self._staging
        size = sum(map(len, self._modules)) + len(wasm)
        if len(self._modules) >= staging.modules_max or size > staging.bytes_max:
            raise Refused(
                f"a manifest may bring at most {staging.modules_max} modules of together "
                f"{staging.bytes_max} bytes, and this module would be number "
                f"{len(self._modules) + 1} of together {size} bytes (use fewer or smaller modules)"
            )
        if staging.bytes + len(wasm) > staging.together_max:
            raise Busy(
                f"a module of {len(wasm)} bytes cannot be staged: all clients together may stage "
                f"{staging.together_max} bytes, and {staging.bytes} are staged (wait until another "
                "client has applied its manifest or disconnected, and try again)"
            )
        self._modules.append(wasm)
        staging.bytes += len(wasm)
        return len(self._modules)

    @contextmanager
    def take(self) -> Iterator[Sequence[bytes]]:
        """Take all modules for one manifest; they are released at the end of the block."""
        modules, self._modules = self._modules, []
        try:
            yield modules
        finally:
            self._staging.bytes -= sum(map(len, modules))

    def release(self) -> None:
        """Release all modules: the connection has ended."""
        self._staging.bytes -= sum(map(len, self._modules))
        self._modules.clear()
