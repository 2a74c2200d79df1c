"""A delivery is admitted at most once, and told if that is not known (spec/world-send.md, WS-20 to
WS-24)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.core.journal.frame import NO_FRAME
from aos.core.journal.identity import delivery_id
from aos.core.journal.inputs import EventInput
from aos.core.journal.merkle import Tree
from aos.core.snapshot.take import take
from aos.host.world.deliveries import (
    AHEAD_NS,
    Deliveries,
    DeliveryInput,
    refused_sender,
)
from aos.manifest.load import Loaded
from aos.store.cut import Cut
from aos.store.rows import SubmissionRow
from aos.store.store import submission_changes
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash
from tests.host.rig import ADD, MODULES, NODES, ROUTES
from tests.memory_world import START_NS, MemoryWorld, air

SECOND = 10**9
SOURCE = Hash(b"s" * 32)


def loaded(*, dedup_ns: int = 3600 * SECOND, dedup_rows: int = 100, version: int = 1) -> Loaded:
    limits = {"world": {"dedup_ns": dedup_ns, "dedup_rows": dedup_rows}}
    return air(NODES, ROUTES, version=version, limits=limits)


@dataclass
class Target:
    """A world that takes deliveries: a kernel, and the rows that a store would have of it."""

    world: MemoryWorld
    rows: dict[str, SubmissionRow] = field(default_factory=dict)
    pruned: Cut | None = None
    admissions: dict[str, int] = field(default_factory=dict)
    durable: int = 0

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """As a process that starts: it knows what is durable."""
        self.commit()
        self.deliveries = Deliveries(self, lambda: self.durable)  # type: ignore[arg-type]  # all that it reads

    # The store

    def submission(self, id: str) -> SubmissionRow | None:
        return self.rows.get(id)

    def cut(self) -> Cut | None:
        return self.pruned

    def blob(self, hash: Hash) -> bytes:
        return self.world.read(hash)

    # The world

    def deliver(self, key: str, opened_ns: int, by: int = 1) -> Answer:
        value: Value = {"key": "a", "by": by}
        delivery = DeliveryInput(
            schema=ADD,
            value=encode(value),
            submission_id=delivery_id(SOURCE, key),
            opened_ns=opened_ns,
        )
        kernel = self.world.kernel
        earlier = self.deliveries.earlier(delivery, kernel.manifest)
        answer = earlier or self.deliveries.admit(kernel, delivery, self.world.stamp())
        if isinstance(answer, Admitted):
            self.admissions[key] = self.admissions.get(key, 0) + 1
        return answer

    def commit(self) -> None:
        self.world.run()
        self.rows |= submission_changes(self.world.sealed)
        self.durable = self.world.kernel.tip.seq

    def prune(self) -> None:
        """As ``aos journal prune`` and a new start: rows of ids that the snapshot has forgotten are
        removed (RT-4)."""
        self.commit()

        def put(data: bytes) -> Hash:
            self.world.blobs[content_hash(data)] = data
            return content_hash(data)

        state = self.world.state
        document = take(state, put).document
        remembered = set(state.submissions)
        self.rows = {id: row for id, row in self.rows.items() if id in remembered}
        self.world.sealed.clear()
        self.pruned = Cut(
            seq=state.tip.seq, frame=NO_FRAME, log=Tree(), document=document, genesis=b"",
            archives=(),
        )  # fmt: skip
        self.start()

    def limit(self, dedup_ns: int, dedup_rows: int) -> None:
        self.commit()
        version = self.world.state.serial + 1
        applied = self.world.apply(
            loaded(dedup_ns=dedup_ns, dedup_rows=dedup_rows, version=version), MODULES
        )
        assert isinstance(applied, Admitted), applied


def target(**limits: int) -> Target:
    return Target(MemoryWorld(loaded(**limits), MODULES))


def test_a_delivery_is_a_duplicate_as_long_as_its_record_is_there() -> None:
    """WS-21: also when the kernel has forgotten its id, and before it is durable."""
    world = target(dedup_rows=1)

    first = world.deliver("a", START_NS)
    other = world.deliver("b", START_NS)
    assert isinstance(first, Admitted)
    assert isinstance(other, Admitted)
    assert delivery_id(SOURCE, "a") not in set(world.world.state.submissions)

    assert world.deliver("a", START_NS) == Duplicate(seq=first.seq)
    world.commit()
    world.world.now_ns += 10**6 * SECOND
    assert world.deliver("a", START_NS) == Duplicate(seq=first.seq)
    world.start()
    assert world.deliver("a", START_NS) == Duplicate(seq=first.seq)


def test_another_event_under_a_key_is_refused() -> None:
    world = target(dedup_rows=1)
    world.deliver("a", START_NS)

    for _ in range(2):
        answer = world.deliver("a", START_NS, by=2)
        assert isinstance(answer, Refusal)
        assert answer.rule is Rule.SUBMISSION_ID_IS_TAKEN
        world.commit()


def test_a_delivery_that_the_manifest_no_longer_knows_is_still_a_duplicate() -> None:
    """WS-21: it was admitted, so it is never told as refused."""
    world = target()
    first = world.deliver("a", START_NS)
    assert isinstance(first, Admitted)
    world.commit()
    nodes = [node for node in NODES if node["name"] not in (ADD, "t/counter@1", "t/Sum@1")]
    routes = [route for route in ROUTES if route["event"] != ADD]
    modules = {name: module for name, module in MODULES.items() if name != "t/counter@1"}
    applied = world.world.apply(air(nodes, routes, version=2), modules, leaves=("t/counter@1",))
    assert isinstance(applied, Admitted), applied

    assert world.deliver("a", START_NS) == Duplicate(seq=first.seq)
    other = world.deliver("b", START_NS)
    assert isinstance(other, Refusal)
    assert other.rule is Rule.EVENT_SCHEMA_IS_UNKNOWN


def test_a_delivery_from_before_a_prune_is_too_old() -> None:
    """WS-22."""
    world = target(dedup_rows=1)
    before_ns = world.world.now_ns
    for key in "abc":
        world.deliver(key, before_ns)
    world.world.now_ns += 100 * SECOND
    world.prune()

    told = world.deliver("a", before_ns)
    assert isinstance(told, Refusal)
    assert told.rule is Rule.DELIVERY_IS_TOO_OLD
    assert "it is not known whether it was admitted" in told.message
    assert isinstance(world.deliver("c", before_ns), Duplicate)
    assert isinstance(world.deliver("d", world.world.now_ns), Admitted)
    assert world.admissions == {"a": 1, "b": 1, "c": 1, "d": 1}


def test_a_delivery_that_was_opened_a_little_ahead_is_not_admitted_after_a_prune() -> None:
    """WS-22, WS-23: the clock of its source may be ahead, so the bound is as much later."""
    world = target(dedup_rows=1)
    opened_ns = world.world.now_ns + AHEAD_NS
    assert isinstance(world.deliver("a", opened_ns), Admitted)
    assert isinstance(world.deliver("b", opened_ns), Admitted)
    world.prune()

    told = world.deliver("a", opened_ns)
    assert isinstance(told, Refusal)
    assert told.rule is Rule.DELIVERY_IS_TOO_OLD


def test_a_prune_that_forgets_no_id_refuses_no_delivery() -> None:
    """WS-22: no row is removed, and no delivery is older than the first that was admitted."""
    world = target()
    world.prune()
    assert isinstance(world.deliver("a", START_NS), Admitted)


def test_a_delivery_from_the_future_waits() -> None:
    """WS-23: it is busy, and is admitted once its time has come."""
    world = target()
    opened_ns = world.world.now_ns + AHEAD_NS + SECOND

    early = world.deliver("a", opened_ns)
    assert isinstance(early, Refusal)
    assert early.rule is Rule.WORLD_IS_BUSY
    world.world.now_ns += SECOND
    assert isinstance(world.deliver("a", opened_ns), Admitted)


def test_a_sender_cannot_take_the_id_of_a_delivery() -> None:
    """WS-24."""
    event = EventInput(schema=ADD, value=b"", submission_id=delivery_id(SOURCE, "a"))
    refusal = refused_sender(event)

    assert refusal is not None
    assert refusal.rule is Rule.SUBMISSION_ID_IS_INVALID
    assert refused_sender(EventInput(schema=ADD, value=b"", submission_id="aos")) is None
    assert refused_sender(EventInput(schema=ADD, value=b"")) is None


STEPS_S = st.sampled_from([-3600, -61, -30, 1, 30, 59, 61, 62, 3600])
ACTIONS: st.SearchStrategy[tuple[Any, ...]] = st.one_of(
    # A delivery is opened at a time of its source, whose clock may be wrong.
    st.tuples(st.just("open"), st.sampled_from([0, 0, 0, -30, 30, 60]) | STEPS_S),
    # A repetition of one of the first deliveries.
    st.tuples(st.just("again"), st.integers(0, 3)),
    st.tuples(st.just("clock"), STEPS_S),
    st.tuples(st.just("commit")),
    st.tuples(st.just("start")),
    st.tuples(st.just("prune")),
    st.tuples(st.just("limit"), st.sampled_from([1, 30, 600, 7200]), st.integers(1, 3)),
)


@given(st.lists(ACTIONS, min_size=4, max_size=30))
def test_no_schedule_admits_a_delivery_twice(actions: list[tuple[Any, ...]]) -> None:
    """WS-20: deliveries and repetitions, leaps of either clock, starts, prunes, other limits."""
    world = target(dedup_ns=600 * SECOND, dedup_rows=1)
    opened: list[int] = []
    for name, *numbers in actions:
        match name:
            case "open":
                opened.append(world.world.now_ns + numbers[0] * SECOND)
                world.deliver(str(len(opened) - 1), opened[-1])
            case "again" if opened:
                index = numbers[0] % len(opened)
                world.deliver(str(index), opened[index])
            case "clock":
                world.world.now_ns += numbers[0] * SECOND
            case "commit":
                world.commit()
            case "start":
                world.start()
            case "prune":
                world.prune()
            case "limit":
                world.limit(numbers[0] * SECOND, numbers[1])
    assert all(count == 1 for count in world.admissions.values()), world.admissions
