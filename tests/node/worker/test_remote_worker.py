"""A worker over HTTP: failed connections, lost leases, keys, and its end (W-2 to W-9)."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from nacl.signing import SigningKey

from aos.core.journal.records import Receipt
from aos.errors import BadUsage, Refused, Unavailable
from aos.node.problems import Problem
from aos.node.worker import Worker, remote_worker
from aos.values.cbor import encode
from aos.worker import EffectContext, Executors, effect, lease_check
from aos.worker.calls import CallThreads
from aos.worker.runner import TaskRunner
from aos.worker.wire import Message
from tests.core.desk import ARMS, DESK, ONCE, PAY, desk, log_of, nodes, tell, wish
from tests.memory_world import WORLD_KEY, MemoryWorld, air, route, schema
from tests.node.leases.stage import Stage, play
from tests.node.worker.wire import NodeWire

Plain = dict[str, Any]


@effect(PAY, concurrency=2, attempts=2, backoff_ms=1)
async def pay(params: Plain, ctx: EffectContext) -> Plain:
    return {"ref": str(ctx.attempt)}


async def until(stage: Stage, holds: Callable[[], bool]) -> None:
    """Wait while time passes at the node."""
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)
            await stage.work.tick()


def all_settled(stage: Stage) -> Callable[[], bool]:
    return lambda: not stage.world.state.intents


async def with_worker(
    stage: Stage,
    wire: NodeWire,
    act: Callable[[Worker], Awaitable[None]],
    executors: Executors | None = None,
    **more: Any,
) -> None:
    worker = Worker("http://node", executors or Executors("shop", [pay]), transport=wire, **more)
    running = asyncio.ensure_future(worker.run())
    try:
        await act(worker)
    finally:
        worker.stop()
        await running


def wire_of(stage: Stage, **more: Any) -> NodeWire:
    return NodeWire(lambda: stage.work, **more)


def test_requests_whose_answers_are_lost_are_repeated_and_nothing_runs_twice(
    tmp_path: Path,
) -> None:
    """W-2, W-4: the same claim id, the same result."""
    lost = {"claim": 2, "results": 2}

    def loses(name: str) -> bool:
        lost[name] = lost.get(name, 0) - 1
        return lost[name] >= 0

    async def scene(stage: Stage) -> None:
        stage.open("a", "b", "c")
        wire = wire_of(stage, loses=loses)
        lines: list[str] = []

        async def act(_: Worker) -> None:
            await until(stage, all_settled(stage))

        await with_worker(stage, wire, act, report=lines.append)
        claims = [body["claim"] for name, body in wire.heard if name == "claim"]
        assert claims[0] == claims[1] == claims[2]
        assert "does not answer" in lines[0]

    stage = play(tmp_path, scene)
    assert stage.phases() == [], "no attempt was lost"


def test_results_are_kept_while_the_node_is_away(tmp_path: Path) -> None:
    """W-4: also over a crash of the front and while the disk is full."""
    away = [True, True]

    async def scene(stage: Stage) -> None:
        stage.open("a")
        wire = wire_of(stage, fails=lambda name: name == "results" and bool(away) and away.pop())

        async def act(_: Worker) -> None:
            await until(stage, lambda: len(away) < 2)
            await stage.restart()
            stage.link.problem = Unavailable("the disk is full")
            await until(stage, lambda: [each for each, _ in wire.heard].count("results") >= 3)
            stage.link.problem = None
            await until(stage, all_settled(stage))

        await with_worker(stage, wire, act)

    assert play(tmp_path, scene).phases() == []


def test_a_function_whose_lease_is_lost_or_whose_task_is_canceled_is_canceled(
    tmp_path: Path,
) -> None:
    """W-3."""
    began: list[str | None] = []
    ended: list[str | None] = []

    @effect(PAY, concurrency=2)
    async def endless(params: Plain, ctx: EffectContext) -> Plain:
        began.append(ctx.issuer_ref)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(ctx.issuer_ref)
        return {"ref": ""}

    async def scene(stage: Stage) -> None:
        stage.open("a", "b")

        async def act(_: Worker) -> None:
            await until(stage, lambda: set(began) == {"a", "b"})
            first, second = stage.world.state.intents
            stage.world.control("cancel", intent=first)
            stage.link.publish()
            await stage.work.reclaim({"tasks": [f"blake3:{second.hex()}"]}, wire.token)
            await until(stage, lambda: {"a", "b"} <= set(ended))
            stage.world.control("cancel", intent=second)
            stage.link.publish()

        wire = wire_of(stage)
        executors = Executors("shop", [endless])
        await with_worker(stage, wire, act, executors, lease_s=1, report=lambda _: None)
        sent = [each for name, body in wire.heard if name == "results" for each in body["results"]]
        assert all(each["status"] == "canceled" for each in sent)

    play(tmp_path, scene)


def test_it_claims_for_free_slots_alone(tmp_path: Path) -> None:
    """W-2."""
    go = threading.Event()
    running: list[str] = []

    @effect(PAY, concurrency=2)
    def slow(params: Plain, ctx: EffectContext) -> Plain:
        running.append(str(ctx.issuer_ref))
        assert go.wait(60)
        return {"ref": "r"}

    @effect(ONCE, concurrency=1)
    def once(params: Plain, ctx: EffectContext) -> Plain:
        running.append(str(ctx.issuer_ref))
        return {"ref": "r"}

    async def scene(stage: Stage) -> None:
        stage.open("a", "b", "c")

        async def act(_: Worker) -> None:
            await until(stage, lambda: len(running) == 2)
            assert len(stage.work.leases.offers) == 1
            stage.open("d", effect=ONCE)
            await until(stage, lambda: "d" in running)
            go.set()
            await until(stage, all_settled(stage))

        await with_worker(stage, wire_of(stage), act, Executors("shop", [slow, once]))
        assert running == ["a", "b", "d", "c"]

    play(tmp_path, scene)


def test_it_signs_with_its_own_key_where_the_manifest_names_it(tmp_path: Path) -> None:
    """W-7, M-37."""
    key = SigningKey(b"k" * 32)
    file = tmp_path / "shop.key"
    file.write_text(bytes(key).hex())
    file.chmod(0o600)
    executors = [
        {
            "name": "test",
            "public_key": f"ed25519:{bytes(key.verify_key).hex()}",
            "effects": [PAY, ONCE],
        },
        {
            "name": "node",
            "public_key": f"ed25519:{bytes(WORLD_KEY.verify_key).hex()}",
            "effects": ["sys/timer.set@1"],
        },
    ]

    async def scene(stage: Stage) -> None:
        stage.open("a", "b", "c")
        lines: list[str] = []

        async def nothing(_: Worker) -> None:
            await until(stage, lambda: any("another signer" in each for each in lines))

        await with_worker(stage, wire_of(stage), nothing, report=lines.append)
        assert len(stage.world.state.intents) == 3

        async def act(_: Worker) -> None:
            await until(stage, all_settled(stage))

        await with_worker(stage, wire_of(stage), act, Executors("test", [pay]), key_file=file)
        receipts = [each for each in stage.world.records() if isinstance(each, Receipt)]
        assert {(each.executor, each.key_id) for each in receipts} == {
            ("test", bytes(key.verify_key))
        }

    (tmp_path / "world").mkdir()
    play(tmp_path / "world", scene, executors=executors)


def test_a_worker_that_stops_ends_what_runs_and_claims_nothing(tmp_path: Path) -> None:
    """W-5."""
    began = threading.Event()

    @effect(PAY)
    async def slow(params: Plain, ctx: EffectContext) -> Plain:
        began.set()
        await asyncio.sleep(0.1)
        return {"ref": "r"}

    async def scene(stage: Stage) -> None:
        stage.open("a")

        async def act(worker: Worker) -> None:
            await until(stage, began.is_set)
            worker.stop()
            stage.open("b")

        await with_worker(stage, wire_of(stage), act, Executors("shop", [slow]))
        assert "t/pay@1 a ok" in log_of(stage.world, "k")
        assert len(stage.work.leases.offers) == 1

    play(tmp_path, scene)


def test_a_worker_gives_back_what_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-5."""
    monkeypatch.setattr("aos.node.worker.remote_worker.DRAIN_S", 0.1)
    began = threading.Event()

    @effect(PAY)
    async def endless(params: Plain, ctx: EffectContext) -> Plain:
        began.set()
        await asyncio.sleep(60)
        return {"ref": ""}

    async def scene(stage: Stage) -> None:
        stage.open("a")

        async def act(_: Worker) -> None:
            await until(stage, began.is_set)

        await with_worker(stage, wire_of(stage), act, Executors("shop", [endless]))
        [task] = await stage.claim("other")
        assert task["epoch"] == 2

    play(tmp_path, scene)


