"""The cluster of a node's world, for the front of the node: status, check, moves and drains, and
the positions of its readers and its batches (spec/cluster.md, CL-320 to CL-338).

    front ──socket──▶ process of the node ──▶ servers

The front has no credentials of the servers, so the process asks them. Readings that come together
share one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from aos.closable import Closable
from aos.errors import AosError, BadUsage
from aos.host.cluster.checking import ClusterCheck
from aos.host.cluster.cluster_documents import report_document
from aos.host.cluster.cluster_status import OwnNode, cluster_status
from aos.host.cluster.erasing import OpenErasures, open_erasures
from aos.host.cluster.kept_batches import KeptBatches
from aos.host.cluster.kept_positions import KeptPositions
from aos.host.cluster.moving import WorldMover, set_drained
from aos.host.cluster.overview import FolderOverview
from aos.host.cluster.registration import registered
from aos.host.cluster.replica_node import ReplicaNode
from aos.host.door.front_requests import CLUSTER_OPS, KEPT_OPS
from aos.host.folder.folder import WorldFolder
from aos.message_fields import Message, field
from aos.store.log.nats_address import NatsAccess, NatsAddress
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_streams import NatsStreams
from aos.values.cbor import Value

STATUS_S: Final = 0.5
"""Seconds for which a status is given to later requests, too: the interval of beats."""

CHECK_S: Final = 10.0
"""Seconds for which the findings of a check are."""

MOVE_S: Final = 10.0
"""Seconds for which a move waits until the node has followed the log."""


class SharedReading:
    """Gives the result of one ``read``, which runs on a thread, to all requests that come while it
    runs and for ``fresh_s`` seconds after it. Used from one event loop."""

    def __init__(self, read: Callable[[], bytes], *, fresh_s: float) -> None:
        self._read = read
        self._fresh_s = fresh_s
        self._task: asyncio.Task[bytes] | None = None
        self._ended_s = 0.0

    async def get(self) -> bytes:
        """Return the result. Raises as ``read``; the next request reads again then."""
        if self._task is None or (self._task.done() and not self._is_fresh(self._task)):
            self._task = asyncio.create_task(asyncio.to_thread(self._read))
            self._task.add_done_callback(self._end)
        return await asyncio.shield(self._task)

    def _is_fresh(self, task: asyncio.Task[bytes]) -> bool:
        age_s = asyncio.get_running_loop().time() - self._ended_s
        return age_s < self._fresh_s and not task.cancelled() and task.exception() is None

    def _end(self, task: asyncio.Task[bytes]) -> None:
        self._ended_s = task.get_loop().time()
        if not task.cancelled():
            task.exception()  # the client that asked may have gone away


class ClusterService(Closable):
    """Answers these requests in the process of a node, in all of its roles. Used from one event
    loop.

    ``address`` is that of the world, and ``node`` returns this node, once a request may come.
    ``credentials`` is a file, None for that of the environment.
    """

    def __init__(
        self,
        folder: WorldFolder,
        address: NatsAddress,
        *,
        node: Callable[[], ReplicaNode],
        credentials: Path | None,
    ) -> None:
        """Start the connection; no server is asked yet. Raises as ``NodeBus``."""
        self._folder = folder
        self._world_key = folder.world_key().verify_key.encode()
        self._address = address
        self._node = node
        self._access = NatsAccess.read(credentials)
        self._connection = NatsConnection(address, self._access)
        self._status = {
            has_all: SharedReading(partial(self._read_status, has_all=has_all), fresh_s=STATUS_S)
            for has_all in (False, True)
        }
        self._positions = KeptPositions(
            NatsBucket(self._connection, WORLDS, replicas=None), folder.world, folder.world_key(),
            lambda: node().replica.stream,
        )  # fmt: skip
        self._batches = KeptBatches(
            NatsBucket(self._connection, WORLDS, replicas=None), folder.world, folder.world_key()
        )
        self._check = SharedReading(self._read_check, fresh_s=CHECK_S)

    async def answer(self, request: Message) -> Mapping[str, Value]:
        """Answer a request of ``CLUSTER_OPS`` or ``KEPT_OPS``.

        Raises:
            BadUsage: A field is malformed, or it names no node or member.
            Refused, Unavailable, Damage: As ``cluster_status``, ``WorldMover.begin`` and
                ``set_drained``.
        """
        match request.get("op"):
            case "cluster":
                has_all = field(request, "all", bool)
                return {"document": await self._status[has_all].get()}
            case "cluster_check":
                return {"document": await self._check.get()}
            case "cluster_move":
                to = None if request.get("to") is None else field(request, "to", str)
                return {"node": await asyncio.to_thread(self._move, to)}
            case "cluster_drain":
                member, is_draining = field(request, "member", str), field(request, "drains", bool)
                changed = await asyncio.to_thread(self._drain, member, is_draining=is_draining)
                return {"changed": changed}
            case "position":
                return await asyncio.to_thread(self._position, field(request, "reader", str))
            case "keep_position":
                return {"kept": await asyncio.to_thread(self._keep_position, request)}
            case "batches":
                return {"rows": list(await asyncio.to_thread(self._batches.load))}
            case "keep_batch":
                return {"kept": await asyncio.to_thread(self._keep_batch, request)}
        raise BadUsage(f"op: expected one of {', '.join((*CLUSTER_OPS, *KEPT_OPS))}")

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    # On a thread

    def _read_status(self, *, has_all: bool) -> bytes:
        address = replace(self._address, name="") if has_all else self._address
        document = cluster_status(self._connection, address, self._own_node())
        return json.dumps(document).encode()

    def _read_check(self) -> bytes:
        replica = self._node().replica
        report = ClusterCheck(
            address=self._address,
            access=self._access,
            monitors=replica.monitors,
            folder=self._overview(),
            unverified_durability=replica.unverified_durability,
        ).run()
        return json.dumps(report_document(report)).encode()

    def _overview(self) -> FolderOverview | None:
        """The folder of this node; None while its store is not open."""
        node = self._node()
        store = node.store
        if store is None or (end := store.connected_end) is None:
            return None
        try:
            dead = store.dead_messages
        except AosError:  # the node joins again, with another store
            return None
        return FolderOverview(
            path=self._folder.path, replica=node.replica, world=self._folder.world,
            world_key=self._world_key, end=end, dead=dead,
        )  # fmt: skip

    def _own_node(self) -> OwnNode | None:
        overview, progress = self._overview(), self._node().reference
        if overview is None:
            return None
        return OwnNode(
            folder=overview,
            open_erasures=self._open_erasures(),
            reference=None if progress is None else progress.to_document(),
        )

    def _open_erasures(self) -> Mapping[str, object]:
        """As ``open_erasures_of``, from the store that this process has open."""
        store = self._node().store
        assert store is not None, "the overview was read from it"
        try:
            if next(iter(store.erasures()), None) is None:
                return OpenErasures().to_document()
            worlds, _ = self._buckets()
            registration = registered(worlds, self._address.name, self._world_key).registration
            streams = NatsStreams(self._connection, replicas=1)
            return open_erasures(store, streams, registration).to_document()
        except AosError as problem:
            return {"number": None, "first_seq": None, "since_ns": None, "reason": str(problem)}

    def _move(self, to: str | None) -> str | None:
        """Move the world to a node, or let the members place it again. Return the node that had it,
        or at which it was kept."""
        worlds, beats = self._buckets()
        registration = registered(worlds, self._address.name, self._world_key).registration
        mover = WorldMover(self._connection, worlds, beats, registration, world_key=self._world_key)
        return mover.undo() if to is None else mover.begin(to, timeout_s=MOVE_S).former

    def _position(self, reader: str) -> Mapping[str, Value]:
        position = self._positions.load(reader)
        if position is None:
            return {"position": None}
        return {"position": [position.seq, position.index, position.reader_bytes]}

    def _keep_position(self, request: Message) -> bool:
        seq, index = field(request, "seq", int), field(request, "index", int)
        reader, reader_bytes = field(request, "reader", str), field(request, "more", bytes)
        return self._positions.keep(reader, seq, index, reader_bytes)

    def _keep_batch(self, request: Message) -> bool:
        id, progress = field(request, "id", str), field(request, "progress", int)
        former = request.get("instead_of")
        return self._batches.keep(
            id, progress, field(request, "row", bytes),
            instead_of=None if former is None else field(request, "instead_of", str),
        )  # fmt: skip

    def _drain(self, member: str, *, is_draining: bool) -> bool:
        return set_drained(*self._buckets(), member, is_draining=is_draining)

    def _buckets(self) -> tuple[NatsBucket, NatsBucket]:
        return (
            NatsBucket(self._connection, WORLDS, replicas=None),
            NatsBucket(self._connection, BEATS, replicas=None),
        )
