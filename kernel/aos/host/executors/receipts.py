"""Sign and submit outcomes, attempts and stream frames (spec/host.md, H-30 to H-34)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeAlias

from nacl.signing import SigningKey

from aos.core.decide.answers import Answer, Refusal, Rule
from aos.core.journal.inputs import Input, ReceiptInput, StreamInput
from aos.core.journal.statements import receipt_message, stream_message
from aos.errors import AosError
from aos.host.executors.task import Loss, Lost, OnAnswer, WorkItem
from aos.host.world.engine import Engine
from aos.host.world.signatures import Signatures
from aos.manifest.names import NODE
from aos.values.digests import Hash, content_hash, hash_text
from aos.worker.executor_key import Signed, Signer
from aos.worker.outcome import Outcome, StreamFrame

BATCH_MAX: Final = 256

FRAMES_MAX: Final = 4096
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bounds of stream frames without an answer. They share the inbox with receipts."""

_NOT_FINAL: Final = frozenset(
    {Rule.RECEIPT_INTENT_IS_UNKNOWN, Rule.RECEIPT_INTENT_IS_SETTLED, Rule.TIMER_IS_NOT_DUE}
)
"""Refusals after which no person need act: the intent is not open, or its executor retries."""


@dataclass(slots=True)
class _FramesOnWay:
    """The stream frames without an answer, and their bytes."""

    number: int = 0
    bytes: int = 0

    def add(self, frame: StreamFrame) -> bool:
        """Count a frame; False if there is no room for it. One frame may have any size."""
        if self.number and (self.number >= FRAMES_MAX or self.bytes + frame.size > FRAME_BYTES_MAX):
            return False
        self.number += 1
        self.bytes += frame.size
        return True

    def remove(self, frame: StreamFrame) -> None:
        self.number -= 1
        self.bytes -= frame.size


_Submitted: TypeAlias = tuple[WorkItem, OnAnswer]


class Receipts:
    """The way from executors into the journal. Used from one event loop.

    Everything from one turn of the loop is submitted together and in order, so a stream frame is
    admitted before the receipt that ends its intent (H-32). ``is_open`` returns whether an intent
    is open at the durable head.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        world: Hash,
        key: SigningKey,
        is_open: Callable[[Hash], bool] = lambda _: True,
    ) -> None:
        self._engine = engine
        self._signing = Signing(engine.signatures, world=world, key=key)
        self._is_open = is_open
        self._pending: list[_Submitted] = []
        self._frames = _FramesOnWay()
        self.on_way = 0
        """How many outcomes, attempts and stream frames have no answer yet."""
        self.refused: dict[Hash, Refusal] = {}
        """Open intents whose receipt from here was refused."""

    def submit(self, item: WorkItem, on_answer: OnAnswer) -> None:
        """Submit an item; see ``WorkJournal``. The error of an outcome or an attempt is Unavailable
        if the world takes nothing now, else WorldStopped. A frame never gets one (H-34): while too
        many are on their way, it is Lost at once."""
        if isinstance(item, StreamFrame) and not self._frames.add(item):
            text = "too many stream frames are on their way"
            on_answer(Lost(Loss.TOO_MANY_ON_WAY, text))
            return
        if not self._pending:
            asyncio.get_running_loop().call_soon(self._flush)
        self._pending.append((item, on_answer))
        self.on_way += 1

    def answer(self, item: WorkItem) -> asyncio.Future[Answer | Lost]:
        """Submit an item; the future returns its answer, or raises the error that ``submit``
        passes on."""
        future: asyncio.Future[Answer | Lost] = asyncio.get_running_loop().create_future()

        def answered(answer: Answer | Lost | AosError) -> None:
            if future.done():
                return  # no one waits for it any more
            if isinstance(answer, AosError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self.submit(item, answered)
        return future

    def ended(self, intent: Hash) -> None:
        """Forget why the receipt of an intent was refused: the intent is not open any more."""
        self.refused.pop(intent, None)

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        for group in _groups(pending):
            self._submit(group)

    def _submit(self, group: Sequence[_Submitted]) -> None:
        blobs = {hash_: data for item, _ in group for hash_, data in _blobs_of(item).items()}
        try:
            inputs = self._signing.inputs([item for item, _ in group])
            future = self._engine.submit(inputs, blobs=blobs)
        except AosError as problem:
            self._fail(group, problem)
            return
        loop = asyncio.get_running_loop()
        future.add_done_callback(  # one wake-up a batch
            lambda finished: loop.call_soon_threadsafe(self._answered, group, finished)
        )

    def _answered(self, group: Sequence[_Submitted], future: Future[list[Answer]]) -> None:
        problem = future.exception()
        if isinstance(problem, AosError):
            self._fail(group, problem)
            return
        for (item, on_answer), answer in zip(group, future.result(), strict=True):
            if isinstance(item, Outcome) and isinstance(answer, Refusal):
                self._note(item.intent, answer)
            self._pass_on(item, on_answer, answer)

    def _note(self, intent: Hash, answer: Refusal) -> None:
        """Keep the reason why an intent stays open, unless its end is known already."""
        if answer.rule not in _NOT_FINAL and self._is_open(intent):
            self.refused[intent] = answer

    def _fail(self, group: Sequence[_Submitted], problem: AosError) -> None:
        for item, on_answer in group:
            if isinstance(item, StreamFrame):
                lost = Lost(Loss.WORLD_IS_UNAVAILABLE, str(problem))
                self._pass_on(item, on_answer, lost)
            else:
                self._pass_on(item, on_answer, problem)

    def _pass_on(
        self, item: WorkItem, on_answer: OnAnswer, answer: Answer | Lost | AosError
    ) -> None:
        self.on_way -= 1
        if isinstance(item, StreamFrame):
            self._frames.remove(item)
        try:
            on_answer(answer)
        except Exception as defect:  # noqa: BLE001  # a defect of one executor is none of the others
            message = f"the answer about {hash_text(item.intent)} was not taken"
            asyncio.get_running_loop().call_exception_handler(
                {"message": message, "exception": defect}
            )


def _blobs_of(item: WorkItem) -> Mapping[Hash, bytes]:
    match item:
        case Outcome():
            return item.blobs
        case StreamFrame(blob=bytes(blob)):
            return {content_hash(blob): blob}
    return {}


def _groups(pending: Sequence[_Submitted]) -> Iterator[list[_Submitted]]:
    group: list[_Submitted] = []
    for submitted in pending:
        if group and (
            len(group) == BATCH_MAX or _is_alone(submitted[0]) or _is_alone(group[-1][0])
        ):
            yield group
            group = []
        group.append(submitted)
    if group:
        yield group


def _is_alone(item: WorkItem) -> bool:
    """A frame's blob is stored only with the frame itself, and many frames are refused."""
    return isinstance(item, StreamFrame) and item.blob is not None