def test_a_call_without_a_thread_does_not_begin_once_its_task_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-3a, W-5: the call gets its thread when the node has the release."""
    monkeypatch.setattr("aos.node.worker.remote_worker.DRAIN_S", 0.05)
    threads: list[Callable[[], None]] = []
    monkeypatch.setattr(CallThreads, "submit", lambda _, work: threads.append(work))
    ran: list[int] = []

    @effect(PAY)
    def plain_pay(params: Plain, ctx: EffectContext) -> Plain:
        ran.append(ctx.attempt)
        return {"ref": "r"}

    async def scene(stage: Stage) -> None:
        class FreesAThread(NodeWire):
            async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
                answer = await super().handle_async_request(request)
                if request.url.path.endswith("/release"):
                    threads.pop()()
                return answer

        stage.open("a")

        async def act(_: Worker) -> None:
            await until(stage, lambda: bool(threads))

        wire = FreesAThread(lambda: stage.work)
        await with_worker(stage, wire, act, Executors("shop", [plain_pay]))
        [task] = await stage.claim("other")
        assert task["epoch"] == 2

    play(tmp_path, scene)
    assert not threads, "nothing was given back"
    assert not ran


def test_a_token_that_does_not_work_ends_the_worker_with_what_to_do(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        class Locked:
            async def claim(self, *_: Any) -> Any:
                raise Problem(401, "token_is_missing", "a token is needed")

        wire = NodeWire(Locked)  # type: ignore[arg-type]  # one handler is enough
        worker = Worker("http://node", Executors("shop", [pay]), transport=wire)
        with pytest.raises(Refused, match="set AOS_TOKEN to a token"):
            await worker.run()
        del stage

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("url", "more"),
    [("ftp://node", {}), ("http://node", {"lease_s": 0.5}), ("http://node", {"concurrency": 0})],
)
def test_invalid_arguments_are_refused(url: str, more: dict[str, Any]) -> None:
    with pytest.raises(BadUsage):
        Worker(url, Executors("shop", [pay]), **more)


def test_a_request_that_the_node_refuses_as_a_whole_costs_one_result_only(tmp_path: Path) -> None:
    """W-4a: the result is parked, and progress that is refused is dropped."""
    together = threading.Barrier(3)

    @effect(PAY, concurrency=3, attempts=1)
    def slow(params: Plain, ctx: EffectContext) -> Plain:
        ctx.progress("step", {"refused": 1})
        together.wait(60)
        return {"ref": "refuse me" if ctx.issuer_ref == "b" else "fine"}

    class Strict(NodeWire):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            content = await request.aread()
            if request.url.path.endswith("/progress") or base64.b64encode(bad)[4:-8] in content:
                return httpx.Response(400, json={"detail": "body: it is malformed"})
            return await super().handle_async_request(request)

    bad = encode({"ref": "refuse me"})

    async def scene(stage: Stage) -> None:
        stage.open("a", "b", "c")

        async def act(_: Worker) -> None:
            await until(stage, lambda: len(stage.world.state.intents) == 1)
            await until(stage, lambda: ("parked", 1) in stage.phases())

        wire = Strict(lambda: stage.work)
        await with_worker(stage, wire, act, Executors("shop", [slow]))

    play(tmp_path, scene)


@pytest.mark.parametrize("is_over", [True, False])
def test_a_worker_that_was_suspended_asks_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    """W-3a: its answer waited in the socket for longer than the lease. If the journal has the task
    as lost, the function does not run; if the node prolonged the lease, it runs."""
    jump_s = 0.0
    monkeypatch.setattr(lease_check, "boot_s", lambda: time.monotonic() + jump_s)
    monkeypatch.setattr(remote_worker, "boot_s", lambda: time.monotonic() + jump_s)
    ran: list[int] = []

    @effect(ONCE)
    async def once(params: Plain, ctx: EffectContext) -> Plain:
        ran.append(ctx.attempt)
        return {"ref": "r"}

    async def scene(stage: Stage) -> None:
        class Sleepy(NodeWire):
            async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
                nonlocal jump_s
                answer = await super().handle_async_request(request)
                if request.url.path.endswith("/claim") and answer.json()["tasks"]:
                    jump_s += 40
                    if is_over:
                        await stage.pass_s(40)
                return answer

        stage.open("a", effect=ONCE)
        wire = Sleepy(lambda: stage.work)

        async def act(_: Worker) -> None:
            await until(stage, lambda: any(name == "heartbeat" for name, _ in wire.heard))
            await until(stage, all_settled(stage))

        await with_worker(stage, wire, act, Executors("shop", [once]), report=lambda _: None)

    stage = play(tmp_path, scene)
    assert ran == ([] if is_over else [1])
    assert stage.phases() == [("begun", 1), *([("lost", 1)] if is_over else [])]


def test_the_lease_of_an_attempt_lets_no_call_of_an_earlier_one_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-3a: the call of the first attempt gets its thread once the worker has the second lease."""
    threads: list[Callable[[], None]] = []
    monkeypatch.setattr(CallThreads, "submit", lambda _, work: threads.append(work))
    receive = TaskRunner.receive

    def receive_late(runner: TaskRunner, message: Message) -> None:
        if message["op"] == "cancel":
            threads[0]()
        receive(runner, message)

    monkeypatch.setattr(TaskRunner, "receive", receive_late)
    ran: list[int] = []

    @effect(PAY, concurrency=2)
    def plain_pay(params: Plain, ctx: EffectContext) -> Plain:
        ran.append(ctx.attempt)
        return {"ref": "r"}

    async def scene(stage: Stage) -> None:
        stage.open("a")
        wire = wire_of(stage)

        async def act(_: Worker) -> None:
            await until(stage, lambda: bool(threads))
            await stage.work.reclaim({"tasks": stage.open_intents()}, wire.token)
            await until(stage, lambda: len(threads) == 2)
            threads[1]()
            await until(stage, all_settled(stage))

        await with_worker(stage, wire, act, Executors("shop", [plain_pay]), report=lambda _: None)

    play(tmp_path, scene)
    assert ran == [2]


