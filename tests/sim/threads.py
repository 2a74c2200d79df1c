"""The same scripts through the real ``Engine`` and ``Pipeline``, with a store that fails.

The outcome depends on timing, so no model predicts it. Afterwards the model, the checker, replay
and verify must agree with the journal, and with every answer and report that was given.

The player reads the world as any reader does: it sees durable records only.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.core.journal.frame import Head
from aos.core.kernel import world_state
from aos.core.snapshot.take import take
from aos.core.state.cell import OpenIntent
from aos.core.state.state import State
from aos.errors import AosError, Unavailable
from aos.host.folder.restore import catch_up, restore
from aos.host.stamps import Sources
from aos.host.world import pipeline
from aos.host.world.engine import Engine
from aos.host.world.restored_world import restored_world
from aos.host.world.unit import Published
from aos.manifest.names import KERNEL_EFFECTS
from aos.values.digests import Hash
from tests.memory_world import START_NS, WORLD_KEY
from tests.sim import ends, making, model_follow, script
from tests.sim.behaviour import Modules
from tests.sim.failure import SimFailure
from tests.sim.model import Given, Told
from tests.sim.plan import plans_of
from tests.sim.script import Command
from tests.sim.view import view
from tests.sim.world import History, SimStore, SimWorld, Task, input_of, told_of

WAIT_S = 120.0


class SlowStore(SimStore):
    """While its gate is closed, a group is on its way to the disk and not there yet."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()

    def append(self, group: Any, head: Head, **more: Any) -> None:
        self.gate.wait(WAIT_S)
        super().append(group, head, **more)


