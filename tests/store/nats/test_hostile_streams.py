"""A stream in which others write, and a stream that others change, under nodes that work: the owner
continues behind them, or the node stops, and no store begins again (spec/log.md, LG-12, LG-34,
LG-53; spec/cluster.md, CL-13, CL-18, CL-19)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from aos.core.journal.frame import Tip
from aos.errors import AosError, Damage, Refused
from aos.host.cluster.lease import Decision
from aos.host.cluster.replica import Replica, ReplicaSettings, Role
from aos.store.log.entry import BlobsEntry, EntryPart, parts_of
from aos.store.log.log import LogSealed, LogUnreachable
from aos.store.log.logged_store import LogAway, LoggedStore
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_log import NatsLog
from aos.store.log.nats_stream import log_settings, log_subject
from aos.values.digests import content_hash
from tests.host.cluster.owner_process import WORLD, Chance, OwnerProcess
from tests.host.cluster.owner_process import counting_draws as draws
from tests.memory_world import WORLD_KEY
from tests.nats_servers import Servers, asked, new_log
from tests.store.log.nodes import OTHER_KEY, LogNode, frames_after
from tests.store.nats.registered_world import RegisteredWorld
from tests.store.nats.test_nats_streams import published, raw, until_answered


def other_world(node: LogNode) -> Tip:
    return replace(node.tip, world=content_hash(b"another world"))


def hostile(node: LogNode) -> dict[str, list[EntryPart]]:
    """Entries of a program with access that is not the owner, in parts."""
    follows = frames_after(node.tip, b"x" * 200)
    whole = parts_of(follows.to_bytes(), 64)
    foreign = frames_after(node.tip, b"foreign", key=OTHER_KEY)
    blobs = BlobsEntry.signed(node.tip.world, node.tip.frame, [b"fill"], OTHER_KEY)
    part_of_other = parts_of(b"other" * 20, 64)[0]
    return {
        "half an entry": whole[:-1],
        "a part of another entry between two": [*whole[:1], part_of_other, *whole[1:]],
        "parts in another order": whole[::-1],
        "a wrong hash": [part._replace(data=part.data[::-1]) for part in whole],
        "another key": parts_of(foreign.to_bytes(), 64),
        "blobs of another key": parts_of(blobs.to_bytes(), 64),
        "another world": parts_of(frames_after(other_world(node), b"w").to_bytes(), 64),
        "garbage": parts_of(b"garbage" * 50, 64),
    }


def publish(connection: NatsConnection, log: NatsLog, parts: Sequence[EntryPart]) -> None:
    """Write parts as a program of its own does, which expects nothing."""
    own = NatsLog(connection, log.stream)
    for part in parts:
        own.append([part], own.tail())


def test_entries_of_others_count_for_no_reader_and_stop_no_owner(  # LG-12, LG-34
    server: Servers, connection: NatsConnection
) -> None:
    log = new_log(connection)
    node = LogNode(log)
    node.writer.append(frames_after(node.tip, b"0"))
    own = parts_of(frames_after(node.tip, b"twice").to_bytes(), 64)
    names = list(hostile(node))
    with server.connected() as other:
        for number, name in enumerate(names, 1):
            publish(other, log, hostile(node)[name])
            entry = frames_after(node.tip, b"%d" % number)
            until_answered(lambda entry=entry: node.writer.append(entry))
        publish(other, log, own)  # on an old tip by now
        last = frames_after(node.tip, b"last")
        until_answered(lambda: node.writer.append(last))
        publish(other, log, parts_of(last.to_bytes(), 64))
    reader = LogNode(NatsLog(connection, log.stream))
    reader.read()

    assert reader.journal == [b"%d" % number for number in range(len(names) + 1)] + [b"last"]
    assert reader.journal == node.journal
    assert b"fill" not in reader.blobs


def test_ten_thousand_dead_messages_in_a_row_stop_no_owner(  # LG-12, LG-34
    server: Servers, connection: NatsConnection
) -> None:
    log = new_log(connection)
    node = LogNode(log)
    node.writer.append(frames_after(node.tip, b"0"))
    tail = log.tail()
    message = published(log_subject(log.stream), b"NATS/1.0\r\n\r\n")
    raw(server.servers[0].ports.client, *[message * 500] * 20)
    until = time.monotonic() + 60
    while log.tail() < tail + 10_000:
        assert time.monotonic() < until
    entry = frames_after(node.tip, b"1")

    until_answered(lambda: node.writer.append(entry))

    assert node.journal == [b"0", b"1"]
    assert node.counter.dead == 10_000


TURNS_MAX = 50
"""Turns in which a node that is alone takes the world over."""


class Node:
    """A node of a world on servers, with clocks that run by themselves."""

    def __init__(self, world: RegisteredWorld, name: str) -> None:
        seconds = count(1)
        log = NatsLog(world.connection, world.stream)
        self.store = LoggedStore.open(world.folder / "store") if name == "a" else _new(world, name)
        settings = ReplicaSettings(
            world=WORLD, key=WORLD_KEY, stream=world.stream, host={"kernel": "test"},
            now_ns=lambda: next(seconds) * 10**9,
        )  # fmt: skip
        self.replica = Replica(self.store, log, world.node(name), settings)
        problem = restored(self.replica)
        if problem is not None:
            self.store.close()
            raise problem

    def own(self) -> OwnerProcess:
        for _ in range(TURNS_MAX):
            if self.replica.role is Role.OWNING:
                break
            if self.replica.turn() is Decision.TAKE_OVER:
                self.replica.take_over()
        return OwnerProcess(self.replica.world(), self.store, Chance(draws("host")))

    def close(self) -> None:
        self.replica.close()
        self.store.close()


def restored(replica: Replica) -> AosError | None:
    """Restore a node, which asks again while the log ends early; return why it does not start."""
    last: AosError | None = None
    for _ in range(20):
        try:
            replica.restore()
        except LogUnreachable as problem:
            last = problem
        except AosError as problem:
            return problem
        else:
            return None
    return last


def _new(world: RegisteredWorld, name: str) -> LoggedStore:
    path = world.folder.parent / name
    with LoggedStore.create(path) as store:
        store.begin(world.stream)
    return LoggedStore.open(path)


@pytest.fixture
def world(server: Servers, connection: NatsConnection, tmp_path: Path) -> RegisteredWorld:
    return RegisteredWorld(connection, server, tmp_path / "a")


def delete(world: RegisteredWorld) -> None:
    asked(world.connection, f"STREAM.DELETE.{world.stream}", {})


def make_anew(world: RegisteredWorld) -> None:
    delete(world)
    asked(world.connection, f"STREAM.CREATE.{world.stream}", log_settings(world.stream, 1))


def fill_anew(world: RegisteredWorld) -> None:
    """As far as the nodes have read, and further."""
    make_anew(world)
    log = NatsLog(world.connection, world.stream)
    for _ in range(30):
        log.append(parts_of(b"other", 8), log.tail())


def purge(world: RegisteredWorld) -> None:
    asked(world.connection, f"STREAM.PURGE.{world.stream}", {})


def update(world: RegisteredWorld, **change: Any) -> None:
    settings = {**log_settings(world.stream, 1), **change}
    asked(world.connection, f"STREAM.UPDATE.{world.stream}", settings)


def seal(world: RegisteredWorld) -> None:
    update(world, sealed=True, deny_purge=True)


def limit(world: RegisteredWorld) -> None:
    update(world, max_age=3_600_000_000_000)


def problem_of(act: Any) -> AosError:
    """The error with which a node stops: an answer that does not come is tried again."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            act()
        except (LogAway, LogUnreachable):
            continue
        except AosError as problem:
            return problem
    raise AssertionError("no error")