SECRETS: Plain = {
    "$kind": "defsecret",
    "name": "t/key@1",
    "binding_id": "env:T_KEY",
}


def keyed_world(*, has_secrets: bool) -> MemoryWorld:
    """Its effect takes a secret."""
    definitions = [
        schema("t/Keyed@1", {"record": {"key": {"ref": "sys/SecretRef@1"}}})
        if each["name"] == "t/Pay@1"
        else {**each, "params": "t/Keyed@1"}
        if each["$kind"] == "defeffect"
        else each
        for each in nodes(ARMS)
    ]
    more: Plain = {"secrets": [{"name": "t/key@1"}]} if has_secrets else {}
    secrets = [SECRETS] if has_secrets else []
    loaded = air([*definitions, *secrets], [route("t/Tell@1", DESK, "key")], **more)
    return MemoryWorld(loaded, {DESK: desk})


@pytest.mark.parametrize("has_secrets", [True, False])
def test_a_task_that_names_a_secret_is_held(tmp_path: Path, has_secrets: bool) -> None:
    """W-8: no value is sent over HTTP, and the function does not run. Without secrets in the
    manifest, a reference is plain data (M-56)."""
    began: list[Plain] = []

    @effect(PAY)
    async def keyed(params: Plain, ctx: EffectContext) -> Plain:
        began.append(params)
        return {"ref": ""}

    async def scene(stage: Stage) -> None:
        world = stage.world
        asked = wish(PAY, {"key": {"alias": "t/key", "version": 1}}, "r")
        tell(world, "k", asked)
        stage.link.publish()

        def is_over() -> bool:
            return not world.state.intents or ("held", 1) in stage.phases()

        async def act(_: Worker) -> None:
            await until(stage, is_over)

        await with_worker(
            stage, wire_of(stage), act, Executors("shop", [keyed]), report=lambda _: None
        )
        if has_secrets:
            [halt] = [world.state.halt(each) for each in world.state.intents.values()]
            assert halt is not None
            assert halt.code == "secret_unavailable"
            assert halt.problem is not None
            assert halt.problem.startswith("secret t/key@1: a worker on another machine gets no")

    play(tmp_path, scene, world=keyed_world(has_secrets=has_secrets))
    assert len(began) == (0 if has_secrets else 1)