class ThreadedWorld(SimWorld):
    """A world whose process is an engine. Commands that make frames leave that to it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.checks = False
        self.chance = random.Random(f"stamps {seed}")
        self.timing = random.Random(f"timing {seed}")
        self.limits = making.small_limits(seed)
        self.plans = plans_of(seed)
        self.modules = Modules(seed)
        self.store: SlowStore = SlowStore()
        self.history = History()
        self.trace = []
        self.values = {}
        self.now_ns = START_NS
        self.runs = True
        self.lock = threading.Lock()
        self.problems: list[str] = []
        self.unknown: list[bytes] = []
        """Intents of receipts that the engine refused because it does not know the intent."""
        self.making = None
        self.maker: threading.Thread | None = None
        self._begin()
        self._open()

    # A process

    def _open(self) -> None:
        live = restored_world(self.store, self.id, limits=self.limits)
        state = world_state(live.kernel)
        self.reader = restore(self.store, self.id, limits=self.limits)
        self.tasks: dict[bytes, Task] = {}
        self.lost: list[bytes] = []
        self.stopped = threading.Event()
        making.fill_kernel(live.kernel, making.KEPT[self.seed % 4])
        left = [each for each in state.intents.values() if each.effect.name not in KERNEL_EFFECTS]
        self._publish(left)
        self.engine = Engine(
            live,
            store=self.store,
            key=WORLD_KEY,
            runner=self.modules if self.runs else None,
            host={"kernel": "sim"},
            sources=Sources(clock_ns=self._clock, random=self.chance.randbytes),
            on_published=self._on_published,
            on_stopped=lambda _: self.stopped.set(),
        )
        self.engine.start()

    def _clock(self) -> int:
        self.now_ns += 1000
        return self.now_ns

    @property
    def state(self) -> State:
        """The state after the last durable record, as a reader sees it."""
        head = self.store.head()
        assert head is not None
        catch_up(self.reader, self.store, head)
        return self.reader

    def _publish(self, opened: list[OpenIntent]) -> None:
        head = self.store.head()
        with self.lock:
            for intent in opened:
                row = self.store.intent(intent.intent)
                if row is None or row.settled_seq is not None:
                    self.problems.append(f"published, and not open in the store: {row}")
                self.history.published.append((head.seq if head else 0, intent))
                self._take(intent)

    def _take(self, intent: OpenIntent) -> None:
        is_once = intent.effect.delivery == "at_most_once"
        attempt = self.reader.attempts.get(intent.intent)
        if is_once and attempt is not None:
            self.lost.append(intent.intent)
            return
        task = self.tasks[intent.intent] = Task(intent, attempt or 1, began=not is_once)
        if task.began:
            self._run(task)

    def _on_published(self, published: Published) -> None:
        """On the committer's thread."""
        self._publish(list(published.opened_intents))
        with self.lock:
            for hash in published.ended:
                self._drop(hash, is_late=hash in published.dropped)

    def submit(
        self, kind: str, given: Given, blobs: Mapping[Hash, bytes] | None = None
    ) -> Told | None:
        try:
            future = self.engine.submit([input_of(kind, given)], blobs=blobs)
        except (Unavailable, AosError):
            return None
        future.add_done_callback(lambda done: self._answered(kind, given, done))
        return None

    def _answered(self, kind: str, given: Given, done: Future[list[Answer]]) -> None:
        """On the committer's thread, or where the world ended."""
        if done.exception() is not None:
            return
        (answer,) = done.result()
        if kind == "receipt" and isinstance(answer, Refusal):
            self.unknown += [given["intent"]] * (answer.rule is Rule.RECEIPT_INTENT_IS_UNKNOWN)
        if not isinstance(answer, Admitted):
            return
        head = self.store.head()
        with self.lock:
            if head is None or head.seq < answer.seq:
                self.problems.append(f"record {answer.seq} was told and is not durable")
            self._tell(kind, given, told_of(kind, answer))

    # Commands

    def step(self) -> bool:
        if self.timing.random() < 0.4:
            self.store.gate.clear()
        else:
            self._breathe(0.5)
        return False

    def seal(self) -> None:
        self._breathe(0.3)

    def _breathe(self, often: float) -> None:
        """Now and then the player waits until the engine is idle."""
        self.store.gate.set()
        if self.timing.random() < often:
            self.engine.wait_quiet(WAIT_S)
        self._reopen_if_stopped()

    def _reopen_if_stopped(self) -> None:
        if self.stopped.is_set():
            self._end()
            self._open()

    def commit(self, how: str) -> None:
        """The next commit goes so. Something to commit comes with it."""
        if how == "ok":
            self._breathe(0.7)
            return
        self._breathe(1.0)
        self.store.next = how
        self.submit("event", {"schema": "s/F@1", "value": b"\xa1an\x01", "submission_id": None})
        if how != "no_room":
            self.submit("start", {"host": {"kernel": "sim"}})
            self.stopped.wait(WAIT_S)
        self._reopen_if_stopped()

    def crash(self, *, runs: bool) -> None:
        if self.timing.random() < 0.5:
            self.commit("lost")
        self._end()
        self.runs = runs
        self._open()

    def _end(self) -> None:
        self.store.gate.set()
        with contextlib.suppress(AosError):
            self.engine.stop()
        if self.maker is not None:
            self.maker.join(WAIT_S)

    def snapshot(self, chance: random.Random) -> None:
        """Make a snapshot in its own thread, unless one is in progress."""
        if self.maker is None or not self.maker.is_alive():
            self.maker = threading.Thread(
                target=self._make, args=(self.engine, chance.randint(0, 3)), daemon=True
            )
            self.maker.start()

    def _make(self, engine: Engine, kept: int) -> None:
        """Do the work of ``host.snapshots``, without a child process."""
        try:
            state = restore(self.store, self.id, limits=self.limits)
            making.fill(state, kept)
            blobs: dict[Hash, bytes] = {}
            taken = take(state, making.putting(blobs))
            listed = list(blobs.items())
            for at in range(0, len(listed), 3):
                engine.keep(dict(listed[at : at + 3])).result(WAIT_S)
            given = {
                "at": taken.at, "frame": taken.frame, "document": taken.document,
                "size": taken.size,
            }  # fmt: skip
            future = engine.submit([input_of("snapshot", given)])
            (answer,) = future.result(WAIT_S)
            self._answered("snapshot", given, future)
            if not isinstance(answer, Admitted | Duplicate):
                self.problems.append(f"the snapshot after record {taken.at}: {answer}")
            engine.rebase(taken.document)
        except (Unavailable, AosError):
            # The world ended meanwhile. Nothing refers to the blobs that were put.
            return

    def settle_down(self) -> None:
        self.store.gate.set()
        self._reopen_if_stopped()
        if not self.engine.wait_quiet(WAIT_S) and not self.stopped.is_set():
            raise SimFailure("threads", f"the engine does not come to rest: {self.engine.stats()}")
        self._reopen_if_stopped()
        self._end()


def simulate(seed: int, commands: list[Command] | None = None) -> None:
    """Run a seed through the engine and check what is left.

    Raises:
        SimFailure: A promise is broken.
    """
    given = script.script_of(seed) if commands is None else commands
    script.know_keys(seed)
    pipeline_pause, pipeline.RETRY_FIRST_S = pipeline.RETRY_FIRST_S, 0.001  # type: ignore[misc]  # no test waits
    try:
        with ends.as_failures():
            world = ThreadedWorld(seed)
            try:
                script.play(world, given)
            finally:
                world._end()
            _finish(world)
    finally:
        pipeline.RETRY_FIRST_S = pipeline_pause  # type: ignore[misc]  # as above


def _finish(world: ThreadedWorld) -> None:
    if world.problems:
        raise SimFailure("threads", "; ".join(world.problems[:3]))
    values = world.store.seen
    read = ends.check_journal(world.store, values, world.history)
    for intent in world.unknown:
        known = read.intents.get(intent)
        if known is not None and known.settled is not None and not known.is_abandoned:
            raise SimFailure(
                "threads", f"H-30: settled by record {known.settled}, and called unknown"
            )
    model = model_follow.follow(world.records(), world.modules.outcome, values)
    model_follow.compare("state at the end", model_follow.view(model), view(world.state, values))
    ends.audit(world.store, world.modules, world.limits)
