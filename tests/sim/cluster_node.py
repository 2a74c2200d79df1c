"""A node of a simulated cluster: the real store, follower, beats and decisions; only its process,
its executors and its ways to the servers are simulated."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aos.core.decide.answers import Admitted, Answer
from aos.core.journal.inputs import AttemptInput, EventInput, Input
from aos.core.journal.records import Stamp
from aos.core.state.cell import OpenIntent
from aos.errors import Damage
from aos.host.cluster.beat import Beat
from aos.host.cluster.beating import Beats
from aos.host.cluster.following import NeedsBase
from aos.host.cluster.joining import needs_join
from aos.host.cluster.lease import BEAT_NS, Decision
from aos.host.cluster.replica import Replica, ReplicaSettings, Role
from aos.host.executors.redelivery import left_open
from aos.host.stamps import Sources
from aos.host.world.checks import unerasable
from aos.store.errors import Deposed, NoRoom
from aos.store.log.log import LogUnreachable
from aos.store.log.logged_store import LoggedStore
from aos.store.log.memory_bucket import MemoryBucket
from aos.store.log.memory_log import MemoryLog
from aos.values.digests import Hash, content_hash
from tests.host.cluster.owner_process import PART_BYTES, WORLD, Chance, OwnerProcess, begin
from tests.memory_world import WORLD_KEY
from tests.sim.failure import SimFailure

if TYPE_CHECKING:
    from tests.sim.cluster import ClusterSim

STREAM: Final = "shop-1"


class Killed(BaseException):
    """The process ends here, in the middle of a write."""


@dataclass
class ClockedChance(Chance):
    """Stamps by the wall clock of a machine."""

    clock_ns: Callable[[], int] = int

    def stamp(self) -> Stamp:
        return Stamp(max(0, self.clock_ns()), self.draw(64))


@dataclass(slots=True)
class SimTask:
    """A task that an executor of the process ``instance`` runs."""

    intent: OpenIntent
    attempt: int
    instance: bytes


@dataclass
class SimHost(OwnerProcess):
    """The process of an owner, with its executors. ``to_hand_out`` are open intents that no
    executor has; ``begun`` are those that run at most once and whose attempt counts."""

    to_hand_out: list[tuple[OpenIntent, int]] = field(default_factory=list)
    beginning: dict[Hash, OpenIntent] = field(default_factory=dict)
    begun: list[OpenIntent] = field(default_factory=list)

    def erase_checked(self, value: Hash) -> None:
        """Erase a value, unless a snapshot needs it (H-47e)."""
        if unerasable(self.store, value, is_there=True) is None:
            self.erase(value)

    def publish_again(self) -> None:
        """Hand out what the last owner left open; report what may not run again (H-42, K-97)."""
        kernel = self.world.kernel
        works = self.world.thread.call(lambda: list(left_open(kernel.open_intents())))
        for work in works:
            if work.is_lost:
                self.admit(
                    AttemptInput(
                        intent=work.intent.intent,
                        attempt=work.attempt,
                        phase="lost",
                        problem="the owner is gone",
                    )
                )
            elif not work.is_over:
                self.to_hand_out.append((work.intent, work.attempt))


class SimNode:
    """One machine: its folder, its clocks, its views of the servers, and perhaps a process."""

    def __init__(self, sim: ClusterSim, name: str, folder: Path) -> None:
        self.sim = sim
        self.name = name
        self.folder = folder
        self.chance = random.Random(f"{sim.seed} {name}")
        self.boot_ns = self.chance.randrange(10**15)
        self.skew_ns = self.chance.randrange(-(10**9), 10**9)
        self.log = MemoryLog(sim.stream, sim.part_fate, other=MemoryLog(sim.stream))
        self.bucket = MemoryBucket(sim.bucket, sim.fate)
        self.replica: Replica | None = None
        self.store: LoggedStore | None = None
        self.host: SimHost | None = None
        self.instance = b""
        self.paused_until_ns = 0
        self.lags_until_ns = 0
        self.next_turn_ns = 0
        self.kill_at_write: str | None = None
        self.has_room = True
        self.damage: str | None = None
        self.needs_join = False
        """Whether the store of this node must be made again, from a base."""
        self.cores = random.Random(f"cores {sim.seed} {name}")

    # The process

    @property
    def is_up(self) -> bool:
        return self.replica is not None

    def found(self) -> None:
        """Make the world, before anything fails."""
        with LoggedStore.create(self.folder) as store:
            begin(store, MemoryLog(self.sim.stream), STREAM).thread.close()

    def join(self) -> None:
        """Make an empty folder of the world."""
        with LoggedStore.create(self.folder) as store:
            store.begin(STREAM)

    def start(self) -> None:
        """Start the process: nothing but the folder is there."""
        assert self.replica is None
        if self.needs_join:
            assert self.sim.bases is not None, "a seed with bases"
            if not self.sim.bases.join(self):
                return
            self.needs_join = False
        self.store = LoggedStore.open(self.folder)
        self._hook(self.store)
        self.instance = self.chance.randbytes(16)
        beats = Beats(
            self.bucket, stream=STREAM, world=WORLD, key=WORLD_KEY, node=self.name,
            instance=self.instance, inbox=f"inbox.{self.name}",
        )  # fmt: skip
        settings = ReplicaSettings(
            world=WORLD,
            key=WORLD_KEY,
            stream=STREAM,
            host={"kernel": "sim"},
            sources=Sources(clock_ns=self.wall_ns, random=self.chance.randbytes),
            now_ns=lambda: self.boot_ns + self.sim.now_ns,
            fetch=self.sim.fetch,
            part_bytes=PART_BYTES,
            core=self.sim.core_of(self.cores),
        )
        self.replica = Replica(self.store, self.log, beats, settings)
        self.next_turn_ns = self.sim.now_ns

    def kill(self) -> None:
        """End the process without a word. Its executors end with it."""
        if self.replica is None:
            return
        self._drop_host()
        self.replica.close()
        assert self.store is not None
        self.store.close()
        self.replica = self.store = None
        self.kill_at_write = None

    def _hook(self, store: LoggedStore) -> None:
        """Let writes of the store fail as the simulator wants."""
        environment = store._environment  # the place where a process dies
        write = type(environment).write

        @contextlib.contextmanager
        def hooked(needed_bytes: int) -> Iterator[Any]:
            if not self.has_room:
                raise NoRoom("the disk is full", needed_bytes=needed_bytes, free=0)
            how, self.kill_at_write = self.kill_at_write, None
            if how == "before":
                raise Killed
            with write(environment, needed_bytes) as txn:
                yield txn
            if how == "after":
                raise Killed

        environment.write = hooked  # type: ignore[method-assign]

    def wall_ns(self) -> int:
        return self.sim.now_ns + self.skew_ns

    # Turns

    def act(self) -> None:
        """Do what is due, unless the process is down or suspended."""
        if self.replica is None or self.sim.now_ns < self.paused_until_ns:
            return
        try:
            self._act(self.replica)
        except BaseException as problem:  # noqa: BLE001  # of any kind, sorted there
            self.failed(problem)

    def failed(self, problem: BaseException) -> None:
        """End an act of the process as ``problem`` does."""
        if isinstance(problem, NoRoom):
            return  # of the log, too: the same again
        if isinstance(problem, Deposed):
            self.depose()
        elif isinstance(problem, Killed):
            self.kill()
        elif self.sim.bases is not None and needs_join(problem):
            self.kill()
            self.needs_join = True
        elif isinstance(problem, Damage | NeedsBase):
            self.damage = f"{type(problem).__name__}: {problem}"
            self.kill()
        else:
            raise problem

    def _act(self, replica: Replica) -> None:
        if self.host is not None:
            self._work(self.host)
        if self.replica is None or self.sim.now_ns < self.next_turn_ns:
            return
        self.next_turn_ns = self.sim.now_ns + BEAT_NS
        if replica.role is Role.CLOSED:
            with contextlib.suppress(LogUnreachable):
                replica.restore()
        elif replica.role is Role.CLAIMING:
            self._claimed(replica.claim())
        elif replica.role is Role.FOLLOWING:
            decision = replica.turn()
            if decision is Decision.TAKE_OVER:
                assert self.skew_ns <= 5 * 10**9 + BEAT_NS, "a clock that is ahead"
                self._claimed(replica.take_over())
        else:
            self._owner_turn(replica)

    def _claimed(self, is_owner: bool) -> None:
        if not is_owner:
            return
        replica, store = self.replica, self.store
        assert replica is not None
        assert store is not None
        chance = ClockedChance(self.chance.randbytes, clock_ns=self.wall_ns)
        self.host = SimHost(replica.world(), store, chance)
        self.sim.history.owners.append((self.name, store.end.seq))
        self.host.publish_again()
        if self.host.world.figures.manifest is None:
            self.host.apply()

    def _owner_turn(self, replica: Replica) -> None:
        before = self.sim.owner_beat()
        decision = replica.own_turn()
        after = self.sim.owner_beat()
        if None not in (before, after) and _instance(before) != self.instance == _instance(after):
            raise SimFailure("beat", f"{self.name} replaced the beat of another process")
        if decision is Decision.LOST_END:
            raise replica.lost_end()
        if decision is Decision.READ_LOG:
            with contextlib.suppress(LogUnreachable):
                replica.store.check_owns()
                replica.replace_beat()
        elif decision is Decision.HAND_OVER:
            self.hand_over()

    def hand_over(self) -> None:
        """Stop owning: everything that was admitted counts or has no answer."""
        if self.host is None or self.replica is None:
            return
        self._commit(self.host)
        if self.host is not None:
            self._drop_host()
            self.replica.release()

    def depose(self) -> None:
        """Discard the engine."""
        assert self.replica is not None
        self._drop_host()
        self.replica.close()

    def _drop_host(self) -> None:
        host, self.host = self.host, None
        if host is not None:
            self.sim.history.unknown += [input for input, _ in _unanswered(host)]
            self.sim.ended(self.instance)

    # The work of an owner

    def _work(self, host: SimHost) -> None:
        host.run(self.chance.randrange(1, 8))
        if self.chance.random() < 0.7:
            self._commit(host)
        if self.host is not None:
            self._hand_out(host)

    def _commit(self, host: SimHost) -> None:
        """Commit, and publish what counts."""
        groups = host.commit()
        history = self.sim.history
        for sealed, answers in groups:
            history.published.append((sealed.tip.seq, sealed.frame.hash))
            for input, answer in answers:
                self._answered(host, input, answer)
            host.to_hand_out += [(intent, 1) for intent in sealed.to_publish]
            over = {settled.intent for settled in sealed.settled} | set(sealed.abandoned)
            host.to_hand_out = [
                (intent, attempt)
                for intent, attempt in host.to_hand_out
                if intent.intent not in over
            ]

    def _answered(self, host: SimHost, input: Input, answer: Answer) -> None:
        if isinstance(input, AttemptInput):
            intent = host.beginning.pop(input.intent, None)
            if intent is not None and isinstance(answer, Admitted):
                host.begun.append(intent)
        elif isinstance(input, EventInput):
            self.sim.history.told(input, answer)

    def _hand_out(self, host: SimHost) -> None:
        replica = self.replica
        if replica is None or not replica.holds_lease():
            return
        self.sim.check_lease(self)
        for intent in host.begun:
            self.sim.run(SimTask(intent, 1, self.instance), is_once=True)
        host.begun = []
        for intent, attempt in host.to_hand_out:
            if intent.effect.delivery == "at_most_once":
                host.beginning[intent.intent] = intent
                host.attempt(intent.intent, attempt)
            else:
                self.sim.run(SimTask(intent, attempt, self.instance), is_once=False)
        host.to_hand_out = []

    # For the checks

    def known_position(self) -> int:
        """The latest position of the log of which this process knows."""
        assert self.store is not None
        if self.replica is None or self.replica.role is Role.CLOSED:
            return 0
        known = self.replica._known_end.end
        return max(self.store.end.position, 0 if known is None else known.position)

    def root(self) -> Hash:
        """The root of the state that the kernel of this process has."""
        assert self.replica is not None
        world = self.replica.intake.world
        return world.thread.call(lambda: world.kernel.snapshot(content_hash).document)

    def last_answer_ns(self) -> int:
        """When, by the clock of this node, the last write began that an answer came to."""
        replica, store = self.replica, self.store
        assert replica is not None
        assert store is not None
        beat_ns = replica._beat_answered_ns  # compared with the clock of the simulator
        return max(store.answered_ns or 0, beat_ns or 0)


def _unanswered(host: SimHost) -> Iterator[tuple[Input, Answer]]:
    for _, answers in (*host.committing, *host.waiting):
        yield from answers
    yield from host.answers


def _instance(beat: Beat | None) -> bytes | None:
    return None if beat is None else beat.instance
