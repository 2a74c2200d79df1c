"""Outcomes of executors -> receipts, admitted many at a time (spec/host.md, H-30 to H-32)."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Final

from nacl.signing import SigningKey

from aos.core.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.core.inputs import ReceiptInput, receipt_message
from aos.errors import AosError
from aos.host.engine import Engine
from aos.host.executors.task import Outcome
from aos.manifest.names import NODE
from aos.values.digests import Hash, content_hash

BATCH_MAX: Final = 256

_NOT_FINAL: Final = frozenset(
    {Rule.RECEIPT_INTENT_IS_UNKNOWN, Rule.RECEIPT_INTENT_IS_SETTLED, Rule.TIMER_IS_NOT_DUE}
)
"""Refusals that do not leave an intent open which nobody here settles: it is not open, or its
executor comes again."""

_Pending = tuple[Outcome, "asyncio.Future[str]"]


class Receipts:
    """Where executors settle. Used from one event loop.

    What is settled within one turn of the loop is submitted together. An outcome without a
    signature is signed here, in the name of ``node``, with the world's key.
    """

    def __init__(self, engine: Engine, *, world: Hash, key: SigningKey) -> None:
        self._engine = engine
        self._world = world
        self._key = key
        self._key_id = bytes(key.verify_key)
        self._pending: list[_Pending] = []
        self._is_planned = False
        self.on_way = 0
        """Outcomes that have no answer yet."""
        self.refused: dict[Hash, str] = {}
        """Open intents that somebody here has tried to settle, and why that was refused."""

    async def settle(self, outcome: Outcome) -> str:
        """Resolve once the receipt is durable or refused: ``settled``, ``duplicate`` or
        ``refused: rule: message``.

        Raises:
            Unavailable: The world takes no receipt now; the same one may pass later.
            WorldStopped: The world could not go on.
        """
        loop = asyncio.get_running_loop()
        told: asyncio.Future[str] = loop.create_future()
        self._pending.append((outcome, told))
        self.on_way += 1
        if not self._is_planned:
            self._is_planned = True
            loop.call_soon(self._flush)
        return await told

    def ended(self, intent: Hash) -> None:
        """Nobody waits for this intent any more."""
        self.refused.pop(intent, None)

    def _flush(self) -> None:
        self._is_planned = False
        pending, self._pending = self._pending, []
        for start in range(0, len(pending), BATCH_MAX):
            self._submit(pending[start : start + BATCH_MAX])

    def _submit(self, group: list[_Pending]) -> None:
        blobs = {hash_: data for outcome, _ in group for hash_, data in outcome.blobs.items()}
        try:
            future = self._engine.submit([self.sign(outcome) for outcome, _ in group], blobs=blobs)
        except AosError as problem:
            self._fail(group, problem)
            return
        loop = asyncio.get_running_loop()
        future.add_done_callback(
            lambda done: loop.call_soon_threadsafe(self._tell, group, done)  # one wake-up a batch
        )

    def _tell(self, group: list[_Pending], done: Future[list[Answer]]) -> None:
        problem = done.exception()
        if isinstance(problem, AosError):
            self._fail(group, problem)
            return
        self.on_way -= len(group)
        for (outcome, told), answer in zip(group, done.result(), strict=True):
            text = _text(answer)
            if isinstance(answer, Refusal) and answer.rule not in _NOT_FINAL:
                self.refused[outcome.intent] = text
            if not told.done():
                told.set_result(text)

    def _fail(self, group: list[_Pending], problem: AosError) -> None:
        self.on_way -= len(group)
        for _, told in group:
            if not told.done():
                told.set_exception(problem)

    def sign(self, outcome: Outcome) -> ReceiptInput:
        """The receipt of an outcome, with its executor's signature or the world's."""
        executor, key_id, signature = outcome.executor, outcome.key_id, outcome.signature
        if key_id is None or signature is None:
            executor, key_id = NODE, self._key_id
            signature = self._key.sign(
                receipt_message(
                    world=self._world,
                    intent=outcome.intent,
                    effect=outcome.effect,
                    executor=executor,
                    key_id=key_id,
                    attempt=outcome.attempt,
                    status=outcome.status,
                    payload=content_hash(outcome.payload),
                    started_ns=outcome.started_ns,
                    finished_ns=outcome.finished_ns,
                    cost_cents=outcome.cost_cents,
                )
            ).signature
        return ReceiptInput(
            intent=outcome.intent,
            effect=outcome.effect,
            attempt=outcome.attempt,
            status=outcome.status,
            payload=outcome.payload,
            started_ns=outcome.started_ns,
            finished_ns=outcome.finished_ns,
            executor=executor,
            key_id=key_id,
            signature=signature,
            cost_cents=outcome.cost_cents,
        )


def _text(answer: Answer) -> str:
    match answer:
        case Admitted():
            return "settled"
        case Duplicate():
            return "duplicate"
        case _:
            return f"refused: {answer.rule.value}: {answer.message}"
