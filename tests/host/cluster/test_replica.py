"""A node follows, owns, follows again (spec/cluster.md, CL-85 to CL-99). The simulator has the
faults; these are the plain ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Start
from aos.errors import Damage, Refused, Unavailable
from aos.host.cluster.beating import Beats
from aos.host.cluster.known_end import KnownEnd
from aos.host.cluster.lease import (
    AHEAD_NS,
    BEAT_NS,
    CALLED_NS,
    LEASE_NS,
    LOST_NS,
    NO_ROOM_NS,
    Decision,
)
from aos.host.cluster.replica import Replica, ReplicaSettings, Role
from aos.host.stamps import Sources
from aos.store.errors import Deposed, NoRoom
from aos.store.lmdb_store import LmdbStore
from aos.store.log.early_end import GAP_NS
from aos.store.log.log import LogEndsEarly, LogUnreachable
from aos.store.log.logged_store import LogAway, LogEnd, LoggedStore
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket
from aos.store.log.memory_log import Fate, MemoryLog, SharedStream
from aos.values.digests import content_hash
from tests.host.cluster.owner_process import PART_BYTES, WORLD, Chance, OwnerProcess, begin
from tests.host.cluster.owner_process import counting_draws as draws
from tests.memory_world import START_NS, WORLD_KEY

STREAM = "shop-1"


class Cluster:
    """Servers, a clock, and nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_ns = START_NS
        self.stream = SharedStream()
        self.bucket = SharedBucket(now_ns=lambda: self.now_ns)
        self.nodes: list[Node] = []

    def node(self, name: str) -> Node:
        node = Node(self, name)
        self.nodes.append(node)
        return node

    def pass_time(self, seconds: float, *nodes: Node) -> None:
        """Let these nodes do their turns."""
        until_ns = self.now_ns + round(seconds * 10**9)
        while self.now_ns < until_ns:
            self.now_ns += BEAT_NS
            for node in nodes:
                node.decision = node.turn()


class Node:
    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self.skew_ns = 0
        self.fates: list[Fate] = []
        fate = lambda: self.fates.pop(0) if self.fates else Fate.ANSWERED  # noqa: E731
        self.log, self.bucket = MemoryLog(cluster.stream, fate), MemoryBucket(cluster.bucket)
        self.folder = cluster.folder / name
        if cluster.nodes:
            self.store = LoggedStore.create(self.folder)
            self.store.begin(STREAM)
        else:
            with LoggedStore.create(self.folder) as store:
                begin(store, MemoryLog(cluster.stream), STREAM).thread.close()
            self.store = LoggedStore.open(self.folder)
        beats = Beats(
            self.bucket, stream=STREAM, world=WORLD, key=WORLD_KEY, node=name,
            instance=name.encode().ljust(16, b"."), inbox=f"inbox.{name}",
        )  # fmt: skip
        self.settings = ReplicaSettings(
            world=WORLD, key=WORLD_KEY, stream=STREAM, host={"kernel": "test"},
            sources=Sources(clock_ns=lambda: cluster.now_ns + self.skew_ns, random=draws(name)),
            now_ns=lambda: cluster.now_ns, part_bytes=PART_BYTES,
        )  # fmt: skip
        self.replica = Replica(self.store, self.log, beats, self.settings)
        self.replica.restore()
        self.decision = Decision.FOLLOW

    def turn(self) -> Decision:
        if self.replica.role is Role.OWNING:
            return self.replica.own_turn()
        decision = self.replica.turn()
        if decision is Decision.TAKE_OVER:
            self.replica.take_over()
        return decision

    def own(self) -> OwnerProcess:
        """The process of this owner."""
        return OwnerProcess(self.replica.world(), self.store, Chance(draws(f"{self.name} host")))

    def close(self) -> None:
        self.replica.close()
        self.store.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    for node in cluster.nodes:
        node.close()


@pytest.fixture
def a(cluster: Cluster) -> Node:
    return cluster.node("a")


@pytest.fixture
def b(cluster: Cluster, a: Node) -> Node:
    return cluster.node("b")


def starts(store: LmdbStore) -> list[str]:
    """The node of each start record."""
    records = [from_bytes(data) for frame in store.frames() for data in frame.records]
    return [dict(record.host)["node"] for record in records if isinstance(record, Start)]


