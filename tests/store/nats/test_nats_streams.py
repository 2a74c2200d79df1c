"""Streams that an operator, or an attacker, has changed: refused or Damage, in words
(spec/cluster.md, CL-11 to CL-23)."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aos.errors import AosError, Damage, Refused
from aos.store.errors import NoRoom
from aos.store.log import nats_log
from aos.store.log.entry import parts_of
from aos.store.log.log import LogSealed, LogUnreachable
from aos.store.log.logged_store import LogPlace, check_place
from aos.store.log.nats_connection import ANSWER_SECONDS, NatsConnection
from aos.store.log.nats_errors import JetStreamError, Unanswered, read_answer
from aos.store.log.nats_log import NatsLog
from aos.store.log.nats_stream import log_settings, log_subject, make_stream, new_stream_name
from aos.values.digests import Hash
from tests.nats_servers import Servers, asked, made, new_log, state_of
from tests.store.log.nodes import LogNode, frames_after

WORLD = Hash(bytes(range(32)))


@pytest.fixture
def log(connection: NatsConnection) -> NatsLog:
    return new_log(connection)


def written(log: NatsLog, count: int) -> None:
    """Write messages until there are so many."""
    for position in range(log.tail(), count):
        log.append(parts_of(b"%d" % position, 8), position)


def test_names_of_streams_begin_with_the_world_and_never_repeat() -> None:  # CL-11
    names = {new_stream_name(WORLD) for _ in range(100)}

    assert len(names) == 100
    assert all(name.startswith("AOS-0001020304050607-") for name in names)
    assert log_subject("AOS-0001020304050607-ab") == "aos.log.0001020304050607.ab"


DIFFERENT: list[tuple[str, Any]] = [
    ("storage", "memory"),
    ("retention", "interest"),
    ("retention", "workqueue"),
    ("discard", "old"),
    ("max_msgs", 1000),
    ("max_bytes", 1_000_000),
    ("max_age", 3_600_000_000_000),
    ("max_msgs_per_subject", 10),
    ("max_msg_size", 1_000_000),
    ("max_consumers", 5),
    ("deny_delete", False),
    ("deny_purge", True),
    ("allow_rollup_hdrs", True),
    ("allow_direct", True),
    ("subjects", ["aos.other"]),
    ("subjects", ["aos.log.0001020304050607.x", "aos.other"]),
    # Settings that AOS does not use.
    ("no_ack", True),
    ("allow_msg_ttl", True),
    ("allow_atomic", True),
    ("republish", {"src": ">", "dest": "copy.>"}),
    ("persist_mode", "async"),
    ("first_seq", 100),
]


@pytest.mark.parametrize(("field", "value"), DIFFERENT)
def test_a_stream_with_another_setting_is_refused_by_its_name(  # CL-13
    connection: NatsConnection, field: str, value: Any
) -> None:
    stream = "AOS-0001020304050607-x"
    settings = {**log_settings(stream, 1), field: value}
    asked(connection, f"STREAM.CREATE.{stream}", settings)
    try:
        before = state_of(connection, stream)
        with pytest.raises(Refused, match=f"setting {field} of a stream differs") as opened:
            NatsLog(connection, stream)
        with pytest.raises(Refused, match=f"setting {field} of a stream differs"):
            connection.run(make_stream(connection, log_settings(stream, 1)))
        assert stream in str(opened.value)
        assert state_of(connection, stream).settings == before.settings
    finally:
        asked(connection, f"STREAM.DELETE.{stream}", {})


def test_a_setting_that_is_changed_later_is_refused_with_the_next_reading(  # CL-13
    log: NatsLog, connection: NatsConnection
) -> None:
    written(log, 3)
    asked(connection, f"STREAM.UPDATE.{log.stream}", {**log_settings(log.stream, 1), "max_msgs": 2})

    for read in (lambda: list(log.read(3)), log.tail):
        with pytest.raises(Refused, match="setting max_msgs of a stream differs: expected -1"):
            read()


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (10008, Unanswered, "cannot answer now"),
        (10118, Unanswered, "cannot answer now"),
        (10077, NoRoom, "no room left"),
        (10023, NoRoom, "no room left"),
        (10047, NoRoom, "no room left"),
        (10074, Refused, "fewer servers with JetStream than replicas"),
        (10025, Refused, "JetStream refuses the request: words"),
    ],
)
def test_an_error_of_jetstream_says_whether_another_try_may_help(  # CL-21
    code: int, kind: type[AosError], words: str
) -> None:
    def raised() -> None:
        try:
            read_answer(json.dumps({"error": {"err_code": code, "description": "words"}}).encode())
        except JetStreamError as problem:
            raise problem.as_error("stream x") from None

    with pytest.raises(kind, match=words):
        raised()


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"\xff", b"{"])
def test_an_answer_that_is_none_is_no_answer(data: bytes) -> None:
    with pytest.raises(Unanswered):
        read_answer(data)


@pytest.mark.parametrize("change", [{"description": "ours"}, {"metadata": {"team": "a"}}])
def test_words_on_a_stream_are_free(  # CL-13
    connection: NatsConnection, change: dict[str, Any]
) -> None:
    settings = {**log_settings(new_stream_name(WORLD), 1), **change}
    asked(connection, f"STREAM.CREATE.{settings['name']}", settings)

    assert NatsLog(connection, settings["name"]).tail() == 0


def test_a_stream_is_made_once_and_used_again(connection: NatsConnection) -> None:  # CL-12
    settings = log_settings(new_stream_name(WORLD), 1)

    first = made(connection, settings)
    NatsLog(connection, settings["name"]).append(parts_of(b"x", 8), 0)
    again = made(connection, settings)

    assert again.created == first.created
    assert (first.tail, again.tail) == (0, 1)


def test_a_message_cannot_be_deleted_by_itself(log: NatsLog, connection: NatsConnection) -> None:
    # CL-12
    written(log, 3)

    with pytest.raises(JetStreamError):
        asked(connection, f"STREAM.MSG.DELETE.{log.stream}", {"seq": 2})
    with pytest.raises(JetStreamError):
        asked(
            connection,
            f"STREAM.UPDATE.{log.stream}",
            {**log_settings(log.stream, 1), "deny_delete": False},
        )

    assert [message.position for message in log.read(0)] == [1, 2, 3]


def test_more_replicas_than_servers_are_refused(connection: NatsConnection) -> None:  # CL-14
    with pytest.raises(Refused, match="fewer servers with JetStream than replicas"):
        made(connection, log_settings(new_stream_name(WORLD), 3))


def test_a_deleted_stream_is_damage(log: NatsLog, connection: NatsConnection) -> None:  # CL-18
    written(log, 3)
    asked(connection, f"STREAM.DELETE.{log.stream}", {})

    with pytest.raises(LogUnreachable):
        log.append(parts_of(b"x", 8), 3)  # nothing takes it; the next reading tells why
    for read in (lambda: list(log.read(3)), log.tail, lambda: NatsLog(connection, log.stream)):
        with pytest.raises(Damage, match="the stream is missing: expected the stream AOS-"):
            read()


def test_a_stream_that_was_made_again_is_damage(  # CL-18, LG-53
    log: NatsLog, connection: NatsConnection
) -> None:
    written(log, 3)
    entry = next(log.read(2)).part
    assert entry is not None
    asked(connection, f"STREAM.DELETE.{log.stream}", {})
    made(connection, log_settings(log.stream, 1))

    with pytest.raises(Damage, match="the stream was deleted and made again"):
        list(log.read(3))
    new = NatsLog(connection, log.stream)
    place = LogPlace(stream=log.stream, position=3, entry=entry.entry)
    with pytest.raises(Damage, match="the log has lost what was acknowledged"):
        check_place(new, place, location="here")
    for _ in range(3):
        new.append(parts_of(b"other", 8), new.tail())
    with pytest.raises(Damage, match="another entry at the place of this store"):
        check_place(new, place, location="here")


def test_a_sealed_stream_takes_nothing_and_can_be_read(  # CL-19
    log: NatsLog, connection: NatsConnection
) -> None:
    written(log, 3)
    settings = {**log_settings(log.stream, 1), "sealed": True, "deny_purge": True}
    asked(connection, f"STREAM.UPDATE.{log.stream}", settings)

    with pytest.raises(LogSealed, match="the stream is sealed: it takes no more messages"):
        log.append(parts_of(b"x", 8), 3)

    assert len(list(log.read(0))) == 3
    assert len(list(NatsLog(connection, log.stream).read(0))) == 3


def test_a_stream_that_was_purged_by_hand_is_damage_for_readers_behind(  # LG-16
    log: NatsLog, connection: NatsConnection
) -> None:
    written(log, 3)
    asked(connection, f"STREAM.PURGE.{log.stream}", {})

    with pytest.raises(Damage, match="the log was trimmed behind this reader"):
        list(log.read(2))
    assert list(log.read(3)) == []
    assert log.append(parts_of(b"x", 8), 3) == [4]


def test_a_log_that_lost_its_end_is_damage(  # CL-18, LG-53
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk has lied, or an old copy of it was put back."""
    monkeypatch.setattr(nats_log, "LAG_NS_MAX", 500_000_000)
    with Servers(tmp_path / "servers") as servers:
        servers.start()
        [server] = servers.servers
        with servers.connected(answer_seconds=ANSWER_SECONDS) as connection:
            log = new_log(connection)
            written(log, 3)
            servers.stop(server)
            shutil.copytree(tmp_path / "servers" / "n1", tmp_path / "copy")
            servers.restart(server)
            written_again(log, 5)
            entry = next(iter(log.read(4))).part
            assert entry is not None
            servers.stop(server)
            shutil.rmtree(tmp_path / "servers" / "n1")
            shutil.copytree(tmp_path / "copy", tmp_path / "servers" / "n1")
            servers.restart(server)

            until_answered(log.tail)
            with pytest.raises(LogUnreachable, match="does not show its end yet: expected"):
                list(log.read(5))
            with pytest.raises(Damage, match="lost its end: expected messages up to position 5 or"):
                until_answered(lambda: list(log.read(5)))
            place = LogPlace(stream=log.stream, position=5, entry=entry.entry)
            with pytest.raises(Damage, match="the log has lost what was acknowledged"):
                check_place(NatsLog(connection, log.stream), place, location="here")


