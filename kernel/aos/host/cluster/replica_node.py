"""The process of one node: its connections, its store and its loop, in a thread (spec/cluster.md,
CL-108 to CL-113).

    NatsConnection ── log ────┐
    NatsConnection ── beats ──┼── Replica ── NodeLoop ──▶ terms, for the code that runs the world
    DIR/store ────────────────┘
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from aos.closable import Closable
from aos.errors import AosError, Refused, Unavailable
from aos.fastcore.buffer import core_folder, read_core
from aos.fastcore.core_choice import ChosenCore
from aos.fastcore.core_kind import CoreKind
from aos.host.cluster.base import BASE_BYTES, WorldServers, needs_base
from aos.host.cluster.base_maker import BaseMaker
from aos.host.cluster.beat import INSTANCE_BYTES
from aos.host.cluster.beating import Beats
from aos.host.cluster.bus_server import inbox_of
from aos.host.cluster.connecting import bucket_replicas, connected_servers
from aos.host.cluster.following import EntryIntake, Fetch, no_others
from aos.host.cluster.joining import join_again, needs_join, ready_node
from aos.host.cluster.lease import LEASE_NS
from aos.host.cluster.loop import NodeLoop, OwnerTerm
from aos.host.cluster.reference_fold import ReferenceProgress
from aos.host.cluster.reference_watch import ReferenceWatch
from aos.host.cluster.registration import find_registration, registered
from aos.host.cluster.replica import NodeView, Replica, ReplicaSettings, Role
from aos.host.errors import Stopping
from aos.host.folder.folder import (
    KEYS,
    STORE,
    WORLD_KEY,
    WorldFolder,
    check_world,
    open_folder,
)
from aos.host.folder.replica_file import ReplicaFile
from aos.host.folder.restore import Progress
from aos.host.stamps import Sources
from aos.store.log.bucket import BucketUnreachable
from aos.store.log.log import LogSealed, LogUnreachable
from aos.store.log.logged_store import LoggedStore, LogPlace
from aos.store.log.nats_address import NatsAccess
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_durability import check_durable
from aos.store.log.nats_log import NatsLog
from aos.store.log.nats_streams import NatsStreams
from aos.values.digests import content_hash

RETRY_S: Final = 0.5
"""Pause before servers that did not answer at the start are asked again, in seconds."""

BASE_TURN_S: Final = 1.0
"""Interval at which a node looks after the making of a base, in seconds."""

DURABILITY_S: Final = 30.0
"""Interval at which the servers are asked whether they sync, in seconds."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaNodeSettings:
    """How a node runs. ``host`` is the software that executes here, for ``start`` records; ``core``
    chooses the kernel, in the node's thread. ``credentials`` is a file, None for that of the
    environment. ``report`` gets lines for people, and ``progress`` how much of the journal was
    read, both in the node's thread. ``fetch`` asks another node for a blob, there too."""

    host: Mapping[str, str]
    core: Callable[[], ChosenCore]
    lease_ns: int = LEASE_NS
    credentials: Path | None = None
    sources: Sources = field(default_factory=Sources)
    report: Callable[[str], None] = lambda _: None
    progress: Progress | None = None
    fetch: Fetch = no_others
    has_reference: bool = True
    """Whether a standby with the second kernel has the reference compare its journal (CL-285)."""


