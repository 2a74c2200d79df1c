"""Answer the requests of clients of a running world (spec/host.md, H-53 to H-59)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nacl.signing import SigningKey

from aos.core.decide.answers import Answer
from aos.core.journal.governing import PROPOSE, GovernanceInput
from aos.core.journal.inputs import STRICT, EventInput, Input, ManifestInput
from aos.core.journal.records import Principal
from aos.errors import AosError, BadUsage, Refused
from aos.fastcore.core_kind import core_named
from aos.host.apply.apply import by_hash, check_command
from aos.host.apply.signed_governance import check_proposal
from aos.host.apply.stored_states import apply_looked
from aos.host.door.collect_requests import BEAT_S, CollectRequests
from aos.host.door.deliveries import read_deliveries
from aos.host.door.delivery_targets import DeliverySources
from aos.host.door.following import Followers, ReplicaPlace
from aos.host.door.front_requests import (
    CLUSTER_OPS,
    KEPT_OPS,
    AskCluster,
    AskFront,
    no_cluster,
    no_front,
    term_is_over,
)
from aos.host.door.governance_messages import proposal_row, read_governance
from aos.host.door.listener import (
    CONNECTIONS_MAX,
    FINISH_S,
    IDLE_S,
    MESSAGE_S,
    Handler,
    Listener,
    Reply,
)
from aos.host.door.protocol import (
    BLOB_BYTES_MAX,
    ManifestChanged,
    answer_fields,
    answers_fields,
    error_fields,
    hash_field,
    pack,
    read_control,
    read_events,
    read_retry,
    unpack,
)
from aos.host.door.served_requests import (
    Operating,
    RoomQueue,
    StagedModules,
    Staging,
    WorkRequests,
)
from aos.host.door.trial_requests import TrialRequests
from aos.host.executors.receipts import Receipts
from aos.host.executors.task import Report, report_to_stderr
from aos.host.world.collecting import Begun, StillNeeded
from aos.host.world.engine import Engine, EngineStats
from aos.host.world.snapshots import MadeSnapshot
from aos.host.world.unit import Figures
from aos.message_fields import Message, field
from aos.values.cbor import Value
from aos.values.digests import Hash

HOLDING_S: Final = 10.0
"""Seconds that a connection with staged modules may be idle."""

ROOM_S: Final = 5.0
"""Seconds that a request waits for room in the inbox before it is answered as busy (H-57)."""

OPS: Final = (  # H-53
    "send",
    "deliver",
    "module",
    "apply",
    "try",
    "control",
    "governance",
    "find",
    "blob",
    "head",
    "snapshot",
    "collect",
    "retry",
    "settle",
    "attempt",
    "tell",
    "follow",
    "hand_over",
    "manifest",
    "status",
    "work",
    "fresh",
    "http",
    *CLUSTER_OPS,
    *KEPT_OPS,
    "stop",
)

_REPLICA_OPS = ("fresh", "http", "hand_over", *CLUSTER_OPS, *KEPT_OPS)
"""Those about a replicated world."""

Fields = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaService:
    """The part of a node in the service of its world, during one term (CL-201, CL-203, CL-210).

    ``place`` returns the place of the node, with the number of the term. ``fresh`` returns the last
    record of the world. ``front`` has the front of this node answer a request, and is None without
    a front. ``hand_over`` hands the world over to a node, and ``cluster`` answers about its
    cluster. ``is_ending`` is whether the process ends with this term.
    """

    place: Callable[[], ReplicaPlace]
    fresh: Callable[[], Awaitable[int]]
    front: AskFront | None
    hand_over: Callable[[str], Future[None]]
    cluster: AskCluster
    is_ending: Callable[[], bool]


class Server:
    """Answers the clients of one world. Used from one event loop. The constructor raises Refused if
    ``operator_key`` is not an operator's.

    ``path`` is the world's folder; without it, the core itself compares a manifest with everything
    that is stored (H-74), and no manifest is tried. ``stop`` is called when a client asks the
    process to end. ``retry`` runs held and parked effects again and returns those that run.
    ``snapshot`` and ``still_needed`` are called on other threads: the first makes a snapshot, the
    second finds what the world needs, given the record of the snapshot that the core reads from.
    ``work`` returns what the executors do. No snapshot is in progress inside ``between_snapshots``;
    while it waits for one, it calls its argument, and ends if that raises.
    ``more_status`` returns further fields for the answer to ``status``; ``lease_end_ns`` is as for
    ``Followers``. Of a replicated world, ``check_owns`` reads the log between two groups, and
    raises Deposed if another process owns the world; ``replica`` is the part of its node.
    ``receipts`` takes the outcomes, attempts and stream frames of clients. With ``operator_key``,
    commands without a signature are signed with it. Without ``sources`` the world takes no
    deliveries.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        world: Hash,
        operators: Sequence[Principal],
        stop: Callable[[], None],
        retry: Callable[[Sequence[Hash]], Sequence[Hash]] | None = None,
        receipts: Receipts | None = None,
        operator_key: SigningKey | None = None,
        sources: DeliverySources | None = None,
        path: Path | None = None,
        snapshot: Callable[[], MadeSnapshot] | None = None,
        between_snapshots: Callable[
            [Callable[[], None]], AbstractContextManager[object]
        ] = nullcontext,
        still_needed: Callable[[int], StillNeeded] | None = None,
        work: Callable[[], Fields] = dict,
        more_status: Callable[[], Fields] = dict,
        lease_end_ns: Callable[[], int | None] = lambda: None,
        check_owns: Callable[[], None] | None = None,
        replica: ReplicaService | None = None,
        report: Report = report_to_stderr,
        busy_after_s: float = ROOM_S,
        message_s: float = MESSAGE_S,
        connections_max: int = CONNECTIONS_MAX,
        staging: Staging | None = None,
    ) -> None:
        self._engine = engine
        self._world = world
        self._operators = operators
        self._stop = stop
        self._retry = retry
        self._sources = sources
        self._path = path
        self._snapshot = snapshot
        self._between_snapshots = between_snapshots
        self._collect = CollectRequests(engine.collecting, self._begin_marking, still_needed)
        self._work = work
        self._check_owns = check_owns
        self._replica = replica
        self._more_status = more_status
        self._event_room, self._urgent_room = RoomQueue(busy_after_s), RoomQueue(busy_after_s)
        self.followers = Followers(
            engine,
            world,
            lease_end_ns=lease_end_ns,
            replica_place=lambda: None if replica is None else replica.place(),
        )
        """The clients that follow the journal. The process that publishes notifies them."""
        self._operating = (
            None
            if operator_key is None
            else Operating(operator_key, engine, world, tuple(operators))
        )
        if self._operating is not None:
            self._operating.check()
        self._clients_work = (
            None if receipts is None else WorkRequests(receipts, busy_after_s=busy_after_s)
        )
        self._listener = Listener(
            self.talk, report=report, message_s=message_s, connections_max=connections_max
        )
        self._staging = staging or Staging()
        self._checking = asyncio.Lock()
        self._trials = TrialRequests(path, world, operators)

    def start(self, path: Path) -> None:
        """Listen at ``path``. The caller holds the world's lock.

        Raises:
            Unavailable: The socket cannot be made.
        """
        self._listener.start(path)

    def close(self) -> None:
        """Take no more requests. Requests in progress are answered; idle connections and streams
        end."""
        self.followers.end(is_stopping=self._replica is None or self._replica.is_ending())
        self._listener.close()

    async def finish(self, wait_s: float = FINISH_S) -> None:
        """Wait for pending answers, then end every connection. Call ``close`` first."""
        await self._listener.finish(wait_s)

    @contextmanager
    def talk(self) -> Iterator[Handler]:
        """Answer one connection."""
        with self._staging.connection() as staged, self._collect.connection() as markings:

            async def answer(body: bytes) -> Reply:
                try:
                    request = unpack(body)
                    if request.get("op") == "follow":
                        return self.followers.stream()
                    return pack(await self._answer(request, staged, markings))
                except AosError as problem:
                    return pack(error_fields(problem))

            def idle_s() -> float:
                if staged.count > 0:
                    return HOLDING_S
                return 2 * BEAT_S if markings else IDLE_S

            yield Handler(answer, idle_s)

    async def _answer(self, request: Message, staged: StagedModules, markings: set[int]) -> Fields:
        match request.get("op"):
            case "send":
                return await self._send(request)
            case "deliver":
                deliveries = await read_deliveries(
                    request, world=self._world, sources=self._sources
                )
                return {"answers": answers_fields(await self._submit(deliveries))}
            case "module":
                return {"staged": staged.add(field(request, "wasm", bytes))}
            case "apply" | "try" | "governance":
                with staged.take() as modules:
                    return await self._with_modules(request, by_hash(modules))
            case "control":
                return {"answer": answer_fields(await self._control(request))}
            case "find":
                return await self._find(request)
            case "blob":
                return await self._blob(request)
            case "head":
                return await self._head()
            case "snapshot":
                return await self._make_snapshot()
            case "collect":
                return await self._collect.answer(request, markings)
            case "retry":
                return self._run_again(request)
            case "settle" | "attempt" | "tell":
                self._check_term(request)
                return await self._work_requests().answers(request)
            case "manifest":
                return self._manifest()
            case "status":
                return self._status()
            case "work":
                return self._work()
            case op if op in _REPLICA_OPS:
                return await self._of_replica(request)
            case "stop":
                self._stop()
                return {"stopping": True}
            case other:
                raise BadUsage(f"op: expected one of {', '.join(OPS)}, found {other!r:.40}")

    async def _send(self, request: Message) -> Fields:
        events = read_events(field(request, "items", list))
        manifest = self._engine.stats().figures.manifest
        spelt_for = request.get("manifest")
        if spelt_for is not None and (manifest is None or manifest.hash != spelt_for):
            raise ManifestChanged("another manifest came into force; look at it and send again")
        return {"answers": answers_fields(await self._submit(events))}

    async def _control(self, request: Message) -> Answer:
        if self._operating is not None and self._operating.takes(request):
            return await self._operating.control(request, self._submit)
        [answer] = await self._submit([read_control(request)])
        return answer

    async def _govern(self, request: Message, modules: Mapping[Hash, bytes]) -> Answer:
        """Answer a proposal with its modules, or a report, vote or withdrawal."""

        async def submit(governance_input: GovernanceInput) -> Answer:
            if governance_input.action == PROPOSE:
                async with self._checking:
                    await asyncio.to_thread(
                        check_proposal,
                        governance_input,
                        modules,
                        world=self._world,
                        operators=self._operators,
                        in_force=self._engine.stats().figures.manifest,
                        path=self._path,
                    )
            [answer] = await self._submit([governance_input], modules)
            return answer

        if self._operating is not None and self._operating.takes(request):
            return await self._operating.govern(request, submit)
        return await submit(read_governance(request))

    async def _with_modules(self, request: Message, modules: Mapping[Hash, bytes]) -> Fields:
        """Answer a request that takes the modules which were staged before."""
        match request.get("op"):
            case "apply":
                return await self._apply(request, modules)
            case "try":
                serial = self._engine.stats().figures.serial
                return await self._trials.answer(request, modules, serial)
        return {"answer": answer_fields(await self._govern(request, modules))}

    async def _apply(self, request: Message, modules: Mapping[Hash, bytes]) -> Fields:
        mode = field({"mode": STRICT, **request}, "mode", str)
        leaves = _names({"leaves": [], **request}, "leaves")
        proposal = field(request, "proposal", int) if "proposal" in request else None
        if self._operating is not None and self._operating.takes(request):
            signed = self._operating.manifest(
                field(request, "document", bytes), mode, leaves, proposal
            )
            request = {**request, **signed}
        manifest_input = ManifestInput(
            document=field(request, "document", bytes),
            principal=field(request, "principal", str),
            serial=field(request, "serial", int),
            signature=field(request, "signature", bytes),
            mode=mode,
            leaves=leaves,
            proposal=proposal,
        )
        async with self._checking:
            needs_look = await asyncio.to_thread(
                check_command,
                manifest_input,
                modules,
                world=self._world,
                operators=self._operators,
                in_force=self._engine.stats().figures.manifest,
                path=self._path,
            )
            if needs_look and self._path is not None:
                return {"answer": answer_fields(await self._apply_looked(manifest_input, modules))}
        [answer] = await self._submit([manifest_input], modules)
        return {"answer": answer_fields(answer)}

    async def _apply_looked(
        self, manifest_input: ManifestInput, modules: Mapping[Hash, bytes]
    ) -> Answer:
        """Submit a manifest after a child process has compared it with what is stored (H-74)."""
        assert self._path is not None
        loop = asyncio.get_running_loop()

        def submit(checked: ManifestInput) -> Answer:
            submitting = self._submit([checked], modules)
            [answer] = asyncio.run_coroutine_threadsafe(submitting, loop).result()
            return answer

        return await asyncio.to_thread(apply_looked, self._path, manifest_input, submit)

    async def _find(self, request: Message) -> Fields:
        """Answer whether a command was admitted lately (CL-127)."""
        signature = field(request, "signature", bytes)
        answer = await asyncio.to_thread(self._engine.find_command, signature)
        return {"answer": None if answer is None else answer_fields(answer)}

    async def _blob(self, request: Message) -> Fields:
        """Answer with the bytes of a value, which another node lacks (CL-64); null if this process
        does not have them."""
        blob = await asyncio.to_thread(self._engine.find_blob, hash_field(request, "hash"))
        if blob is not None and len(blob) > BLOB_BYTES_MAX:
            raise Refused(
                "the value is too large for a message",
                expected=f"at most {BLOB_BYTES_MAX} bytes",
                actual=f"{len(blob)}",
            )
        return {"blob": blob}

    async def _head(self) -> Fields:
        """Answer with the last durable record, once it is sure that this process owns the world
        (CL-129)."""
        if self._check_owns is not None:
            await asyncio.wrap_future(self._engine.between_groups(self._check_owns))
        return {"head": self._engine.stats().figures.seq}

    async def _of_replica(self, request: Message) -> Fields:
        """Answer with the last record that the world has acknowledged (CL-203), or with the answer
        of this node's front to a request of another node's (CL-210); or hand the world over, or
        answer about the cluster (CL-320, CL-330)."""
        replica, op = self._replica, request.get("op")
        if op == "fresh":
            return await self._head() if replica is None else {"head": await replica.fresh()}
        if replica is None:
            raise no_cluster(op)
        if op in KEPT_OPS:
            self._check_term(request)
        if op in CLUSTER_OPS or op in KEPT_OPS:
            return await replica.cluster(request)
        if op == "hand_over":
            node = field(request, "to", str)
            await asyncio.wrap_future(replica.hand_over(node))
            return {"to": node}
        if replica.front is None:
            raise no_front()
        return {"reply": await replica.front(field(request, "request", bytes))}

    def _check_term(self, request: Message) -> None:
        """Refuse the work of another term (CL-211). Raises Unavailable."""
        term = request.get("term")
        if term is not None and (self._replica is None or self._replica.place().term != term):
            raise term_is_over()

    async def _make_snapshot(self) -> Fields:
        if self._snapshot is None:
            raise BadUsage("this world makes no snapshots")
        snapshot = await asyncio.to_thread(self._snapshot)
        return snapshot.to_message()

    def _begin_marking(self) -> Begun:
        collecting = self._engine.collecting
        # A snapshot in progress may itself wait for room, or for a frame.
        marking = collecting.prepare()
        try:
            with self._between_snapshots(lambda: collecting.let_pass(marking)):
                return collecting.begin(marking).result()
        except BaseException:
            marking.end()
            raise

    def _run_again(self, request: Message) -> Fields:
        """Run held and parked effects again, at once (H-59e)."""
        if self._retry is None:
            raise BadUsage("this process runs no effects")
        return {"runs": list(self._retry(read_retry(request)))}

    def _work_requests(self) -> WorkRequests:
        if self._clients_work is None:
            raise BadUsage("this process takes no outcomes of effects")
        return self._clients_work

    def _manifest(self) -> Fields:
        return manifest_fields(self._world, self._engine.stats().figures, self._operators)

    def _status(self) -> Fields:
        return {
            **status_fields(
                self._world,
                self._engine.stats(),
                core=core_named(self._engine.host.items()),
                is_collecting=self._engine.collecting.is_open,
            ),
            **self._more_status(),
        }

    async def _submit(
        self, inputs: Sequence[Input], blobs: Mapping[Hash, bytes] | None = None
    ) -> list[Answer]:
        """Submit inputs; wait for room in the inbox if necessary (H-57)."""
        is_event = bool(inputs) and isinstance(inputs[0], EventInput)
        lane = self._event_room if is_event else self._urgent_room
        future = await lane.submit(lambda: self._engine.submit(inputs, blobs=blobs))
        return await asyncio.wrap_future(future)


