"""Sign and submit outcomes, attempts and stream frames (spec/host.md, H-30 to H-34)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeAlias

from nacl.signing import SigningKey

from aos.core.decide.answers import Answer, Refusal, Rule
from aos.core.journal.inputs import LOST, AttemptInput, Input, ReceiptInput, StreamInput
from aos.core.journal.statements import receipt_message, stream_message
from aos.errors import AosError
from aos.host.executors.task import Halted, Loss, Lost, Outcome, StreamFrame
from aos.host.world.engine import Engine
from aos.host.world.signatures import Signatures
from aos.manifest.names import NODE
from aos.values.digests import Hash, content_hash
from aos.worker.executor_key import Signed, Signer

BATCH_MAX: Final = 256

FRAMES_MAX: Final = 4096
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bounds of stream frames without an answer. They share the inbox with receipts."""

_NOT_FINAL: Final = frozenset(
    {Rule.RECEIPT_INTENT_IS_UNKNOWN, Rule.RECEIPT_INTENT_IS_SETTLED, Rule.TIMER_IS_NOT_DUE}
)
"""Refusals after which no person need act: the intent is not open, or its executor retries."""


@dataclass(slots=True, eq=False)
class _Word:
    """An outcome or an attempt, and the future that gets the journal's answer."""

    statement: Outcome | AttemptInput
    answer: asyncio.Future[Answer]

    def blobs(self) -> Mapping[Hash, bytes]:
        return self.statement.blobs if isinstance(self.statement, Outcome) else {}

    @property
    def is_alone(self) -> bool:
        return False

    def fail(self, problem: AosError) -> None:
        self.answer.set_exception(problem)


@dataclass(slots=True, eq=False)
class _FrameWord:
    """A stream frame, and the future that gets the journal's answer or the reason of its loss."""

    statement: StreamFrame
    answer: asyncio.Future[Answer | Lost]

    @property
    def size(self) -> int:
        return len(self.statement.payload) + len(self.statement.blob or b"")

    def blobs(self) -> Mapping[Hash, bytes]:
        blob = self.statement.blob
        return {} if blob is None else {content_hash(blob): blob}

    @property
    def is_alone(self) -> bool:
        """A frame's blob is stored only with the frame itself, and many frames are refused."""
        return self.statement.blob is not None

    def fail(self, problem: AosError) -> None:
        self.answer.set_result(Lost(Loss.WORLD_IS_UNAVAILABLE, str(problem)))


