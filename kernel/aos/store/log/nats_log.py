"""The log of a world on NATS JetStream (spec/log.md, LG-20 to LG-25; spec/cluster.md, CL-16 to
CL-23).

    append ──parts, pipelined──▶ leader of the stream ──synced by a quorum──▶ position of each
    read   ◀─batches── a consumer on any replica, up to the tail that the leader has
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aos.boot_clock import boot_ns
from aos.errors import Damage
from aos.store.log.early_end import EarlyEnd
from aos.store.log.entry import EntryPart
from aos.store.log.log import (
    AfterWrongPosition,
    LogMessage,
    LogSealed,
    LogTrimmed,
    LogUnreachable,
)
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_errors import (
    NO_STREAM,
    SEALED,
    WRONG_LAST,
    JetStreamError,
    Unanswered,
    read_answer,
)
from aos.store.log.nats_reader import ENTRY_HEADER, PART_HEADER, NatsReader
from aos.store.log.nats_stream import (
    NatsStreamState,
    check_settings,
    log_settings,
    log_subject,
    stream_state,
)

if TYPE_CHECKING:
    from aos.store.log.nats_session import NatsMessage, NatsSession

HEADER_BYTES: Final = 8 * 1024
"""Room for headers in a message: a part is shorter than ``max_payload`` by so much."""

FLIGHT_BYTES_MAX: Final = 8 * 1024 * 1024
"""Parts that are under way together have at most so many bytes, or are one."""

LAG_NS_MAX: Final = 5_000_000_000
"""How long a log may end before a message that was read. Longer than a leader that is cut off still
answers (CL-16)."""

EXPECTED_HEADER: Final = "Nats-Expected-Last-Sequence"

_Value = TypeVar("_Value")


class NatsLog:
    """The stream of a world, as ``Log``. Its connection stays with the caller, who may use it for
    buckets too.

    Raises:
        Damage: There is no such stream.
        Refused: It has other settings, or a server refuses this client.
        LogUnreachable: It does not answer.
    """

    def __init__(self, connection: NatsConnection, stream: str) -> None:
        self.stream = stream
        self._connection = connection
        self._subject = log_subject(stream)
        self._reader = NatsReader(connection, stream)
        self._created: str | None = None
        self._early_end = EarlyEnd()
        self._state = self._run(self._checked_state())

    @property
    def state(self) -> NatsStreamState:
        """The stream as it was when this program asked for it last."""
        return self._state

    @property
    def part_bytes(self) -> int:
        """The longest part of an entry that the server takes. Raises as the class."""
        return self._run(self._part_bytes())

    def append(self, parts: Sequence[EntryPart], after: int) -> list[int]:
        """As ``Log.append``.

        Raises:
            NoRoom: The servers have no room. As without an answer, some parts may be written.
            LogSealed: The stream is sealed. Nothing is written.
            Refused: A part is longer than a message may be, or the server refuses it otherwise.
        """
        return self._run(self._append(parts, after))

    def read(self, after: int) -> Iterator[LogMessage]:
        """As ``Log.read``.

        Raises:
            Damage: The stream was deleted, or made again, or it has ended before ``after`` for some
                seconds (CL-18); before that, LogUnreachable.
        """
        self._state = self._run(self._checked_state())
        first, tail = self._state.first, self._state.tail
        self._check_end(after, tail)
        if after + 1 < first:
            raise LogTrimmed(
                "the log was trimmed behind this reader",
                location=f"stream {self.stream}",
                expected=f"the message at position {after + 1}",
                actual=f"{first} as the first one",
            )
        position = after
        while position < tail:
            for message in self._run(self._reader.batch(position, self._state)):
                if message.position != position + 1:
                    raise Damage(
                        "the log has a gap",
                        location=f"stream {self.stream}",
                        expected=f"the message at position {position + 1}",
                        actual=f"that at {message.position}",
                    )
                position = message.position
                yield message

    def _check_end(self, position: int, tail: int) -> None:
        """Check that the log has a message that was read, or one behind it.

        A former leader that was cut off a moment ago may have an earlier end, so only a log that
        ends early for some seconds has lost its end.
        """
        if tail >= position:
            self._early_end.clear()
            return
        self._early_end.note_early(boot_ns())
        expected = f"messages up to position {position} or behind it"
        if self._early_end.span_ns < LAG_NS_MAX:
            raise LogUnreachable(
                "the log does not show its end yet",
                location=f"stream {self.stream}",
                expected=expected,
                actual=f"{tail} as the last one",
            )
        raise Damage(
            "the log has lost its end",
            location=f"stream {self.stream}",
            expected=expected,
            actual=f"{tail} as the last one",
            hint="do not start this node: bring the log back from the longest journal of a node",
        )

    def read_again(self, first: int, last: int) -> Iterator[LogMessage]:
        """As ``Log.read_again``: from another replica, if there is one."""
        self._run(self._reader.move_to_another_replica(first - 1, self._state))
        for message in self.read(first - 1):
            if message.position > last:
                return
            yield message

    def tail(self) -> int:
        """As ``Log.tail``, at the leader. Raises as ``read``."""
        self._state = self._run(self._checked_state())
        return self._state.tail

    def check_open(self) -> None:
        """As ``Log.check_open``."""
        if self._state.settings.get("sealed") is True:
            raise self._sealed()

    def trim(self, position: int) -> None:
        """As ``Log.trim``. Raises as ``append``."""
        if position > 1:  # JetStream takes 0 for everything
            self._run(self._trim(position))

    def _run(self, job: Coroutine[Any, Any, _Value]) -> _Value:
        try:
            return self._connection.run(job)
        except Unanswered as problem:
            self._early_end.note_unanswered()
            raise LogUnreachable(f"the log does not answer: {problem}") from problem
        except JetStreamError as problem:
            raise self._error(problem) from problem

    def _error(self, problem: JetStreamError) -> Exception:
        if problem.code in WRONG_LAST:
            return AfterWrongPosition(f"stream {self.stream}: {problem.description}")
        if problem.code == NO_STREAM:
            # The next reading asks the leader of all servers whether it is missing (CL-18).
            return LogUnreachable(f"stream {self.stream}: {problem}")
        if problem.code == SEALED:
            return self._sealed()
        return problem.as_error(f"stream {self.stream}")

    def _sealed(self) -> LogSealed:
        return LogSealed(
            "the stream is sealed: it takes no more messages",
            location=f"stream {self.stream}",
            hint="the world went to another stream, or was taken out of the servers",
        )

    async def _checked_state(self) -> NatsStreamState:
        state = await stream_state(self._connection, self.stream)
        check_settings(state, log_settings(self.stream, state.replica_count))
        if self._created is None:
            self._created = state.created
        elif state.created != self._created:
            raise Damage(
                "the stream was deleted and made again",
                location=f"stream {self.stream}",
                expected=f"that of {self._created}",
                actual=f"one of {state.created}",
            )
        return state

    async def _part_bytes(self) -> int:
        session = await self._connection.session()
        return session.payload_bytes_max - HEADER_BYTES

    async def _append(self, parts: Sequence[EntryPart], position: int) -> list[int]:
        session = await self._connection.session()
        flight: deque[tuple[int, asyncio.Future[NatsMessage]]] = deque()
        flight_bytes = 0
        positions: list[int] = []

        async def land() -> int:
            size, answer = flight[0]
            positions.append(await self._position(session, answer))
            flight.popleft()
            return size

        try:
            for index, part in enumerate(parts):
                while flight and flight_bytes + len(part.data) > FLIGHT_BYTES_MAX:
                    flight_bytes -= await land()
                headers = {
                    ENTRY_HEADER: part.entry.hex(),
                    PART_HEADER: part.header,
                    EXPECTED_HEADER: str(position + index),
                }
                answer = await session.send(self._subject, part.data, headers)
                flight.append((len(part.data), answer))
                flight_bytes += len(part.data)
            while flight:
                await land()
        finally:
            for _, answer in flight:
                answer.cancel()
        return positions

    async def _position(self, session: NatsSession, answer: asyncio.Future[NatsMessage]) -> int:
        message = await self._connection.answered(session, answer)
        document = read_answer(message.data)
        match document:
            case {"stream": self.stream, "seq": int(position)}:
                return position
        raise Unanswered(f"no position in the answer: {document}", location=session.server)

    async def _trim(self, position: int) -> None:
        await self._connection.api(f"STREAM.PURGE.{self.stream}", {"seq": position})
