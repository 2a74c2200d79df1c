"""Simulated clusters: two or three nodes on a log that fails, from a seed (spec/cluster.md, CL-140
to CL-146).

    make sim-cluster SEEDS=1000      seeds 0 to 999
    make sim-cluster SEEDS=5..9      seeds 5 to 9

Everything is on one thread, so the seed determines everything.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from aos.core.decide.answers import Admitted, Answer, Duplicate
from aos.core.journal.inputs import EventInput, Input
from aos.errors import AosError
from aos.fastcore.core_choice import ChosenCore, choose_core
from aos.fastcore.core_kind import CoreKind, core_of_environment
from aos.host.cluster.beat import Beat, read_beat
from aos.host.cluster.lease import LEASE_NS
from aos.sandbox.cache import standard_cache
from aos.store.log.memory_bucket import SharedBucket
from aos.store.log.memory_log import Fate, SharedStream
from aos.values.cbor import Value, encode
from aos.values.digests import Hash
from tests.core.desk import ONCE, pay, wish
from tests.host.cluster.owner_process import WORLD, signed_receipt
from tests.memory_world import START_NS, WORLD_KEY
from tests.sim.cluster_bases import SimBases, counted_names, has_bases, loses_end_too
from tests.sim.cluster_checker import check
from tests.sim.cluster_node import STREAM, SimNode, SimTask
from tests.sim.failure import SimFailure

STEPS: Final = 260
MS: Final = 10**6
SETTLED_TURNS: Final = 36
"""After so many of them, one node owns the world."""

QUIET_TURNS: Final = 160
"""Turns of 250 ms in which everything works at the end, before the checker looks."""


@cache
def second_core() -> ChosenCore:
    """The second kernel, compiled once for all processes."""
    return choose_core(
        CoreKind.FAST, cache=lambda: standard_cache(outside=Path("none")), note=lambda _: None
    )


@dataclass
class History:
    """Everything that the outside of the world knows."""

    acknowledged: list[tuple[str, int]] = field(default_factory=list)
    """(submission id, record) of each event that a client was told of."""
    unknown: list[Input] = field(default_factory=list)
    """Inputs that may count or not: their senders got no answer."""
    published: list[tuple[int, Hash]] = field(default_factory=list)
    """(last record, hash) of each frame whose effects or answers left a process."""
    runs: list[tuple[Hash, int, bool]] = field(default_factory=list)
    """(intent, attempt, whether it may run only once)."""
    owners: list[tuple[str, int]] = field(default_factory=list)
    fast_processes: int = 0
    """Processes with the second kernel."""

    def told(self, input: EventInput, answer: Answer) -> None:
        if isinstance(answer, Admitted | Duplicate):
            assert input.submission_id is not None
            self.acknowledged.append((input.submission_id, answer.seq))


class ClusterSim:
    """One cluster, from its first process on."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.rng = random.Random(f"cluster {seed}")
        self.others = random.Random(f"others {seed}")
        self.folder = folder
        self.now_ns = START_NS
        self.unlucky = self.rng.choice((0.0, 0.02, 0.1, 0.3))
        self.loses_end = self.rng.random() < 0.1
        self.lost_position: int | None = None
        self.stream = SharedStream(checks=self.rng.random() >= 0.1)
        self.bucket = SharedBucket(now_ns=lambda: self.now_ns)
        self.history = History()
        self.running: list[SimTask] = []
        self.late_receipts: list[SimTask] = []
        self.events = 0
        self.erasures = 0
        self.bases = SimBases(self, STREAM) if has_bases(seed) else None
        if self.bases is not None:
            self.loses_end = loses_end_too(seed)
            self.bases.found()
        names = ("a", "b", "c")[: self.rng.choice((2, 3, 3))]
        self.nodes = [SimNode(self, name, folder / name) for name in names]
        self.nodes[0].found()
        for node in self.nodes[1:]:
            node.join()

    def core_of(self, chance: random.Random) -> ChosenCore | None:
        """The kernel of a process: in one of three seeds the second one, by chance; in each process
        with ``AOS_CORE=fast``. None is the reference."""
        is_mixed = self.seed % 3 == 1 and chance.random() < 0.5
        if not is_mixed and core_of_environment() is not CoreKind.FAST:
            return None
        self.history.fast_processes += 1
        return second_core()

    def part_fate(self) -> Fate:
        """The fate of one part of an entry. Others may publish between two parts."""
        if self.others.random() < self.unlucky / (10 if self.stream.checks else 2):
            self.stream.publish(None)
        return self.fate()

    def fate(self) -> Fate:
        if self.rng.random() >= self.unlucky:
            return Fate.ANSWERED
        return self.rng.choice(list(Fate))

    def fetch(self, hash: Hash) -> bytes | None:
        """A blob, from another node that has it."""
        for node in self.nodes:
            if node.store is not None and node.store.has_blob(hash):
                return node.store.blob(hash)
        return None

    # The story

    def run_story(self) -> None:
        for node in self.nodes:
            node.start()
        for _ in range(STEPS):
            self.now_ns += self.rng.choice((5, 20, 100, 250, 400)) * MS
            self.rng.choice(self.ACTIONS)(self)
            if self.bases is not None:
                self.bases.act()
            self._turns()
        if random.Random(f"end {self.seed}").random() < 0.3:
            self._leave_owner_behind()
        self._heal()
        for count in range(QUIET_TURNS):
            self.now_ns += 250 * MS
            self._turns()
            self._finish_task()
            if count == SETTLED_TURNS:
                self._check_settled()
            if count % 40 == 39:
                self.send(f"probe {count // 40}")
        for _ in range(20):
            self.now_ns += 250 * MS
            self._turns()

    def _leave_owner_behind(self) -> None:
        """The owner is cut off from everything for longer than the lease, and has nothing to do; or
        it has, and its server lags before and after that."""
        lag = 2 if self.others.random() < 0.5 else 0
        self.running.clear()
        if lag:
            self.send()
        for is_away, turns in ((False, 4), (True, 44), (False, 4)):
            for node in self.owners:
                node.log.is_away = node.bucket.is_away = is_away
                if lag:
                    node.log.disconnect()
                    node.log.lag, node.lags_until_ns = lag, self.now_ns + 20_000 * MS
            for _ in range(turns if lag or is_away else 0):
                self.now_ns += 250 * MS
                self._turns()

    def _turns(self) -> None:
        for node in self.nodes:
            if self.now_ns >= node.lags_until_ns:
                node.log.lag = 0
        for node in self.rng.sample(self.nodes, len(self.nodes)):
            node.act()

    def _heal(self) -> None:
        """Everything works from now on."""
        self.unlucky = 0.0
        while self.stream.late:
            self.stream.arrive(self.rng.randrange(9))
        while self.bucket.late:
            self.bucket.arrive(self.rng.randrange(9))
        for node in self.nodes:
            node.paused_until_ns = 0
            node.log.is_away = node.bucket.is_away = False
            node.log.lag, node.log.damaged = 0, {}
            node.bucket.rejoin()
            node.skew_ns, node.has_room, node.kill_at_write = 0, True, None
            if not (node.is_up or node.needs_join) and node.damage is None:
                node.start()
        if self.bases is not None:
            for _ in range(SETTLED_TURNS):  # behind the trim, a node learns that it must join
                self.now_ns += 250 * MS
                self._turns()
            self.bases.heal()
            self._start()

    @property
    def owners(self) -> list[SimNode]:
        return [node for node in self.nodes if node.host is not None]

    def send(self, name: str | None = None, event: EventInput | None = None) -> None:
        """Send an event to every node that believes to own the world, or to one of them."""
        owners = self.owners
        if name is None and owners:
            owners = [self.rng.choice(owners)]
        for node in owners:
            assert node.host is not None
            node.host.admit(event or self._event(name))

    def _event(self, name: str | None) -> EventInput:
        self.events += 1
        rng = self.rng
        asks = [
            rng.choice((pay("p"), wish(ONCE, {"n": self.events}, "o")))
            for _ in range(rng.choice((0, 1, 1, 2)))
        ]
        note = rng.choice(("", "x", f"long {self.events} " * 200, "delete"))
        value = encode({"key": f"k{rng.randrange(4)}", "asks": asks, "note": note})
        submission = name or f"s{self.events}"
        return EventInput(schema="t/Tell@1", value=value, submission_id=submission)

    # Actions

    def _send(self) -> None:
        self.send()

    def _send_again(self) -> None:
        """A client that lost its answer asks again, under the same id."""
        events = [input for input in self.history.unknown if isinstance(input, EventInput)]
        if events:
            self.send(event=self.rng.choice(events))

    def run(self, task: SimTask, *, is_once: bool) -> None:
        self.history.runs.append((task.intent.intent, task.attempt, is_once))
        self.running.append(task)

    def ended(self, instance: bytes) -> None:
        """The executors of a process are gone; receipts that they have signed may come later."""
        gone = [task for task in self.running if task.instance == instance]
        self.running = [task for task in self.running if task.instance != instance]
        self.late_receipts += [task for task in gone if self.rng.random() < 0.3]

    def _finish_task(self) -> None:
        is_late = bool(self.late_receipts) and self.rng.random() < 0.2
        tasks = self.late_receipts if is_late else self.running
        if not tasks:
            return
        task = tasks.pop(self.rng.randrange(len(tasks)))
        for node in self.owners:
            if node.host is not None and (is_late or node.instance == task.instance):
                payload: Value = {"ref": task.intent.intent.hex()[:6]}
                node.host.admit(signed_receipt(task.intent, payload, attempt=task.attempt))

    def _snapshot(self) -> None:
        for node in self.owners:
            if node.host is None or self.rng.random() < 0.5:
                continue
            try:
                node.host.run()
                node._commit(node.host)  # the process of the node
                if node.host is not None:
                    node.host.snapshot()
            except BaseException as problem:  # noqa: BLE001  # as a turn of the node ends
                node.failed(problem)

    def _erase(self) -> None:
        for node in self.owners:
            host = node.host
            if host is None or node.store is None:
                continue
            sizes = [hash for hash, size in node.store.blob_sizes() if size > 1500]
            if sizes:
                host.erase_checked(self.rng.choice(sizes))

    def _kill(self) -> None:
        node = self.rng.choice(self.nodes)
        if self.rng.random() < 0.5:
            node.kill()
        elif node.is_up:
            node.kill_at_write = self.rng.choice(("before", "after"))

    def _start(self) -> None:
        for node in self.nodes:
            if not node.is_up and node.damage is None:
                node.start()

    def _pause(self) -> None:
        node = self.rng.choice(self.nodes)
        node.paused_until_ns = self.now_ns + self.rng.randrange(12_000) * MS

    def _cut_off(self) -> None:
        node = self.rng.choice(self.nodes)
        way = self.rng.choice(("log", "bucket", "both", "former"))
        node.log.is_away = way in ("log", "both")
        node.bucket.is_away = way in ("bucket", "both")
        if way == "former":
            node.bucket.isolate()

    def _reconnect(self) -> None:
        node = self.rng.choice(self.nodes)
        node.log.is_away = node.bucket.is_away = False
        node.log.lag, node.log.damaged = 0, {}
        node.bucket.rejoin()
        node.has_room = True

    def _lag(self) -> None:
        """The server that a node reads from is behind, or has a damaged copy."""
        node = self.rng.choice(self.nodes)
        if self.rng.random() < 0.5:
            lag = self.rng.randrange(6)
            if not node.log.lag:  # one that lags without end has lost its end
                node.log.lag, node.lags_until_ns = lag, self.now_ns + 5000 * MS
        elif self.stream.tail:
            position = self.rng.randrange(max(0, self.stream.tail - 5), self.stream.tail) + 1
            part = self.stream.messages[position - 1]
            if part is not None:
                node.log.damaged[position] = part._replace(data=part.data[::-1])

    def _clock(self) -> None:
        node = self.rng.choice(self.nodes)
        # Less than the time for which submission ids are remembered.
        node.skew_ns = self.rng.choice((0, 0, -3600, 2, 7, 60)) * 10**9

    def _disk(self) -> None:
        self.rng.choice(self.nodes).has_room = False

    def _noise(self) -> None:
        """Messages of no entry, half an entry, and a copy of an old one."""
        stream, rng = self.stream, self.rng
        if rng.random() < 0.3 or not stream.messages:
            stream.publish(None)
        else:
            stream.publish(rng.choice(stream.messages))

    def _arrive(self) -> None:
        self.stream.arrive(self.rng.randrange(9))
        self.bucket.arrive(self.rng.randrange(9))

    def _hand_over(self) -> None:
        for node in self.owners:
            if self.rng.random() < 0.3:
                try:
                    node.hand_over()
                except BaseException as problem:  # noqa: BLE001  # as a turn of the node ends
                    node.failed(problem)

    def _lose_end(self) -> None:
        """The servers lose messages that every node, or the owner's last beat, knows of."""
        if not self.loses_end or self.lost_position is not None:
            return
        if any(node.needs_join for node in self.nodes):
            return  # it may have been the only one with the end
        ends = [node.known_position() for node in self.nodes if node.is_up]
        beat = self.owner_beat_position()
        if len(self.history.acknowledged) < 5 or not ends or beat is None:
            return
        known = min(*ends, beat) if len(ends) > 1 else min(ends[0], beat)
        position = known - 1 - self.rng.randrange(3)
        if position > 3 and self.stream.tail >= known:
            self.stream.late.clear()
            self.stream.lose_end(position)
            # Servers lose messages only when they start again.
            for node in self.nodes:
                node.log.disconnect()
            self.lost_position = position

    ACTIONS: Sequence[Callable[[ClusterSim], None]] = (
        *[_send] * 14, *[_send_again] * 3, *[_finish_task] * 8, _snapshot, _erase, _kill,
        *[_start] * 2, _pause, _cut_off, *[_reconnect] * 4, _lag, _clock, _disk, _noise,
        *[_arrive] * 3, _hand_over, _lose_end,
    )  # fmt: skip

    # Checks on the way

    def _check_settled(self) -> None:
        """One node owns the world, although no one has written since everything works: the others
        have learned it from beats (CL-73)."""
        names = [node.name for node in self.owners]
        if self.lost_position is None and len(names) != 1:
            raise SimFailure("owners", f"one node believes that it owns the world: {names}")

    def check_lease(self, node: SimNode) -> None:
        """A node that hands out tasks had an answer within the lease (CL-89)."""
        answered_ns = node.last_answer_ns()
        if self.now_ns + node.boot_ns - answered_ns >= LEASE_NS:
            raise SimFailure("lease", f"{node.name} hands out a task without an answer for a lease")

    def owner_beat(self) -> Beat | None:
        """The beat of the owner."""
        entry = self.bucket.rows.get(f"{STREAM}.owner")
        if entry is None:
            return None
        return read_beat(entry.value, WORLD, bytes(WORLD_KEY.verify_key))

    def owner_beat_position(self) -> int | None:
        """The end in the owner's beat."""
        beat = self.owner_beat()
        return None if beat is None else beat.end.position


def simulate(seed: int) -> dict[str, int]:
    """Run the cluster of a seed, and check it.

    Raises:
        SimFailure: It broke a promise.
    """
    base = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=base if base.is_dir() else None) as folder:
        sim = ClusterSim(seed, Path(folder))
        try:
            with counted_names():
                sim.run_story()
                return check(sim)
        except AosError as problem:
            raise SimFailure("error", f"{type(problem).__name__}: {problem}") from problem
        finally:
            for node in sim.nodes:
                node.kill()
