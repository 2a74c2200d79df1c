"""The socket of a node that follows a replicated world (spec/cluster.md, CL-114 and CL-115).

    status, manifest, follow, collect, stop    answered here
    fresh                                      asked of the owner, and compared with its beats
    cluster, cluster_…                         asked of the servers
    module                                     kept for the manifest that it belongs to
    others                                     passed on to the owner

The answers are as of the last entry of the log that the node has taken.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from aos.errors import AosError, Unavailable
from aos.host.cluster.replica import NodeView, Role
from aos.host.cluster.standby_collecting import StandbyCollecting
from aos.host.door.collect_requests import BEAT_S, CollectRequests
from aos.host.door.following import Followers, ReplicaPlace
from aos.host.door.front_requests import CLUSTER_OPS, AskCluster, term_is_over
from aos.host.door.listener import IDLE_S, Handler, Listener, Reply
from aos.host.door.protocol import LENGTH_BYTES, error_fields, length, pack, unpack
from aos.host.door.served_requests import Staging
from aos.host.door.server import Fields, manifest_fields, status_fields
from aos.host.errors import Busy
from aos.host.executors.task import Report
from aos.host.folder.replica_file import ReplicaFile
from aos.host.world.collecting import StillNeeded
from aos.host.world.engine import EngineStats
from aos.host.world.unit import Figures
from aos.message_fields import field
from aos.values.cbor import Value
from aos.values.digests import Hash

PassOn: TypeAlias = Callable[[bytes], Awaitable[bytes]]
"""Takes packed messages, as a client writes them to one connection, and returns the packed answers
of the owner. Raises AosError."""

WITH_MODULES: Final = ("apply", "try", "governance")


class Standby:
    """Answers the clients of a node that follows. Used from one event loop, except ``stats``.

    ``take`` gets the node as it changes. ``stop`` is called when a client asks the process to end.
    Without ``pass_on``, requests for the owner are answered with its name. ``collecting`` and
    ``still_needed`` are for the removal of what nothing needs, as for ``CollectRequests``.
    ``fresh`` returns the last record of the world, ``cluster`` answers about its cluster, and
    ``is_ending`` is whether the process ends.
    """

    def __init__(
        self,
        world: Hash,
        replica: ReplicaFile,
        *,
        stop: Callable[[], None],
        report: Report,
        pass_on: PassOn | None = None,
        collecting: StandbyCollecting | None = None,
        still_needed: Callable[[int], StillNeeded] | None = None,
        fresh: Callable[[], Awaitable[int]] | None = None,
        cluster: AskCluster | None = None,
        is_ending: Callable[[], bool] = lambda: True,
    ) -> None:
        self.view = NodeView(role=Role.CLOSED)
        self.commit_ns = 0
        self.followers = Followers(self, world, replica_place=self._place)
        self._world = world
        self._replica = replica
        self._stop = stop
        self._report = report
        self._pass_on = pass_on or self._name_owner
        self._fresh = fresh
        self._cluster = cluster
        self._is_ending = is_ending
        self._staging = Staging()
        self._collect = None
        if collecting is not None:
            self._collect = CollectRequests(collecting, collecting.begin, still_needed)
        self._listener: Listener | None = None
        self._closed: list[Listener] = []
        """Listeners of earlier roles, some of whose requests are still passed on."""

    def take(self, view: NodeView) -> None:
        """The node has changed."""
        self.view = view
        self.followers.notify()

    def stats(self) -> EngineStats:
        """The figures of the journal that this node has."""
        world = self.view.world
        if world is None:
            figures = Figures(
                seq=0, clock_ns=0, serial=0, controls=0, manifest=None, cells=0, ready_cells=0,
                open_intents=0,
            )  # fmt: skip
        else:
            now = world.figures
            figures = Figures(
                seq=world.tip.seq, clock_ns=now.clock_ns, serial=now.serial, controls=now.controls,
                manifest=now.manifest, cells=now.cells, ready_cells=now.ready_cells,
                open_intents=now.open_intents, open_timers=now.open_timers, snapshot=now.snapshot,
                proposed=now.proposed, proposals=now.proposals,
            )  # fmt: skip
        return EngineStats(figures=figures, queued=0, queued_bytes=0, frames=0, no_room=None)

    def open(self, path: Path) -> None:
        """Listen at ``path``. The caller holds the world's lock. Raises as ``Listener.start``."""
        self.followers.begin()
        self._listener = Listener(self.talk, report=self._report)
        self._listener.start(path)

    def close(self) -> None:
        """Take no more requests. Requests in progress are answered, by the next owner if the one
        that was asked has stopped; idle connections and streams end."""
        listener, self._listener = self._listener, None
        if listener is not None:
            self.followers.end(is_stopping=self._is_ending())
            listener.close()
            self._closed = [it for it in (*self._closed, listener) if it.has_connections]

    async def finish(self) -> None:
        """End every connection, as ``Listener.finish``. Call ``close`` first."""
        await asyncio.gather(*(listener.finish() for listener in self._closed))

    @contextlib.contextmanager
    def talk(self) -> Iterator[Handler]:
        """Answer one connection."""
        with contextlib.ExitStack() as stack:
            staged = stack.enter_context(self._staging.connection())
            collect, tokens = self._collect, set[int]()
            if collect is not None:
                tokens = stack.enter_context(collect.connection())

            async def answer(body: bytes) -> Reply:
                try:
                    request = unpack(body)
                    match request.get("op"):
                        case "follow":
                            return self.followers.stream()
                        case "module":
                            return pack({"staged": staged.add(field(request, "wasm", bytes))})
                        case "collect" if collect is not None:
                            return pack(await collect.answer(request, tokens))
                        case "fresh" if self._fresh is not None:
                            return pack({"head": await self._fresh()})
                        case _ if "term" in request:
                            raise term_is_over()
                        case op if op in CLUSTER_OPS and self._cluster is not None:
                            return pack(await self._cluster(request))
                        case op if op in WITH_MODULES:
                            with staged.take() as modules:
                                return await self._passed(body, *modules)
                        case op:
                            own_answer = self._own_answer(op)
                            if own_answer is not None:
                                return pack(own_answer)
                            return await self._passed(body)
                except AosError as problem:
                    return pack(error_fields(problem))

            yield Handler(answer, lambda: 2 * BEAT_S if tokens else IDLE_S)

    def _own_answer(self, op: object) -> Fields | None:
        """The answer to a request that is not for the owner; None if it is."""
        match op:
            case "status":
                return self._status()
            case "manifest":
                return self._manifest()
            case "stop":
                self._stop()
                return {"stopping": True}
        return None

    def _place(self) -> ReplicaPlace:
        view = self.view
        owner = None if view.owner is None or view.owner.released else view.owner.node
        progress = view.reference
        return ReplicaPlace(
            node=self._replica.node, owner=owner, term=None, lag=view.lag, reason=view.reason,
            reference=None if progress is None else progress.figures,
        )  # fmt: skip

    def _status(self) -> Fields:
        world = self.view.world
        return {
            **status_fields(
                self._world,
                self.stats(),
                core=None if world is None else world.core.value,
                is_collecting=False,
            ),
            "replica": replica_fields(self._replica, self.view),
        }

    def _manifest(self) -> Fields:
        world = self.view.world
        if world is None:
            raise Busy("this node has not read the journal yet (try again in a moment)")
        return manifest_fields(self._world, self.stats().figures, world.figures.operators)

    async def _passed(self, body: bytes, *modules: bytes) -> bytes:
        """Pass on a request, after the modules that it needs; return its answer."""
        staged = [pack({"op": "module", "wasm": wasm}) for wasm in modules]
        request = len(body).to_bytes(LENGTH_BYTES, "big") + body
        return _last(await self._pass_on(b"".join([*staged, request])))

    async def _name_owner(self, _: bytes) -> bytes:
        """Answer for the owner: the client finds it itself."""
        owner = self.view.owner
        if owner is None or owner.released:
            raise Busy("no node owns the world now (try again in a few seconds)")
        raise Unavailable(
            "this node follows the world, and another one owns it",
            location=self._replica.node,
            expected=f"a request to node {owner.node}",
            hint=f"send it on the machine of node {owner.node}",
        )