_AnyWord: TypeAlias = _Word | _FrameWord
Said: TypeAlias = Outcome | StreamFrame | AttemptInput


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
        self._pending: list[_AnyWord] = []
        self._is_planned = False
        self._frames = 0
        self._frame_bytes = 0
        self.on_way = 0
        """How many outcomes, attempts and stream frames have no answer yet."""
        self.refused: dict[Hash, Refusal] = {}
        """Open intents whose receipt from here was refused."""

    async def settle(self, outcome: Outcome) -> Answer:
        """Resolve once the receipt is durable or refused.

        Raises:
            Unavailable: The world takes no receipt now; the same one may pass later.
            WorldStopped: The world could not continue.
        """
        return await self._say(outcome)

    async def attempt(self, attempt: AttemptInput) -> Answer:
        """Journal what became of an attempt; resolve once that is durable or refused.

        Raises:
            Unavailable, WorldStopped: As ``settle``.
        """
        return await self._say(attempt)

    async def begin(self, intent: Hash, attempt: int, problem: str | None) -> Answer:
        """Journal that an attempt begins; resolve once that is durable or refused.

        Raises:
            Unavailable, WorldStopped: As ``settle``.
        """
        return await self._say(AttemptInput(intent=intent, attempt=attempt, problem=problem))

    async def lose(self, intent: Hash, attempt: int, problem: str) -> Answer:
        """Journal that the only attempt ended in an unknown way; the core settles the intent.

        Raises:
            Unavailable, WorldStopped: As ``settle``.
        """
        return await self._say(
            AttemptInput(intent=intent, attempt=attempt, phase=LOST, problem=problem)
        )

    async def halt(self, intent: Hash, attempt: int, halted: Halted) -> Answer:
        """Journal that an intent does not run now, after ``attempt`` (K-99).

        Raises:
            Unavailable, WorldStopped: As ``settle``.
        """
        return await self._say(
            AttemptInput(
                intent=intent,
                attempt=attempt,
                phase=halted.phase,
                problem=halted.problem,
                code=halted.code,
            )
        )

    def tell(self, frame: StreamFrame) -> asyncio.Future[Answer | Lost]:
        """Submit a stream frame. The future returns the answer or why the frame was dropped, and
        never raises (H-34)."""
        word = _FrameWord(frame, asyncio.get_running_loop().create_future())
        has_room = not self._frames or (
            self._frames < FRAMES_MAX and self._frame_bytes + word.size <= FRAME_BYTES_MAX
        )
        if not has_room:
            text = "too many stream frames are on their way"
            word.answer.set_result(Lost(Loss.TOO_MANY_ON_WAY, text))
            return word.answer
        self._frames += 1
        self._frame_bytes += word.size
        self._queue(word)
        return word.answer

    def ended(self, intent: Hash) -> None:
        """Forget why the receipt of an intent was refused: the intent is not open any more."""
        self.refused.pop(intent, None)

    def _say(self, statement: Outcome | AttemptInput) -> asyncio.Future[Answer]:
        word = _Word(statement, asyncio.get_running_loop().create_future())
        self._queue(word)
        return word.answer

    def _queue(self, word: _AnyWord) -> None:
        self._pending.append(word)
        self.on_way += 1
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_planned = False
        pending, self._pending = self._pending, []
        for group in _groups(pending):
            self._submit(group)

    def _submit(self, group: Sequence[_AnyWord]) -> None:
        blobs = {hash_: data for word in group for hash_, data in word.blobs().items()}
        try:
            inputs = self._signing.inputs([word.statement for word in group])
            future = self._engine.submit(inputs, blobs=blobs)
        except AosError as problem:
            self._fail(group, problem)
            return
        loop = asyncio.get_running_loop()
        future.add_done_callback(  # one wake-up a batch
            lambda finished: loop.call_soon_threadsafe(self._tell, group, finished)
        )

    def _tell(self, group: Sequence[_AnyWord], future: Future[list[Answer]]) -> None:
        problem = future.exception()
        if isinstance(problem, AosError):
            self._fail(group, problem)
            return
        for word, answer in zip(group, future.result(), strict=True):
            self._arrived(word)
            if isinstance(word.statement, Outcome) and isinstance(answer, Refusal):
                self._note(word.statement.intent, answer)
            if not word.answer.done():
                word.answer.set_result(answer)

    def _note(self, intent: Hash, answer: Refusal) -> None:
        """Keep the reason why an intent stays open, unless its end is known already."""
        if answer.rule not in _NOT_FINAL and self._is_open(intent):
            self.refused[intent] = answer

    def _fail(self, group: Sequence[_AnyWord], problem: AosError) -> None:
        for word in group:
            self._arrived(word)
            if not word.answer.done():
                word.fail(problem)

    def _arrived(self, word: _AnyWord) -> None:
        self.on_way -= 1
        if isinstance(word, _FrameWord):
            self._frames -= 1
            self._frame_bytes -= word.size


def _groups(pending: Sequence[_AnyWord]) -> Iterator[list[_AnyWord]]:
    group: list[_AnyWord] = []
    for word in pending:
        if group and (len(group) == BATCH_MAX or word.is_alone or group[-1].is_alone):
            yield group
            group = []
        group.append(word)
    if group:
        yield group


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

    def inputs(self, statements: Sequence[Said]) -> list[Input]:
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

    def _input(self, statement: Said, signed: Iterator[Signed]) -> Input:
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
