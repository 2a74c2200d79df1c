"""A worker on another machine: ``aos.worker.runner`` over HTTP (spec/worker.md, W-1 to W-9)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx

from aos.boot_clock import boot_s
from aos.client.node_connection import NodeUnavailable
from aos.errors import AosError, BadUsage, Unavailable
from aos.manifest.secret_use import named_secrets
from aos.node.worker.held_tasks import HeldTask, HeldTasks
from aos.node.worker.node_requests import NodeRequests, bytes_of, first_group, post_results
from aos.node.worker.step_tasks import StepTasks
from aos.values.cbor import encode
from aos.values.digests import Hash, hash_text, parse_hash
from aos.values.errors import ValueProblem
from aos.worker.calls import Callers
from aos.worker.executor_key import Signer, read_key
from aos.worker.executors import Executors
from aos.worker.failure import RESULT_INVALID, RESULT_TOO_LARGE
from aos.worker.lease_check import is_fresh
from aos.worker.redacted_output import say
from aos.worker.runner import TaskRunner
from aos.worker.wire import Message
from aos.worker.worker_secrets import UNAVAILABLE

LEASE_S: Final = 30.0
LEASE_S_MIN: Final = 1.0
LEASE_S_MAX: Final = 3600.0

WAIT_MS: Final = 30_000
"""How long a claim waits for a task at the node, in milliseconds."""

DRAIN_S: Final = 30.0
"""Seconds that running functions have to end in when the worker stops."""

STOP_S: Final = 2.0
"""Seconds that async calls and ``setup`` have to end in after that."""

SETTLE_S: Final = 0.02
"""Pause before a waiting claim is made again because a slot is free."""

PAUSE_S: Final = 0.05
PAUSE_S_MAX: Final = 10.0
"""Pauses before a request is sent again to a node that is away, doubled each time, in seconds."""

ITEMS_MAX: Final = 256


class Worker:
    """Carries out tasks of a node until it is stopped.

    Args:
        url: The node: ``http://…``, ``https://…``, or the folder of a world on this machine.
        executors: The functions. ``setup`` is entered once, before the first call.
        token: The secret of a token with the scope ``work``; none on the folder of a world.
        name: Its name at the node. A lease belongs to this name; two processes need two names.
        concurrency: Tasks that it has at a time, in addition to the limits of its effects.
        lease_s: Length of a lease, in seconds (1 to 3,600). A heartbeat is sent three times in it.
        key_file: File with the Ed25519 seed with which it signs as ``executors.name``.
        transport: Replaces the connections, in tests.

    Raises:
        BadUsage: An argument is invalid, the key or the keyring cannot be read, or all functions
            need blobs.
    """

    def __init__(
        self,
        url: str,
        executors: Executors,
        *,
        token: str | None = None,
        name: str | None = None,
        concurrency: int | None = None,
        lease_s: float = LEASE_S,
        key_file: str | Path | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        report: Callable[[str], None] = say,
    ) -> None:
        if not LEASE_S_MIN <= lease_s <= LEASE_S_MAX:
            raise BadUsage(f"lease_s: expected {LEASE_S_MIN:g} to {LEASE_S_MAX:g}, found {lease_s}")
        if concurrency is not None and concurrency < 1:
            raise BadUsage(f"concurrency: expected at least 1, found {concurrency}")
        self._executors = executors
        executors.keyring()  # one that cannot be read is reported before there is a task
        self._name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._lease_ms = int(lease_s * 1000)
        path = Path(key_file) if key_file is not None else executors.key_file
        self._signer: Signer | None = None if path is None else read_key(executors.name, path)
        self._node = NodeRequests(url, token=token, transport=transport)
        self._report = report
        effects = {
            name: function for name, function in executors.effects.items() if not function.blobs
        }
        self._without_blobs = sorted(executors.effects.keys() - effects.keys())
        if self._without_blobs and not effects and not executors.steps:
            raise BadUsage(self._needs_blobs())
        self._tasks = HeldTasks(effects, concurrency)
        self._callers = Callers([*executors.effects.values(), *executors.steps.values()])
        self._steps = StepTasks(
            self._node,
            executors.steps,
            self._callers,
            worker=self._name,
            lease_ms=self._lease_ms,
            steps_max=concurrency,
            report=self._say_once,
            stuck=self._is_stuck,
        )
        self._runner: TaskRunner | None = None
        self._resource: object = None
        self._manifest: str | None = None
        self._later: dict[Hash, Message] = {}
        self._results: dict[Hash, dict[str, Any]] = {}
        self._frames: list[dict[str, Any]] = []
        self._reported_texts: set[str] = set()
        self._has_results = asyncio.Event()
        self._is_free = asyncio.Event()
        self._stopping = asyncio.Event()
        self._stuck: str | None = None

    def stop(self) -> None:
        """Claim no more; end what runs within 30 s, give the rest back, and return from ``run``."""
        self._stopping.set()
        self._is_free.set()
        self._steps.stop()

    async def run(self) -> None:
        """Carry out tasks until ``stop``. A node that is away is waited for.

        Raises:
            Refused: The node does not allow it (its token).
            BadUsage: The node did not understand a request; it may be of another release.
            Unavailable: Functions hold all slots and do not end. The process must be started again.
        """
        if self._without_blobs:
            self._report(f"worker {self._name}: {self._needs_blobs()}")
        self._resource = await self._callers.start(self._executors.setup)
        self._steps.resource = self._resource
        claims, background = self._parts()
        parts: list[asyncio.Future[Any]] = [*claims, *background]
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([*parts, stopping], return_when=asyncio.FIRST_COMPLETED)
            self._stopping.set()
            for part in parts:
                if part.done():
                    part.result()
            self.stop()
            for part in claims:
                await _ended(part)
            await asyncio.gather(self._drain(), self._steps.drain(DRAIN_S))
            if self._stuck is not None:
                raise Unavailable(self._stuck)
        finally:
            stopping.cancel()
            for part in parts:
                await _ended(part)
            if self._runner is not None:
                self._runner.close()
            await self._callers.stop(STOP_S)
            await asyncio.to_thread(self._callers.close)
            await self._node.close()

    def _needs_blobs(self) -> str:
        return (
            f"no tasks of {', '.join(self._without_blobs)}: their functions get blobs of the world "
            "(blobs=… of @effect), which a node does not send: run them in the process of the "
            "world (--executors of aos run or aos node)"
        )

    def _parts(self) -> tuple[list[asyncio.Future[None]], list[asyncio.Future[None]]]:
        """The parts that run until the worker stops: claims, and all others. Each kind of task is
        claimed only if there are functions for it."""
        claims: list[asyncio.Future[None]] = []
        background: list[asyncio.Future[None]] = []
        if self._tasks.effects:
            claims.append(asyncio.ensure_future(self._claim_tasks()))
            background += map(asyncio.ensure_future, (self._beat(), self._send_results()))
        if self._executors.steps:
            steps = self._steps
            claims.append(asyncio.ensure_future(steps.claim_all()))
            background += map(asyncio.ensure_future, (steps.beat(), steps.send_results()))
        return claims, background

    # Claims

    async def _claim_tasks(self) -> None:
        while not self._stopping.is_set():
            room, effects = self._tasks.claim_room()
            if not effects:
                self._is_free.clear()
                await self._is_free.wait()
                continue
            await self._claim(uuid.uuid4().hex, room, effects)

    async def _claim(self, claim: str, room: int, effects: list[dict[str, Any]]) -> None:
        """Claim tasks for free slots. The claim keeps its name until it is answered, so no task
        that the node gave to it is lost with a connection (W-2)."""
        pause_s = PAUSE_S
        # The node may have leased tasks to an earlier request of this claim.
        began_s = boot_s()
        while not self._stopping.is_set():
            self._is_free.clear()
            asking = asyncio.ensure_future(self._ask(claim, room, effects))
            freed = asyncio.ensure_future(self._is_free.wait())
            try:
                await asyncio.wait({asking, freed}, return_when=asyncio.FIRST_COMPLETED)
                if not asking.done():
                    # A slot is free that the waiting claim does not ask for.
                    await asyncio.wait({asking}, timeout=SETTLE_S)
                if asking.done():
                    self._take(asking.result(), began_s)
                    return
            except NodeUnavailable as problem:
                self._say_once(str(problem))
                pause_s = min(max(problem.pause_s, pause_s * 2), PAUSE_S_MAX)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), pause_s)
            finally:
                freed.cancel()
                await _ended(asking)
            room, effects = self._tasks.claim_room()
            if not effects:
                return

    async def _ask(self, claim: str, room: int, effects: list[dict[str, Any]]) -> Any:
        # The first claim is answered at once, so that its reasons for no tasks are soon reported.
        wait_ms = 0 if self._manifest is None else WAIT_MS
        body: dict[str, Any] = {
            "worker": self._name,
            "claim": claim,
            "effects": effects,
            "max": min(room, ITEMS_MAX),
            "lease_ms": self._lease_ms,
            "wait_ms": wait_ms,
            "form": "cbor",
        }
        if self._signer is not None:
            body["signs"] = {"executor": self._signer.name, "key": self._signer.public_key}
        if self._manifest is not None:
            body["manifest"] = self._manifest
        return await self._node.post("/v1/work/claim", body, wait_s=wait_ms / 1000)

    def _take(self, answer: Any, began_s: float) -> None:
        """Run the tasks of a claim that began at ``began_s`` and is answered."""
        self._reported_texts.clear()
        if self._runner is None:
            self._runner = TaskRunner(
                self._executors,
                self._callers,
                world=parse_hash(answer["world"]),
                signer=self._signer,
                resource=self._resource,
                send=self._receive,
                retries=False,
                leases=self,
            )
        if "manifest" in answer:
            document = bytes_of(answer["manifest"]["document"])
            self._runner.receive({"op": "manifest", "document": document})
            self._manifest = answer["manifest"]["hash"]
        for unserved in answer["unserved"]:
            self._say_once(f"no tasks of {unserved['effect']}: {unserved['detail']}")
        for task in answer["tasks"]:
            self._begin(task, began_s)

    def _begin(self, task: Mapping[str, Any], began_s: float) -> None:
        assert self._runner is not None
        intent = parse_hash(task["task"])
        message: Message = {
            "op": "run",
            "intent": intent,
            "effect": task["effect"],
            "attempt": task["epoch"],
            "spent": task["epoch"] - 1,
            "params": bytes_of(task["params_cbor"]),
            "idempotency_key": task["idempotency_key"],
            "workflow": task["workflow"],
            "cell_key": bytes_of(task["key_cbor"]),
            "issuer_ref": task["issuer_ref"],
            "next_frame": task["next_frame"],
            "has_taker": task["takes_progress"],
            "traceparent": task.get("traceparent"),
        }
        earlier = self._tasks.get(intent)
        lease_s = self._lease_ms / 1000
        self._tasks.add(HeldTask(intent, task["effect"], task["epoch"], began_s + lease_s, lease_s))
        if earlier is not None and earlier.epoch == task["epoch"]:
            return
        if self._runner.has(intent):
            # An earlier attempt, whose lease was lost, still runs here: this one waits for its end.
            self._later[intent] = message
            self._runner.receive({**message, "op": "cancel"})
            return
        self._forget_result(intent)
        secret = self._secret_of(message)
        if secret is None:
            self._runner.receive(message)
        else:
            self._put(message, _halted({**message, **_no_value_of(secret)}))

    def _secret_of(self, message: Message) -> str | None:
        """The first secret that the params of a task name; None without one (W-8)."""
        effective = None if self._runner is None else self._runner.effective
        effect = None if effective is None else effective.effects.get(message["effect"])
        if effective is None or effect is None or not effect.takes_secrets:
            return None
        if not effective.secrets:
            return None  # then references are plain data (M-56)
        try:
            params = effect.params.from_record(message["params"])
        except ValueProblem:
            return None  # an earlier release left other params (K-71c): the function sees them
        secret_uses = named_secrets(effect.params, params, effective.schemas)
        return next((name for _, name in secret_uses), None)

    def _forget_result(self, intent: Hash) -> None:
        """Drop the result of an attempt that was lost meanwhile."""
        assert self._runner is not None
        self._results.pop(intent, None)
        self._runner.receive({"op": "ack", "intents": [intent]})

    # Messages of the runner

    def _receive(self, message: Message) -> None:
        match message["op"]:
            case "done":
                self._put(message, _result(message))
            case "halt":
                self._put(message, _halted(message))
            case "progress":
                self._frames.append(_frame(message))
                self._has_results.set()
            case "stuck":
                self._is_stuck(message["reason"])

    def _is_stuck(self, reason: str) -> None:
        self._stuck = f"{reason} (start the worker again)"
        self.stop()

    def _put(self, message: Message, result: dict[str, Any]) -> None:
        intent = Hash(message["intent"])
        task = self._tasks.get(intent)
        if task is None or task.epoch != message["attempt"] or task.is_lost:
            asyncio.get_running_loop().call_soon(self._ended_unused, intent)
            return
        self._results[intent] = result
        self._has_results.set()

    def _ended_unused(self, intent: Hash) -> None:
        """An attempt has ended that the node has given up; another one may wait for that."""
        self._forget_result(intent)
        later = self._later.pop(intent, None)
        task = self._tasks.get(intent)
        if later is not None and task is not None and self._runner is not None:
            self._runner.receive(later)
        elif task is not None and task.is_lost:
            self._free(intent)

    def _free(self, intent: Hash) -> None:
        self._tasks.remove(intent)
        self._is_free.set()

    # Results

    async def _send_results(self) -> None:
        """Send frames and results until they are answered. Results are kept while the node is
        away (W-4)."""
        pause_s = PAUSE_S
        while True:
            await self._has_results.wait()
            self._has_results.clear()
            try:
                await self._send_frames()
                await self._send_group()
                pause_s = PAUSE_S
            except NodeUnavailable as problem:
                self._say_once(str(problem))
                pause_s = min(max(problem.pause_s, pause_s * 2), PAUSE_S_MAX)
                await asyncio.sleep(pause_s)
            if self._results or self._frames:
                self._has_results.set()

    async def _send_frames(self) -> None:
        frames = first_group(self._frames)
        if not frames:
            return
        self._frames = self._frames[len(frames) :]
        try:
            await self._node.post("/v1/work/progress", {"worker": self._name, "frames": frames})
        except BadUsage as problem:
            self._say_once(f"{len(frames)} progress reports were refused: {problem}")

    async def _send_group(self) -> None:
        intents = list(self._results)
        group = first_group(list(self._results.values()))
        if not group:
            return
        answers = await post_results(self._node, self._name, group)
        away: NodeUnavailable | None = None
        for intent, sent, result_answer in zip(intents, group, answers, strict=False):
            problem = result_answer.get("problem")
            if problem is not None and problem["status"] in (429, 500, 503):
                away = NodeUnavailable(problem["detail"])
            elif self._results.get(intent) is sent:
                self._answered(intent, sent, problem)
        if away is not None:
            raise away

    def _answered(
        self, intent: Hash, sent: dict[str, Any], problem: Mapping[str, Any] | None
    ) -> None:
        del self._results[intent]
        status = None if problem is None else problem["status"]
        if problem is not None and status not in (404, 409):
            self._report(f"{hash_text(intent)}: the node refused its result: {problem['detail']}")
            if sent["status"] not in ("held", "parked"):
                self._results[intent] = _refused(sent, problem)
                self._has_results.set()
                return
        assert self._runner is not None
        self._runner.receive({"op": "ack", "intents": [intent]})
        self._free(intent)

    # Leases

    async def _beat(self) -> None:
        """Prolong all leases, three times in a lease (W-3)."""
        pause_s = self._lease_ms / 3000
        while True:
            await asyncio.sleep(pause_s)
            try:
                for some in _chunks(self._tasks.all()):
                    await self._beat_some(some)
                pause_s = self._lease_ms / 3000
            except NodeUnavailable as problem:
                self._say_once(str(problem))
                pause_s = min(1.0, self._lease_ms / 3000)

    async def _beat_some(self, tasks: Sequence[HeldTask]) -> None:
        leases = [
            {"task": hash_text(held_task.intent), "epoch": held_task.epoch} for held_task in tasks
        ]
        body = {"worker": self._name, "leases": leases, "lease_ms": self._lease_ms}
        sent_s = boot_s()
        answer = await self._node.post("/v1/work/heartbeat", body)
        for task, lease_answer in zip(tasks, answer["answers"], strict=True):
            if lease_answer["answer"] == "leased":
                task.until_s = sent_s + task.lease_s
            elif self._tasks.get(task.intent) is task:
                self._cancel(task, is_lost=lease_answer["answer"] == "lost")

    def _leased(self, intent: Hash, attempt: int) -> HeldTask | None:
        """A task that was leased for this attempt, and is not lost."""
        task = self._tasks.get(intent)
        return task if task is not None and task.epoch == attempt and not task.is_lost else None

    def is_certain(self, intent: Hash, attempt: int) -> bool:
        """Whether the lease of an attempt is certain to last a while yet (W-3a)."""
        task = self._leased(intent, attempt)
        return task is not None and is_fresh(task.until_s, task.lease_s)

    async def confirm(self, intent: Hash, attempt: int) -> bool:
        """Ask the node whether an attempt is still leased here, until it answers (W-3a)."""
        pause_s = PAUSE_S
        while (task := self._leased(intent, attempt)) is not None:
            try:
                await self._beat_some([task])
            except NodeUnavailable as problem:
                self._say_once(str(problem))
                pause_s = min(max(problem.pause_s, pause_s * 2), PAUSE_S_MAX)
                await asyncio.sleep(pause_s)
            except AosError as problem:
                self._say_once(str(problem))
                task.is_lost = True  # the lease ends by itself
            else:
                return not task.is_lost
        return False

    def _cancel(self, task: HeldTask, *, is_lost: bool) -> None:
        assert self._runner is not None
        if task.intent in self._results:
            return  # its result is on the way: the answer says what it is worth
        task.is_lost = task.is_lost or is_lost
        self._runner.receive(
            {"op": "cancel", "intent": task.intent, "effect": task.effect, "attempt": task.epoch}
        )

    async def _drain(self) -> None:
        """Let running functions end, then give the rest back (W-5)."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while len(self._tasks):
                    self._is_free.clear()
                    await self._is_free.wait()
        tasks = self._tasks.all()
        for task in tasks:
            task.is_lost = True  # a call that still waits for its thread must not begin
        for some in _chunks(tasks):
            leases = [
                {"task": hash_text(task.intent), "epoch": task.epoch, "began": True}
                for task in some
            ]
            with contextlib.suppress(AosError):  # the leases end by themselves
                await self._node.post("/v1/work/release", {"worker": self._name, "leases": leases})

    def _say_once(self, text: str) -> None:
        if text not in self._reported_texts:
            self._reported_texts.add(text)
            self._report(f"worker {self._name}: {text}")


