"""Nodes with real engines and threads: follow, own, follow (spec/cluster.md, CL-90 to CL-97)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import EventInput
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Start
from aos.errors import AosError, Damage, Refused
from aos.host.cluster import lease
from aos.host.cluster.beating import Beats
from aos.host.cluster.loop import NodeLoop, OwnerTerm
from aos.host.cluster.replica import Replica, ReplicaSettings
from aos.host.errors import NotOwner
from aos.host.world.engine import Engine
from aos.store.errors import NoRoom
from aos.store.log.entry import EntryPart
from aos.store.log.log import LogMessage, LogSealed
from aos.store.log.logged_store import LoggedStore
from aos.store.log.memory_bucket import BucketWrite, MemoryBucket, SharedBucket
from aos.store.log.memory_log import MemoryLog, SharedStream
from aos.values.cbor import encode
from tests.host.cluster.owner_process import (
    LOADED,
    PART_BYTES,
    RUNNER,
    WORLD,
    begin,
    signed_manifest,
)
from tests.memory_world import WORLD_KEY

STREAM = "shop-1"
WAIT_S = 120.0
LEASE_NS = 10**9
"""A short one: nodes on a busy machine must bear it."""


class LockedBucket(SharedBucket):
    """A bucket for several threads."""

    lock = threading.Lock()

    def write(self, write: BucketWrite) -> int:
        with self.lock:
            return super().write(write)


class LockedStream(SharedStream):
    """A stream for several threads."""

    lock = threading.Lock()

    def write(self, part: EntryPart | None, after: int) -> int:
        with self.lock:
            return super().write(part, after)


class RunningNode:
    """A node in a thread."""

    def __init__(self, folder: Path, name: str, stream: SharedStream, bucket: SharedBucket) -> None:
        self.name = name
        self.log, self.bucket = MemoryLog(stream), MemoryBucket(bucket)
        self.store = LoggedStore.open(folder / name)
        self.lines: list[str] = []
        self.engine: Engine | None = None
        self.problem: AosError | None = None
        beats = Beats(
            self.bucket, stream=STREAM, world=WORLD, key=WORLD_KEY, node=name,
            instance=name.encode().ljust(16, b"."), inbox=f"inbox.{name}",
        )  # fmt: skip
        settings = ReplicaSettings(
            world=WORLD, key=WORLD_KEY, stream=STREAM, host={"kernel": "test"},
            part_bytes=PART_BYTES, lease_ns=LEASE_NS,
        )  # fmt: skip
        self.loop = NodeLoop(
            Replica(self.store, self.log, beats, settings),
            lambda term: threading.Thread(target=self._own, args=(term,)).start(),
            report=self.lines.append,
        )
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _own(self, term: OwnerTerm) -> None:
        is_over = threading.Event()
        engine = Engine(
            term.world, store=self.store, key=WORLD_KEY, runner=RUNNER, has_started=True,
            on_stopped=lambda _: is_over.set(),
        )  # fmt: skip
        engine.start()
        term.runs(engine, is_over.set)
        self.engine = engine
        is_over.wait()
        self.engine = None
        try:
            engine.stop()
        except AosError as problem:
            term.ended(problem)
        else:
            term.ended()

    def _run(self) -> None:
        try:
            self.loop.run()
        except AosError as problem:
            self.problem = problem

    def send(self, name: str) -> list[object]:
        """Send an event and wait for its answer."""
        assert self.engine is not None
        value = encode({"key": name, "asks": [], "note": name})
        event = EventInput(schema="t/Tell@1", value=value, submission_id=name)
        return list(self.engine.submit([event]).result(WAIT_S))

    def stop(self) -> None:
        self.log.is_away = self.bucket.is_away = False
        self.loop.stop()
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive()


def waits(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it takes too long"
        time.sleep(0.02)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[RunningNode]]:
    stream, bucket = LockedStream(), LockedBucket(now_ns=time.time_ns)
    with LoggedStore.create(tmp_path / "a") as store:
        begin(store, MemoryLog(stream), STREAM).thread.close()
    with LoggedStore.create(tmp_path / "b") as store:
        store.begin(STREAM)
    nodes = [RunningNode(tmp_path, name, stream, bucket) for name in ("a", "b")]
    yield nodes
    for node in nodes:
        node.stop()
        node.store.close()


def records(node: RunningNode) -> list[object]:
    return [from_bytes(data) for frame in node.store.frames() for data in frame.records]


def test_nodes_take_over_from_one_another_and_lose_nothing(nodes: list[RunningNode]) -> None:
    """CL-90, CL-93, CL-94, CL-97."""
    waits(lambda: any(node.engine for node in nodes))
    first, second = sorted(nodes, key=lambda node: node.engine is None)
    assert first.engine is not None
    [applied] = first.engine.submit([signed_manifest()], blobs=LOADED.modules).result(WAIT_S)
    assert isinstance(applied, Admitted)
    assert isinstance(first.send("one")[0], Admitted)

    # The owner is cut off: the other one takes over, and an input without an answer is not known.
    first.log.is_away = first.bucket.is_away = True
    value = encode({"key": "k", "asks": [], "note": ""})
    unknown = first.engine.submit(
        [EventInput(schema="t/Tell@1", value=value, submission_id="unknown")]
    )
    waits(lambda: second.engine)
    waits(lambda: not first.loop.holds_lease())
    waits(second.loop.holds_lease)
    assert isinstance(second.send("two")[0], Admitted)
    first.log.is_away = first.bucket.is_away = False
    with pytest.raises(NotOwner, match="not known whether this input was admitted"):
        unknown.result(WAIT_S)
    waits(lambda: first.engine is None)

    # The new owner stops cleanly: the first one takes the world again, at once.
    waits(lambda: first.store.end == second.store.end)
    second.stop()
    waits(lambda: first.engine)
    assert isinstance(first.send("three")[0], Admitted)
    first.stop()

    assert [node.problem for node in nodes] == [None, None]
    names = [getattr(record, "submission_id", None) for record in records(first)]
    assert [name for name in names if name] == ["one", "two", "three"]
    starts = [dict(record.host)["node"] for record in records(first) if isinstance(record, Start)]
    assert starts == [first.name, second.name, first.name]
    assert "this node owns the world" in first.lines
    assert "another node owns the world now: this one follows" in first.lines
    assert "this node has released the world" in second.lines


def test_an_owner_whose_bucket_is_lost_stops_its_engine_first(  # CL-96
    nodes: list[RunningNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits(lambda: any(node.engine for node in nodes))
    owner, standby = sorted(nodes, key=lambda node: node.engine is None)

    def replace(*_: object) -> int:
        raise Damage("the bucket was deleted")

    monkeypatch.setattr(owner.bucket, "replace", replace)
    owner.thread.join(WAIT_S)

    assert not owner.thread.is_alive()
    assert owner.engine is None
    assert isinstance(owner.problem, Damage)
    waits(lambda: standby.engine)


def test_an_owner_whose_bucket_has_no_room_goes_on(  # CL-73
    nodes: list[RunningNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits(lambda: any(node.engine for node in nodes))
    owner, _ = sorted(nodes, key=lambda node: node.engine is None)

    def replace(*_: object) -> int:
        raise NoRoom("the servers have no room", needed_bytes=0, free=0)

    with monkeypatch.context() as patch:
        patch.setattr(owner.bucket, "replace", replace)
        time.sleep(0.5)
        assert owner.problem is None
    owner.stop()
    assert "this node has released the world" in owner.lines


def test_a_node_whose_log_has_another_history_stops(nodes: list[RunningNode]) -> None:  # CL-96
    waits(lambda: any(node.engine for node in nodes))
    first, second = sorted(nodes, key=lambda node: node.engine is None)
    waits(lambda: second.store.end == first.store.end)
    position = second.store.end.position
    stream = second.log.stream
    part = stream.messages[position - 1]
    assert part is not None
    stream.messages[position - 1] = None
    first.loop.stop()
    first.thread.join(WAIT_S)

    second.thread.join(WAIT_S)

    assert isinstance(second.problem, Damage)
    stream.messages[position - 1] = part


def idle_owner(nodes: list[RunningNode]) -> RunningNode:
    """The node that owns the world. The other one is stopped."""
    waits(lambda: any(node.engine for node in nodes))
    owner, other = sorted(nodes, key=lambda node: node.engine is None)
    other.stop()
    return owner


def test_an_owner_that_writes_nothing_learns_that_its_stream_is_sealed(  # CL-187
    nodes: list[RunningNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LOOK_NS", 10**8)
    owner = idle_owner(nodes)
    time.sleep(0.5)
    assert owner.engine is not None, "looks alone end no term"
    owner.log.stream.is_sealed = True

    owner.thread.join(WAIT_S)

    assert isinstance(owner.problem, LogSealed)


def test_an_owner_that_writes_nothing_learns_that_its_stream_has_other_settings(  # CL-187
    nodes: list[RunningNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LOOK_NS", 10**8)
    owner = idle_owner(nodes)

    def refuse(_: int) -> Iterator[LogMessage]:
        raise Refused("the setting max_msgs of a stream differs")

    monkeypatch.setattr(owner.log, "read", refuse)

    owner.thread.join(WAIT_S)

    assert isinstance(owner.problem, Refused)
    assert owner.engine is None


def test_an_owner_whose_log_does_not_answer_its_looks_stays_the_owner(  # CL-88, CL-187
    nodes: list[RunningNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LOOK_NS", 10**8)
    owner = idle_owner(nodes)
    engine = owner.engine
    owner.log.is_away = True
    time.sleep(0.5)
    owner.log.is_away = False
    assert owner.engine is engine
    assert len(owner.send("after")) == 1
    assert owner.problem is None
