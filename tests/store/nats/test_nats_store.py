"""The store of an owner on a log of NATS (spec/log.md, LG-50 to LG-55; spec/cluster.md, CL-16 to
CL-21), and the state of a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aos.core.journal.frame import NO_FRAME, Head, Tip
from aos.errors import Damage
from aos.store.errors import NoRoom
from aos.store.log.logged_store import LogAway, LoggedStore
from aos.store.log.nats_connection import ANSWER_SECONDS, NatsConnection
from aos.store.log.nats_errors import Unanswered
from aos.store.log.nats_log import NatsLog
from aos.store.log.nats_stream import NatsStreamState
from aos.values.digests import Hash, content_hash
from tests.nats_servers import Servers, new_log
from tests.store.journal import WORLD, WORLD_KEY, Journal
from tests.store.log.nodes import LogNode


class NatsOwner:
    """A world's owner: its store on a log of NATS."""

    def __init__(self, folder: Path, log: NatsLog) -> None:
        self.log = log
        self.journal = Journal()
        self.store = LoggedStore.create(folder)
        self.store.begin(log.stream)
        self.follows: Hash = NO_FRAME
        self.connect(Tip(world=WORLD))

    def connect(self, tip: Tip) -> None:
        self.store.connect(
            self.log,
            stream=self.log.stream,
            tip=tip,
            key=WORLD_KEY,
            part_bytes=self.log.part_bytes,
        )

    def write(self, name: str, value_bytes: int = 100) -> None:
        """Append one frame, once and again while the log is away, as the committer does."""
        group = [] if self.journal.tip.seq else [self.journal.genesis()]
        self.journal.event(name, value=name.encode().ljust(value_bytes, b"."))
        group.append(self.journal.seal())
        head = Head.of(self.journal.tip).signed(WORLD_KEY)
        for _ in range(60):
            try:
                self.store.append(group, head, expected=self.follows)
            except NoRoom:
                continue
            self.follows = head.frame
            return
        raise AssertionError("no answer")


def stored(store: LoggedStore) -> list[bytes]:
    return [record for frame in store.frames() for record in frame.records]


def read(log: NatsLog) -> list[bytes]:
    """The records that count for a reader of another world's key."""
    node = LogNode(log)
    node.counter._world_key = WORLD_KEY.verify_key.encode()
    node.counter.tip = Tip(world=WORLD)
    node.read()
    return node.journal


@pytest.mark.parametrize("value_bytes", [100, 3_000_000])
def test_a_store_has_what_counts_on_nats_and_its_place(  # LG-50
    tmp_path: Path, connection: NatsConnection, value_bytes: int
) -> None:
    owner = NatsOwner(tmp_path / "store", new_log(connection))
    for name in ("a", "b", "c"):
        owner.write(name, value_bytes)
    owner.store.put_blobs({content_hash(b"slice"): b"slice"})
    owner.write("d")

    place = owner.store.place
    assert place is not None
    assert (place.stream, place.position) == (owner.log.stream, owner.log.tail())
    assert read(owner.log) == stored(owner.store)
    assert owner.store.blob(content_hash(b"slice")) == b"slice"


def test_a_store_goes_on_after_a_restart_of_its_process_and_of_the_server(  # LG-53, CL-16
    tmp_path: Path,
) -> None:
    with Servers(tmp_path / "servers") as servers:
        servers.start()
        with servers.connected(answer_seconds=ANSWER_SECONDS) as connection:
            owner = NatsOwner(tmp_path / "store", new_log(connection))
            owner.write("a")
            servers.kill(servers.servers[0])
            with pytest.raises(LogAway, match="the log does not answer"):
                owner.store.put_blobs({content_hash(b"slice"): b"slice"})
            servers.restart(servers.servers[0])
            owner.write("b")
            owner.store.close()

            owner.store = LoggedStore.open(tmp_path / "store")
            owner.connect(owner.journal.tip)
            owner.write("c")

            assert read(owner.log) == stored(owner.store)


def test_a_store_does_not_connect_to_a_log_that_lost_its_end(  # LG-53
    tmp_path: Path, connection: NatsConnection
) -> None:
    owner = NatsOwner(tmp_path / "store", new_log(connection))
    owner.write("a")
    owner.store.close()
    store = LoggedStore.open(tmp_path / "store")
    place = store.place
    assert place is not None
    other = new_log(connection)

    with pytest.raises(Damage, match="the log has lost what was acknowledged"):
        store.connect(other, stream=place.stream, tip=owner.journal.tip, key=WORLD_KEY)


def document(replicas: int, peers: list[dict[str, Any]], **cluster: Any) -> dict[str, Any]:
    return {
        "config": {"num_replicas": replicas},
        "created": "2026-11-30T06:48:08Z",
        "state": {"first_seq": 1, "last_seq": 7},
        "cluster": {"leader": "n1", "replicas": peers, **cluster},
        "ts": "2026-11-30T06:50:00Z",
    }


NEAR, FAR, NEVER = 900_000_000, 3_100_000_000, 0


@pytest.mark.parametrize(
    ("replicas", "actives", "has_quorum"),
    [
        (1, [], True),
        (3, [], False),
        (3, [NEAR, NEAR], True),
        (3, [NEAR, FAR], True),
        (3, [NEVER, NEAR], True),
        (3, [FAR, FAR], False),
        (3, [NEVER, NEVER], False),
    ],
)
def test_a_leader_has_a_quorum_if_it_heard_of_a_majority_lately(  # CL-16
    replicas: int, actives: list[int], has_quorum: bool
) -> None:
    peers = [{"name": f"n{index}", "active": active} for index, active in enumerate(actives, 2)]

    state = NatsStreamState.of(document(replicas, peers))

    assert state.has_quorum == has_quorum
    assert (state.first, state.tail) == (1, 7)
    if len(peers) == 2:
        assert state.replicas == ("n1", "n2", "n3")
        offline = [{**peer, "offline": True} for peer in peers]
        assert not NatsStreamState.of(document(replicas, offline)).has_quorum


def test_a_leader_that_was_elected_just_now_has_a_quorum() -> None:  # CL-16
    peers = [{"name": "n2", "active": 0}, {"name": "n3", "active": 0}]
    for since, has_quorum in {
        "2026-11-30T06:49:58.5Z": True,
        "2026-11-30T06:49:56.5Z": False,
        "2026-11-29T06:49:59Z": False,
        "2026-11-30T06:50:09Z": False,
        "soon": False,
    }.items():
        state = NatsStreamState.of(document(3, peers, leader_since=since))
        assert state.has_quorum == has_quorum, since


@pytest.mark.parametrize(
    "answer",
    [{}, {"state": {}}, {**document(1, []), "state": {"first_seq": "x", "last_seq": 1}},
     {**document(1, []), "config": {}}, {**document(3, []), "cluster": {"replicas": [{}]}},
     {**document(1, []), "cluster": ["n1"]}, {**document(1, []), "ts": "soon"}],
)  # fmt: skip
def test_an_answer_that_is_no_state_is_no_answer(answer: dict[str, Any]) -> None:
    with pytest.raises(Unanswered):
        NatsStreamState.of(answer)
