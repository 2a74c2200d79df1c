"""Run one world in one process: engine, executors and socket around an event loop (H-80 to H-86).

The loop's thread does none of the core's work: it reads messages, passes tasks to executors and
signs receipts. A signal only sets a flag.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from nacl.signing import SigningKey

from aos import __version__
from aos.core.decide.answers import Refusal
from aos.core.decide.fits import completed
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, slot_bytes
from aos.core.state.cell import OpenIntent
from aos.core.state.intent_progress import IntentProgress
from aos.errors import BadUsage
from aos.fastcore.core_choice import choose_core
from aos.fastcore.core_kind import CoreKind
from aos.fastcore.errors import CoreDefect
from aos.host.door.delivery_targets import DeliverySources, NeighbourSources
from aos.host.door.following import Followers, ReplicaPlace
from aos.host.door.front_requests import AskFront
from aos.host.door.listener import Talk
from aos.host.door.server import ReplicaService, Server
from aos.host.errors import Stopping
from aos.host.executors.intent_abi import IntentAbis
from aos.host.executors.naming import StoredBlobs
from aos.host.executors.pool import Coverage, Pool
from aos.host.executors.receipts import Receipts
from aos.host.executors.redelivery import NO_LEASES, Redelivery, left_open, telling_losses
from aos.host.executors.task import (
    ExecutorStats,
    Halted,
    Report,
    Task,
    TaskExecutor,
    report_to_stderr,
)
from aos.host.folder.folder import WorldFolder, is_replicated, open_folder
from aos.host.folder.restore import Progress, check_key
from aos.host.open_work import OpenEffect, OpenEffects, work_fields
from aos.host.retention.marking import find_still_needed
from aos.host.run_end import RunEnd
from aos.host.stamps import Sources
from aos.host.timer_pull import TimerPull
from aos.host.world.engine import Engine, EngineStats
from aos.host.world.fault_reports import FaultReports
from aos.host.world.restored_world import RestoredWorld, restored_world, unopened
from aos.host.world.snapshots import Every, Snapshots
from aos.host.world.unit import Published
from aos.manifest.effective import Effective
from aos.manifest.names import KERNEL_EFFECTS, TIMER
from aos.rare_collections import rare_collections
from aos.sandbox.cache import ModuleCache, standard_cache
from aos.sandbox.config import live_fingerprint
from aos.sandbox.engine import Sandbox
from aos.store.lock import WorldLock, acquire_to_run
from aos.store.store import Store
from aos.values.cbor import Value, decode_record
from aos.values.digests import Hash
from aos.values.show import untyped_to_json

if TYPE_CHECKING:  # embedded worlds need none of this
    from aos.host.cluster.following import Fetch
    from aos.host.cluster.loop import OwnerTerm
    from aos.host.cluster.replica_node import ReplicaNode, ReplicaNodeSettings
    from aos.host.folder.replica_file import ReplicaFile
    from aos.host.node_around import NodeAround
    from aos.host.replicated_process import ReplicatedProcess

T = TypeVar("T")

STATUS_S: Final = 0.25
READER_CHECK_S: Final = 60.0
KEY_SHOWN: Final = 40
PUBLISH_SLICE: Final = 1000
"""Tasks that a start publishes before the loop does something else."""

Executors: TypeAlias = Callable[[BlobReader, Hash], Sequence[TaskExecutor]]
"""Makes the executors of a world, given the reader of its durable blobs and its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """For a live line (H-85). ``waiting`` counts open intents by effect that no executor here
    settles, ``open`` all of them; ``held`` and ``parked`` are how many of those that wait are in
    that phase (K-99). ``next_timer_ns`` is when the next timer is due."""

    stats: EngineStats
    steps_per_s: float
    waiting: Mapping[str, int]
    open: Mapping[str, int]
    next_timer_ns: int | None
    held: int
    parked: int
    executors: Mapping[str, ExecutorStats]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The world is open and its socket answers. ``open_intents`` were published again, but for the
    timers of later places (X-23a).

    ``clock_ns`` is the journal clock after record ``seq``, the last one before this start.
    """

    folder: WorldFolder
    seq: int
    clock_ns: int
    open_intents: int
    manifest: Effective | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended: idle, late (it was not idle in time), or because it was told to stop (H-81).

    ``waiting`` counts open intents, by effect, that no executor here runs or that one gave up; the
    effects of the latter are ``given_up``. ``halted`` has those of them that are held or parked,
    with their effects. ``timers`` counts open timers that are not due. ``refused`` has the refusals
    of receipts whose intents are still open; ``open`` has everything that is still open.
    ``has_work`` is whether something was left to do now (H-81a), and ``next_ns`` the time of the
    first task that waits for one, in ns since 1970.
    """

    stats: EngineStats
    is_idle: bool
    is_late: bool
    open: tuple[OpenEffect, ...]
    waiting: Mapping[str, int]
    given_up: frozenset[str]
    halted: Mapping[Hash, tuple[str, Halted]]
    timers: int
    refused: Mapping[Hash, Refusal]
    has_work: bool
    next_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWorld:
    """A world that runs, for the code around it (H-82a).

    ``announce_stop`` tells the followers that it is about to end. ``fail`` ends the run, which then
    raises the problem. ``seq`` returns the last durable record. ``rest`` ends the run if one with
    ``until_waiting`` would end now, and returns whether it does. ``hurry`` is set when nothing more
    should be waited for: after a second signal, or because the world has stopped.
    """

    folder: WorldFolder
    report: Report
    announce_stop: Callable[[], None]
    fail: Callable[[Exception], None]
    seq: Callable[[], int]
    rest: Callable[[], bool]
    hurry: asyncio.Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOptions:
    """How a node of a replicated world runs: its lease in ns, None for the default; the file of its
    credentials, None for that of the environment; and whether the reference compares the journal
    of a standby."""

    lease_ns: int | None = None
    credentials: Path | None = None
    has_reference: bool = True


