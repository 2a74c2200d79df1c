"""Execute the effects of a test world: timers, blobs, scripts and the author's functions
(spec/testing.md, T-13, T-20 to T-26)."""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from aos.core.decide.fits import completed
from aos.core.journal.inputs import BEGUN, LOST, AttemptInput
from aos.core.journal.records import slot_bytes
from aos.core.state.cell import OpenIntent
from aos.errors import Erased
from aos.host.executors import cron
from aos.host.executors.blob import GET, PUT, carry_out
from aos.host.executors.enclosures import Enclosed, Enclosing
from aos.host.executors.naming import StoredBlobs
from aos.host.executors.redelivery import LOST_PROBLEM, Redelivery
from aos.host.folder.secrets import checked, unavailable
from aos.manifest.effective import Effective
from aos.manifest.manifest_secrets import Secret
from aos.manifest.names import CRON, TIMER
from aos.testing.desk import Desk
from aos.testing.functions import AnotherAttempt, Functions, Loop, StepHandlers, Stop
from aos.testing.plain import payload_bytes, plain, plain_key
from aos.testing.problems import InputRefused, WorldProblem
from aos.testing.scripts import NEVER, Fail, Reply, as_read, receipt, reply, resolved, stream_frame
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash, hash_text
from aos.worker.api import EffectContext
from aos.worker.failure import AttemptFailure, EffectFailed


class Taker(Protocol):
    """Executes the intents of one effect."""

    def __call__(self, intent: OpenIntent, /) -> None: ...


@dataclass(order=True, slots=True)
class Due:
    """One scheduled action. Ordered by due time, then by the order of scheduling."""

    due_ns: int
    request_order: tuple[int, int, int]
    intent: Hash = field(compare=False)
    act: Callable[[], None] = field(compare=False)


class Agenda:
    """The scheduled actions of a world: timers and delayed answers that wait for the test's clock
    (T-13). ``drop`` removes those of one intent."""

    def __init__(self) -> None:
        self._heap: list[Due] = []
        self._live: dict[Hash, list[Due]] = {}
        self._count = itertools.count()

    def add(self, due_ns: int, intent: OpenIntent, act: Callable[[], None]) -> None:
        request_order = (intent.seq, intent.index, next(self._count))
        due = Due(due_ns=due_ns, request_order=request_order, intent=intent.intent, act=act)
        heapq.heappush(self._heap, due)
        self._live.setdefault(intent.intent, []).append(due)

    def drop(self, intent: Hash) -> None:
        self._live.pop(intent, None)

    def keep(self, intents: Collection[Hash]) -> None:
        """Drop the actions of all other intents."""
        self._live = {
            intent: actions for intent, actions in self._live.items() if intent in intents
        }

    def due_of(self, intent: Hash) -> int | None:
        """Due time of the intent's next action, in ns since 1970; None without one."""
        return min((due.due_ns for due in self._live.get(intent, ())), default=None)

    def first(self) -> Due | None:
        while self._heap:
            first = self._heap[0]
            if any(due is first for due in self._live.get(first.intent, ())):
                return first
            heapq.heappop(self._heap)
        return None

    def take(self, now_ns: int) -> Due | None:
        """Remove and return the first action that is due; None if there is none."""
        first = self.first()
        if first is None or first.due_ns > now_ns:
            return None
        heapq.heappop(self._heap)
        remaining = [due for due in self._live[first.intent] if due is not first]
        if remaining:
            self._live[first.intent] = remaining
        else:
            del self._live[first.intent]
        return first


