"""Plan steps in a worker: claims, heartbeats, handlers and results (L-41 to L-45)."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.boot_clock import boot_s
from aos.client.node_connection import NodeUnavailable
from aos.errors import AosError
from aos.linear import matches
from aos.node.worker.node_requests import NodeRequests, bytes_of, first_group, post_results
from aos.values.cbor import decode_record
from aos.worker.calls import CallEnd, Callers, FunctionCall
from aos.worker.failure import EffectFailed
from aos.worker.lease_check import GuardedCall, LeaseInDoubt, is_fresh
from aos.worker.redacted_output import show
from aos.worker.runner import CANCEL_GRACE_S
from aos.worker.step_api import (
    StepContext,
    StepFunction,
    failed_outcome,
    outcome_document,
    refused_outcome,
    step_context,
)

WAIT_MS: Final = 30_000
PAUSE_S: Final = 0.05
PAUSE_S_MAX: Final = 10.0
BEAT_S_MAX: Final = 10.0
BEAT_S_MIN: Final = 0.02
ITEMS_MAX: Final = 256

_LATER: Final = (429, 500, 503)
_FORGOTTEN: Final = (403, 404, 409)


@dataclass(slots=True, kw_only=True)
class HeldStep:
    """A plan step whose handler runs. Its lease lasts until ``until_s`` at least, on the clock that
    counts while the system sleeps; ``is_lost``: the node has given up the lease; ``is_over``: its
    outcome is decided, or it was given back."""

    task: str
    epoch: int
    function: StepFunction[Any]
    lease_s: float
    until_s: float
    beat_at_s: float
    call: FunctionCall | None = None
    running: asyncio.Task[None] | None = None
    is_lost: bool = False
    is_over: bool = False

    def may_begin(self) -> bool:
        """Whether the lease is certain to last a while yet."""
        return not self.is_lost and not self.is_over and is_fresh(self.until_s, self.lease_s)

    def lose(self) -> None:
        """The node has given up the lease: end the handler, whose outcome is of no use."""
        self.is_lost = True
        if self.call is not None:
            self.call.cancel()


class StepTasks:
    """The plan steps of one worker. ``stuck`` is called with a reason if handlers hold all slots
    and do not end."""

    def __init__(
        self,
        node: NodeRequests,
        functions: Mapping[str, StepFunction[Any]],
        callers: Callers,
        *,
        worker: str,
        lease_ms: int,
        steps_max: int | None,
        report: Callable[[str], None],
        stuck: Callable[[str], None],
    ) -> None:
        self._node = node
        self._functions = functions
        self._callers = callers
        self._worker = worker
        self._lease_ms = lease_ms
        self._steps_max = steps_max
        self._report = report
        self._stuck = stuck
        self.resource: object = None
        self._world = ""
        self._steps: dict[str, HeldStep] = {}
        self._overdue: Counter[str] = Counter()
        self._results: dict[str, dict[str, Any]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._is_free = asyncio.Event()
        self._has_results = asyncio.Event()
        self._has_begun = asyncio.Event()
        self._is_stopping = False

    # Claims

    def stop(self) -> None:
        """Claim no more."""
        self._is_stopping = True
        self._is_free.set()

    async def claim_all(self) -> None:
        """Claim plan steps for free slots until ``stop``."""
        while not self._is_stopping:
            self._is_free.clear()
            free_slots = self._free_slots()
            if free_slots:
                await self._claim(uuid.uuid4().hex, free_slots)
            elif not self._is_stopping:
                await self._is_free.wait()

    def _free_slots(self) -> dict[str, int]:
        """The free slots of each name; none if there is no room."""
        step_counts = Counter(step.function.name for step in self._steps.values())
        room = ITEMS_MAX if self._steps_max is None else self._steps_max - len(self._steps)
        free = {
            name: min(room, function.concurrency - step_counts[name] - self._overdue[name])
            for name, function in self._functions.items()
        }
        return {name: count for name, count in free.items() if count > 0}

    def _has_more(self, free_slots: Mapping[str, int]) -> bool:
        """Whether a claim that waits should be made again: to end it, or for other names."""
        return self._is_stopping or bool(self._free_slots().keys() - free_slots.keys())

    async def _claim(self, claim: str, free_slots: dict[str, int]) -> None:
        """Claim under one name until the claim is answered, so that no plan step that the node
        gave to it is lost with a connection (W-2)."""
        pause_s = PAUSE_S
        # The node may have leased plan steps to an earlier request of this claim.
        began_s = boot_s()
        while not self._is_stopping:
            self._is_free.clear()
            asking = asyncio.ensure_future(self._ask(claim, free_slots))
            freed = asyncio.ensure_future(self._is_free.wait())
            try:
                while not asking.done():
                    await asyncio.wait({asking, freed}, return_when=asyncio.FIRST_COMPLETED)
                    if freed.done() and self._has_more(free_slots):
                        break
                    if freed.done():
                        self._is_free.clear()
                        freed = asyncio.ensure_future(self._is_free.wait())
                if asking.done():
                    self._take(asking.result(), began_s)
                    return
                free_slots = self._free_slots()
            except NodeUnavailable as problem:
                self._report(str(problem))
                pause_s = min(max(problem.pause_s, pause_s * 2), PAUSE_S_MAX)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._is_free.wait()
            finally:
                freed.cancel()
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

    async def _ask(self, claim: str, free_slots: Mapping[str, int]) -> Any:
        body = {
            "worker": self._worker,
            "claim": claim,
            "steps": [{"name": name, "max": count} for name, count in free_slots.items()],
            "max": min(sum(free_slots.values()), ITEMS_MAX),
            "lease_ms": self._lease_ms,
            "wait_ms": WAIT_MS,
            "form": "cbor",
        }
        return await self._node.post("/v1/work/claim", body, wait_s=WAIT_MS / 1000)

    def _take(self, answer: Any, began_s: float) -> None:
        self._world = answer["world"]
        for task in answer["tasks"]:
            function = self._function(task["plan"], task["step"])
            earlier = self._steps.get(task["task"])
            if function is None or (earlier is not None and earlier.epoch == task["epoch"]):
                continue
            lease_s = task["lease_ms"] / 1000
            if lease_s <= 0:
                continue  # it has ended on the way: the handler must not begin
            step = HeldStep(
                task=task["task"],
                epoch=task["epoch"],
                function=function,
                lease_s=lease_s,
                until_s=began_s + lease_s,
                beat_at_s=time.monotonic() + _beat_s(lease_s),
            )
            self._steps[step.task] = step
            self._has_begun.set()
            if earlier is not None:
                earlier.lose()
                self._results.pop(step.task, None)
            step.running = asyncio.ensure_future(
                self._run_after(earlier, step, self._context(task), task)
            )
            self._running.add(step.running)
            step.running.add_done_callback(self._running.discard)

    def _function(self, plan: str, step: str) -> StepFunction[Any] | None:
        """The handler of a plan step: the one that names most of it."""
        for name in (f"{plan}/{step}", f"{plan}/*", f"*/{step}", "*/*"):
            if name in self._functions and matches(name, plan, step):
                return self._functions[name]
        return None

    def _context(self, task: Mapping[str, Any]) -> StepContext:
        woken: Any = decode_record(bytes_of(task["woken_by_cbor"]))
        return step_context(task, woken, world=self._world, resource=self.resource)

    # Handlers

    async def _run_after(
        self,
        earlier: HeldStep | None,
        step: HeldStep,
        ctx: StepContext,
        task: Mapping[str, Any],
    ) -> None:
        """Run a handler once that of an earlier lease of the same plan step, which was lost, has
        ended. The new lease is extended meanwhile."""
        if earlier is not None and earlier.running is not None:
            await asyncio.wait({earlier.running})
        await self._run(step, ctx, task)

    async def _run(self, step: HeldStep, ctx: StepContext, task: Mapping[str, Any]) -> None:
        function = step.function
        context = decode_record(bytes_of(task["context_cbor"]))
        while True:
            if not step.may_begin() and not await self._confirmed(step):
                self._free(step)
                return
            call = self._callers.begin(GuardedCall(function, step.may_begin), context, ctx)
            step.call = call
            await asyncio.wait({call.ended}, timeout=function.timeout_s)
            if not (call.ended.done() and isinstance(call.ended.result().error, LeaseInDoubt)):
                break
        is_late = not call.ended.done()
        step.is_over = True
        if is_late:
            call.cancel()
            await asyncio.wait({call.ended}, timeout=CANCEL_GRACE_S)
        if not call.ended.done():
            self._hold_slot(function, call)
        if step.is_lost:
            self._free(step)
            return
        if is_late:
            outcome = refused_outcome(f"no result within {function.timeout_s:g} s")
        else:
            outcome = self._outcome(step, call.ended.result(), ctx)
        self._results[step.task] = {"task": step.task, "epoch": step.epoch, **outcome}
        self._has_results.set()

    def _outcome(self, step: HeldStep, ended: CallEnd, ctx: StepContext) -> dict[str, Any]:
        if ended.error is None:
            return outcome_document(ended.value, ctx)
        if not isinstance(ended.error, EffectFailed):
            self._report(f"{step.function.name} of {ctx.instance} raised:")
            show(ended.error)
        return failed_outcome(ended.error)

    def _hold_slot(self, function: StepFunction[Any], call: FunctionCall) -> None:
        """Keep the slot of a call that does not end occupied; say when no slot is left."""
        self._overdue[function.name] += 1

        def free(_: object) -> None:
            self._overdue[function.name] -= 1
            self._is_free.set()

        call.ended.add_done_callback(free)
        if not call.cancel_arrived:
            self._stuck(
                f"{function.name} blocks the event loop of all async functions "
                "(await in it, or make it a plain def)"
            )
        elif self._overdue[function.name] >= function.concurrency:
            self._stuck(
                f"all {function.concurrency} slots of {function.name} are held by calls that did "
                "not end at their timeout"
            )

    def _free(self, step: HeldStep) -> None:
        if self._steps.get(step.task) is step:
            del self._steps[step.task]
        self._is_free.set()

    # Leases

    async def beat(self) -> None:
        """Extend each lease three times while it lasts (W-3), until this is canceled."""
        while True:
            self._has_begun.clear()
            now_s = time.monotonic()
            due = [step for step in self._steps.values() if step.beat_at_s <= now_s]
            if due:
                try:
                    await self._beat_some(due[:ITEMS_MAX])
                except NodeUnavailable as problem:
                    self._report(str(problem))
                for step in due[:ITEMS_MAX]:
                    step.beat_at_s = time.monotonic() + _beat_s(step.lease_s)
                continue
            next_s = min((step.beat_at_s for step in self._steps.values()), default=now_s + 1)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(next_s - now_s, BEAT_S_MIN)):
                    await self._has_begun.wait()

    async def _confirmed(self, step: HeldStep) -> bool:
        """Ask the node whether the lease is still this worker's, until it answers (W-3a)."""
        pause_s = PAUSE_S
        while not step.is_lost and not step.is_over:
            try:
                await self._beat_some([step])
            except NodeUnavailable as problem:
                self._report(str(problem))
                pause_s = min(max(problem.pause_s, pause_s * 2), PAUSE_S_MAX)
                await asyncio.sleep(pause_s)
                continue
            except AosError as problem:
                self._report(str(problem))
                return False
            if step.may_begin():
                return True
            await asyncio.sleep(PAUSE_S)
        return False

    async def _beat_some(self, some: list[HeldStep]) -> None:
        leases = [{"task": step.task, "epoch": step.epoch} for step in some]
        body = {"worker": self._worker, "leases": leases, "lease_ms": self._lease_ms}
        sent_s = boot_s()
        answer = await self._node.post("/v1/work/heartbeat", body)
        for step, lease_answer in zip(some, answer["answers"], strict=True):
            is_leased = lease_answer.get("answer") == "leased"
            if is_leased:
                step.until_s = sent_s + step.lease_s
            if not is_leased and "problem" not in lease_answer and step.task not in self._results:
                step.lose()

    # Results

    async def send_results(self) -> None:
        """Send results until they are answered, until this is canceled. They are kept while the
        node is away (W-4)."""
        pause_s = PAUSE_S
        while True:
            await self._has_results.wait()
            self._has_results.clear()
            try:
                await self._send_group()
                pause_s = PAUSE_S
            except NodeUnavailable as problem:
                self._report(str(problem))
                pause_s = min(max(problem.pause_s, pause_s * 2), PAUSE_S_MAX)
                await asyncio.sleep(pause_s)
            if self._results:
                self._has_results.set()

    async def _send_group(self) -> None:
        tasks = list(self._results)
        group = first_group(list(self._results.values()))
        if not group:
            return
        answers = await post_results(self._node, self._worker, group)
        away: NodeUnavailable | None = None
        for task, sent, result_answer in zip(tasks, group, answers, strict=False):
            problem = result_answer.get("problem")
            if problem is not None and problem["status"] in _LATER:
                away = NodeUnavailable(problem["detail"])
            elif self._results.get(task) is sent:
                self._answered(task, sent, problem)
        if away is not None:
            raise away

    def _answered(self, task: str, sent: dict[str, Any], problem: Mapping[str, Any] | None) -> None:
        del self._results[task]
        if problem is not None:
            self._report(f"{task}: the node refused its result: {problem['detail']}")
            if problem["status"] not in _FORGOTTEN and sent["outcome"]["status"] != "retry":
                fields = {"task": task, "epoch": sent["epoch"]}
                self._results[task] = fields | refused_outcome(problem["detail"])
                self._has_results.set()
                return
        step = self._steps.get(task)
        if step is not None and step.epoch == sent["epoch"]:
            self._free(step)

    # The end

    async def drain(self, seconds: float) -> None:
        """Let handlers end and their results be sent; then give the rest back (W-5)."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._steps:
                    self._is_free.clear()
                    await self._is_free.wait()
        for step in self._steps.values():
            step.is_over = True
        steps = list(self._steps.values())[:ITEMS_MAX]
        if steps:
            leases = [{"task": step.task, "epoch": step.epoch, "began": True} for step in steps]
            with contextlib.suppress(AosError):  # the leases end by themselves
                await self._node.post(
                    "/v1/work/release", {"worker": self._worker, "leases": leases}
                )
        for running in self._running:
            running.cancel()


def _beat_s(lease_s: float) -> float:
    return min(max(lease_s / 3, BEAT_S_MIN), BEAT_S_MAX)