def manifest_fields(world: Hash, figures: Figures, operators: Sequence[Principal]) -> Fields:
    """The answer to ``manifest``."""
    return {
        "world": world,
        "serial": figures.serial,
        "controls": figures.controls,
        "operators": [[operator.name, operator.key] for operator in operators],
        "document": None if figures.manifest is None else figures.manifest.document,
        "proposed": figures.proposed,
        "proposals": [proposal_row(proposal) for proposal in figures.proposals],
    }


def status_fields(
    world: Hash, stats: EngineStats, *, core: str | None, is_collecting: bool
) -> Fields:
    """The answer to ``status`` of a process with the kernel ``core``."""
    figures = stats.figures
    return {
        "world": world,
        "pid": os.getpid(),
        "core": core,
        "seq": figures.seq,
        "clock_ns": figures.clock_ns,
        "serial": figures.serial,
        "controls": figures.controls,
        "manifest": None if figures.manifest is None else figures.manifest.hash,
        "cells": figures.cells,
        "ready_cells": figures.ready_cells,
        "open_intents": figures.open_intents,
        "events": figures.events,
        "receipts": figures.receipts,
        "steps": figures.steps,
        "faults": figures.faults,
        "queued": stats.queued,
        "queued_bytes": stats.queued_bytes,
        "frames": stats.frames,
        "no_room": stats.no_room,
        "collecting": is_collecting,
        "snapshot": None
        if figures.snapshot is None
        else [figures.snapshot.seq, figures.snapshot.at, figures.snapshot.document],
    }


def _names(request: Message, name: str) -> tuple[str, ...]:
    """Raises: BadUsage: It is no list of text."""
    texts = field(request, name, list)
    if not all(isinstance(text, str) for text in texts):
        raise BadUsage(f"{name}: expected a list of text")
    return tuple(texts)
