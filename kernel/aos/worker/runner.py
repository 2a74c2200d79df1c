"""One task -> one result: slots, attempts, timeout, cancellation (X-42 to X-49).

Each attempt after the first begins only once the node has journaled it (X-13). If the node sends a
task again before it has acknowledged the result, the result is sent again; the task is not rerun.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from aos.errors import BadUsage
from aos.manifest.effective import Effect, Effective
from aos.manifest.limits import WorldLimits
from aos.manifest.names import HTTP
from aos.values.cbor import decode_record
from aos.values.digests import Hash, hash_text
from aos.worker import redacted_output
from aos.worker.api import EffectContext, EffectFunction
from aos.worker.blob_reads import BlobReads
from aos.worker.calls import Callee, CallEnd, Callers, FunctionCall
from aos.worker.causes import Causes
from aos.worker.executor_key import Signer
from aos.worker.executors import Executors
from aos.worker.failure import (
    CANCELED,
    CODE_CHARS_MAX,
    EFFECT_UNKNOWN,
    RESULT_INVALID,
    AttemptFailure,
    bounded,
    failure_of,
)
from aos.worker.job import Job, RequestContext, cancellation
from aos.worker.lease_check import GuardedCall, LeaseCheck, LeaseInDoubt
from aos.worker.outbox import Outbox
from aos.worker.outcome import Outcome
from aos.worker.policy import Policy, policy_of
from aos.worker.progress import ProgressStream
from aos.worker.redacted_output import say, show
from aos.worker.redaction import Redactor
from aos.worker.results import WithBlobs, cost_problem, payload_of
from aos.worker.sealed_calls import keyring_failure, open_params, sealed_result
from aos.worker.secret_leaks import leak_in, without_process_secrets, without_secrets
from aos.worker.wire import Message
from aos.worker.worker_secrets import texts_of

CANCEL_GRACE_S: Final = 0.25
"""How long a canceled call may take to end before it counts as overdue."""


class TaskRunner:
    """Runs the tasks of one process. ``send`` sends a message to the node.

    Without ``retries``, a task ends with its first attempt: the node decides about another one.
    Without ``reads``, functions cannot read blobs of the world. No function begins unless
    ``leases`` is certain that its task is here (W-3a).
    """

    def __init__(
        self,
        executors: Executors,
        callers: Callers,
        *,
        world: Hash | None,
        signer: Signer | None,
        resource: object,
        send: Callable[[Message], None],
        reads: BlobReads | None = None,
        retries: bool = True,
        leases: LeaseCheck | None = None,
    ) -> None:
        self._reads = reads
        self._leases = leases
        self._retries = retries
        self._executors = executors
        self._functions: Mapping[str, EffectFunction[Any]] = executors.effects
        self._callers = callers
        self._world = world
        self._resource = resource
        self._send = send
        self.effective: Effective | None = None
        """The manifest in force, as the node has sent it."""
        self._effects: Mapping[str, Effect] = {}
        self._limits = WorldLimits()
        self._policies: dict[str, Policy] = {}
        self._slots = {
            name: asyncio.Semaphore(function.concurrency)
            for name, function in self._functions.items()
        }
        self._overdue: Counter[str] = Counter()
        self._jobs: dict[Hash, Job] = {}
        self._causes = Causes()
        self._outbox = Outbox(world=world, signer=signer, send=send)

    def receive(self, message: Message) -> None:
        """Act on one message of the node."""
        op = message["op"]
        if op == "run":
            self._take(Job.of(message))
        elif op == "ack":
            self._outbox.acknowledged(message["intents"])
        elif op == "cancel":
            self._cancel(message)
        elif op == "begin":
            self._answer(message)
        elif op == "blob" and self._reads is not None:
            self._reads.answer(message)
        elif op == "manifest":
            self._use(Effective.from_document(message["document"]))

    def has(self, intent: Hash) -> bool:
        """Whether a task is here that has not ended."""
        return intent in self._jobs

    def close(self) -> None:
        """Give up all running tasks, because the link to the node is gone."""
        for job in self._jobs.values():
            if job.task is not None:
                job.task.cancel()

    def _use(self, effective: Effective) -> None:
        self.effective = effective
        self._effects = effective.effects
        self._limits = effective.limits
        self._policies = {
            name: policy_of(effective.effects[name], function)
            for name, function in self._functions.items()
            if name in effective.effects
        }

    def _take(self, job: Job) -> None:
        if not self._outbox.send_again(job.intent) and job.intent not in self._jobs:
            self._jobs[job.intent] = job
            job.task = asyncio.get_running_loop().create_task(self._run(job))
            # An exception here is our own bug. The loop's handler gets it, so that it is seen.
            job.task.add_done_callback(lambda task: task.result())

    def _cancel(self, message: Message) -> None:
        intent = Hash(message["intent"])
        job = self._jobs.get(intent)
        if job is not None:
            job.cancel()
        elif intent not in self._outbox:
            outcome = Outcome.failed(
                cancellation("before it ran"),
                intent=intent,
                effect=message["effect"],
                attempt=message["attempt"],
                started_ns=time.time_ns(),
                status=CANCELED,
            )
            self._outbox.put(outcome)

    def _answer(self, message: Message) -> None:
        job = self._jobs.get(Hash(message["intent"]))
        if job is not None and job.granted is not None and not job.granted.done():
            job.granted.set_result(message["is_granted"])

    async def _run(self, job: Job) -> None:
        if job.secrets and job.effect != HTTP:  # which redacts by itself
            self._hide(job, Redactor(job.secrets.values()))
        try:
            outcome = await self._outcome(job)
        except asyncio.CancelledError:
            outcome = job.canceled("while it waited for an attempt")
        except Exception as error:  # noqa: BLE001  # a bug of ours ends its own task, and no other
            outcome = self._failed(job, failure_of(error), error)
        if job.redactor is not None:
            _unhide_after(job.redactor, job.overdue)
        del self._jobs[job.intent]
        dropped = 0 if job.stream is None else job.stream.dropped
        if outcome.halts and job.wish.done():
            outcome = outcome.canceled(cancellation("while it ran"))
        if outcome.halts and outcome.failure is not None:
            self._halt(job, outcome.failure, dropped)
        else:
            self._outbox.put(outcome, dropped=dropped)
        if job.overdue is not None:
            self._tell_if_stuck(job, job.overdue)

    def _hide(self, job: Job, redactor: Redactor) -> None:
        """Print nothing of this redactor while the task runs."""
        if job.redactor is not None:
            redacted_output.unhide(job.redactor)
        job.redactor = redactor
        redacted_output.hide(redactor)

    def _open_sealed(self, job: Job, effect: Effect) -> AttemptFailure | None:
        """Open the sealed places of a task's params for its attempts (SL-40). Return why they
        cannot be opened. A manifest without the package has none."""
        assert self.effective is not None
        if not self.effective.sealing:
            return None
        try:
            job.keyring = self._executors.keyring()
        except BadUsage as problem:
            return keyring_failure(problem)
        opened_params = open_params(
            decode_record(job.params), effect, self.effective, job.keyring,
            secrets=job.secrets.values(),
        )  # fmt: skip
        if opened_params is None or isinstance(opened_params, AttemptFailure):
            return opened_params
        job.opened_params = opened_params
        self._hide(job, opened_params.redactor)
        return None

    def _halt(self, job: Job, failure: AttemptFailure, dropped: int) -> None:
        """Tell the node that a task does not settle: its intent stays open (X-15, X-17). It is not
        kept: if the node misses it, the task runs again."""
        message: Message = {
            "op": "halt",
            "intent": job.intent,
            "attempt": job.attempt,
            "phase": "held" if failure.end == "hold" else "parked",
            "code": bounded(failure.code, CODE_CHARS_MAX),
            "problem": failure.halt_problem,
            "dropped": dropped,
        }
        if failure.end == "park" and not failure.retryable:
            message["is_final"] = True  # a node that counts the attempts gives it no other one
        self._send(message)

    async def _outcome(self, job: Job) -> Outcome:
        function, effect = self._functions.get(job.effect), self._effects.get(job.effect)
        if function is None or effect is None:
            failure = AttemptFailure(
                code=EFFECT_UNKNOWN,
                message=f"{job.effect} is not run here, or not in the manifest in force",
                retryable=False,
                end="hold",
            )
            return job.failed(failure)
        slots = self._slots[job.effect]
        job.is_waiting = True
        await slots.acquire()
        job.is_waiting = False
        try:
            return await self._attempts(job, function, effect)
        finally:
            if job.overdue is None:
                slots.release()
            else:
                self._hold_until_ended(job.effect, job.overdue)

    def _hold_until_ended(self, effect: str, call: FunctionCall) -> None:
        """Keep the slot of an overdue call occupied until the call has ended."""
        self._overdue[effect] += 1

        def free(_: object) -> None:
            self._overdue[effect] -= 1
            self._slots[effect].release()

        call.ended.add_done_callback(free)

    async def _attempts(self, job: Job, function: EffectFunction[Any], effect: Effect) -> Outcome:
        policy = self._policies[job.effect]
        closed = self._open_sealed(job, effect)
        if closed is not None:
            self._tell(job, closed)
            return job.failed(closed)
        job.stream = self._stream(job)
        while True:
            outcome = await self._attempt(job, function, effect, policy)
            if job.overdue is not None:
                outcome = replace(outcome, is_final=True)
            failure = outcome.failure
            if (
                not self._retries
                or failure is None
                or not outcome.may_be_retried
                or job.wish.done()
                or job.attempt - job.spent >= policy.attempts_for(failure)
                or effect.delivery == "at_most_once"
            ):
                return outcome
            if failure.end == "settle":
                say(
                    f"{job.effect} {hash_text(job.intent)}: attempt {job.attempt}: "
                    f"{failure.message}"
                )
            if not await self._may_begin_again(
                job, failure, policy.pause_s(job.attempt - job.spent)
            ):
                return outcome
            job.attempt += 1

    async def _may_begin_again(self, job: Job, failure: AttemptFailure, pause_s: float) -> bool:
        """Pause while the node journals the next attempt. Return False if it must not begin."""
        job.granted = asyncio.get_running_loop().create_future()
        self._send(
            {
                "op": "attempt",
                "intent": job.intent,
                "attempt": job.attempt + 1,
                "pause_ns": int(pause_s * 1e9),
                "problem": failure.problem,
            }
        )
        job.is_waiting = True
        _, is_granted = await asyncio.gather(asyncio.sleep(pause_s), job.granted)
        job.is_waiting = False
        return is_granted

    def _stream(self, job: Job) -> ProgressStream:
        def complain(text: str) -> None:
            say(f"{job.effect} {hash_text(job.intent)}: {text}")

        return ProgressStream(
            intent=job.intent,
            effect=job.effect,
            limits=self._limits,
            first=job.next_frame,
            has_taker=job.has_taker,
            send=self._outbox.tell,
            complain=complain,
            redactor=job.redactor,
        )

    async def _attempt(
        self, job: Job, function: EffectFunction[Any], effect: Effect, policy: Policy
    ) -> Outcome:
        """Run one attempt until it ends, its timeout expires or the node cancels it (X-45)."""
        while True:
            if not await self._may_begin(job):
                return job.canceled("before it began, because its lease was lost")
            outcome = await self._begun_attempt(job, function, effect, policy)
            if outcome is not None:
                return outcome

    async def _may_begin(self, job: Job) -> bool:
        """Whether the task is here for this attempt; ask the node in doubt."""
        leases = self._leases
        while leases is not None and not leases.is_certain(job.intent, job.attempt):
            job.is_waiting = True
            is_here = await leases.confirm(job.intent, job.attempt)
            job.is_waiting = False
            if not is_here:
                return False
        return True

    def _guarded(self, job: Job, function: EffectFunction[Any], ctx: EffectContext) -> Callee:
        """The function of an attempt. A call that still waits for its thread when the attempt is
        over does not begin."""
        leases, intent, attempt = self._leases, job.intent, job.attempt
        if leases is None:
            return function
        return GuardedCall(function, lambda: not ctx.is_over and leases.is_certain(intent, attempt))

    async def _begun_attempt(
        self, job: Job, function: EffectFunction[Any], effect: Effect, policy: Policy
    ) -> Outcome | None:
        """Run one attempt to its end; None if it has not begun, because its lease is in doubt."""
        assert job.stream is not None
        started = time.time_ns()
        ctx = self._context(job, started + int(policy.timeout_s * 1e9))
        ctx.on_progress = job.stream.begin(job.attempt)
        params = (
            decode_record(job.params) if job.opened_params is None else job.opened_params.params
        )
        # A function may change its params, and the next attempt needs them as they came.
        call_params = params if job.opened_params is None else copy.deepcopy(params)
        call = self._callers.begin(self._guarded(job, function, ctx), call_params, ctx)
        await _first_of(call.ended, job.wish, timeout_s=policy.timeout_s)
        is_late = not call.ended.done() and not job.wish.done()
        if not call.ended.done():
            ctx.is_over = True
            call.cancel()
            await asyncio.wait({call.ended}, timeout=CANCEL_GRACE_S)
        if not call.ended.done():
            job.overdue = call
        job.stream.end()
        if is_late:
            return job.timed_out(started, policy.timeout_s)
        ended = call.ended.result() if call.ended.done() else None
        if ended is None or (job.wish.done() and isinstance(ended.error, asyncio.CancelledError)):
            return job.canceled("while it ran", started)
        if isinstance(ended.error, LeaseInDoubt):
            return job.canceled("before it began", started) if job.wish.done() else None
        return self._judge(job, effect, ended, ctx, started)

    def _context(self, job: Job, deadline_ns: int) -> EffectContext:
        is_request = job.effect == HTTP
        cls: type[EffectContext] = RequestContext if is_request else EffectContext
        ctx = cls(
            intent=hash_text(job.intent),
            effect=job.effect,
            idempotency_key=job.idempotency_key,
            attempt=job.attempt,
            workflow=job.workflow,
            key=decode_record(job.cell_key) if job.cell_key else None,
            issuer_ref=job.issuer_ref,
            world="" if self._world is None else hash_text(self._world),
            deadline_ns=deadline_ns,
            resource=self._resource,
            traceparent=job.traceparent,
            blobs=job.blobs,
            on_read=None if self._reads is None else self._reads.read,
            keyring=job.keyring,
            result_bytes_max=self._limits.event_bytes,
        )
        if isinstance(ctx, RequestContext):
            ctx.named_secrets = job.secrets
        elif job.secrets:
            ctx.secrets = texts_of(job.secrets.values())
        return ctx

    def _failed(
        self, job: Job, failure: AttemptFailure, error: BaseException, started: int | None = None
    ) -> Outcome:
        """The result of an attempt that raised ``error``, without the task's secrets (X-47a)."""
        failure = without_process_secrets(failure)
        if job.redactor is not None:
            failure = without_secrets(failure, job.redactor)
        self._tell(job, failure, error)
        return job.failed(failure, started)

    def _judge(
        self, job: Job, effect: Effect, ended: CallEnd, ctx: EffectContext, started: int
    ) -> Outcome:
        """The result of a call that has ended. An object of the function may raise when it is
        read, and that ends this attempt only (X-46)."""
        try:
            return self._judged(job, effect, ended, ctx, started)
        except Exception as error:  # noqa: BLE001  # of any type
            failure = AttemptFailure(
                code=RESULT_INVALID,
                message=f"the result raised {type(error).__name__} when it was read",
                retryable=True,
                end="park",
            )
            return self._failed(job, failure, error, started)

    def _judged(
        self, job: Job, effect: Effect, ended: CallEnd, ctx: EffectContext, started: int
    ) -> Outcome:
        bad_cost = cost_problem(ctx.cost_cents)
        cost_cents = ctx.cost_cents if bad_cost is None else None
        if ended.error is not None:
            failed = self._failed(job, failure_of(ended.error), ended.error, started)
            return failed if cost_cents is None else replace(failed, cost_cents=cost_cents)
        value = ended.value
        blobs: tuple[bytes, ...] = ()
        if isinstance(value, WithBlobs):
            blobs = value.blobs
            value = value.value
        if self.effective is not None and self.effective.sealing:
            value = sealed_result(value, effect, self.effective, job.keyring, hash_text(job.intent))
            if isinstance(value, AttemptFailure):
                self._tell(job, value)
                return replace(job.failed(value, started), cost_cents=cost_cents)
        leak = None
        if job.redactor is not None:
            leak = leak_in(value, job.redactor, cost=ctx.cost_cents, blobs=blobs)
        payload = (
            leak
            or bad_cost
            or payload_of(value, effect.receipt, bytes_max=self._limits.event_bytes)
        )
        if isinstance(payload, AttemptFailure):
            self._tell(job, payload)
            return replace(job.failed(payload, started), cost_cents=cost_cents)
        return job.succeeded(payload, started, cost_cents=cost_cents, blobs=blobs)

    def _tell(self, job: Job, failure: AttemptFailure, error: BaseException | None = None) -> None:
        """Report a failure that no author classified, with its traceback: each cause once, then
        only its count (X-18)."""
        if failure.end != "park":
            return
        count = self._causes.count(
            (job.effect, failure.code, None if error is None else _at(error))
        )
        if count == 1:
            attempt_text = f"{job.effect} {hash_text(job.intent)}: attempt {job.attempt}"
            say(f"{attempt_text}: {failure.message}")
            if error is not None:
                show(error, job.redactor)
        elif count is not None:
            say(f"{job.effect}: {count:,} attempts have failed so: {failure.message}")

    def _tell_if_stuck(self, job: Job, call: FunctionCall) -> None:
        """Ask the node for a restart if overdue calls block the loop or hold all slots."""
        self._outbox.flush()  # the restart may come before the next turn of the loop
        function = self._functions[job.effect]
        if not call.cancel_arrived:
            self._send(
                {
                    "op": "stuck",
                    "reason": f"{job.effect} blocks the event loop of all async effects "
                    "(await in it, or make it a plain def)",
                }
            )
        elif self._overdue[job.effect] >= function.concurrency:
            self._send(
                {
                    "op": "stuck",
                    "reason": f"all {function.concurrency} slots of {job.effect} are held by calls "
                    "that did not end at their timeout",
                }
            )


def _unhide_after(redactor: Redactor, overdue: FunctionCall | None) -> None:
    """Print the secrets of a task again once its last call has ended, which may outlive it."""
    if overdue is None:
        redacted_output.unhide(redactor)
    else:
        overdue.ended.add_done_callback(lambda _: redacted_output.unhide(redactor))


def _at(error: BaseException) -> tuple[type[BaseException], str, int]:
    """The type of an exception, and the place that raised it. Its text may differ each time."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error), "", 0
    return type(error), trace.tb_frame.f_code.co_filename, trace.tb_lineno


async def _first_of(*futures: asyncio.Future[Any], timeout_s: float) -> None:
    await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
