"""One task in the worker: slots, attempts, timeouts, cancels, hostile functions (X-42 to X-49)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aos.core.journal.inputs import ReceiptInput
from aos.core.journal.records import Batch
from aos.core.journal.signing import is_signed
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash, hash_text
from aos.worker import (
    EffectContext,
    EffectFailed,
    Executors,
    NotConfigured,
    effect,
    redacted_output,
)
from aos.worker.api import EffectFunction
from aos.worker.calls import Callers, CallThreads
from aos.worker.executor_key import Signer, read_key
from aos.worker.lease_check import LeaseCheck
from aos.worker.runner import TaskRunner
from aos.worker.wire import Message
from aos.worker.worker_secrets import SecretValue, to_wire
from tests.worker.stage import WORLD, effective, intent_of, task

Plain = dict[str, Any]

DEFAULTS: Plain = {
    "cost_cents": None, "signature": None, "batch": None, "blobs": [], "dropped": 0,
}  # fmt: skip
"""The fields that a result leaves out."""


def whole(message: Message) -> Message:
    """A message with the fields of its outcome or frame, also those that it leaves out."""
    match message["op"]:
        case "done":
            return {**DEFAULTS, **message}
        case "progress":
            return {"blob": None, **message}
    return message


class Node:
    """The node that the runner reports to: it records messages and grants attempts."""

    def __init__(self) -> None:
        self.runner: TaskRunner
        self.heard: list[Message] = []
        self.is_granting = True
        self._changed = asyncio.Event()

    def send(self, message: Message) -> None:
        self.heard.append(whole(message))
        self._changed.set()
        if message["op"] == "attempt" and self.is_granting:
            self.grant(message["intent"])

    def grant(self, intent: Hash, *, is_granted: bool = True) -> None:
        answer = {"op": "begin", "intent": intent, "is_granted": is_granted}
        asyncio.get_running_loop().call_soon(self.runner.receive, answer)

    def run(self, number: int = 1, name: str = "test/echo@1", **changes: Any) -> None:
        given = task(number, name, cell_key=encode("k1"))
        message = {
            "op": "run",
            "intent": given.intent,
            "effect": name,
            "attempt": 1,
            "spent": 0,
            "params": given.params,
            "idempotency_key": given.idempotency_key,
            "workflow": given.workflow,
            "cell_key": given.cell_key,
            "issuer_ref": given.issuer_ref,
            "blobs": {},
            "next_frame": 0,
            "has_taker": True,
        }
        self.runner.receive({**message, **changes})

    def cancel(self, number: int, name: str = "test/echo@1") -> None:
        self.runner.receive(
            {"op": "cancel", "intent": intent_of(number), "effect": name, "attempt": 1}
        )

    def ack(self, number: int) -> None:
        self.runner.receive({"op": "ack", "intents": [intent_of(number)]})

    @property
    def done(self) -> list[Message]:
        return [each for each in self.heard if each["op"] == "done"]

    @property
    def frames(self) -> list[Message]:
        return [each for each in self.heard if each["op"] == "progress"]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def results(self, count: int = 1) -> list[Message]:
        await self.until(lambda: len(self.done) >= count)
        return self.done

    async def halt(self) -> Message:
        def halts() -> list[Message]:
            return [each for each in self.heard if each["op"] == "halt"]

        await self.until(lambda: bool(halts()))
        return halts()[0]

    async def result(self) -> tuple[str, Any]:
        (message,) = await self.results()
        return message["status"], decode_record(message["payload"])


def rehearse(
    functions: list[EffectFunction[Any]],
    scene: Callable[[Node], Awaitable[None]],
    *,
    signer: Signer | None = None,
    setup: Callable[[], AbstractAsyncContextManager[Any]] | None = None,
    leases: LeaseCheck | None = None,
) -> Node:
    async def play() -> Node:
        node = Node()
        executors = Executors("troupe", functions, setup=setup)
        callers = Callers(executors.effects.values())
        resource = await callers.start(setup)
        node.runner = TaskRunner(
            executors, callers, world=WORLD, signer=signer, resource=resource, send=node.send,
            leases=leases,
        )  # fmt: skip
        node.runner.receive({"op": "manifest", "document": effective().document})
        try:
            await scene(node)
        finally:
            await callers.stop(1.0)
            callers.close()
        return node

    return asyncio.run(play())


def test_a_function_gets_its_params_and_context_and_its_result_comes_back() -> None:
    """X-3."""
    seen: list[EffectContext] = []

    @effect("test/echo@1")
    async def echo(params: Plain, ctx: EffectContext) -> Plain:
        seen.append(ctx)
        ctx.cost_cents = 7
        return {"n": params["n"] + 1}

    async def scene(node: Node) -> None:
        node.run(5)
        assert await node.result() == ("ok", {"n": 6})

    before = time.time_ns()
    node = rehearse([echo], scene)
    (ctx,), (message,) = seen, node.done

    assert ctx.intent == ctx.idempotency_key == hash_text(intent_of(5))
    assert (ctx.effect, ctx.attempt, ctx.workflow) == ("test/echo@1", 1, "test/flow@1")
    assert (ctx.key, ctx.issuer_ref, ctx.world) == ("k1", "ref", hash_text(WORLD))
    assert message["cost_cents"] == 7
    assert before <= message["started_ns"] <= message["finished_ns"] <= time.time_ns()
    assert ctx.deadline_ns == message["started_ns"] + 30 * 10**9
    assert message["signature"] is None


def test_a_plain_function_runs_in_another_thread() -> None:
    @effect("test/other@1")
    def other(params: Plain, ctx: EffectContext) -> Plain:
        return {"n": int(threading.current_thread() is threading.main_thread())}

    async def scene(node: Node) -> None:
        node.run(5, "test/other@1", cell_key=b"")
        assert await node.result() == ("ok", {"n": 0})

    rehearse([other], scene)


def test_bytes_and_sets_arrive_in_normal_form() -> None:
    @effect("test/set@1")
    async def tagged(params: Plain, ctx: EffectContext) -> Plain:
        return {"tags": {"b", "a"}, "raw": b"\0"}

    async def scene(node: Node) -> None:
        node.run(1, "test/set@1")
        assert await node.result() == ("ok", {"tags": ["a", "b"], "raw": b"\0"})

    rehearse([tagged], scene)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            "text",
            'the result does not fit test/echo-receipt@1: $: expected record, found text "text"',
        ),
        ({"n": 1.5}, "the result does not fit test/echo-receipt@1: $.n: expected no floats"),
        ({"n": object()}, "the result does not fit test/echo-receipt@1: $.n: expected None, bool"),
        ({"m": 1}, "the result does not fit test/echo-receipt@1: $.m: "),
    ],
)
def test_a_wrong_result_parks_its_task_and_names_the_path(result: object, message: str) -> None:
    """X-46."""

    @effect("test/echo@1", attempts=1)
    async def echo(params: Plain, ctx: EffectContext) -> object:
        return result

    async def scene(node: Node) -> None:
        node.run()
        halt = await node.halt()
        assert (halt["phase"], halt["code"]) == ("parked", "executor_result_invalid")
        assert halt["problem"].startswith(message)

    rehearse([echo], scene)


class Raising(dict[str, Any]):
    """A result that raises when it is read."""

    def items(self) -> Any:
        raise KeyError("not loaded")


def spoiled(error: Exception, **attributes: object) -> Exception:
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("given", "code", "text"),
    [
        ({"n": "\ud83e"}, "executor_result_invalid", "$.n: expected Unicode text, found half of"),
        (
            {"n": None, "\ud83e": 1},
            "executor_result_invalid",
            "$: expected Unicode text, found half of a surrogate pair",
        ),
        (Raising(), "executor_result_invalid", "the result raised KeyError when it was read"),
        (spoiled(EffectFailed("x"), code=None), "executor_result_invalid", "the result raised"),
        (Unreadable(), "exception", "Unreadable: (its text cannot be shown)"),
        (ValueError("\ud83e"), "exception", "ValueError: ?"),
    ],
)
def test_a_result_or_an_error_that_cannot_be_encoded_ends_its_own_task_only(
    given: object, code: str, text: str
) -> None:
    """X-46, X-47a: its neighbour, which began before, keeps its only attempt."""
    may_end = asyncio.Event()

    @effect("test/echo@1", attempts=1)
    async def broken(params: Plain, ctx: EffectContext) -> object:
        if isinstance(given, Exception):
            raise given
        return given

    @effect("test/once@1")
    def neighbour(params: Plain, ctx: EffectContext) -> Plain:
        while not may_end.is_set():
            time.sleep(0.001)
        return {"n": 1}

    async def scene(node: Node) -> None:
        unhandled: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, each: unhandled.append(each))
        node.run(1, "test/once@1")
        node.run(2, "test/echo@1")
        halt = await node.halt()
        assert (halt["phase"], halt["code"], halt["intent"]) == ("parked", code, intent_of(2))
        assert text in halt["problem"]
        may_end.set()
        assert await node.result() == ("ok", {"n": 1})
        assert not unhandled, "such an exception ends the process"

    rehearse([broken, neighbour], scene)


def test_a_bug_of_the_worker_in_one_task_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """X-47a."""
    context_of = TaskRunner._context

    def broken(runner: TaskRunner, job: Any, deadline_ns: int) -> EffectContext:
        if job.intent == intent_of(2):
            raise LookupError("a bug")
        return context_of(runner, job, deadline_ns)

    monkeypatch.setattr(TaskRunner, "_context", broken)

    @effect("test/echo@1", attempts=1)
    async def echo(params: Plain, ctx: EffectContext) -> Plain:
        return params

    async def scene(node: Node) -> None:
        node.run(2)
        halt = await node.halt()
        assert (halt["phase"], halt["code"]) == ("parked", "exception")
        assert halt["problem"] == "LookupError: a bug"
        node.run(1)
        assert await node.result() == ("ok", {"n": 1})

    rehearse([echo], scene)


@dataclass
class Leases:
    """The lease of every task: ``looks`` are the answers of ``is_certain``, the last one for ever;
    ``is_here`` is that of ``confirm``."""

    looks: list[bool]
    is_here: bool
    asked: int = 0

    def is_certain(self, _: Hash, attempt: int) -> bool:
        assert attempt == 1
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    async def confirm(self, _: Hash, attempt: int) -> bool:
        assert attempt == 1
        self.asked += 1
        return self.is_here


@pytest.mark.parametrize(
    ("looks", "is_here", "asked", "ran"),
    [
        ([True], True, 0, [1]),
        ([False, True], True, 1, [1]),
        ([True, False, False, True], True, 1, [1]),
        ([False], False, 1, []),
        ([True, False], False, 1, []),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
def test_a_function_begins_only_if_its_lease_is_certain_in_that_moment(
    looks: list[bool], is_here: bool, asked: int, ran: list[int], is_async: bool
) -> None:
    """W-3a: the process may have been suspended, also after the runner has looked."""
    found: list[int] = []

    @effect("test/once@1")
    async def once(params: Plain, ctx: EffectContext) -> Plain:
        found.append(ctx.attempt)
        return params

    @effect("test/once@1")
    def plain_once(params: Plain, ctx: EffectContext) -> Plain:
        found.append(ctx.attempt)
        return params

    leases = Leases(list(looks), is_here)

    async def scene(node: Node) -> None:
        node.run(1, "test/once@1")
        assert (await node.result())[0] == ("ok" if ran else "canceled")

    rehearse([once if is_async else plain_once], scene, leases=leases)
    assert (found, leases.asked) == (ran, asked)


@pytest.mark.parametrize("end", ["is canceled", "is late"])
def test_a_call_without_a_thread_does_not_begin_once_its_attempt_is_over(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """W-3a: its result has been reported, and the task may run elsewhere."""
    threads: list[Callable[[], None]] = []
    monkeypatch.setattr(CallThreads, "submit", lambda _, work: threads.append(work))
    ran: list[int] = []

    @effect("test/once@1", timeout_s=0.05 if end == "is late" else 60)
    def once(params: Plain, ctx: EffectContext) -> Plain:
        ran.append(ctx.attempt)
        return params

    async def scene(node: Node) -> None:
        node.run(1, "test/once@1")
        while not threads:  # noqa: ASYNC110  # nothing reports it
            await asyncio.sleep(0.001)
        if end == "is canceled":
            node.cancel(1, "test/once@1")
        assert (await node.result())[0] == ("canceled" if end == "is canceled" else "timeout")
        threads.pop()()

    rehearse([once], scene, leases=Leases([True], is_here=True))
    assert not ran


def test_a_huge_result_parks_its_task() -> None:
    @effect("test/set@1", attempts=1)
    async def huge(params: Plain, ctx: EffectContext) -> Plain:
        return {"tags": [], "raw": bytes(300_000)}

    async def scene(node: Node) -> None:
        node.run(1, "test/set@1")
        halt = await node.halt()
        assert (halt["phase"], halt["code"]) == ("parked", "executor_result_too_large")

    rehearse([huge], scene)


@pytest.mark.parametrize(
    ("error", "op", "code"),
    [
        (EffectFailed("declined", "no"), "done", "declined"),
        (NotConfigured("no_bank", "no key", "set BANK"), "halt", "no_bank"),
        (ValueError("no"), "halt", "exception"),
        (SystemExit(3), "halt", "exception"),
        (KeyboardInterrupt(), "halt", "exception"),
        (asyncio.CancelledError(), "halt", "exception"),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
def test_any_exception_of_a_function_ends_its_own_task_alone(
    error: BaseException, op: str, code: str, is_async: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """X-47: the traceback goes to the terminal, not into the journal."""

    def plain(params: Plain, ctx: EffectContext) -> Plain:
        if params["n"] == 1:
            raise error
        return params

    async def asynchronous(params: Plain, ctx: EffectContext) -> Plain:
        return plain(params, ctx)

    function: Any = asynchronous if is_async else plain

    async def scene(node: Node) -> None:
        node.run(1)
        await node.until(lambda: bool(node.heard))
        node.run(2)
        await node.until(lambda: len(node.heard) == 2)
        failed, fine = node.heard
        assert (failed["op"], fine["op"], fine["status"]) == (op, "done", "ok")
        found: Any = failed if op == "halt" else decode_record(failed["payload"])
        assert found["code"] == code
        assert "Traceback" not in str(found)

    rehearse([effect("test/echo@1", attempts=1)(function)], scene)
    assert ("Traceback" in capsys.readouterr().err) == (code == "exception")


def counting(name: str, fail: Callable[[int], BaseException | None]) -> EffectFunction[Any]:
    @effect(name)
    async def function(params: Plain, ctx: EffectContext) -> Plain:
        ctx.cost_cents = ctx.attempt
        error = fail(ctx.attempt)
        if error is not None:
            raise error
        return {"n": ctx.attempt}

    return function


def test_a_retryable_failure_is_tried_again_as_often_as_the_manifest_says() -> None:
    """X-44."""
    function = counting(
        "test/retried@1",
        lambda attempt: EffectFailed("busy", retryable=True) if attempt < 3 else None,
    )

    async def scene(node: Node) -> None:
        node.run(1, "test/retried@1")
        await node.results()

    attempts = [(each["op"], each["attempt"]) for each in rehearse([function], scene).heard]
    assert attempts == [("attempt", 2), ("attempt", 3), ("done", 3)]


def test_the_last_failure_is_the_result() -> None:
    function = counting("test/retried@1", lambda attempt: ConnectionError(f"attempt {attempt}"))

    async def scene(node: Node) -> None:
        node.run(1, "test/retried@1")
        assert await node.result() == (
            "error",
            {"code": "transport", "message": "ConnectionError: attempt 3", "retryable": True},
        )

    node = rehearse([function], scene)
    assert (node.done[0]["attempt"], node.done[0]["cost_cents"]) == (3, 3)


def test_the_next_attempt_waits_until_the_node_has_journaled_it() -> None:
    """X-13: the pause runs meanwhile."""
    function = counting(
        "test/retried@1", lambda attempt: ConnectionError("x") if attempt < 2 else None
    )

    async def scene(node: Node) -> None:
        node.is_granting = False
        node.run(1, "test/retried@1")
        await node.until(lambda: bool(node.heard))
        await asyncio.sleep(0.03)  # the pause is 1 ms
        assert node.heard == [
            {
                "op": "attempt",
                "intent": intent_of(1),
                "attempt": 2,
                "pause_ns": 1_000_000,
                "problem": "transport: ConnectionError: x",
            }
        ]
        node.grant(intent_of(1))
        assert await node.result() == ("ok", {"n": 2})

    rehearse([function], scene)


def test_an_attempt_that_is_not_granted_does_not_begin_and_the_last_failure_is_the_result() -> None:
    function = counting("test/retried@1", lambda attempt: ConnectionError(f"attempt {attempt}"))

    async def scene(node: Node) -> None:
        node.is_granting = False
        node.run(1, "test/retried@1")
        await node.until(lambda: bool(node.heard))
        node.grant(intent_of(1), is_granted=False)
        node.grant(intent_of(1))
        node.grant(intent_of(9))
        await node.results()

    node = rehearse([function], scene)
    assert [(each["op"], each["attempt"]) for each in node.heard] == [("attempt", 2), ("done", 1)]


def test_a_task_that_waits_for_the_journal_is_canceled() -> None:
    function = counting("test/retried@1", lambda _: ConnectionError("x"))

    async def scene(node: Node) -> None:
        node.is_granting = False
        node.run(1, "test/retried@1")
        await node.until(lambda: bool(node.heard))
        node.cancel(1, "test/retried@1")
        assert (await node.result())[0] == "canceled"
        node.grant(intent_of(1))
        await asyncio.sleep(0.01)

    node = rehearse([function], scene)
    assert [each["op"] for each in node.heard] == ["attempt", "done"]


def test_an_at_most_once_task_is_tried_once_whatever_the_decorator_declares() -> None:
    """X-14."""

    @effect("test/once@1", attempts=5, backoff_ms=1)
    async def single(params: Plain, ctx: EffectContext) -> Plain:
        raise ConnectionError

    async def scene(node: Node) -> None:
        node.run(1, "test/once@1")
        assert (await node.result())[0] == "error"

    assert [each["op"] for each in rehearse([single], scene).heard] == ["done"]


def test_why_there_is_another_attempt_is_told_within_bounds() -> None:
    function = counting(
        "test/retried@1", lambda a: ConnectionError("ä" * 100_000) if a == 1 else None
    )

    async def scene(node: Node) -> None:
        node.run(1, "test/retried@1")
        await node.results()

    problem = rehearse([function], scene).heard[0]["problem"]
    assert problem.startswith("transport: ConnectionError: ää")
    assert len(problem.encode()) <= 1024


def test_a_failure_that_is_not_retryable_is_not_tried_again() -> None:
    function = counting("test/retried@1", lambda _: EffectFailed("declined"))

    async def scene(node: Node) -> None:
        node.run(1, "test/retried@1")
        await node.results()

    assert [each["op"] for each in rehearse([function], scene).heard] == ["done"]


def test_an_exception_that_no_author_expected_is_retried_and_then_parked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """X-17, X-18: five attempts without a number, with one traceback; then it stays open."""

    @effect("test/echo@1", backoff_ms=1)
    async def broken(params: Plain, ctx: EffectContext) -> Plain:
        return {"n": params["missing"]}

    async def scene(node: Node) -> None:
        node.run()
        halt = await node.halt()
        assert (halt["phase"], halt["attempt"], halt["code"]) == ("parked", 5, "exception")
        assert halt["problem"] == "KeyError: 'missing'"

    heard = rehearse([broken], scene).heard
    assert [each["op"] for each in heard] == ["attempt"] * 4 + ["halt"]
    assert capsys.readouterr().err.count("Traceback") == 1


def test_the_attempts_before_a_halt_do_not_count() -> None:
    """X-16."""
    function = counting("test/retried@1", lambda _: KeyError("x"))

    async def scene(node: Node) -> None:
        node.run(1, "test/retried@1", attempt=7, spent=6)
        await node.halt()

    heard = rehearse([function], scene).heard
    assert [(each["op"], each["attempt"]) for each in heard] == [
        ("attempt", 8),
        ("attempt", 9),
        ("halt", 9),
    ]


def test_a_canceled_call_that_raises_is_canceled() -> None:
    """X-6: nothing is left to be mended."""
    begun = threading.Event()

    @effect("test/echo@1")
    async def stubborn(params: Plain, ctx: EffectContext) -> Plain:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            raise KeyError("x")

    async def scene(node: Node) -> None:
        node.run()
        await asyncio.to_thread(begun.wait)
        node.cancel(1)
        status, error = await node.result()
        assert (status, error["code"]) == ("canceled", "canceled")

    rehearse([stubborn], scene)


def test_a_task_past_its_attempts_has_one_more() -> None:
    """X-56: it comes back after the process died."""
    function = counting("test/retried@1", lambda _: ConnectionError("x"))

    async def scene(node: Node) -> None:
        node.run(1, "test/retried@1", attempt=7)
        await node.results()

    assert [each["attempt"] for each in rehearse([function], scene).heard] == [7]


def test_a_call_that_takes_too_long_is_a_timeout() -> None:
    """X-45."""
    ended: list[str] = []

    @effect("test/quick@1")
    async def slow(params: Plain, ctx: EffectContext) -> Plain:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("canceled")
        return {}

    async def scene(node: Node) -> None:
        node.run(1, "test/quick@1")
        assert await node.result() == (
            "timeout",
            {"code": "timeout", "message": "no result within 1 s", "retryable": True},
        )

    rehearse([slow], scene)
    assert ended == ["canceled"]


def test_a_timeout_is_tried_again_when_the_call_has_ended() -> None:
    @effect("test/quick-retried@1")
    async def slow(params: Plain, ctx: EffectContext) -> Plain:
        if ctx.attempt == 1:
            await asyncio.sleep(30)
        return {"n": ctx.attempt}

    async def scene(node: Node) -> None:
        node.run(1, "test/quick-retried@1")
        assert await node.result() == ("ok", {"n": 2})

    rehearse([slow], scene)


def test_a_plain_call_past_its_timeout_is_not_retried_while_it_still_runs() -> None:
    """X-45: it cannot be ended, so the same thing would be done twice at the same time."""
    calls: list[int] = []
    release = threading.Event()

    @effect("test/quick-retried@1", concurrency=2)
    def hangs(params: Plain, ctx: EffectContext) -> Plain:
        calls.append(ctx.attempt)
        release.wait(60)
        return {"n": 1}

    async def scene(node: Node) -> None:
        node.run(1, "test/quick-retried@1")
        assert (await node.result())[0] == "timeout"
        assert calls == [1]
        release.set()

    rehearse([hangs], scene)


@pytest.mark.parametrize("fails", [False, True])
def test_a_thread_of_an_async_call_outlives_no_attempt(fails: bool) -> None:
    """X-45: neither one that is canceled nor one that fails: both would work at the same time."""
    calls: list[int] = []
    over: list[bool] = []
    release = threading.Event()

    @effect("test/quick-retried@1", concurrency=2)
    async def hangs(params: Plain, ctx: EffectContext) -> Plain:
        calls.append(ctx.attempt)

        def work() -> None:
            release.wait(60)
            over.append(ctx.is_over)

        thread = asyncio.ensure_future(asyncio.to_thread(work))
        if fails:
            await asyncio.sleep(0)
            raise ConnectionError
        await thread
        return {"n": 1}

    async def scene(node: Node) -> None:
        node.run(1, "test/quick-retried@1")
        assert (await node.result())[0] == "timeout"
        assert calls == [1]
        release.set()

    rehearse([hangs], scene)
    assert over == [True]


def test_a_thread_that_ends_with_its_attempt_does_not_prevent_another() -> None:
    """X-45: the function asks ``ctx.is_over``."""

    @effect("test/quick-retried@1")
    async def waits(params: Plain, ctx: EffectContext) -> Plain:
        def work() -> None:
            while ctx.attempt == 1 and not ctx.is_over:
                time.sleep(0.01)

        await asyncio.to_thread(work)
        return {"n": ctx.attempt}

    async def scene(node: Node) -> None:
        node.run(1, "test/quick-retried@1")
        assert await node.result() == ("ok", {"n": 2})

    rehearse([waits], scene)


def test_an_overdue_call_keeps_its_slot_until_it_ends() -> None:
    """X-49."""
    release = threading.Event()
    running: list[int] = []

    @effect("test/quick@1", concurrency=2)
    def hangs(params: Plain, ctx: EffectContext) -> Plain:
        running.append(params["n"])
        if params["n"] == 1:
            release.wait(60)
        return params

    async def scene(node: Node) -> None:
        node.run(1, "test/quick@1")
        await node.results(1)
        for number in range(2, 6):
            node.run(number, "test/quick@1")
        await node.results(5)
        release.set()

    node = rehearse([hangs], scene)
    assert running == [1, 2, 3, 4, 5]
    assert [each["op"] for each in node.heard] == ["done"] * 5


def test_when_all_slots_are_overdue_the_node_is_asked_to_end_the_process() -> None:
    release = threading.Event()

    @effect("test/quick@1", concurrency=2)
    def hangs(params: Plain, ctx: EffectContext) -> Plain:
        release.wait(60)
        return params

    async def scene(node: Node) -> None:
        node.run(1, "test/quick@1")
        node.run(2, "test/quick@1")
        await node.until(lambda: node.heard[-1:] != [] and node.heard[-1]["op"] == "stuck")
        release.set()

    node = rehearse([hangs], scene)
    assert [each["op"] for each in node.heard] == ["done", "done", "stuck"]
    assert node.heard[-1]["reason"].startswith("all 2 slots of test/quick@1 are held by calls")


def test_a_function_that_blocks_the_loop_is_found_out() -> None:
    release = threading.Event()

    @effect("test/quick@1", concurrency=9)
    async def blocks(params: Plain, ctx: EffectContext) -> Plain:
        release.wait(60)
        return params

    async def scene(node: Node) -> None:
        node.run(1, "test/quick@1")
        await node.until(lambda: len(node.heard) == 2)
        release.set()

    node = rehearse([blocks], scene)
    assert [each["op"] for each in node.heard] == ["done", "stuck"]
    assert node.heard[0]["status"] == "timeout"
    assert "blocks the event loop" in node.heard[1]["reason"]


def test_no_more_calls_run_than_there_are_slots() -> None:
    """X-42."""
    most: list[int] = [0, 0]

    @effect("test/echo@1", concurrency=3)
    async def echo(params: Plain, ctx: EffectContext) -> Plain:
        most[0] += 1
        most[1] = max(most)
        await asyncio.sleep(0.001)
        most[0] -= 1
        return params

    async def scene(node: Node) -> None:
        for number in range(30):
            node.run(number)
        await node.results(30)

    rehearse([echo], scene)
    assert most == [0, 3]


def test_a_running_call_is_canceled() -> None:
    """X-6."""
    begun = threading.Event()

    @effect("test/echo@1")
    async def echo(params: Plain, ctx: EffectContext) -> Plain:
        begun.set()
        await asyncio.sleep(30)
        return params

    async def scene(node: Node) -> None:
        node.run(1)
        await asyncio.to_thread(begun.wait, 60)
        node.cancel(1)
        node.cancel(1)
        status, error = await node.result()
        assert (status, error["code"]) == ("canceled", "canceled")
        assert error["message"] == "canceled while it ran"

    rehearse([echo], scene)


def test_a_call_that_finishes_although_it_was_canceled_says_what_it_did() -> None:
    begun = threading.Event()

    @effect("test/echo@1")
    async def echo(params: Plain, ctx: EffectContext) -> Plain:
        begun.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return {"n": 99}
        return params

    async def scene(node: Node) -> None:
        node.run(1)
        await asyncio.to_thread(begun.wait, 60)
        node.cancel(1)
        assert await node.result() == ("ok", {"n": 99})

    rehearse([echo], scene)


def test_a_task_that_waits_for_a_slot_or_its_next_attempt_is_canceled() -> None:
    @effect("test/echo@1", concurrency=1)
    async def echo(params: Plain, ctx: EffectContext) -> Plain:
        await asyncio.sleep(30)
        return params

    @effect("test/other@1", attempts=2, backoff_ms=60_000)
    async def other(params: Plain, ctx: EffectContext) -> Plain:
        raise ConnectionError

    async def scene(node: Node) -> None:
        node.run(1)
        node.run(2)
        node.run(3, "test/other@1")
        await asyncio.sleep(0.05)
        for number, name in ((2, "test/echo@1"), (3, "test/other@1")):
            node.cancel(number, name)
        await node.results(2)
        node.cancel(1)
        await node.results(3)

    node = rehearse([echo, other], scene)
    assert {each["status"] for each in node.done} == {"canceled"}
    assert [each["intent"] for each in node.done] == [intent_of(2), intent_of(3), intent_of(1)]


def test_a_task_that_was_canceled_before_it_came_is_answered() -> None:
    async def scene(node: Node) -> None:
        node.cancel(1)
        status, error = await node.result()
        assert (status, error["message"]) == ("canceled", "canceled before it ran")

    rehearse([counting("test/echo@1", lambda _: None)], scene)


def test_a_result_is_kept_until_it_is_acknowledged() -> None:
    """X-55."""
    calls: list[Hash] = []

    @effect("test/echo@1")
    async def echo(params: Plain, ctx: EffectContext) -> Plain:
        calls.append(params["n"])
        return params

    async def scene(node: Node) -> None:
        node.run(1)
        await node.results(1)
        node.run(1)
        await node.results(2)
        node.ack(1)
        node.run(1)
        await node.results(3)

    node = rehearse([echo], scene)
    assert node.done[0] == node.done[1]
    assert len(calls) == 2


def test_a_task_that_runs_is_not_begun_again() -> None:
    async def scene(node: Node) -> None:
        node.run(1)
        node.run(1)
        await node.results(1)
        await asyncio.sleep(0.02)

    assert len(rehearse([counting("test/echo@1", lambda _: None)], scene).done) == 1


def test_an_effect_that_is_not_run_here_is_held() -> None:
    async def scene(node: Node) -> None:
        node.run(1, "test/other@1")
        halt = await node.halt()
        assert (halt["phase"], halt["code"]) == ("held", "executor_effect_unknown")

    rehearse([counting("test/echo@1", lambda _: None)], scene)


def batch_of(done: Message) -> Batch | None:
    if done["batch"] is None:
        return None
    index, size, path = done["batch"]
    return Batch(index=index, size=size, path=tuple(path))


def test_outcomes_of_each_kind_are_signed(tmp_path: Path) -> None:
    """X-48."""
    (tmp_path / "key").write_text("ab" * 32)
    (tmp_path / "key").chmod(0o600)
    signer = read_key("troupe", tmp_path / "key")

    async def scene(node: Node) -> None:
        node.run(1)
        node.run(2, "test/retried@1")
        node.cancel(3)
        await node.results(3)

    functions = [
        counting("test/echo@1", lambda _: None),
        counting("test/retried@1", lambda _: EffectFailed("declined")),
    ]
    node = rehearse(functions, scene, signer=signer)
    assert {each["status"] for each in node.done} == {"ok", "error", "canceled"}
    for each in node.done:
        receipt = ReceiptInput(
            intent=each["intent"],
            effect=each["effect"],
            attempt=each["attempt"],
            status=each["status"],
            payload=each["payload"],
            started_ns=each["started_ns"],
            finished_ns=each["finished_ns"],
            executor="troupe",
            key_id=signer.public_key,
            signature=each["signature"],
            cost_cents=each["cost_cents"],
            batch=batch_of(each),
        )
        message = receipt.signed_message(WORLD)
        assert message is not None
        assert is_signed(message, receipt.signature, signer.public_key)


def test_setup_is_entered_once_on_the_loop_of_the_calls_and_left_at_the_end() -> None:
    """X-40."""
    heard: list[object] = []

    @asynccontextmanager
    async def setup() -> Any:
        heard.append("entered")
        async with asyncio.TaskGroup():  # insists on being left by the task that entered it
            yield asyncio.get_running_loop()
        heard.append("left")

    @effect("test/echo@1")
    async def echo(params: Plain, ctx: EffectContext) -> Plain:
        heard.append(ctx.resource is asyncio.get_running_loop())
        return params

    async def scene(node: Node) -> None:
        node.run(1)
        node.run(2)
        await node.results(2)

    rehearse([echo], scene, setup=setup)
    assert heard == ["entered", True, True, "left"]


# Secrets

REF: Plain = {"alias": "t/key", "version": 1}


def secrets(value: str = "0123456789abcdef") -> bytes:
    return to_wire([SecretValue(name="t/key@1", value=value.encode(), hosts=None)])


def test_every_attempt_of_a_task_has_its_secret_and_no_other_task_does() -> None:
    """X-75."""
    seen: list[str] = []

    @effect("test/retried@1", attempts=2)
    async def retried(_: Plain, ctx: EffectContext) -> Plain:
        seen.append(ctx.secret(REF))
        if ctx.attempt == 1:
            raise ConnectionError(f"no answer to {seen[0]}")
        return {"n": len(seen)}

    @effect("test/echo@1", attempts=1)
    async def echo(_: Plain, ctx: EffectContext) -> Plain:
        return {"n": len(ctx.secrets) + len(ctx.secret(REF))}

    async def scene(node: Node) -> None:
        node.run(1, "test/retried@1", secrets=secrets())
        await node.results()
        node.run(2)
        halt = await node.halt()
        assert halt["code"] == "exception"
        assert "expected a sys/SecretRef@1 of the params of this task" in halt["problem"]

    node = rehearse([retried, echo], scene)

    assert seen == ["0123456789abcdef"] * 2
    [asked] = [each for each in node.heard if each["op"] == "attempt"]
    assert asked["problem"] == "transport: ConnectionError: no answer to [secret t/key@1]"
    assert redacted_output._HIDDEN == []


def test_progress_that_holds_a_secret_is_dropped_and_the_rest_arrives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """X-77."""

    @effect("test/echo@1")
    async def echo(_: Plain, ctx: EffectContext) -> Plain:
        value = ctx.secret(REF)
        ctx.progress(value)
        ctx.progress("k", {"key": value})
        ctx.progress("k", value.encode().hex())
        ctx.progress("k", {value: 1.5})
        ctx.progress("k", 1, blob=value.encode())
        ctx.progress("k", 2)
        return {"n": 1}

    async def scene(node: Node) -> None:
        node.run(secrets=secrets())
        await node.results()

    node = rehearse([echo], scene)

    frames = node.frames
    assert [decode_record(each["payload"]) for each in frames] == [2]
    told = capsys.readouterr().err
    assert told.count("it holds the value of a secret") == 1
    assert "0123456789abcdef" not in told


def test_a_result_with_half_of_a_secret_in_the_words_of_its_misfit_is_not_quoted() -> None:
    """X-78: the check of the schema would quote the first characters alone."""
    value = "correct-horse-" * 20

    @effect("test/echo@1", attempts=3)
    async def echo(_: Plain, ctx: EffectContext) -> Plain:
        return {"n": ctx.secret(REF)}

    @effect("test/other@1", attempts=3)
    async def other(_: Plain, ctx: EffectContext) -> Plain:
        ctx.cost_cents = ctx.secret(REF)  # type: ignore[assignment]  # the mistake of the test
        return {"n": 1}

    async def scene(node: Node) -> None:
        node.run(1, secrets=secrets(value))
        node.run(2, "test/other@1", secrets=secrets(value))
        await node.until(lambda: len([each for each in node.heard if each["op"] == "halt"]) == 2)

    node = rehearse([echo, other], scene)

    assert [each["op"] for each in node.heard] == ["halt", "halt"], "no further attempt"
    for each in node.heard:
        assert (each["phase"], each["code"]) == ("parked", "secret_in_result")
        assert each["is_final"] is True
        assert "correct-horse" not in each["problem"]


def test_a_call_that_outlives_its_task_still_prints_no_secret() -> None:
    """X-77."""
    go_on = threading.Event()

    @effect("test/quick@1")
    def stuck(_: Plain, ctx: EffectContext) -> Plain:
        go_on.wait(60)
        return {"n": 1}

    async def scene(node: Node) -> None:
        node.run(1, "test/quick@1", secrets=secrets())
        await node.until(lambda: bool(node.done))
        assert len(redacted_output._HIDDEN) == 1
        go_on.set()
        async with asyncio.timeout(60):
            while redacted_output._HIDDEN:  # noqa: ASYNC110  # nothing is sent when a late call ends
                await asyncio.sleep(0.005)

    assert rehearse([stuck], scene).done[0]["status"] == "timeout"