async def _ended(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _chunks(tasks: Sequence[HeldTask]) -> list[Sequence[HeldTask]]:
    return [tasks[at : at + ITEMS_MAX] for at in range(0, len(tasks), ITEMS_MAX)]


def _result(outcome: Message) -> dict[str, Any]:
    document: dict[str, Any] = {
        "task": hash_text(Hash(outcome["intent"])),
        "epoch": outcome["attempt"],
        "status": outcome["status"],
        "payload_cbor": outcome["payload"],
        "started_ns": outcome["started_ns"],
        "finished_ns": outcome["finished_ns"],
        **_signature(outcome),
    }
    for name in ("cost_cents", "blobs"):
        if name in outcome:
            document[name] = outcome[name]
    if outcome.get("is_final"):
        document["is_final"] = True
    return document


def _signature(statement: Message) -> dict[str, Any]:
    if "signature" not in statement:
        return {}
    signature = {
        "executor": statement["executor"],
        "key": statement["key_id"],
        "value": statement["signature"],
    }
    if "batch" in statement:
        index, size, path = statement["batch"]
        signature["batch"] = {"index": index, "size": size, "path": path}
    return {"signature": signature}


def _no_value_of(secret: str) -> dict[str, str]:
    """Why a task that names a secret is held here: a node sends no values (W-8)."""
    return {
        "phase": "held",
        "code": UNAVAILABLE,
        "problem": f"secret {secret}: a worker on another machine gets no secrets: run the effect "
        "in the process of the world (--executors and --secrets of aos run or aos node)",
    }


def _halted(message: Message) -> dict[str, Any]:
    document = _failed(
        {
            "task": hash_text(Hash(message["intent"])),
            "epoch": message["attempt"],
            "started_ns": 0,
            "finished_ns": 0,
        },
        message["phase"],
        message["code"],
        message["problem"],
    )
    if message.get("is_final"):
        document["is_final"] = True
    return document


def _refused(sent: Mapping[str, Any], problem: Mapping[str, Any]) -> dict[str, Any]:
    """A result that the node does not take: the function's mistake, or that of the worker's key."""
    if problem["status"] == 403:
        return _failed(sent, "held", problem["rule"], problem["detail"])
    code = RESULT_TOO_LARGE if problem["status"] == 413 else RESULT_INVALID
    return _failed(sent, "parked", code, problem["detail"])


def _failed(of: Mapping[str, Any], status: str, code: str, text: str) -> dict[str, Any]:
    payload = encode({"code": code, "message": text, "retryable": False})
    fields = {name: of[name] for name in ("task", "epoch", "started_ns", "finished_ns")}
    return {**fields, "status": status, "payload_cbor": payload}


def _frame(frame: Message) -> dict[str, Any]:
    document: dict[str, Any] = {
        "task": hash_text(Hash(frame["intent"])),
        "epoch": frame["attempt"],
        "number": frame["frame_seq"],
        "kind": frame["frame_kind"],
        "payload_cbor": frame["payload"],
        **_signature(frame),
    }
    if "blob" in frame:
        document["blob"] = frame["blob"]
    return document