def test_functions_that_need_blobs_are_left_to_the_process_of_the_world(tmp_path: Path) -> None:
    """W-9."""

    @effect(ONCE, blobs=("data",))
    async def blobs(params: Plain, ctx: EffectContext) -> Plain:
        return {"ref": ""}

    with pytest.raises(BadUsage, match=r"no tasks of t/once@1: .* run them in the process"):
        Worker("http://node", Executors("shop", [blobs]), transport=NodeWire(pytest.fail))

    async def scene(stage: Stage) -> None:
        stage.open("a")
        stage.open("b", effect=ONCE, key="other")
        wire = wire_of(stage)
        lines: list[str] = []

        async def act(_: Worker) -> None:
            await until(stage, lambda: len(stage.world.state.intents) == 1)

        executors = Executors("shop", [pay, blobs])
        await with_worker(stage, wire, act, executors, report=lines.append)
        claimed = [
            each["name"] for name, body in wire.heard if name == "claim" for each in body["effects"]
        ]
        assert set(claimed) == {PAY}
        assert "no tasks of t/once@1" in lines[0]

    play(tmp_path, scene)


def test_a_halt_that_is_final_is_a_final_result() -> None:
    """N-60, X-78: the node gives the task no other attempt."""
    halt = {
        "op": "halt", "intent": bytes(32), "attempt": 1, "phase": "parked",
        "code": "secret_in_result", "problem": "it holds a secret", "dropped": 0,
    }  # fmt: skip

    assert "is_final" not in remote_worker._halted(halt)
    assert remote_worker._halted({**halt, "is_final": True})["is_final"] is True