def written_again(log: NatsLog, count: int) -> None:
    until_answered(log.tail)
    written(log, count)


def until_answered(ask: Any) -> Any:
    """Ask again while a server starts."""
    until = time.monotonic() + 60
    while True:
        try:
            return ask()
        except LogUnreachable:
            assert time.monotonic() < until


def test_servers_without_room_are_as_a_full_disk_and_the_same_entry_counts_later(  # CL-21
    tmp_path: Path,
) -> None:
    extra = {"jetstream": {"max_file_store": 2_000_000}}
    with Servers(tmp_path / "servers", extra=extra) as servers:
        servers.start()
        with servers.connected() as connection:
            node = LogNode(log := new_log(connection), part_bytes=log.part_bytes)
            for _ in range(3):
                node.writer.append(frames_after(node.tip, bytes(900_000)))
            entry = frames_after(node.tip, b"x" * 900_000)
            for _ in range(3):
                with pytest.raises(NoRoom, match="the servers have no room left"):
                    node.writer.append(entry)
            log.trim(log.tail())

            counted = node.writer.append(entry)

            assert counted.entry == entry
            assert len(node.journal) == 4


def raw(port: int, *commands: bytes) -> None:
    """Send commands to a server as a program without a client of NATS can."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.recv(65536)
        connection.sendall(b"CONNECT " + json.dumps({"headers": True}).encode() + b"\r\n")
        for command in commands:
            connection.sendall(command)
        connection.sendall(b"PING\r\n")
        answer = b""
        while b"PONG" not in answer:
            answer += connection.recv(65536)


def published(subject: str, headers: bytes, data: bytes = b"data") -> bytes:
    total = len(headers) + len(data)
    return b"HPUB %s %d %d\r\n%s%s\r\n" % (subject.encode(), len(headers), total, headers, data)


HEX = "00" * 32
HOSTILE_HEADERS = [
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0\r\nAos-Entry: x\r\nAos-Part: 1/1\r\n\r\n",
    b"NATS/1.0\r\nAos-Entry: %s\r\n\r\n" % HEX.encode(),
    b"NATS/1.0\r\nAos-Entry: %s\r\nAos-Part: 1/0\r\n\r\n" % HEX.encode(),
    b"NATS/1.0\r\nAos-Entry: %s\r\nAos-Part: 99999999999/99999999999\r\n\r\n" % HEX.encode(),
    b"NATS/1.0\r\nAos-Entry: %s\r\nAos-Entry: %s\r\nAos-Part: 1/1\r\n\r\n" % ((HEX.encode(),) * 2),
    b"NATS/1.0\r\nStatus: 408\r\n\r\n",
    b"NATS/1.0\r\nStatus: 503\r\nDescription: gone\r\n\r\n",
    b"NATS/1.0 408 Request Timeout\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 7\r\n\r\n",
    b"NATS/1.0 \xff\xff\xff\r\n\r\n",
    b"NATS/1.0 \xc0\r\nA: b\r\n\r\n",
    b"NATS/1.0\r\n\xff\xfe\xfd: \xff\r\n\r\n",
    b"NATS/1.0\r\nno colon\r\n\r\n",
    b"NATS/1.0\r\n: empty\r\n\r\n",
    b"NATS/1.0\r\n folded: x\r\n\r\n",
    b"NATS/1.0\n\n\r\n\r\n",
    b"NATS/1.0\x00\x00\r\n\r\n",
]


@pytest.mark.parametrize("headers", HOSTILE_HEADERS)
def test_a_message_of_anyone_stops_no_reader(  # CL-22, LG-12, LG-34
    log: NatsLog, connection: NatsConnection, server: Servers, headers: bytes
) -> None:
    node = LogNode(log)
    node.writer.append(frames_after(node.tip, b"1"))
    port = server.servers[0].ports.client

    tail = log.tail()
    raw(port, published(log_subject(log.stream), headers))
    until = time.monotonic() + 60
    while log.tail() < tail + 1:  # a server stores such a message after it answered the ping
        assert time.monotonic() < until
    node.writer.append(frames_after(node.tip, b"2"))
    reader = LogNode(NatsLog(connection, log.stream))
    reader.read()

    assert reader.journal == node.journal == [b"1", b"2"]
    assert reader.counter.dead == node.counter.dead
    assert reader.counter.position == log.tail() > tail + 1


def test_a_program_that_only_publishes_delays_a_writer_and_never_stops_it(  # LG-34
    log: NatsLog, server: Servers
) -> None:
    node = LogNode(log)
    port = server.servers[0].ports.client
    subject = log_subject(log.stream)
    for number in range(5):
        raw(port, *(published(subject, HOSTILE_HEADERS[0], os.urandom(64)) for _ in range(200)))
        entry = frames_after(node.tip, b"%d" % number)
        until_answered(lambda entry=entry: node.writer.append(entry))

    assert len(node.journal) == 5
    assert node.counter.dead >= 1000


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Servers]:
    """A server that takes short messages only."""
    extra = {"max_payload": 65536}
    with Servers(tmp_path / "servers", extra=extra) as servers:
        servers.start()
        yield servers


def test_parts_fit_into_the_messages_of_the_server(small: Servers) -> None:  # CL-17
    with small.connected() as connection:
        log = new_log(connection)
        assert log.part_bytes == 65536 - 8192
        node = LogNode(log, part_bytes=log.part_bytes)
        node.writer.append(frames_after(node.tip, os.urandom(1_000_000)))
        assert log.tail() == 18

        with pytest.raises(AosError, match="too long for the server: expected at most 65536 bytes"):
            log.append(parts_of(bytes(70_000), 70_000), log.tail())
        assert log.tail() == 18