@pytest.mark.parametrize(
    ("harm", "kind", "words"),
    [
        (delete, Damage, "the stream is missing"),
        (make_anew, Damage, "deleted and made again|has lost what was acknowledged"),
        (fill_anew, Damage, "deleted and made again|another entry at the place"),
        (seal, LogSealed, "takes no more messages"),
    ],
)
def test_an_owner_whose_stream_was_changed_stops_and_stores_nothing(  # CL-18, CL-19, LG-53
    world: RegisteredWorld, harm: Any, kind: type[AosError], words: str
) -> None:
    node = Node(world, "a")
    try:
        owner = node.own()
        owner.apply()
        owner.write()
        head, place = node.store.head(), node.store.place
        harm(world)
        owner.tell("k")
        owner.run()

        problem = problem_of(owner.commit)

        assert isinstance(problem, kind)
        assert any(word in str(problem) for word in words.split("|")), problem
        assert (node.store.head(), node.store.place) == (head, place)
    finally:
        node.close()


@pytest.mark.parametrize(
    ("harm", "kind", "words"),
    [
        (delete, Damage, "the stream is missing"),
        (make_anew, Damage, "deleted and made again"),
        (fill_anew, Damage, "deleted and made again"),
        (limit, Refused, "the setting max_age of a stream differs"),
        (seal, LogSealed, "takes no more messages"),
    ],
)
def test_an_owner_that_looks_at_its_stream_learns_that_it_was_changed(  # CL-187
    world: RegisteredWorld, harm: Any, kind: type[AosError], words: str
) -> None:
    node = Node(world, "a")
    try:
        node.own()
        node.store.check_owns()
        harm(world)

        problem = problem_of(node.store.check_owns)

        assert isinstance(problem, kind)
        assert words in str(problem)
    finally:
        node.close()


@pytest.mark.parametrize(
    ("harm", "kind", "words"),
    [
        (delete, Damage, "the stream is missing"),
        (make_anew, Damage, "deleted and made again"),
        (fill_anew, Damage, "deleted and made again"),
        (limit, Refused, "the setting max_age of a stream differs"),
        (purge, Damage, "trimmed behind this reader"),
    ],
)
def test_a_standby_whose_stream_was_changed_stops_and_stores_nothing(  # CL-13, CL-18, LG-16
    world: RegisteredWorld, harm: Any, kind: type[AosError], words: str
) -> None:
    node, standby = Node(world, "a"), Node(world, "b")
    try:
        standby.replica.turn()
        head, place = standby.store.head(), standby.store.place
        owner = node.own()
        owner.apply()
        owner.write()
        harm(world)

        problem = problem_of(standby.replica.turn)

        assert isinstance(problem, kind), problem
        assert words in str(problem)
        assert (standby.store.head(), standby.store.place) == (head, place)
    finally:
        node.close()
        standby.close()


@pytest.mark.parametrize("harm", [delete, make_anew, fill_anew, limit])
def test_a_node_that_starts_on_a_changed_stream_writes_nothing(  # CL-13, LG-53
    world: RegisteredWorld, harm: Any
) -> None:
    """No stream takes the place of a missing one, and one that was made again stays as it is."""
    node = Node(world, "a")
    node.own()
    head, place = node.store.head(), node.store.place
    node.close()
    harm(world)

    problem = problem_of(lambda: Node(world, "a"))

    assert isinstance(problem, Refused if harm is limit else Damage)
    with LoggedStore.open(world.folder / "store", readonly=True) as store:
        assert (store.head(), store.place) == (head, place)
    streams = asked(world.connection, "STREAM.NAMES", {})["streams"]
    assert (world.stream in streams) == (harm is not delete)
    if harm is make_anew:
        assert NatsLog(world.connection, world.stream).tail() == 0
