"""Handlers in a worker: results, exceptions, leases and timeouts (spec/linear.md, L-40 to L-46)."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from aos.errors import BadUsage, Unavailable
from aos.node.worker import Worker, step_tasks
from aos.node.worker.step_tasks import StepTasks
from aos.values.cbor import decode_record, encode
from aos.values.spelling import base64_text
from aos.worker import (
    Dead,
    EffectFailed,
    Executors,
    Retry,
    StepContext,
    Waiting,
    lease_check,
    step,
)
from aos.worker.calls import CallThreads

Plain = dict[str, Any]
PAUSE_S = 0.005


async def until(is_so: Callable[[], bool]) -> None:
    """Wait, at most 60 s."""
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110  # many things can make it so
            await asyncio.sleep(PAUSE_S)


class Front:
    """A node that gives out chosen plan steps, and remembers what it is told."""

    def __init__(self) -> None:
        self.tasks: list[Plain] = []
        self.claims: list[Plain] = []
        self.results: list[Plain] = []
        self.beats: list[Plain] = []
        self.released: list[str] = []
        self.lost: dict[str, str] = {}
        self.problem: Plain | None = None
        self.away = 0

    def offer(self, step: str = "SHIP", *, lease_ms: int = 30_000, **more: Any) -> None:
        seq = len(self.tasks) + len(self.claims)
        task = {
            "task": f"step:{seq}:i-1", "kind": "step", "instance": "i-1", "biz_key": None,
            "plan": "order", "version": 1, "step": step, "step_seq": seq,
            "task_type": "READY_STEP", "attempt": 1, "max_attempts": 3, "epoch": 1,
            "lease_until_ns": time.time_ns() + lease_ms * 10**6, "lease_ms": lease_ms,
            "context_cbor": base64_text(encode({"n": 1})),
            "woken_by_cbor": base64_text(encode(None)),
        }  # fmt: skip
        self.tasks.append(task | more)

    async def handle(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if self.away > 0:
            self.away -= 1
            raise httpx.ConnectError("away")
        match request.url.path:
            case "/v1/work/claim":
                self.claims.append(body)
                names = {each["name"].rpartition("/")[2] for each in body["steps"]}
                taken = (await self._offered(names))[: body["max"]]
                self.tasks = [each for each in self.tasks if each not in taken]
                return _ok(world="blake3:" + "0" * 64, tasks=taken, unserved=[])
            case "/v1/work/heartbeat":
                self.beats += body["leases"]
                return _ok(answers=[
                    {"task": each["task"], "answer": self.lost.get(each["task"], "leased")}
                    for each in body["leases"]
                ])  # fmt: skip
            case "/v1/work/release":
                self.released += [each["task"] for each in body["leases"]]
                return _ok(answers=[])
        answers = []
        for each in body["results"]:
            if self.problem is not None:
                answers.append({"task": each["task"], "problem": self.problem})
                self.problem = None
                continue
            self.results.append(each)
            answers.append({"task": each["task"], "answer": "settled", "seq": 1})
        return _ok(answers=answers)

    async def _offered(self, names: set[str]) -> list[Plain]:
        """Wait for plan steps of these names."""
        await until(lambda: any({each["step"], "*"} & names for each in self.tasks))
        return [each for each in self.tasks if {each["step"], "*"} & names]

    async def until(self, count: int) -> list[Plain]:
        """Wait for results; return their outcomes."""
        await until(lambda: len(self.results) >= count)
        return [each["outcome"] for each in self.results]


def _ok(**document: Any) -> httpx.Response:
    return httpx.Response(200, json=document)


def play(
    scene: Callable[[Front], Awaitable[None]],
    *functions: Any,
    lines: list[str] | None = None,
    front: Front | None = None,
) -> None:
    """Run a scene with a worker that has these handlers."""
    front = front or Front()

    async def run() -> None:
        worker = Worker(
            "http://node", Executors("shop", functions),
            transport=httpx.MockTransport(front.handle),
            report=(lines if lines is not None else []).append,
        )  # fmt: skip
        running = asyncio.ensure_future(worker.run())
        try:
            await scene(front)
        finally:
            worker.stop()
            await running

    asyncio.run(run())


class Raising(dict[str, Any]):
    """A result that raises when it is read."""

    def __iter__(self) -> Any:
        raise KeyError("not loaded")


def returning(value: Any, **settings: Any) -> Any:
    """A handler of SHIP that returns a value, or raises an exception."""

    @step("order/SHIP", **settings)
    async def ship(_context: Plain, _: StepContext) -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    return ship


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (None, {"status": "completed"}),
        ({"n": None, "raw": b"\x00"}, {"status": "completed", "patch": {"n": None, "raw": b"\0"}}),
        (Waiting("PAID"), {"status": "waiting", "event_type": "PAID"}),
        (Waiting("PAID", timedelta(days=30)),
         {"status": "waiting", "event_type": "PAID", "timeout_ms": 2_592_000_000}),
        (Retry("no"), {"status": "retry", "error": "no"}),
        (Retry("no", 0.5), {"status": "retry", "error": "no", "backoff_ms": 500}),
        (Dead("gone"), {"status": "dead", "error": "gone"}),
        (EffectFailed("code", "text"), {"status": "dead", "error": "code: text"}),
        (EffectFailed("code", "text", retryable=True), {"status": "retry", "error": "text"}),
        (RuntimeError("broken"), {"status": "retry", "error": "RuntimeError: broken"}),
        (SystemExit(3), {"status": "retry", "error": "SystemExit: 3"}),
        (7, {"status": "retry", "error": "expected None, a dict, Waiting, Retry or Dead from the "
             "handler, found int"}),
        ({"a": 1.5}, {"status": "retry", "error": "the result is no change of the context: $.a: "
                      "expected no floats, found float 1.5 (use an integer, or dec128 text)"}),
        ({"text": "\ud83e"}, {"status": "retry", "error": "the result is no change of the context: "
                             "$.text: expected Unicode text, found half of a surrogate pair at "
                             "character 0 (decode JSON and UTF-16 as a whole, and do not cut them "
                             "within a character)"}),
        (Raising(a=1), {"status": "retry", "error": "the result raised KeyError when it was read"}),
        (Dead("\ud83e"), {"status": "dead", "error": "?"}),
        (Retry("\ud83e"), {"status": "retry", "error": "?"}),
        (EffectFailed("c", "\ud83e"), {"status": "dead", "error": "c: ?"}),
        (ValueError("\ud83e"), {"status": "retry", "error": "ValueError: ?"}),
        ({1: 2}, {"status": "retry",
                  "error": "the result is no change of the context: $: expected text as keys, "
                  "found 1"}),
    ],
)  # fmt: skip
def test_a_result_or_an_exception_of_a_handler_is_its_outcome(value: Any, outcome: Plain) -> None:
    async def scene(front: Front) -> None:
        front.offer()
        [found] = await front.until(1)
        if "patch_cbor" in found:
            found["patch"] = decode_record(_bytes(found.pop("patch_cbor")))
        assert found == outcome

    play(scene, returning(value))


def test_a_request_that_the_node_refuses_as_a_whole_costs_one_result_only() -> None:
    """W-4a."""

    class Strict(Front):
        async def handle(self, request: httpx.Request) -> httpx.Response:
            if b"refuse me" in request.content:
                return httpx.Response(400, json={"detail": "body: it is malformed"})
            return await super().handle(request)

    ready = threading.Barrier(3)

    @step("order/*", concurrency=3)
    def ship(_context: Plain, ctx: StepContext) -> Any:
        ready.wait(60)
        return Dead("refuse me") if ctx.step == "B" else None

    async def scene(front: Front) -> None:
        for name in "ABC":
            front.offer(name)
        await front.until(3)
        found = {each["task"]: each["outcome"] for each in front.results}
        outcomes = sorted((each["status"], each.get("error")) for each in found.values())
        assert outcomes == [
            ("completed", None), ("completed", None), ("retry", "body: it is malformed"),
        ]  # fmt: skip

    play(scene, ship, front=Strict())


def _bytes(text: str) -> bytes:
    import base64  # the test's own reading

    return base64.b64decode(text)


def test_a_handler_sees_its_context_and_its_events_are_sent_with_the_result() -> None:
    seen: list[StepContext] = []

    @step("order/SHIP")
    def ship(context: Plain, ctx: StepContext) -> Plain:
        seen.append(ctx)
        ctx.emit("shop/Shipped@1", {"order": context["n"]})
        return {"done": True}

    async def scene(front: Front) -> None:
        woken: Any = {"event_id": "e", "type": "PAID", "payload": {"cents": 5}}
        front.offer(attempt=2, woken_by_cbor=base64_text(encode(woken)))
        await front.until(1)
        [sent] = front.results
        assert sent["outbound"] == [
            {"schema": "shop/Shipped@1", "value_cbor": base64_text(encode({"order": 1}))}
        ]

    play(scene, ship)
    [ctx] = seen
    assert (ctx.instance, ctx.step, ctx.attempt, ctx.idempotency_key) == ("i-1", "SHIP", 2, "i-1/0")
    assert ctx.woken_by is not None
    assert ctx.woken_by.payload == {"cents": 5}


def test_the_events_of_a_retry_and_of_an_exception_are_dropped() -> None:
    @step("order/SHIP")
    async def ship(context: Plain, ctx: StepContext) -> Retry:
        ctx.emit("shop/Shipped@1", {})
        if ctx.seq:
            raise ValueError(context)
        return Retry("again")

    async def scene(front: Front) -> None:
        front.offer()
        await front.until(1)
        front.offer()
        await front.until(2)
        assert [each["outbound"] for each in front.results] == [[], []]

    play(scene, ship)


def test_37_a_handler_that_raises_does_not_stop_the_others_of_its_claim() -> None:
    """Edge case 37."""

    @step("order/*")
    async def any_step(_: Plain, ctx: StepContext) -> None:
        if ctx.step == "BAD":
            raise RuntimeError("bad")

    async def scene(front: Front) -> None:
        for name in ("GOOD", "BAD", "FINE"):
            front.offer(name)
        found = await front.until(3)
        assert sorted(each["status"] for each in found) == ["completed", "completed", "retry"]

    play(scene, any_step)


def test_42_a_lease_that_is_over_runs_no_handler() -> None:
    """Edge case 42."""
    ran: list[int] = []

    @step("order/SHIP")
    async def ship(_: Plain, ctx: StepContext) -> None:
        ran.append(ctx.seq)

    async def scene(front: Front) -> None:
        front.offer(lease_ms=0)
        front.offer()
        await front.until(1)

    play(scene, ship)
    assert ran == [1]


def test_leases_are_extended_while_a_handler_runs_and_one_that_is_lost_is_canceled() -> None:
    began, canceled = threading.Event(), threading.Event()
    front = Front()

    @step("order/SHIP")
    async def ship(_: Plain, ctx: StepContext) -> None:
        if ctx.seq:
            began.set()
        try:
            while ctx.seq or len(front.beats) < 4:  # noqa: ASYNC110  # nothing reports them here
                await asyncio.sleep(PAUSE_S)
        except asyncio.CancelledError:
            canceled.set()
            raise

    async def scene(front: Front) -> None:
        front.offer(lease_ms=200)
        await front.until(1)
        front.offer(lease_ms=200)
        lost = front.tasks[0]["task"]
        await until(began.is_set)
        front.lost[lost] = "lost"
        await until(canceled.is_set)
        await asyncio.sleep(0.05)
        assert [each["task"] for each in front.results] == ["step:0:i-1"]

    play(scene, ship, front=front)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_plan_step_that_comes_again_begins_after_the_handler_of_its_lost_lease(
    is_async: bool,
) -> None:
    """L-43, W-3: the worker claims it again while the first handler still runs."""
    order: list[str] = []
    may_end = threading.Event()

    @step("order/SHIP", concurrency=2)
    async def ship(_: Plain, ctx: StepContext) -> None:
        order.append(f"begins {ctx.attempt}")
        try:
            await asyncio.sleep(60 if ctx.attempt == 1 else 0)
        finally:
            order.append(f"ends {ctx.attempt}")

    @step("order/SHIP", concurrency=2)
    def plain_ship(_: Plain, ctx: StepContext) -> None:
        order.append(f"begins {ctx.attempt}")
        if ctx.attempt == 1:
            assert may_end.wait(60)
        order.append(f"ends {ctx.attempt}")

    async def scene(front: Front) -> None:
        front.offer(task="step:0:i-1")
        await until(lambda: bool(order))
        front.offer(task="step:0:i-1", epoch=2, attempt=2)
        await until(lambda: not front.tasks)
        may_end.set()
        assert await front.until(1) == [{"status": "completed"}]
        assert [sent["epoch"] for sent in front.results] == [2]

    play(scene, ship if is_async else plain_ship)
    assert order == ["begins 1", "ends 1", "begins 2", "ends 2"]


def test_a_handler_without_a_thread_does_not_begin_once_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """L-42, L-43: its result, a retry, has been sent."""
    threads: list[Callable[[], None]] = []
    monkeypatch.setattr(CallThreads, "submit", lambda _, work: threads.append(work))
    ran: list[int] = []

    @step("order/SHIP", timeout_s=0.05, concurrency=2)
    def ship(_: Plain, ctx: StepContext) -> None:
        ran.append(ctx.seq)

    async def scene(front: Front) -> None:
        front.offer()
        assert await front.until(1) == [{"status": "retry", "error": "no result within 0.05 s"}]
        threads.pop()()

    play(scene, ship)
    assert not ran


def test_a_handler_that_another_one_has_delayed_looks_at_its_lease_again() -> None:
    """L-43"""
    ran: list[str] = []

    @step("order/*")
    async def any_step(_: Plain, ctx: StepContext) -> None:
        ran.append(ctx.step)
        if ctx.step == "BLOCKS":
            time.sleep(0.5)  # noqa: ASYNC251  # the mistake of this test

    async def scene(front: Front) -> None:
        front.offer("BLOCKS", lease_ms=10_000)
        front.offer("SHORT", lease_ms=300)
        front.lost["step:1:i-1"] = "lost"
        front.offer("LONG", lease_ms=10_000)
        await front.until(2)

    play(scene, any_step)
    assert ran == ["BLOCKS", "LONG"]


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_worker_that_was_suspended_asks_before_a_handler_begins(
    monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """L-43, W-3a: the answer of its claim waited in the socket for longer than the lease."""
    jump_s = 0.0
    monkeypatch.setattr(lease_check, "boot_s", lambda: time.monotonic() + jump_s)
    monkeypatch.setattr(step_tasks, "boot_s", lambda: time.monotonic() + jump_s)
    ran: list[str] = []

    @step("order/SHIP")
    def ship(_: Plain, ctx: StepContext) -> None:
        ran.append(ctx.step)

    class Sleepy(Front):
        async def _offered(self, names: set[str]) -> list[Plain]:
            nonlocal jump_s
            found = await super()._offered(names)
            jump_s += 40
            return found

    async def scene(front: Front) -> None:
        front.offer()
        if is_lost:
            front.lost["step:0:i-1"] = "lost"
        await until(lambda: bool(front.beats))
        if not is_lost:
            await front.until(1)
        await asyncio.sleep(0.05)

    play(scene, ship, front=Sleepy())
    assert ran == ([] if is_lost else ["SHIP"])


def test_a_handler_past_its_timeout_is_a_retry() -> None:
    @step("order/SHIP", timeout_s=0.05)
    async def ship(_context: Plain, _: StepContext) -> None:
        await asyncio.sleep(60)

    async def scene(front: Front) -> None:
        front.offer()
        [found] = await front.until(1)
        assert found == {"status": "retry", "error": "no result within 0.05 s"}

    play(scene, ship)


def test_a_handler_that_blocks_the_loop_stops_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """L-42"""
    may_end = threading.Event()
    hold_slot = StepTasks._hold_slot

    def hold_slot_and_end(tasks: StepTasks, *call: Any) -> None:
        hold_slot(tasks, *call)
        may_end.set()

    monkeypatch.setattr(StepTasks, "_hold_slot", hold_slot_and_end)

    @step("order/SHIP", timeout_s=0.05)
    async def ship(_context: Plain, _: StepContext) -> None:
        may_end.wait(60)  # the mistake of this test

    async def scene(front: Front) -> None:
        front.offer()
        await front.until(1)
        await asyncio.sleep(0.1)

    with pytest.raises(Unavailable, match="order/SHIP blocks the event loop"):
        play(scene, ship)


def test_results_wait_for_a_node_that_is_away() -> None:
    lines: list[str] = []

    @step("order/SHIP")
    async def ship(_context: Plain, _: StepContext) -> None:
        front_of[0].away = 3

    front_of: list[Front] = []

    async def scene(front: Front) -> None:
        front_of.append(front)
        front.offer()
        assert await front.until(1) == [{"status": "completed"}]

    play(scene, ship, lines=lines)
    assert any("away" in each for each in lines)


def test_a_result_that_the_node_does_not_take_becomes_a_retry_with_its_reason() -> None:
    """L-44"""

    async def scene(front: Front) -> None:
        front.problem = {"status": 422, "detail": "unknown schema", "rule": "result_does_not_fit"}
        front.offer()
        assert await front.until(1) == [{"status": "retry", "error": "unknown schema"}]

    play(scene, returning(None))


def test_a_worker_that_stops_lets_its_handlers_end() -> None:
    ended: list[int] = []

    @step("order/SHIP")
    async def ship(_: Plain, ctx: StepContext) -> None:
        await asyncio.sleep(0.2)
        ended.append(ctx.seq)

    async def scene(front: Front) -> None:
        front.offer()
        await until(lambda: not front.tasks)

    play(scene, ship)
    assert ended == [0]


def test_a_slot_is_claimed_for_each_handler_and_no_more() -> None:
    running: list[int] = []
    most: list[int] = []

    @step("order/SHIP", concurrency=2)
    async def ship(_: Plain, ctx: StepContext) -> None:
        running.append(ctx.seq)
        most.append(len(running))
        await asyncio.sleep(0.02)
        running.remove(ctx.seq)

    async def scene(front: Front) -> None:
        for _ in range(7):
            front.offer()
        await front.until(7)
        assert max(each["max"] for each in front.claims) == 2

    play(scene, ship)
    assert max(most) == 2


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: step("SHIP"), "expected PLAN/STEP"),
        (lambda: step("a/b/c"), "expected PLAN/STEP"),
        (lambda: step("a/b", concurrency=0), "concurrency: expected 1 to 1024"),
        (lambda: step("a/b", timeout_s=0), "timeout_s: expected more than 0"),
        (lambda: step("a/b")(lambda _: None), r"cannot be called with \(context, ctx\)"),  # type: ignore[arg-type, misc]
        (lambda: step("a/b")(step("a/c")(lambda _c, _x: None)), "a/c is on this function already"),
        (lambda: Waiting(""), "expected a type of 1 to 256 bytes"),
        (lambda: Waiting("x", -1), "timeout: expected 0 to 36600 days"),
        (lambda: Waiting("x", "1d"), "timeout: expected a timedelta or seconds"),  # type: ignore[arg-type]
        (lambda: Retry("x", 1e300), "backoff: expected 0 to 36600 days"),
        (lambda: Executors("s", [returning(1), returning(2)]), "step order/SHIP is there twice"),
        (lambda: Executors("s", []), "expected at least one effect or step"),
    ],
)
def test_bad_arguments_are_refused(make: Callable[[], object], text: str) -> None:
    with pytest.raises(BadUsage, match=text):
        make()
