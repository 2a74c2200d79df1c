"""What executors say about open intents -> inputs, many at a time (spec/host.md, H-30 to H-34)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from nacl.signing import SigningKey

from aos.core.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.core.inputs import LOST, AttemptInput
from aos.errors import AosError
from aos.host.engine import Engine
from aos.host.executors.attempts import TAKEN
from aos.host.executors.settling import ABANDONED, DUPLICATE, LATE, REFUSED, SETTLED
from aos.host.executors.task import Outcome, StreamFrame
from aos.host.signing import Said, Signing
from aos.values.digests import Hash, content_hash

BATCH_MAX: Final = 256

FRAMES_MAX: Final = 4096
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""Stream frames on their way. They share the inbox with receipts and must leave them room."""

_NOT_FINAL: Final = frozenset(
    {Rule.RECEIPT_INTENT_IS_UNKNOWN, Rule.RECEIPT_INTENT_IS_SETTLED, Rule.TIMER_IS_NOT_DUE}
)
"""Refusals that do not leave an intent open which nobody here settles: it is not open, or its
executor comes again."""


@dataclass(slots=True, eq=False)
class _Word:
    """Something that was said, and who waits for the answer."""

    said: Said
    told: asyncio.Future[str]

    def blobs(self) -> dict[Hash, bytes]:
        match self.said:
            case Outcome(blobs=blobs):
                return dict(blobs)
            case StreamFrame(blob=bytes(blob)):
                return {content_hash(blob): blob}
        return {}

    @property
    def is_alone(self) -> bool:
        """A frame's blob is stored only with the frame itself, and many frames are refused."""
        return isinstance(self.said, StreamFrame) and self.said.blob is not None


class Receipts:
    """Where executors settle, and tell the journal what goes on. Used from one event loop.

    What is said within one turn of the loop is submitted together, in its order: so a stream frame
    is admitted before the receipt that ends its intent. ``is_open`` tells whether somebody waits
    for an intent, by all that is durable.
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
        self._pending: list[_Word] = []
        self._is_planned = False
        self._frames = 0
        self._frame_bytes = 0
        self.on_way = 0
        """What was said and has no answer yet."""
        self.refused: dict[Hash, str] = {}
        """Open intents that somebody here has tried to settle, and why that was refused."""

    async def settle(self, outcome: Outcome) -> str:
        """Resolve once the receipt is durable or refused: ``settled``, ``abandoned``,
        ``duplicate``, ``late: …`` (another receipt settled the intent) or ``refused: rule: …``.

        Raises:
            Unavailable: The world takes no receipt now; the same one may pass later.
            WorldStopped: The world could not go on.
        """
        return await self._say(outcome)

    async def begin(self, intent: Hash, attempt: int, problem: str | None) -> str:
        """Journal that an attempt begins: ``taken`` once that is durable, or ``refused: …``.

        Raises:
            Unavailable, WorldStopped: As ``settle``.
        """
        return await self._say(AttemptInput(intent=intent, attempt=attempt, problem=problem))

    async def lose(self, intent: Hash, attempt: int, problem: str) -> str:
        """Journal that nobody knows how the only attempt ended; the core then settles the intent.

        Raises:
            Unavailable, WorldStopped: As ``settle``.
        """
        return await self._say(
            AttemptInput(intent=intent, attempt=attempt, phase=LOST, problem=problem)
        )

    def tell(self, frame: StreamFrame) -> asyncio.Future[str]:
        """Submit a stream frame: ``taken``, or ``refused: …`` where it is lost. Never raises."""
        size = _frame_bytes(frame)
        has_room = not self._frames or (
            self._frames < FRAMES_MAX and self._frame_bytes + size <= FRAME_BYTES_MAX
        )
        if not has_room:
            told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            told.set_result(f"{REFUSED}: too many stream frames are on their way")
            return told
        self._frames += 1
        self._frame_bytes += size
        return self._say(frame)

    def ended(self, intent: Hash) -> None:
        """Nobody waits for this intent any more."""
        self.refused.pop(intent, None)

    def _say(self, said: Said) -> asyncio.Future[str]:
        loop = asyncio.get_running_loop()
        word = _Word(said, loop.create_future())
        self._pending.append(word)
        self.on_way += 1
        if not self._is_planned:
            self._is_planned = True
            loop.call_soon(self._flush)
        return word.told

    def _flush(self) -> None:
        self._is_planned = False
        pending, self._pending = self._pending, []
        for group in _groups(pending):
            self._submit(group)

    def _submit(self, group: Sequence[_Word]) -> None:
        blobs = {hash_: data for word in group for hash_, data in word.blobs().items()}
        try:
            inputs = self._signing.inputs([word.said for word in group])
            future = self._engine.submit(inputs, blobs=blobs)
        except AosError as problem:
            self._fail(group, problem)
            return
        loop = asyncio.get_running_loop()
        future.add_done_callback(
            lambda done: loop.call_soon_threadsafe(self._tell, group, done)  # one wake-up a batch
        )

    def _tell(self, group: Sequence[_Word], done: Future[list[Answer]]) -> None:
        problem = done.exception()
        if isinstance(problem, AosError):
            self._fail(group, problem)
            return
        for word, answer in zip(group, done.result(), strict=True):
            self._arrived(word)
            if not isinstance(word.said, Outcome):
                text = _refused(answer) if isinstance(answer, Refusal) else TAKEN
            else:
                text = _text(answer)
                self._note(word.said.intent, answer, text)
            if not word.told.done():
                word.told.set_result(text)

    def _note(self, intent: Hash, answer: Answer, text: str) -> None:
        """Keep why an intent stays open. Its end may have become known before this answer."""
        is_final = isinstance(answer, Refusal) and answer.rule not in _NOT_FINAL
        if is_final and self._is_open(intent):
            self.refused[intent] = text

    def _fail(self, group: Sequence[_Word], problem: AosError) -> None:
        for word in group:
            self._arrived(word)
            if word.told.done():
                continue
            if isinstance(word.said, StreamFrame):
                word.told.set_result(f"{REFUSED}: {problem}")
            else:
                word.told.set_exception(problem)

    def _arrived(self, word: _Word) -> None:
        self.on_way -= 1
        if isinstance(word.said, StreamFrame):
            self._frames -= 1
            self._frame_bytes -= _frame_bytes(word.said)


def _groups(pending: Sequence[_Word]) -> Iterator[list[_Word]]:
    group: list[_Word] = []
    for word in pending:
        if group and (len(group) == BATCH_MAX or word.is_alone or group[-1].is_alone):
            yield group
            group = []
        group.append(word)
    if group:
        yield group


def _frame_bytes(frame: StreamFrame) -> int:
    return len(frame.payload) + (0 if frame.blob is None else len(frame.blob))


def _text(answer: Answer) -> str:
    match answer:
        case Admitted(outcome="abandoned"):
            return ABANDONED
        case Admitted():
            return SETTLED
        case Duplicate():
            return DUPLICATE
        case Refusal(rule=Rule.RECEIPT_INTENT_IS_SETTLED):
            return f"{LATE}: {answer.message}"
        case Refusal():
            return _refused(answer)


def _refused(answer: Refusal) -> str:
    return f"{REFUSED}: {answer.rule.value}: {answer.message}"
