"""The log in memory and the log on NATS behave the same (spec/log.md, LG-20 to LG-25): each test
runs on both, and on one server and three."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from aos.errors import Damage
from aos.store.log.entry import EntryPart, parts_of
from aos.store.log.log import AfterWrongPosition, Log, LogMessage
from aos.store.log.memory_log import MemoryLog, SharedStream
from aos.store.log.nats_log import NatsLog
from tests.nats_servers import Servers, new_log
from tests.store.log.nodes import LogNode, frames_after


@dataclass
class Logs:
    """A log, and other programs' views of its stream."""

    log: Log
    other: Callable[[], Log]


@pytest.fixture(params=["memory", "one server", "three servers"])
def logs(request: pytest.FixtureRequest) -> Iterator[Logs]:
    if request.param == "memory":
        stream = SharedStream()
        yield Logs(MemoryLog(stream), lambda: MemoryLog(stream))
        return
    name, replicas = ("server", 1) if request.param == "one server" else ("three", 3)
    servers: Servers = request.getfixturevalue(name)
    with servers.connected() as connection, servers.connected() as other:
        log = new_log(connection, replicas=replicas)
        yield Logs(log, lambda: NatsLog(other, log.stream))


def parts(*texts: bytes) -> list[EntryPart]:
    """Parts of one entry, one for each text of three bytes."""
    return parts_of(b"".join(texts), 3)


def texts(messages: Iterator[LogMessage]) -> list[bytes | None]:
    return [None if message.part is None else message.part.data for message in messages]


def test_an_empty_log_ends_at_0_and_has_no_messages(logs: Logs) -> None:
    assert logs.log.tail() == 0
    assert list(logs.log.read(0)) == []


def test_messages_get_positions_from_1_on_and_every_reader_sees_them_in_order(  # LG-20, LG-21
    logs: Logs,
) -> None:
    entry = parts(b"one", b"two")

    assert logs.log.append(entry, 0) == [1, 2]
    assert logs.log.append(parts(b"3rd"), 2) == [3]

    for log in (logs.log, logs.other()):
        assert log.tail() == 3
        assert list(log.read(0))[:2] == [LogMessage(1, entry[0]), LogMessage(2, entry[1])]
        assert texts(log.read(1)) == [b"two", b"3rd"]
        assert texts(log.read(3)) == []


def test_a_reader_sees_what_was_written_after_its_last_reading(logs: Logs) -> None:  # LG-22
    reader = logs.other()
    written = []
    for number in range(5):
        text = b"%03d" % number
        written.append(text)
        logs.log.append(parts(text), number)

        assert texts(reader.read(number)) == [text]
    assert texts(reader.read(0)) == written


def test_readers_that_stop_early_or_go_back_get_the_same_messages(logs: Logs) -> None:  # LG-22
    logs.log.append(parts(*(b"%03d" % number for number in range(20))), 0)

    reader = logs.other()
    messages = reader.read(0)
    assert next(messages).position == 1
    assert next(messages).position == 2
    assert [message.position for message in reader.read(4)] == list(range(5, 21))
    assert [message.position for message in reader.read(0)] == list(range(1, 21))
    assert [message.position for message in reader.read_again(3, 5)] == [3, 4, 5]
    assert [message.position for message in reader.read(5)] == list(range(6, 21))


@pytest.mark.parametrize("after", [0, 1, 3, 9])
def test_a_message_behind_another_end_is_refused_and_not_written(  # LG-23
    logs: Logs, after: int
) -> None:
    logs.log.append(parts(b"one", b"two"), 0)

    with pytest.raises(AfterWrongPosition):
        logs.other().append(parts(b"new"), after)

    assert texts(logs.log.read(0)) == [b"one", b"two"]


def test_trimmed_messages_are_missed_and_the_others_stay_in_their_places(logs: Logs) -> None:
    # LG-16, LG-25
    logs.log.append(parts(b"one", b"two", b"3rd"), 0)
    reader = logs.other()

    logs.log.trim(0)
    logs.log.trim(1)
    assert texts(reader.read(0)) == [b"one", b"two", b"3rd"]
    logs.log.trim(3)
    logs.log.trim(2)

    assert [message.position for message in reader.read(2)] == [3]
    assert logs.log.append(parts(b"4th"), 3) == [4]
    for after in (0, 1):
        with pytest.raises(Damage, match="trimmed behind this reader: expected the message at"):
            list(reader.read(after))
        with pytest.raises(Damage, match="found 3 as the first one"):
            list(logs.log.read(after))


def test_any_bytes_and_long_parts_come_back_as_they_were(logs: Logs) -> None:
    data = bytes(range(256)) + os.urandom(3_000_000)
    entry = parts_of(data, 1_000_000)

    logs.log.append(entry, 0)

    assert b"".join(text or b"" for text in texts(logs.other().read(0))) == data


def test_writers_write_entries_and_readers_count_them(logs: Logs) -> None:  # LG-30 to LG-33
    writer, reader = LogNode(logs.log), LogNode(logs.other())
    for number in range(10):
        writer.writer.append(frames_after(writer.tip, b"%d" % number))
    reader.read()

    assert reader.journal == writer.journal == [b"%d" % number for number in range(10)]
    assert reader.counter.dead == 0