NO_REPLICA_OPTIONS: Final = ReplicaOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How a world is run, and who hears of it. Callbacks are called on the loop's thread.

    With ``until_idle``, the run also ends when this process has nothing left to do; a timer that is
    set is something left to do. With ``until_waiting``, it is only if it is due. After
    ``max_wait_s`` seconds the run ends in any case, and is late (H-81a).

    With ``elsewhere``, effects without an executor here are left to clients of the socket: they are
    open work like any other, and are not reported. With ``has_neighbours``, the neighbours of the
    world may deliver events (WS-1). With ``operator_key``, commands that clients do
    not sign are signed with it (H-59f). ``leases`` returns the attempts that workers
    elsewhere may still run, by intent; it is called once the world's lock is held. An executor here
    begins with the next attempt (X-16b). ``around`` is
    entered once the world answers, and left when it is to stop, while it still answers (H-82a).

    A kernel of the kind ``core`` decides (default: the rule of ``choose_core``).
    ``cells_kept`` is how many idle cells of each workflow stay in memory (H-48). ``on_coverage`` is
    called at the start and with each new manifest: it gets the effects that no executor here runs,
    and those that the manifest does not define. ``on_fold`` is called on another thread.

    Of a replicated world, this process is a node, with the options ``replica``. Executors and the
    callbacks but ``on_fold`` begin again with each term in which the node owns the world (CL-110).
    ``around`` is entered once, when the node has a journal, and left at the end of the process
    (CL-200); ``front`` has what ``around`` serves answer an HTTP request of another node.
    """

    executors: Executors = lambda _blob, _world: ()
    until_idle: bool = False
    until_waiting: bool = False
    max_wait_s: float | None = None
    handle_signals: bool = True
    report: Report = report_to_stderr
    sources: Sources | None = None
    snapshot_every: Every | None = None
    cells_kept: int | None = None
    core: CoreKind | None = None
    elsewhere: bool = False
    has_neighbours: bool = False
    operator_key: SigningKey | None = None
    leases: Callable[[Store], Mapping[Hash, int]] = lambda _store: NO_LEASES
    replica: ReplicaOptions = NO_REPLICA_OPTIONS
    around: Callable[[RunningWorld], AbstractAsyncContextManager[None]] | None = None
    front: AskFront | None = None
    on_fold: Progress | None = None
    on_started: Callable[[Started], None] | None = None
    on_status: Callable[[Status], None] | None = None
    on_coverage: Callable[[Coverage, Effective], None] | None = None


async def run_world(path: Path, settings: RunSettings) -> Ended:
    """Run the world at ``path`` until a signal or a client's ``stop`` (H-80), or as ``settings``
    say.

    Raises:
        BadUsage, Refused: There is no such world, an executor cannot start, or ``operator_key`` is
            not an operator's.
        Unavailable: Another process runs the world, it was stopped while its journal was read, or
            the disk had no room for its last records.
        Damage: The journal is damaged, or a commit failed; everything acknowledged is durable.
    """
    folder = open_folder(path)
    for remark in folder.remarks():
        settings.report(remark)
    lock = WorldLock(path, runs=True)
    await acquire_to_run(lock, settings.report)
    with contextlib.ExitStack() as stack:
        stack.callback(lock.release)
        stack.enter_context(rare_collections())
        if is_replicated(path):
            return await _run_node(folder, settings)
        if settings.replica != NO_REPLICA_OPTIONS:
            raise BadUsage(
                "--lease, --creds, --no-reference: this world is not replicated",
                location=str(path),
                expected="no such option, or the folder of a replicated world (aos init --store)",
            )
        store = folder.open_store()
        stack.callback(store.close)
        key = folder.world_key()
        store.sync_reader_check()
        leases = settings.leases(store)
        end = RunEnd(settings.report)
        if settings.handle_signals:
            stack.enter_context(_signals(end))
        # One for modules and the core, so that a problem with it is reported once (S-54).
        cache = standard_cache(end.note, outside=path)
        world = await _restored(store, folder, end, settings, cache)
        stack.callback(world.thread.close)
        check_key(world.figures.world_key, key)
        gc.freeze()
        sandbox = Sandbox(world.blobs.read, cache=cache)
        stack.callback(sandbox.close)
        opened = _OpenedWorld(
            folder=folder,
            store=store,
            world=world,
            key=key,
            sandbox=sandbox,
            host={"kernel": __version__, "core": world.core.value, **sandbox.fingerprint},
            sources=NeighbourSources(folder) if settings.has_neighbours else None,
        )
        return await _ran(_Run(opened, settings, end, leases), settings, end, settings.max_wait_s)


async def _ran(
    run: _Run,
    settings: RunSettings,
    end: RunEnd,
    max_wait_s: float | None = None,
    serving: AbstractAsyncContextManager[None] | None = None,
) -> Ended:
    """Run a world until its end, and stop it. ``serving`` is open meanwhile; by default that of
    ``settings.around``.

    Raises:
        AosError: Why the engine has stopped, or an executor cannot start.
        Exception: The problem of an executor that could not take its tasks.
    """
    async with run.at_work() as started:
        if settings.on_started is not None:
            settings.on_started(started)
        async with (
            run.ticking(settings.on_status),
            serving or _entered(settings.around, run.running()),
        ):
            await end.awaited(max_wait_s)
    if end.problem is not None:
        raise end.problem
    return run.ended()


async def _run_node(folder: WorldFolder, settings: RunSettings) -> Ended:
    """Run the node of a replicated world: follow, own, follow (CL-110). The caller has the lock.
    Raises as ``run_world``."""
    # Embedded worlds need none of this.
    from aos.host.cluster.cluster_service import ClusterService  # noqa: PLC0415
    from aos.host.folder.replica_file import replica_of  # noqa: PLC0415
    from aos.host.node_bus import NodeBus  # noqa: PLC0415
    from aos.host.replicated_process import ReplicatedProcess  # noqa: PLC0415

    replica = replica_of(folder.path)
    options, end = settings.replica, RunEnd(settings.report)
    ended: Ended | None = None
    terms = 0
    with contextlib.ExitStack() as stack:
        if settings.handle_signals:
            stack.enter_context(_signals(end))
        cache = standard_cache(end.note, outside=folder.path)
        bus = stack.enter_context(
            NodeBus(
                folder,
                replica,
                stream=lambda: process.node.replica.stream,
                credentials=options.credentials,
                report=end.note,
            )
        )
        cluster = stack.enter_context(
            ClusterService(
                folder, replica.address, node=lambda: process.node, credentials=options.credentials
            )
        )

        async def own(term: OwnerTerm) -> None:
            nonlocal ended, terms
            terms += 1
            node = process.node
            with contextlib.ExitStack() as of_term:
                gc.freeze()
                of_term.callback(gc.unfreeze)
                sandbox = Sandbox(term.world.blobs.read, cache=cache)
                of_term.callback(sandbox.close)
                service = ReplicaService(
                    place=partial(_owned_place, node, terms),
                    fresh=bus.fresh,
                    front=settings.front,
                    hand_over=node.hand_over,
                    cluster=cluster.answer,
                    is_ending=lambda: end.is_final,
                )
                opened = _owned(
                    folder, replica, process, term, sandbox=sandbox, service=service,
                    sources=bus.sources() if settings.has_neighbours else None,
                )  # fmt: skip
                run = _Run(opened, settings, end, settings.leases(opened.store))
                term.runs(run.engine, end.pause)
                around.followers = run.followers
                serving = _together(bus.serving(node.inbox, run.talk), around.during_term())
                ended = await _ran(run, settings, end, serving=serving)
                around.followers = process.standby.followers

        process = ReplicatedProcess(
            folder,
            replica,
            _node_settings(settings, end, cache, bus.fetch),
            end,
            own,
            still_needed=partial(find_still_needed, folder.path),
            report=settings.report,
            pass_on=bus.pass_on,
            fresh=bus.fresh,
            cluster=cluster.answer,
            before_end=lambda: around.left(),  # noqa: PLW0108  # made below
        )
        around = _node_around(folder, settings, process, end)
        timer = None
        if settings.max_wait_s is not None:
            timer = asyncio.get_running_loop().call_later(settings.max_wait_s, end.late)
        around.begin(process.has_journal)
        try:
            await process.run()
        except BaseException:
            end.final_hurry.set()
            raise
        finally:
            if timer is not None:
                timer.cancel()
            await around.left()
        if end.problem is not None:
            raise end.problem
        return ended or _followed(process.standby.stats(), end)


def _owned(
    folder: WorldFolder,
    replica: ReplicaFile,
    process: ReplicatedProcess,
    term: OwnerTerm,
    *,
    sandbox: Sandbox,
    service: ReplicaService,
    sources: DeliverySources | None,
) -> _OpenedWorld:
    """The world that a node owns for one term."""
    from aos.host.standby import replica_fields  # noqa: PLC0415

    node, store = process.node, process.node.store
    assert store is not None, "open before the first term"
    return _OpenedWorld(
        folder=folder,
        store=store,
        world=term.world,
        key=node.key,
        sandbox=sandbox,
        host=term.host,
        sources=sources,
        has_started=True,
        replica=service,
        holds_lease=node.holds_lease,
        lease_end_ns=node.lease_end_ns,
        check_owns=store.check_owns,
        more_status=lambda: {"replica": replica_fields(replica, node.view(), is_owner=True)},
        before_serving=process.standby.close,
    )


def _node_settings(
    settings: RunSettings, end: RunEnd, cache: ModuleCache | None, fetch: Fetch
) -> ReplicaNodeSettings:
    from aos.host.cluster.lease import LEASE_NS  # noqa: PLC0415
    from aos.host.cluster.replica_node import ReplicaNodeSettings  # noqa: PLC0415

    return ReplicaNodeSettings(
        host={"kernel": __version__, **live_fingerprint()},
        core=lambda: choose_core(settings.core, cache=lambda: cache, note=end.note),
        lease_ns=settings.replica.lease_ns or LEASE_NS,
        credentials=settings.replica.credentials,
        has_reference=settings.replica.has_reference,
        sources=settings.sources or Sources(),
        report=end.note,
        progress=settings.on_fold,
        fetch=fetch,
    )


def _node_around(
    folder: WorldFolder, settings: RunSettings, process: ReplicatedProcess, end: RunEnd
) -> NodeAround:
    from aos.host.node_around import NodeAround  # noqa: PLC0415

    running = RunningWorld(
        folder=folder,
        report=settings.report,
        announce_stop=lambda: around.followers.stopping(),  # noqa: PLW0108  # they change
        fail=end.failed,
        seq=lambda: process.standby.stats().figures.seq,
        rest=lambda: False,
        hurry=end.final_hurry,
    )
    enter = None if settings.around is None else partial(settings.around, running)
    around = NodeAround(enter, process.standby.followers, end)
    return around


async def _restored(
    store: Store, folder: WorldFolder, end: RunEnd, settings: RunSettings, cache: ModuleCache | None
) -> RestoredWorld:
    """Choose the kernel and fold the journal, while the loop handles signals.

    Raises:
        Stopping: The world was stopped before that was done.
    """
    progress = settings.on_fold

    def tell(seq: int, total: int) -> None:
        if end.over.is_set():
            raise Stopping("the world was stopped while its journal was read")
        if progress is not None:
            progress(seq, total)

    def restore() -> RestoredWorld:
        core = choose_core(settings.core, cache=lambda: cache, note=end.note)
        return restored_world(store, folder.world, core=core, progress=tell, note=end.note)

    try:
        return await asyncio.to_thread(restore)
    except asyncio.CancelledError:
        end.over.set()  # the thread ends after its frame
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenedWorld:
    """The parts of a world that this process has opened, and closes when the run has ended.

    ``host`` is the software that executes here, for the ``start`` record, unless the world
    ``has_started``. ``sources`` are its neighbours, if it has any. The last six are for replicated
    worlds: the part of the node in the service; whether tasks may be handed out now, and until
    when; a look at the log that raises Deposed if another process owns the world; further fields of
    the status; and a call before the socket is made.
    """

    folder: WorldFolder
    store: Store
    world: RestoredWorld
    key: SigningKey
    sandbox: Sandbox
    host: Mapping[str, str]
    sources: DeliverySources | None
    has_started: bool = False
    replica: ReplicaService | None = None
    holds_lease: Callable[[], bool] = lambda: True
    lease_end_ns: Callable[[], int | None] = lambda: None
    check_owns: Callable[[], None] | None = None
    more_status: Callable[[], Mapping[str, Value]] = dict
    before_serving: Callable[[], None] = lambda: None


class _Run:
    """The loop's side of a running world."""

    def __init__(
        self, opened: _OpenedWorld, settings: RunSettings, end: RunEnd, leases: Mapping[Hash, int]
    ) -> None:
        folder, store, restored = opened.folder, opened.store, opened.world
        world = restored.tip.world
        self._folder = folder
        self._store = store
        self._restored = restored
        self._end = end
        self._leases = leases
        self._settings = settings
        self._report = settings.report
        self._loop = asyncio.get_running_loop()
        self._faults = FaultReports(settings.report, self._loop.call_later, _cell_text)
        self._manifest: Effective | None = None
        self._intent_abis = IntentAbis(store)
        self._open = OpenEffects()
        self._is_idle = False
        self._takes_tasks = True
        self._before_serving = opened.before_serving
        self.engine = self._engine = Engine(
            restored,
            store=store,
            key=opened.key,
            runner=opened.sandbox,
            host=opened.host,
            sources=settings.sources,
            cells_kept=settings.cells_kept,
            has_started=opened.has_started,
            on_published=self._from_committer,
            on_quiet=self._quiet,
            on_stopped=end.stopped,
        )
        self._receipts = Receipts(self._engine, world=world, key=opened.key, is_open=self._is_open)
        self._pool = Pool(
            settings.executors(StoredBlobs(store.blob, store.hash_by_sha256), world),
            report=settings.report,
            on_waiting=self._quiet,
            failed=end.failed,
            holds_lease=opened.holds_lease,
        )
        self._pull: TimerPull | None = None
        if self._pool.timing is not None:
            self._pull = TimerPull(
                self._pool.timing,
                self._engine,
                tasks=self._tasks_again,
                failed=end.failed,
                on_added=self._follow_timers,
            )
        self._snapshots = Snapshots(
            self._engine,
            folder.path,
            core=restored.core,
            every=settings.snapshot_every,
            report=end.note,
        )
        self._server = Server(
            self._engine,
            world=world,
            operators=restored.figures.operators,
            stop=end.stop,
            retry=self._pool.retry,
            receipts=self._receipts,
            operator_key=settings.operator_key,
            sources=opened.sources,
            path=folder.path,
            snapshot=self._snapshots.make,
            between_snapshots=self._snapshots.between,
            still_needed=partial(find_still_needed, folder.path),
            work=self._work,
            more_status=opened.more_status,
            lease_end_ns=opened.lease_end_ns,
            check_owns=opened.check_owns,
            replica=opened.replica,
            report=settings.report,
        )

    # From other threads. The loop outlives them: ``at_work`` waits for their end.

    def _from_committer(self, published: Published) -> None:
        self._loop.call_soon_threadsafe(self._publish, published)

    def _quiet(self) -> None:
        self._loop.call_soon_threadsafe(self._check_idle)

    # On the loop

    @property
    def talk(self) -> Callable[[], Talk]:
        """Makes a connection that the world answers, as on its socket."""
        return self._server.talk

    @property
    def followers(self) -> Followers:
        """The clients that follow the journal."""
        return self._server.followers

    def running(self) -> RunningWorld:
        """The run, for the code around it."""
        return RunningWorld(
            folder=self._folder,
            report=self._report,
            announce_stop=self._server.followers.stopping,
            fail=self._end.failed,
            seq=lambda: self._engine.stats().figures.seq,
            rest=self._rest,
            hurry=self._end.hurry,
        )

    def _is_open(self, intent: Hash) -> bool:
        """Whether an intent is open at the durable head."""
        timing = self._pool.timing
        return intent in self._open or (timing is not None and timing.is_open(intent))

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[Started]:
        """Start everything; stop it in an order in which no finished work is lost (H-82).

        A problem that stopped the engine is raised at the end, when everything has stopped.
        """
        restored, server = self._restored, self._server
        manifest = restored.figures.manifest
        async with contextlib.AsyncExitStack() as stack:
            # Stopped from the last line up: first requests, then tasks, steps and answers.
            stack.callback(self._faults.flush)
            stack.push_async_callback(server.finish)
            stack.push_async_callback(asyncio.to_thread, self._engine.stop)
            await self._end.unless_final(
                self._pool.start(self._receipts),
                "the world was stopped while its executors were started",
            )
            stack.push_async_callback(self._pool.stop)
            stack.callback(self._take_no_tasks)
            self._manifest = manifest
            self._intent_abis.start(await self._of_kernel(restored.kernel.manifests))
            if manifest is not None:
                self._use(manifest)
            lost, ending = await self._publish_again()
            started = Started(
                folder=self._folder,
                seq=restored.tip.seq,
                clock_ns=restored.figures.clock_ns,
                open_intents=len(self._open) + self._open.timers - len(lost) - ending,
                manifest=manifest,
            )
            await stack.enter_async_context(telling_losses(lost, self._receipts, self._report))
            self._engine.start()
            self._snapshots.start()
            stack.push_async_callback(asyncio.to_thread, self._snapshots.close)
            stack.callback(server.close)
            self._before_serving()
            server.start(self._folder.socket)
            yield started

    def _take_no_tasks(self) -> None:
        self._takes_tasks = False

    async def _publish_again(self) -> tuple[list[Redelivery], int]:
        """Publish again what was open when the last process ended (H-42). Return lost intents, and
        how many others the core itself is about to end. The engine has not started yet."""
        kernel, pull = self._restored.kernel, self._pull
        pulled = None if pull is None else TIMER
        ending = 0
        open_intents = kernel.open_intents(but=pulled)
        while works := await self._of_kernel(lambda: list(islice(open_intents, PUBLISH_SLICE))):
            for work in works:
                if not work.is_inherited:
                    self._open.add((work.intent,))
                    ending += work.is_owed
        lost: list[Redelivery] = []
        remaining = left_open(kernel.open_intents(but=pulled), self._leases)
        while redeliveries := await self._of_kernel(lambda: list(islice(remaining, PUBLISH_SLICE))):
            some = [redelivery for redelivery in redeliveries if self._is_ours(redelivery.intent)]
            lost += [redelivery for redelivery in some if redelivery.is_lost]
            for redelivery in some:
                if redelivery.is_over:
                    self._pool.keep_parked(self._task_again(redelivery))
            runs = [
                redelivery for redelivery in some if not (redelivery.is_lost or redelivery.is_over)
            ]
            self._pool.publish([self._task_again(redelivery) for redelivery in runs])
        if pull is not None:
            figures, seq = self._restored.figures, self._restored.tip.seq
            ending += await pull.start(kernel, figures, self._of_kernel, seq=seq)
            self._open.timers = pull.number
        return lost, ending

    def _follow_timers(self) -> None:
        """After a page of timers, some of which may be inherited."""
        assert self._pull is not None, "the pull calls this"
        self._open.timers = self._pull.number
        self._check_idle()

    async def _of_kernel(self, read: Callable[[], T]) -> T:
        """Call ``read`` on the kernel's thread, before the engine's loop runs on it.

        Raises:
            WorldStopped: The core has a defect.
        """
        try:
            return await asyncio.wrap_future(self._restored.thread.submit(read))
        except CoreDefect as defect:
            raise unopened(defect) from defect

    def _task_again(self, redelivery: Redelivery) -> Task:
        task = self._task(redelivery.intent)
        return replace(
            task,
            attempt=redelivery.attempt,
            spent=redelivery.spent,
            halted=redelivery.halted,
            left_by=redelivery.left_by,
            next_frame=redelivery.next_frame,
        )

    def _tasks_again(self, works: Iterable[IntentProgress]) -> list[Task]:
        """The tasks of timers, which are never lost or over."""
        if not self._takes_tasks:
            return []
        return [self._task_again(redelivery) for redelivery in left_open(works, self._leases)]

    def _publish(self, published: Published) -> None:
        self._server.followers.notify()
        self._faults.add(published.faults)
        for intent in published.ended:
            self._receipts.ended(intent)
        pull = self._pull
        self._open.add(
            intent
            for intent in published.opened_intents
            if pull is None or intent.effect.name != TIMER
        )
        far = self._far(published.dropped)
        self._open.end(published.ended)
        if pull is not None:
            pull.published(published)
            self._open.timers = pull.number
        self._pool.settled(published.ended)
        if not self._takes_tasks:
            return
        try:
            self._follow(published.figures.manifest)
            self._pool.publish(
                [
                    self._task(open_intent)
                    for open_intent in published.opened_intents
                    if self._is_ours(open_intent)
                ]
            )
            self._pool.cancel(published.dropped)
            if pull is not None:
                pull.canceled(published.dropped, far)
        except Exception as problem:  # noqa: BLE001  # raised once everything is down
            self._end.failed(problem)

    def _far(self, dropped: Sequence[Hash]) -> list[Hash]:
        """Those intents that may be timers which the executor has not set."""
        timing = self._pool.timing
        if timing is None or timing.has_all:
            return []
        return [
            intent for intent in dropped if intent not in self._open and not timing.is_open(intent)
        ]

    def _is_ours(self, intent: OpenIntent) -> bool:
        """Whether the pool gets an intent: to run it, or to report that no one does (X-8a)."""
        return not self._settings.elsewhere or self._pool.runs(intent.effect.name)

    def _waiting_by_effect(self) -> Mapping[str, int]:
        """Open intents that no executor here settles, by effect."""
        waiting = self._pool.waiting_by_effect()
        if not self._settings.elsewhere:
            return waiting
        unserved = {
            name: number
            for name, number in self._open.by_effect().items()
            if name not in KERNEL_EFFECTS and not self._pool.runs(name)
        }
        return {**waiting, **unserved}

    def _follow(self, manifest: Effective | None) -> None:
        """Put a new manifest in force at the executors, before its first effects (H-84)."""
        if manifest is self._manifest or manifest is None:
            return
        self._manifest = manifest
        self._intent_abis.add(manifest)
        try:
            self._use(manifest)
        except BadUsage as problem:
            self._report(str(problem))

    def _use(self, manifest: Effective) -> None:
        """Raises: BadUsage: As ``Pool.use``."""
        coverage = self._pool.use(manifest)
        if self._settings.on_coverage is not None:
            self._settings.on_coverage(coverage, manifest)

    def _task(self, intent: OpenIntent) -> Task:
        workflow, cell_key = intent.cell
        return Task(
            intent=intent.intent,
            effect=intent.effect,
            params=self._params(intent),
            idempotency_key=intent.idempotency_key,
            workflow=workflow,
            cell_key=cell_key,
            issuer_ref=intent.issuer_ref,
            opened_seq=intent.seq,
            opened_ns=intent.opened_ns,
            abi=self._intent_abis.of(intent),
        )

    def _params(self, intent: OpenIntent) -> bytes:
        """The params, with null for the optional fields that the effect got since (K-71d)."""
        data = slot_bytes(intent.params, self._store.blob)
        effects = {} if self._manifest is None else self._manifest.effects
        effect = effects.get(intent.effect.name, intent.effect)
        return data if effect is intent.effect else completed(effect.params, data)

    def _check_idle(self) -> None:
        settings = self._settings
        if not (settings.until_idle or settings.until_waiting) or self._end.over.is_set():
            return
        if not self._has_work(timers_wait=settings.until_waiting):
            self._is_idle = True
            self._end.stop()

    def _rest(self) -> bool:
        if self._has_work(timers_wait=True):
            return False
        self._is_idle = True
        self._end.stop()
        return True

    def _has_work(self, *, timers_wait: bool) -> bool:
        """Whether something is left to do here (H-81a). Timers that are not due are nothing to do
        if ``timers_wait``."""
        return not self._engine.is_quiet or self._has_open_work(timers_wait=timers_wait)

    def _has_open_work(self, *, timers_wait: bool) -> bool:
        if self._receipts.on_way:
            return True
        waiting, refused = self._pool.waiting, self._receipts.refused
        if len(self._open) > len(waiting) + len(refused):
            return True
        if self._pull is not None and self._pull.is_reading:
            return True
        timers = self._open.timers and self._timers_left()
        if timers and (self._pool.is_due() or not timers_wait):
            return True
        return not all(intent in waiting or intent in refused for intent in self._open)

    def _timers_left(self) -> int:
        """The open timers whose receipt was not refused."""
        refused = sum(intent not in self._open for intent in self._receipts.refused)
        return self._open.timers - refused

    @contextlib.asynccontextmanager
    async def ticking(self, on_status: Callable[[Status], None] | None) -> AsyncIterator[None]:
        """Report the status regularly, and let the store forget readers that died."""
        ticks = [self._loop.create_task(self._check_readers())]
        if on_status is not None:
            ticks.append(self._loop.create_task(self._tell_status(on_status)))
        try:
            yield
        finally:
            for tick in ticks:
                tick.cancel()
            await asyncio.gather(*ticks, return_exceptions=True)

    async def _check_readers(self) -> None:
        while True:
            await asyncio.sleep(READER_CHECK_S)
            self._store.sync_reader_check()

    async def _tell_status(self, on_status: Callable[[Status], None]) -> None:
        steps, at = 0, self._loop.time()
        while True:
            stats, now = self._engine.stats(), self._loop.time()
            rate = (stats.figures.steps - steps) / max(now - at, STATUS_S)
            steps, at = stats.figures.steps, now
            halts = Counter(halted.phase for _, halted in self._pool.halted().values())
            on_status(
                Status(
                    stats=stats,
                    steps_per_s=rate,
                    waiting=self._waiting_by_effect(),
                    open=self._open.by_effect(),
                    next_timer_ns=self._pool.next_ns(),
                    held=halts["held"],
                    parked=halts["parked"],
                    executors=self._pool.stats(),
                )
            )
            await asyncio.sleep(STATUS_S)

    def _work(self) -> Mapping[str, Value]:
        """Return the current work of the executors here, for a client (H-53)."""
        return work_fields(self._pool.now(), self._pool.effects)

    def ended(self) -> Ended:
        stats = self._engine.stats()
        return Ended(
            stats=stats,
            is_idle=self._is_idle,
            is_late=self._end.is_late,
            open=self._open.open_effects(next_timer_ns=self._pool.next_ns()),
            waiting=self._waiting_by_effect(),
            timers=0 if self._pool.is_due() else self._timers_left(),
            given_up=self._pool.given_up(),
            halted={
                intent: (task.effect.name, halted)
                for intent, (task, halted) in self._pool.halted().items()
            },
            refused=dict(self._receipts.refused),
            has_work=stats.figures.ready_cells > 0 or self._has_open_work(timers_wait=True),
            next_ns=self._pool.next_ns(),
        )