class Signing:
    """Signs the outcomes and stream frames of executors that have no key of their own, as ``node``
    with the world's key (H-32, H-33).

    ``signatures`` remembers them, so that the core need not check them again.
    """

    def __init__(self, signatures: Signatures, *, world: Hash, key: SigningKey) -> None:
        self._signatures = signatures
        self._world = world
        self._signer = Signer(NODE, key)
        self._key_id = self._signer.public_key

    def inputs(self, statements: Sequence[WorkItem]) -> list[Input]:
        """Return the inputs, in order. Outcomes without a signature are signed together."""
        unsigned = [
            statement
            for statement in statements
            if isinstance(statement, Outcome) and statement.signature is None
        ]
        messages = [self._message(outcome) for outcome in unsigned]
        signed = self._signer.sign_receipts(self._world, messages)
        trusted: bytes | None = None
        for signed_receipt in signed:
            if signed_receipt.signature is not trusted:  # those of a batch share it
                trusted = signed_receipt.signature
                self._signatures.trust(
                    signed_receipt.message, signed_receipt.signature, self._key_id
                )
        remaining = iter(signed)
        return [self._input(statement, remaining) for statement in statements]

    def _input(self, statement: WorkItem, signed: Iterator[Signed]) -> Input:
        match statement:
            case Outcome(signature=None):
                return self._receipt(statement, next(signed))
            case Outcome():
                return _as_signed(statement)
            case StreamFrame():
                return self._frame(statement)
            case _:
                return statement

    def _message(self, outcome: Outcome) -> bytes:
        return receipt_message(
            self._world,
            outcome,
            payload=content_hash(outcome.payload),
            executor=NODE,
            key_id=self._key_id,
        )

    def _receipt(self, outcome: Outcome, signed: Signed) -> ReceiptInput:
        return ReceiptInput.of(
            outcome,
            payload=outcome.payload,
            executor=NODE,
            key_id=self._key_id,
            signature=signed.signature,
            batch=signed.batch,
        )

    def _frame(self, frame: StreamFrame) -> StreamInput:
        blob = None if frame.blob is None else content_hash(frame.blob)
        executor, key_id, signature = frame.executor, frame.key_id, frame.signature
        if key_id is None or signature is None:
            executor, key_id = NODE, self._key_id
            message = stream_message(
                self._world,
                frame,
                payload=content_hash(frame.payload),
                payload_ref=blob,
                executor=executor,
                key_id=key_id,
            )
            signature = self._signer.sign(message)
            self._signatures.trust(message, signature, key_id)
        return StreamInput.of(
            frame,
            payload=frame.payload,
            payload_ref=blob,
            executor=executor,
            key_id=key_id,
            signature=signature,
        )


def _as_signed(outcome: Outcome) -> ReceiptInput:
    """The receipt that an executor signed with a key of its own."""
    assert outcome.key_id is not None, "a signature comes with its key"
    assert outcome.signature is not None, "asked for an outcome without a signature"
    return ReceiptInput.of(
        outcome,
        payload=outcome.payload,
        executor=outcome.executor,
        key_id=outcome.key_id,
        signature=outcome.signature,
        batch=outcome.batch,
    )