class ReplicaNode:
    """Runs a node in a thread of its own, from ``start`` until ``stop``.

    In that thread, ``begin`` gets each term of an owner, as for ``NodeLoop``, ``on_view`` the node
    when it has changed, and ``on_end`` is called once, when it has ended; then ``problem`` is why,
    if it was not told to.
    """

    def __init__(
        self,
        folder: WorldFolder,
        replica: ReplicaFile,
        settings: ReplicaNodeSettings,
        *,
        begin: Callable[[OwnerTerm], None],
        on_view: Callable[[NodeView], None],
        on_end: Callable[[], None],
    ) -> None:
        self.key = folder.world_key()
        self.store: LoggedStore | None = None
        """The store, from the first term or view on."""
        self.inbox = ""
        """The subject at which this node takes requests during its terms, from the first one on."""
        self.problem: BaseException | None = None
        self._access = NatsAccess.read(settings.credentials)
        self._folder = folder
        self._replica = replica
        self._settings = settings
        self._begin = begin
        self._on_view = on_view
        self._on_end = on_end
        self._loop: NodeLoop | None = None
        self._reference: ReferenceWatch | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aos-node", daemon=True)

    @property
    def replica(self) -> ReplicaFile:
        """The description of this node, with the stream that it uses now. Any thread may ask."""
        return self._replica

    @property
    def reference(self) -> ReferenceProgress | None:
        """How far the reference has compared the journal; None without it. Any thread may ask."""
        return None if self._reference is None else self._reference.progress

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the node soon: an owner hands over first. Any thread may call this."""
        self._over.set()
        if self._loop is not None:
            self._loop.stop()

    def holds_lease(self) -> bool:
        """Whether tasks may be handed out now (CL-89). Any thread may ask."""
        return self._loop is not None and self._loop.holds_lease()

    def between_entries(self, act: Callable[[EntryIntake], T]) -> Future[T]:
        """As ``NodeLoop.between_entries``."""
        if self._loop is not None:
            return self._loop.between_entries(act)
        future: Future[T] = Future()
        future.set_exception(Unavailable("this node does not follow the world yet (try again)"))
        return future

    def hand_over(self, node: str) -> Future[None]:
        """As ``NodeLoop.hand_over``."""
        if self._loop is not None:
            return self._loop.hand_over(node)
        future: Future[None] = Future()
        future.set_exception(Unavailable("this node does not own the world yet (try again)"))
        return future

    def lease_end_ns(self) -> int:
        """The time of the boot-time clock until which tasks may be handed out. Any thread may
        ask."""
        return 0 if self._loop is None else self._loop.lease_end_ns()

    def view(self) -> NodeView:
        """Return this node as an owner. Any thread may ask during a term."""
        store = self.store
        assert store is not None, "open before the first term"
        return NodeView(
            role=Role.OWNING, stream=self._replica.stream, end=store.end, dead=store.dead,
            reference=self.reference,
        )  # fmt: skip

    def _run(self) -> None:
        try:
            while (stopped := self._ran()) is not None:
                self._settings.report(f"this node joins again: {stopped}")
                if needs_join(stopped):
                    self._join_again()
        except BaseException as problem:  # noqa: BLE001  # the last stop of this thread: passed on whole
            if not (self._over.is_set() and isinstance(problem, Stopping)):
                self.problem = problem
        finally:
            self._on_end()

    def _ran(self) -> AosError | None:
        """Run the node until it ends. Return why it has to join again then (CL-154), if so. If its
        log was sealed, the registration names the next one (CL-155)."""
        try:
            with contextlib.ExitStack() as stack:
                self._loop = self._opened(stack)
                if self._over.is_set():
                    self._loop.stop()
                self._loop.run()
        except AosError as problem:
            if self._over.is_set() or not (needs_join(problem) or isinstance(problem, LogSealed)):
                raise
            return problem
        return None

    def _join_again(self) -> None:
        def joined() -> ReplicaFile:
            with connected_servers(self._replica.address, self._access) as servers:
                return join_again(self._folder, servers, self._replica, progress=self._stage)

        self._replica = self._answered(joined)

    def _stage(self, _: str, done: int, total: int) -> None:
        self._progress(done, total)

    def _opened(self, stack: contextlib.ExitStack) -> NodeLoop:
        folder, settings = self._folder, self._settings
        address = self._replica.address
        # A beat must not wait behind a large entry, nor its connection end with that of the log.
        log_connection = stack.enter_context(NatsConnection(address, self._access))
        connection = stack.enter_context(NatsConnection(address, self._access))
        count = self._answered(lambda: bucket_replicas(connection))
        worlds = self._answered(lambda: NatsBucket(connection, WORLDS, replicas=count))
        bucket = self._answered(lambda: NatsBucket(connection, BEATS, replicas=count))
        self._answered(lambda: self._check_registered(worlds))
        servers = WorldServers(
            worlds=worlds, beats=bucket, streams=NatsStreams(connection, replicas=count)
        )
        replica = self._replica = self._answered(
            lambda: ready_node(folder, servers, self._replica, progress=self._stage)
        )
        log = self._answered(lambda: NatsLog(log_connection, replica.stream))
        durability = Durability(
            () if replica.unverified_durability else replica.monitors,
            lambda: log.state.replicas,
            is_needed=not replica.unverified_durability,
            report=settings.report,
        )
        durability.look()
        if durability.problem is not None:
            raise durability.problem
        stack.enter_context(durability).start()
        store = self.store = stack.enter_context(open_replica_store(folder))
        store.sync_reader_check()
        instance = settings.sources.random(INSTANCE_BYTES)
        self.inbox = inbox_of(folder.world, instance)
        beats = Beats(
            bucket, stream=replica.stream, world=folder.world, key=self.key, node=replica.node,
            instance=instance, inbox=self.inbox,
        )  # fmt: skip
        bases = NodeBases(
            folder.path, replica, self._access, credentials=settings.credentials,
            report=settings.report, place=lambda: store.place, is_owner=self.holds_lease,
        )  # fmt: skip
        stack.enter_context(bases).start()
        core = settings.core()
        reference = self._reference = self._watched(stack, store, core)

        def problem_of_writer() -> AosError | None:
            return durability.problem or (None if reference is None else reference.problem)

        def take(view: NodeView) -> None:
            progress = None if reference is None else reference.progress
            self._on_view(replace(view, reference=progress))

        part_bytes = self._answered(lambda: log.part_bytes)
        return NodeLoop(
            Replica(
                store,
                log,
                beats,
                ReplicaSettings(
                    world=folder.world, key=self.key, stream=replica.stream, host=settings.host,
                    sources=settings.sources, lease_ns=settings.lease_ns, core=core,
                    part_bytes=part_bytes, progress=self._progress, note=settings.report,
                    fetch=settings.fetch,
                ),
            ),
            self._begin,
            problem_of_writer=problem_of_writer,
            on_view=take,
            report=settings.report,
        )  # fmt: skip

    def _watched(
        self, stack: contextlib.ExitStack, store: LoggedStore, core: ChosenCore
    ) -> ReferenceWatch | None:
        """Have the reference compare the journal of this node, if it has the second kernel."""
        settings = self._settings
        if core.kind is not CoreKind.FAST or not settings.has_reference:
            return None
        reference = ReferenceWatch(
            self._folder.path / STORE,
            store,
            core=content_hash(read_core(core_folder())).hex(),
            is_owner=self.holds_lease,
            report=settings.report,
            keep=lambda write: self.between_entries(lambda _: write()),
        )
        stack.enter_context(reference).start()
        return reference

    def _progress(self, seq: int, total: int) -> None:
        if self._over.is_set():
            raise Stopping("the world was stopped while its journal was read")
        if self._settings.progress is not None:
            self._settings.progress(seq, total)

    def _answered(self, ask: Callable[[], T]) -> T:
        """Ask servers until they answer: they may start after the node (CL-109).

        Raises:
            Stopping: The node is to end.
        """
        is_reported = False
        while not self._over.is_set():
            try:
                return ask()
            except (LogUnreachable, BucketUnreachable) as problem:
                if not is_reported:
                    self._settings.report(f"waiting for the servers: {problem}")
                is_reported = True
            self._over.wait(RETRY_S)
        raise Stopping("the world was stopped before its servers answered")

    def _check_registered(self, worlds: NatsBucket) -> None:
        """Check that the name of the address is that of this world (CL-108)."""
        address, name = self._replica.address, self._replica.address.name
        entry = find_registration(worlds, name)
        if entry is None:
            raise Refused(
                "no world is registered under this name",
                location=address.text,
                expected=f"the world of {self._folder.path}",
                hint="if its aos init was interrupted, the same command finishes it",
            )
        registration = entry.registration
        if registration.world != self._folder.world:
            raise Refused(
                "another world is registered under this name",
                location=address.text,
                expected=self._folder.world.hex()[:16],
                actual=registration.world.hex()[:16],
                hint="a name belongs to the world that was registered first",
            )
        if not registration.is_of(self.key.verify_key.encode()):
            raise Refused(
                "the key of this folder did not sign the registration of its world",
                location=address.text,
                expected=f"the key of world {registration.world.hex()[:16]} in "
                f"{self._folder.path / KEYS / WORLD_KEY}",
                actual="another key, or a registration that others have changed",
                hint="restore the key from a backup, or from another node",
            )


def open_replica_store(folder: WorldFolder) -> LoggedStore:
    """Open the store of a node for writing. The caller has the lock of the folder.

    Raises:
        Refused: It is the store of an embedded world, whose folder got a ``replica.json``.
        Damage: It is missing or cannot be read, or belongs to another world.
        Unavailable: It cannot be opened now.
    """
    store = LoggedStore.open(folder.path / STORE)
    try:
        head = store.head()
        if head is not None:
            check_world(head, folder.world)
        if store.place is None:
            raise Refused(
                "this store is that of an embedded world, and the folder has a replica.json",
                location=str(folder.path),
                hint="a copy of that file makes no node: remove it",
            )
    except BaseException:
        store.close()
        raise
    return store


class NodeBases(Closable):
    """Makes bases of a node that runs (CL-136), in a thread: ``place`` is that of its store in
    the log. While a node owns the world, it leaves them to others for a quarter of the log more."""

    def __init__(
        self,
        path: Path,
        replica: ReplicaFile,
        access: NatsAccess,
        *,
        credentials: Path | None,
        report: Callable[[str], None],
        place: Callable[[], LogPlace | None],
        is_owner: Callable[[], bool],
    ) -> None:
        self._replica = replica
        self._access = access
        self._place = place
        self._is_owner = is_owner
        self._maker = BaseMaker(path, self._is_needed, credentials=credentials, report=report)
        self._key = open_folder(path).world_key().verify_key.encode()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aos-bases", daemon=True)

    def start(self) -> None:
        """Look whether a base is needed, and make it, in a thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread, and the making of a base."""
        self._over.set()

    def _is_needed(self) -> bool:
        if self._over.is_set():
            return False
        name = self._replica.address.name
        with connected_servers(self._replica.address, self._access) as servers:
            registration = registered(servers.worlds, name, self._key).registration
            log_bytes = BASE_BYTES * 5 // 4 if self._is_owner() else BASE_BYTES
            place = self._place()
            position = 0 if place is None else place.position
            return needs_base(servers.streams, registration, position, log_bytes=log_bytes)

    def _run(self) -> None:
        with self._maker as maker:
            while not self._over.wait(BASE_TURN_S):
                maker.turn()


class Durability(Closable):
    """Whether the servers of a log sync what they acknowledge, as ``look`` has found it last. After
    ``start``, it looks again each ``DURABILITY_S``.

    A server that does not answer is no reason against a writer: the world must go on without it
    (CL-111). ``report`` gets a line when a later look finds a problem.
    """

    def __init__(
        self,
        monitors: Sequence[str],
        replicas: Callable[[], Collection[str]],
        *,
        is_needed: bool,
        report: Callable[[str], None],
    ) -> None:
        self.problem: AosError | None = None
        """Why no writer may start; None if one may."""
        self._monitors = monitors
        self._replicas = replicas
        self._is_needed = is_needed
        self._report = report
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aos-durability", daemon=True)

    def look(self) -> None:
        """Ask the servers."""
        if not self._is_needed:
            return
        try:
            check_durable(self._monitors, self._replicas(), needs_all=False)
        except Unavailable:
            pass
        except AosError as problem:
            self.problem = problem
        else:
            self.problem = None

    def start(self) -> None:
        """Look again and again, in a thread."""
        if self._is_needed:
            self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(DURABILITY_S):
            before = self.problem
            self.look()
            if self.problem is not None and str(self.problem) != str(before):
                self._report(f"this node may not take over: {self.problem}")
