"""Servers that die, hang, or lose power while entries are written: each one that was acknowledged
counts for every reader, once (spec/log.md, LG-24, LG-32, LG-36; spec/cluster.md, CL-8, CL-17)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from aos.store.log.counting import CountedEntry
from aos.store.log.entry import LogEntry, parts_of
from aos.store.log.log import LogUnreachable
from aos.store.log.nats_connection import ANSWER_SECONDS, NatsConnection
from aos.store.log.nats_log import NatsLog
from tests.nats_servers import Servers, new_log
from tests.store.log.nodes import LogNode, frames_after
from tests.tools import takes_less_than

ELECTION_S = 90.0
"""Servers elect another leader in 4 to 9 seconds; a busy machine may take longer."""

ROTATED = pytest.mark.rotated(3)
"""Of the tests that wait for an election."""

_Value = TypeVar("_Value")


@pytest.fixture
def own_three(tmp_path: Path) -> Iterator[Servers]:
    """Three servers that the test may break."""
    with Servers(tmp_path / "servers", count=3) as servers:
        servers.start()
        yield servers


def until_answered(ask: Callable[[], _Value]) -> _Value:
    """Ask again until the log answers, as the committer does (H-24)."""
    until = time.monotonic() + ELECTION_S
    while True:
        try:
            return ask()
        except LogUnreachable:
            assert time.monotonic() < until


def is_unreachable(ask: Callable[[], object]) -> None:
    with pytest.raises(LogUnreachable):
        ask()


def written(node: LogNode, entry: LogEntry) -> CountedEntry:
    return until_answered(lambda: node.writer.append(entry))


def check_counts(servers: Servers, log: NatsLog, records: list[bytes]) -> None:
    """Check that a new reader, by whichever server, has these records, once and in order."""
    with servers.connected(answer_seconds=ANSWER_SECONDS) as connection:
        reader = LogNode(until_answered(lambda: NatsLog(connection, log.stream)))
        until_answered(reader.read)
        assert reader.journal == records


@pytest.mark.parametrize("way", ["killed", "stopped", pytest.param("hangs", marks=ROTATED)])
def test_a_writer_goes_on_when_the_leader_of_the_stream_fails(  # LG-36, CL-8
    own_three: Servers, way: str
) -> None:
    with own_three.connected(answer_seconds=ANSWER_SECONDS) as connection:
        log = new_log(connection, replicas=3)
        node = LogNode(log)
        for number in range(5):
            written(node, frames_after(node.tip, b"%d" % number))
        leader = own_three.named(log.state.leader)
        {"killed": own_three.kill, "stopped": own_three.stop, "hangs": own_three.pause}[way](leader)
        for number in range(5, 10):
            written(node, frames_after(node.tip, b"%d" % number))
        if way == "hangs":
            own_three.resume(leader)
        else:
            own_three.restart(leader)
        for number in range(10, 15):
            written(node, frames_after(node.tip, b"%d" % number))

        assert node.journal == [b"%d" % number for number in range(15)]
        check_counts(own_three, log, node.journal)


def test_a_loss_of_power_of_all_servers_takes_nothing_that_was_acknowledged(  # CL-12, CL-27
    own_three: Servers,
) -> None:
    with own_three.connected(answer_seconds=ANSWER_SECONDS) as connection:
        log = new_log(connection, replicas=3)
        node = LogNode(log)
        for number in range(20):
            written(node, frames_after(node.tip, b"%d" % number))
        for server in own_three.servers:
            own_three.kill(server)
        with pytest.raises(LogUnreachable):
            node.writer.append(frames_after(node.tip, b"20"))
        for server in own_three.servers:
            own_three.restart(server)

        check_counts(own_three, log, node.journal)
        written(node, frames_after(node.tip, b"20"))
        assert node.journal == [b"%d" % number for number in range(21)]


def test_servers_that_hang_are_given_up_within_seconds_and_used_again(own_three: Servers) -> None:
    # CL-8, LG-24
    with own_three.connected(answer_seconds=ANSWER_SECONDS) as connection:
        log = new_log(connection, replicas=3)
        node = LogNode(log)
        written(node, frames_after(node.tip, b"0"))
        for server in own_three.servers:
            own_three.pause(server)
        entry = frames_after(node.tip, b"1")
        for ask in (lambda: node.writer.append(entry), log.tail, lambda: list(log.read(0))):
            assert takes_less_than(6, partial(is_unreachable, ask))
        for server in own_three.servers:
            own_three.resume(server)

        written(node, entry)
        check_counts(own_three, log, [b"0", b"1"])


@ROTATED
def test_two_servers_of_three_that_are_away_stop_a_log_and_lose_nothing(own_three: Servers) -> None:
    # LG-21
    with own_three.connected(answer_seconds=ANSWER_SECONDS) as connection:
        log = new_log(connection, replicas=3)
        node = LogNode(log)
        written(node, frames_after(node.tip, b"0"))
        leader = own_three.named(log.state.leader)
        others = [server for server in own_three.servers if server is not leader]
        for server in others:
            own_three.kill(server)
        entry = frames_after(node.tip, b"1")
        with pytest.raises(LogUnreachable):
            node.writer.append(entry)
        for server in others:
            own_three.restart(server)

        written(node, entry)
        check_counts(own_three, log, [b"0", b"1"])


def test_another_reading_comes_from_another_replica(three: Servers) -> None:  # LG-13, LG-22
    with three.connected() as connection:
        log = new_log(connection, replicas=3)
        log.append(parts_of(bytes(100), 10), 0)
        for _ in range(3):
            list(log.read(0))
            first = log._reader.server
            assert [message.position for message in log.read_again(2, 4)] == [2, 3, 4]
            assert None not in (first, log._reader.server)
            assert log._reader.server != first


def test_a_long_entry_to_a_server_that_hangs_is_given_up_within_seconds(tmp_path: Path) -> None:
    # CL-8: the client has no room to keep all of it
    with Servers(tmp_path) as servers:
        servers.start()
        with servers.connected(answer_seconds=ANSWER_SECONDS) as connection:
            log = new_log(connection)
            node = LogNode(log, part_bytes=log.part_bytes)
            entry = frames_after(node.tip, os.urandom(30_000_000))
            servers.pause(servers.servers[0])
            assert takes_less_than(5, lambda: is_unreachable(lambda: node.writer.append(entry)))
            servers.resume(servers.servers[0])

            written(node, entry)
            assert len(node.journal) == 1


def test_readers_leave_no_consumers_behind(server: Servers, connection: NatsConnection) -> None:
    log = new_log(connection)
    log.append(parts_of(bytes(100), 10), 0)
    for position in (0, 5, 2, 7, 0, 9, 3):
        list(log.read(position))
        list(log.read_again(1, 2))

    document = connection.run(connection.api(f"CONSUMER.NAMES.{log.stream}"))

    assert len(document["consumers"]) <= 1