def replica_fields(
    replica: ReplicaFile, view: NodeView, *, is_owner: bool = False
) -> dict[str | int, Value]:
    """The node, its log and the owner, for the answer to ``status`` (CL-114).
    ``is_owner`` is whether it runs the world: a node that takes over does not yet. ``replica`` is
    as of the start of the process; a node that joins again may use another stream (CL-155)."""
    owner = None if view.owner is None or view.owner.released else view.owner.node
    return {
        "role": "owner" if is_owner else "standby",
        "node": replica.node,
        "owner": replica.node if is_owner else owner,
        "stream": view.stream or replica.stream,
        "position": 0 if view.end is None else view.end.position,
        "lag": view.lag,
        "dead": view.dead,
        "reason": view.reason,
        "reference": _reference_fields(view),
    }


def _reference_fields(view: NodeView) -> Value:
    """How far the reference has compared the journal of the node, and a difference (CL-287)."""
    progress = view.reference
    if progress is None:
        return None
    fields: dict[str | int, Value] = {
        "at": progress.at,
        "behind": progress.behind,
        "compared": progress.compared,
        "skipped": progress.skipped,
        "difference": progress.difference,
    }
    return fields


def _last(messages: bytes) -> bytes:
    """The last of several packed messages. Raises: Unavailable: They do not end where it does."""
    start = 0
    while True:
        header = messages[start : start + LENGTH_BYTES]
        end = start + LENGTH_BYTES + length(header)
        if len(header) < LENGTH_BYTES or end > len(messages):
            raise Unavailable(
                "the answer of the owner cannot be read: it is not known whether the request was "
                "accepted"
            )
        if end == len(messages):
            return messages[start:]
        start = end