def _followed(stats: EngineStats, end: RunEnd) -> Ended:
    """The end of a node that has not owned the world."""
    return Ended(
        stats=stats, is_idle=False, is_late=end.is_late, open=(), waiting={}, given_up=frozenset(),
        halted={}, timers=0, refused={}, has_work=False, next_ns=None,
    )  # fmt: skip


def _cell_text(cell: CellId) -> str:
    """A cell as ``shop/order@1 ord-1``: its key is shortened, without control characters."""
    workflow, key = cell
    if not key:
        return workflow
    value = untyped_to_json(decode_record(key))
    is_plain = isinstance(value, str) and value.isprintable()
    text = str(value) if is_plain else json.dumps(value)
    return f"{workflow} {text if len(text) <= KEY_SHOWN else text[: KEY_SHOWN - 1] + '…'}"


@contextlib.asynccontextmanager
async def _entered(
    around: Callable[[RunningWorld], AbstractAsyncContextManager[None]] | None,
    running: RunningWorld,
) -> AsyncIterator[None]:
    if around is None:
        yield
    else:
        async with around(running):
            yield


@contextlib.asynccontextmanager
async def _together(
    outer: AbstractAsyncContextManager[None], inner: AbstractAsyncContextManager[None]
) -> AsyncIterator[None]:
    async with outer, inner:
        yield


def _owned_place(node: ReplicaNode, term: int) -> ReplicaPlace:
    """The place of a node that owns the world."""
    name, progress = node.replica.node, node.reference
    return ReplicaPlace(
        node=name, owner=name, term=term, lag=0, reason=None,
        reference=None if progress is None else progress.figures,
    )  # fmt: skip


@contextlib.contextmanager
def _signals(end: RunEnd) -> Iterator[None]:
    """Let SIGINT and SIGTERM end the run cleanly; a KeyboardInterrupt could come anywhere."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, end.signaled)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