def test_the_first_standby_takes_over_and_its_start_record_counts(
    cluster: Cluster, a: Node, b: Node
) -> None:  # CL-90, CL-91
    cluster.pass_time(4, a, b)

    assert (a.replica.role, b.replica.role) == (Role.OWNING, Role.FOLLOWING)
    assert starts(a.store) == starts(b.store) == ["a"]
    host = dict(
        next(
            record.host
            for frame in b.store.frames()
            for record in map(from_bytes, frame.records)
            if isinstance(record, Start)
        )
    )
    instance = (b"a".ljust(16, b".")).hex()
    assert host == {"kernel": "test", "core": "python", "node": "a", "instance": instance}


def test_a_standby_takes_over_from_a_dead_owner_with_everything_that_counts(
    cluster: Cluster, a: Node, b: Node
) -> None:  # CL-90
    cluster.pass_time(4, a, b)
    owner = a.own()
    owner.apply()
    owner.tell("k", note="x")
    owner.write()

    cluster.pass_time(4, b)

    assert b.replica.role is Role.OWNING
    assert starts(b.store) == ["a", "b"]
    assert b.replica.world().tip == b.replica.world().kernel.tip
    taken = b.own()
    taken.tell("k", note="y")
    taken.write()
    owner.tell("k", note="lost")
    with pytest.raises(Deposed):
        owner.write()


def test_of_two_takers_the_first_start_counts_and_the_other_follows(
    cluster: Cluster, a: Node, b: Node
) -> None:  # CL-92
    cluster.pass_time(1, a, b)
    a.fates = [Fate.LATE]
    roles = []
    assert not a.replica.take_over()
    roles.append(a.replica.role)
    assert b.replica.take_over()
    cluster.stream.arrive()

    assert not a.replica.claim()
    roles.append(a.replica.role)
    assert roles == [Role.CLAIMING, Role.CLOSED]
    a.replica.restore()
    cluster.pass_time(1, a)
    assert starts(a.store) == ["b"]


def test_a_start_record_whose_answer_was_lost_is_found(cluster: Cluster, a: Node) -> None:  # CL-92
    a.fates = [Fate.UNANSWERED]
    assert not a.replica.take_over()
    assert a.replica.claim()
    assert starts(a.store) == ["a"]


def test_an_owner_whose_beat_was_replaced_learns_from_the_log(
    cluster: Cluster, a: Node, b: Node
) -> None:  # CL-86, CL-93
    cluster.pass_time(4, a, b)
    beats = b.replica._beats
    beats.claim(b.store.end)
    assert a.replica.own_turn() is Decision.READ_LOG
    a.store.check_owns()
    a.replica.replace_beat()
    assert a.replica.own_turn() is Decision.OWN

    b.replica.take_over()

    assert a.replica.own_turn() is Decision.READ_LOG
    with pytest.raises(Deposed):
        a.store.check_owns()
    a.replica.close()
    a.replica.restore()
    cluster.pass_time(1, a, b)
    assert starts(a.store) == ["a", "b"]


def test_a_world_is_handed_over_to_the_node_that_was_called(  # CL-226, CL-227
    cluster: Cluster, a: Node, b: Node
) -> None:
    c = cluster.node("c")
    cluster.pass_time(5, a, b, c)
    assert not a.replica.call_next("a"), "the owner itself"
    assert a.replica.call_next("c")
    assert a.replica.call_next("c"), "the same again"
    cluster.pass_time(1, a, b, c)
    assert (b.replica.turn_ns, c.replica.turn_ns) == (BEAT_NS, CALLED_NS)
    a.replica.release()
    cluster.pass_time(0.5, b, c)

    assert [node.replica.role for node in (b, c)] == [Role.FOLLOWING, Role.OWNING]
    assert starts(c.store) == ["a", "c"]


def test_a_world_that_was_released_for_a_node_that_dies_is_taken_by_another_after_the_lease(
    cluster: Cluster, a: Node, b: Node
) -> None:  # CL-227
    c = cluster.node("c")
    cluster.pass_time(5, a, b, c)
    a.replica.call_next("c")
    a.replica.release()
    roles = []
    for seconds in (LEASE_NS / 10**9 - 0.5, 1):
        cluster.pass_time(seconds, b)
        roles.append(b.replica.role)
    assert roles == [Role.FOLLOWING, Role.OWNING]