class Dispatch:
    """Gives intents to their executors, and passes the results to the desk.

    ``waiting`` holds the intents without an executor: the test answers them itself. ``secrets``
    are the values that the test gives, by the names of the definitions.
    """

    desk: Desk

    def __init__(self) -> None:
        self.loop = Loop()
        self._steps = StepHandlers()
        self._agenda = Agenda()
        self._waiting: dict[Hash, OpenIntent] = {}
        self._silent: set[Hash] = set()
        self.secrets: dict[str, str] = {}
        self._enclosing: tuple[Effective, Enclosing] | None = None
        self._blob_fields: dict[str, tuple[str, ...]] = {}
        self._takers: dict[str, Taker] = {
            TIMER: self._set_timer,
            PUT: self._blob,
            GET: self._blob,
            CRON: self._cron,
        }

    # Called by the desk

    def published(self, intent: OpenIntent) -> None:
        self._waiting[intent.intent] = intent

    def over(self, intent: Hash) -> None:
        self._waiting.pop(intent, None)
        self._agenda.drop(intent)

    # Called by the world

    def script(self, effect: str, script: object) -> None:
        self._takers[effect] = partial(self._scripted, script)

    def use(self, functions: Functions) -> None:
        self._steps.use(functions)
        for name, function in functions.effects.items():
            self._takers[name] = partial(self._call, functions)
            self._blob_fields[name] = function.blobs
        self._enclosing = None

    def serve(self) -> bool:
        """Give published intents to their executors, or, without any, do the first action that is
        due, or else the next thing about plan steps. Return whether there was anything to do."""
        servable = [
            candidate
            for candidate in self._waiting.values()
            if candidate.effect.name in self._takers
        ]
        for intent in servable:
            # The answer to one intent may have ended another.
            if self._waiting.pop(intent.intent, None) is not None and self._is_open(intent):
                self._take(intent)
        if servable:
            return True
        due = self._agenda.take(self.desk.now_ns)
        if due is not None:
            due.act()
            return True
        return self._steps.serve(self.desk)

    def next_due(self) -> int | None:
        first = self._agenda.first()
        times = [None if first is None else first.due_ns, self._steps.next_due(self.desk)]
        return min((due_ns for due_ns in times if due_ns is not None), default=None)

    def due_of(self, intent: Hash) -> int | None:
        return self._agenda.due_of(intent)

    def restarted(self, redeliveries: list[Redelivery], *, keeps_answers: bool = False) -> None:
        """Publish the open intents again after a restart; those that may run only once are lost,
        or stay open if they were parked.

        With ``keeps_answers``, the executors survive the crash: their delayed answers still come,
        and they are not asked a second time.
        """
        kept_intents = {
            redelivery.intent.intent
            for redelivery in redeliveries
            if keeps_answers and self._is_at_work(redelivery)
        }
        self._agenda.keep(kept_intents)
        self._waiting.clear()
        for redelivery in redeliveries:
            if redelivery.intent.intent in kept_intents:
                continue
            if redelivery.is_lost:
                self._attempt(redelivery.intent, redelivery.attempt, LOST, LOST_PROBLEM)
            elif not redelivery.is_over:
                if redelivery.halted is not None:
                    self._attempt(
                        redelivery.intent, redelivery.attempt, BEGUN, redelivery.halted.problem
                    )
                self.published(redelivery.intent)

    def settle(self, intent: OpenIntent, reply: Reply, *, wait_ns: int = 0) -> None:
        """Submit a receipt, now or after ``wait_ns`` of the test's clock.

        Raises:
            InputRefused: It is submitted now, and the kernel refuses it.
        """
        if wait_ns:
            due_ns = self.desk.now_ns + wait_ns
            self._agenda.add(due_ns, intent, partial(self.settle, intent, reply))
        else:
            reply = as_read(self.desk, intent, reply)
            self.desk.admit(receipt(self.desk, intent, reply), reply.blobs)

    def tell(self, intent: OpenIntent, kind: str, payload: object, blob: bytes | None) -> None:
        """Submit a stream frame. Raises: InputRefused."""
        data = payload_bytes(payload)
        frame = stream_frame(self.desk, intent, kind, data, blob)
        self.desk.admit(frame, {} if blob is None else {content_hash(blob): blob})

    def begin(self, intent: OpenIntent) -> None:
        """Journal that the next attempt begins. Raises: InputRefused."""
        last = self.desk.attempt(intent)
        self._attempt(intent, last + 1, BEGUN, None)

    def params(self, intent: OpenIntent) -> Any:
        """The params as an executor gets them (K-71d)."""
        effect = self.desk.effective.effects.get(intent.effect.name)
        params_slot = intent.params
        if effect is not None:
            # Erased params are shown as erased, below.
            with contextlib.suppress(Erased):
                params_slot = completed(effect.params, slot_bytes(params_slot, self.desk.read))
        return plain(params_slot, self.desk.read)

    def close(self) -> None:
        self.loop.close()

    # Internal

    def _is_at_work(self, redelivery: Redelivery) -> bool:
        """Whether an executor has the intent and answers later, or never."""
        intent = redelivery.intent.intent
        is_asked = self._agenda.due_of(intent) is not None or intent in self._silent
        return is_asked and redelivery.intent.effect.name != TIMER

    def _is_open(self, intent: OpenIntent) -> bool:
        return self.desk.is_open(intent)

    def _take(self, intent: OpenIntent) -> None:
        if intent.effect.delivery == "at_most_once":
            self.begin(intent)
        self._takers[intent.effect.name](intent)

    def _attempt(
        self,
        intent: OpenIntent,
        attempt: int,
        phase: str,
        problem: str | None,
        code: str | None = None,
    ) -> None:
        attempt_input = AttemptInput(
            intent=intent.intent, attempt=attempt, phase=phase, problem=problem, code=code
        )
        self.desk.admit(attempt_input)

    def _set_timer(self, intent: OpenIntent) -> None:
        params = self.params(intent)
        self._agenda.add(
            params["deliver_at_ns"], intent, partial(self._fire, intent, params["key"])
        )

    def _fire(self, intent: OpenIntent, key: str | None) -> None:
        payload = encode({"delivered_at_ns": self.desk.now_ns, "key": key})
        self.settle(intent, Reply(status="ok", payload=payload))

    def _blob(self, intent: OpenIntent) -> None:
        params = slot_bytes(intent.params, self.desk.read)
        bytes_max = self.desk.effective.limits.event_bytes
        self.desk.seal()  # so that the blob's hash is in the store
        read = StoredBlobs(self.desk.read, self.desk.store.hash_by_sha256)
        status, payload, blobs = carry_out(intent.effect.name, params, read, bytes_max=bytes_max)
        self.settle(intent, Reply(status=status, payload=payload, blobs=blobs))

    def _cron(self, intent: OpenIntent) -> None:
        outcome = cron.carry_out(slot_bytes(intent.params, self.desk.read))
        self.settle(intent, Reply(status=outcome.status, payload=outcome.payload))

    def _scripted(self, script: object, intent: OpenIntent) -> None:
        ctx = self._context(intent)

        def ask(function: Callable[..., object], parameters: int) -> object:
            arguments = (self.params(intent), ctx)[:parameters]
            try:
                value = function(*arguments)
                return self.loop.run(value) if isinstance(value, Coroutine) else value
            except EffectFailed as failed:
                return Fail(failed.code, failed.message, failed.retryable)

        try:
            wait_ns, answer = resolved(script, ask)
        except WorldProblem as problem:
            raise WorldProblem(f"{intent.effect.name}: {problem}") from problem
        if answer is NEVER:
            self._silent.add(intent.intent)
        else:
            scripted_reply = reply(intent, answer, cost_cents=ctx.cost_cents)
            self.settle(intent, scripted_reply, wait_ns=wait_ns)

    def _call(self, functions: Functions, intent: OpenIntent) -> None:
        ctx = self._context(intent)
        enclosed = self._enclosed(intent)
        result = functions.call(intent, self.params(intent), ctx, self.desk.effective, enclosed)
        if isinstance(result, AnotherAttempt):
            self._attempt(intent, ctx.attempt + 1, BEGUN, result.problem)
            due_ns = self.desk.now_ns + result.pause_ns
            self._agenda.add(due_ns, intent, partial(self._call, functions, intent))
        elif isinstance(result, Stop):
            self._attempt(intent, ctx.attempt, result.phase, result.problem, result.code)
        else:
            self.settle(intent, result)

    def _enclosed(self, intent: OpenIntent) -> Enclosed | AttemptFailure:
        """The blobs and secrets that the params name, found as for a worker (T-25b)."""
        effect = self.desk.effective.effects.get(intent.effect.name, intent.effect)
        params = completed(effect.params, slot_bytes(intent.params, self.desk.read))
        return self._reader().of(effect.name, intent.cell[0], params)

    def _reader(self) -> Enclosing:
        effective = self.desk.effective
        if self._enclosing is None or self._enclosing[0] is not effective:
            read = StoredBlobs(self.desk.read, self.desk.store.hash_by_sha256)
            self._enclosing = effective, Enclosing(read, self._secret_value)
            self._enclosing[1].use(effective, self._blob_fields)
        return self._enclosing[1]

    def _secret_value(self, secret: Secret) -> bytes:
        value = self.secrets.get(secret.name)
        if value is None:
            raise unavailable(
                secret, f'the test gives no value (World(…, secrets={{"{secret.name}": …}}))'
            )
        return checked(secret, value.encode())

    def _context(self, intent: OpenIntent) -> EffectContext:
        def on_progress(kind: Any, payload: Any, blob: Any) -> None:
            # As in a worker: a report that cannot be sent is dropped, and the effect continues.
            with contextlib.suppress(InputRefused):
                self.tell(intent, kind, payload, blob)

        async def on_read(hash: str) -> bytes:
            blob = self._reader().read_blob(hash)
            if isinstance(blob, AttemptFailure):
                raise EffectFailed(blob.code, blob.message)
            return blob

        return EffectContext(
            intent=hash_text(intent.intent),
            effect=intent.effect.name,
            idempotency_key=intent.idempotency_key,
            attempt=max(1, self.desk.attempt(intent)),
            workflow=intent.cell[0],
            key=plain_key(intent.cell[1]),
            issuer_ref=intent.issuer_ref,
            world=hash_text(self.desk.world),
            deadline_ns=self.desk.now_ns + intent.effect.timeout_ms * 1_000_000,
            on_progress=on_progress,
            on_read=on_read,
            result_bytes_max=self.desk.effective.limits.event_bytes,
        )