def test_an_owner_calls_no_node_that_cannot_take_over(  # CL-226
    cluster: Cluster, a: Node, b: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread() -> int:
        raise LogUnreachable("the log does not answer")

    c = cluster.node("c")
    cluster.pass_time(5, a, b)
    with pytest.raises(Refused, match=r"node z: no living standby has this name.* expected b\b"):
        a.replica.call_next("z")

    cluster.pass_time(1, c)
    owner = a.own()
    owner.apply()
    owner.write()
    with monkeypatch.context() as patch:
        patch.setattr(c.replica.intake, "advance", unread)
        cluster.pass_time(3, a, b, c)
        with pytest.raises(Unavailable, match="node c: the standby is behind"):
            a.replica.call_next("c")
    c.replica._beats.program_release = "0.0.9"
    cluster.pass_time(1, a, b, c)
    with pytest.raises(Refused, match=r"earlier release .*found 0\.0\.9"):
        a.replica.call_next("c")

    a.bucket.is_away = True
    with pytest.raises(Unavailable, match="the bucket does not answer"):
        a.replica.call_next("b")
    a.bucket.is_away = False
    a.replica.call_next("b")
    with pytest.raises(Refused, match=r"to another node already.*found b"):
        a.replica.call_next("c")
    assert a.replica.role is Role.OWNING


def test_a_released_world_is_taken_by_another_node_at_once(
    cluster: Cluster, a: Node, b: Node
) -> None:  # CL-82
    cluster.pass_time(4, a, b)
    a.replica.release()
    a.replica.restore()

    cluster.pass_time(0.5, a, b)

    assert (a.replica.role, b.replica.role) == (Role.FOLLOWING, Role.OWNING)


def test_a_node_whose_clock_is_ahead_hands_over_and_does_not_take_over(
    cluster: Cluster, a: Node, b: Node
) -> None:  # CL-84, CL-87
    cluster.pass_time(4, a, b)
    a.skew_ns = AHEAD_NS + 10**9
    assert a.replica.own_turn() is Decision.HAND_OVER
    a.replica.release()
    a.replica.restore()
    b.skew_ns = 2 * AHEAD_NS
    cluster.pass_time(10, a, b)
    assert (a.replica.role, b.replica.role) == (Role.FOLLOWING, Role.FOLLOWING)
    a.skew_ns = 0
    cluster.pass_time(1, a, b)
    assert a.replica.role is Role.OWNING


def test_an_owner_whose_disk_is_full_hands_over(
    cluster: Cluster, a: Node, b: Node, monkeypatch: pytest.MonkeyPatch
) -> None:  # CL-88
    cluster.pass_time(4, a, b)
    owner = a.own()
    owner.apply()

    def full(*_: object, **__: object) -> None:
        raise NoRoom("the disk is full", needed_bytes=1, free=0)

    with monkeypatch.context() as patch:
        patch.setattr(LmdbStore, "append", full)
        for _ in range(2):
            with pytest.raises(NoRoom):
                owner.write()
        assert a.replica.own_turn() is Decision.OWN
        cluster.now_ns += NO_ROOM_NS
        assert a.replica.own_turn() is Decision.HAND_OVER
    owner.write()
    assert a.replica.own_turn() is not Decision.HAND_OVER


def test_a_node_says_which_stream_it_uses(cluster: Cluster, a: Node) -> None:  # CL-114
    assert a.replica.view().stream == STREAM
    cluster.pass_time(4, a)
    assert a.replica.view().stream == STREAM


def test_an_owner_holds_the_lease_by_beats_and_by_appends(cluster: Cluster, a: Node) -> None:
    """CL-89."""
    cluster.pass_time(4, a)
    assert a.replica.role is Role.OWNING
    a.bucket.is_away = True
    cluster.now_ns += LEASE_NS
    a.replica.own_turn()
    assert not a.replica.holds_lease()
    owner = a.own()
    owner.apply()
    owner.write()
    assert a.replica.holds_lease()
    cluster.now_ns += LEASE_NS
    assert not a.replica.holds_lease()
    a.bucket.is_away = False
    a.replica.own_turn()
    assert a.replica.holds_lease()
    a.replica.close()
    assert not a.replica.holds_lease()


def lose(cluster: Cluster, position: int, fill: int = 0) -> None:
    cluster.stream.lose_end(position)
    for _ in range(fill):
        cluster.stream.publish(None)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_node_that_was_behind_finds_that_the_log_has_lost_its_end(
    cluster: Cluster, a: Node, b: Node, is_restarted: bool
) -> None:  # CL-85
    """It has never had the lost entries, but it has seen beats that name them."""
    cluster.pass_time(4, a, b)
    owner = a.own()
    owner.apply()
    owner.write()
    b.log.is_away = True
    cluster.pass_time(1, a, b)
    lose(cluster, b.store.end.position)
    b.log.is_away = False
    if is_restarted:
        cluster.bucket.rows.clear()
        b.replica.close()
        b.replica = Replica(b.store, b.log, b.replica._beats, b.settings)
        b.replica.restore()

    with pytest.raises(Damage, match="the log has lost what was acknowledged"):
        cluster.pass_time(LOST_NS / 10**9 + 2, b)

    assert starts(b.store) == ["a"], "it has not taken over"


def test_a_taker_finds_that_the_log_has_another_entry_at_its_place(
    cluster: Cluster, a: Node, b: Node
) -> None:  # CL-90
    cluster.pass_time(4, a, b)
    lose(cluster, b.store.end.position - 1, fill=1)
    with pytest.raises(Damage, match="another entry at the place"):
        cluster.pass_time(5, b)


def test_a_node_that_sees_no_record_of_the_world_does_not_take_over(
    cluster: Cluster, a: Node, b: Node
) -> None:
    """CL-90: its server lags behind the whole log, and nothing checks the position of a message."""
    cluster.stream.checks = False
    tail = cluster.stream.tail
    b.log.lag = tail
    cluster.pass_time(10, b)
    assert b.decision is Decision.TAKE_OVER
    assert (b.replica.role, cluster.stream.tail) == (Role.FOLLOWING, tail)
    assert "the first record of the world" in str(b.replica.view().reason)
    b.log.lag = 0
    cluster.pass_time(4, b)
    assert b.replica.role is Role.OWNING
    assert starts(b.store) == ["b"]


def test_a_log_that_ends_early_for_a_moment_delays_a_start(cluster: Cluster, a: Node) -> None:
    """CL-85: a server that lags says so."""
    cluster.pass_time(4, a)
    a.replica.close()
    a.log.lag = 1
    with pytest.raises(LogEndsEarly):
        a.replica.restore()
    cluster.now_ns += LOST_NS
    with pytest.raises(LogEndsEarly):
        a.replica.restore()
    a.log.lag = 0
    a.replica.restore()
    a.replica.close()
    a.log.lag = 1
    for _ in range(LOST_NS // GAP_NS):
        with pytest.raises(LogEndsEarly):
            a.replica.restore()
        cluster.now_ns += GAP_NS
    with pytest.raises(Damage):
        a.replica.restore()


def test_time_in_which_the_log_is_away_does_not_make_a_lag_damage(
    cluster: Cluster, a: Node
) -> None:
    """CL-85: for a node that starts, and for an owner that writes."""
    cluster.pass_time(4, a)
    owner = a.own()
    owner.apply()
    for number, is_away in enumerate((False, True, False, True, False)):
        owner.tell("k", submission=f"s{number}")
        owner.run()
        a.log.lag, a.log.is_away = 1, is_away
        if not is_away:
            a.log.disconnect()
        for _ in range(2):
            with pytest.raises(LogAway):
                owner.commit()
        cluster.now_ns += LOST_NS
        assert a.replica.own_turn() is not Decision.LOST_END
    a.replica.close()
    for is_away in (False, True, False, True, False):
        a.log.is_away = is_away
        with pytest.raises(LogUnreachable):
            a.replica.restore()
        cluster.now_ns += LOST_NS


def other_frame(end: LogEnd) -> LogEnd:
    return LogEnd(position=end.position, seq=end.seq, frame=content_hash(b"another history"))


@pytest.mark.parametrize(
    "changed",
    [
        other_frame,
        lambda end: LogEnd(position=end.position, seq=end.seq + 1, frame=content_hash(b"x")),
        lambda end: LogEnd(position=1, seq=end.seq - 1, frame=content_hash(b"x")),
    ],
)
def test_a_beat_with_another_history_is_damage(
    cluster: Cluster, a: Node, b: Node, changed: Callable[[LogEnd], LogEnd]
) -> None:  # CL-85
    cluster.pass_time(4, a, b)
    known_end = KnownEnd(b.store, STREAM)
    known_end.note(a.store.end)
    assert not known_end.is_ahead()
    with pytest.raises(Damage, match="another history"):
        known_end.note(changed(a.store.end))


def test_an_end_that_is_reached_with_another_frame_is_damage(
    cluster: Cluster, a: Node, b: Node
) -> None:  # CL-85
    cluster.pass_time(4, a)
    owner_end = a.store.end
    b.replica._known_end.note(other_frame(owner_end))
    assert b.replica._known_end.is_ahead()
    with pytest.raises(Damage, match="another history"):
        cluster.pass_time(1, b)
