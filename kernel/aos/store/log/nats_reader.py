"""A reader's place in a stream of JetStream: batches of messages from any replica (spec/cluster.md,
CL-20).

A consumer is what a server keeps for a reader: at one replica, in memory, with the position of the
next message. It is removed when the reader goes elsewhere, or does not use it for a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aos.store.log.entry import EntryPart
from aos.store.log.log import LogMessage
from aos.store.log.nats_connection import API, NatsConnection
from aos.store.log.nats_errors import Unanswered
from aos.store.log.nats_stream import NatsStreamState

if TYPE_CHECKING:
    from aos.store.log.nats_session import NatsInbox, NatsMessage, NatsSession

BATCH_MESSAGES: Final = 500
BATCH_BYTES: Final = 8 * 1024 * 1024
"""The size of a batch: a reader gets so many messages, or bytes, with one request."""

EXPIRY_SECONDS: Final = 0.5
"""How long a batch may be late after the server should have ended it."""

CONSUMER_SECONDS: Final = 60
"""A consumer that is not used for so long is removed by the server."""

OTHER_SERVER_TRIES: Final = 12
"""How often a reader asks for another replica. The servers choose one of three by chance, so it is
one in 130,000 that all are the same."""

ENTRY_HEADER: Final = "Aos-Entry"
PART_HEADER: Final = "Aos-Part"


@dataclass(slots=True)
class _Consumer:
    """A reader's place at one replica. ``position`` is the last message that was taken."""

    name: str
    server: str
    session: NatsSession
    inbox: NatsInbox
    position: int
    last_use: float
    batches: int = 0


class NatsReader:
    """Reads a stream. Its methods run in the loop of the connection."""

    def __init__(self, connection: NatsConnection, stream: str) -> None:
        self._connection = connection
        self._stream = stream
        self._consumer: _Consumer | None = None

    @property
    def server(self) -> str | None:
        """The server that the next messages come from, if that is known."""
        return None if self._consumer is None else self._consumer.server

    async def move_to_another_replica(self, position: int, state: NatsStreamState) -> None:
        """Let the messages behind ``position`` come from another replica than the last ones, if
        there is one. Raises Unanswered."""
        await self._moved(position, state)

    async def batch(self, position: int, state: NatsStreamState) -> list[LogMessage]:
        """Return the next messages behind ``position`` up to the tail in ``state``: at least one.

        Raises:
            Unanswered: No replica has them, or answers.
        """
        consumer = await self._consumer_behind(position)
        for _ in state.replicas:
            messages = await self._pull(consumer, min(BATCH_MESSAGES, state.tail - position))
            if messages:
                consumer.position = messages[-1].position
                consumer.last_use = asyncio.get_running_loop().time()
                return messages
            # A replica may lag behind the leader, which has them.
            consumer = await self._moved(position, state)
        raise Unanswered(f"no replica has the messages behind {position} yet")

    async def _pull(self, consumer: _Consumer, count: int) -> list[LogMessage]:
        """Ask a consumer for messages: at most so many, fewer if they are long, none if the replica
        does not have them."""
        wait_seconds = self._connection.answer_seconds
        request = {
            "batch": count,
            "max_bytes": BATCH_BYTES + consumer.session.payload_bytes_max,
            "expires": int(wait_seconds * 1e9),
        }
        consumer.batches += 1
        reply = f"{consumer.inbox.prefix}.{consumer.batches}"
        await consumer.session.publish(
            f"{API}.CONSUMER.MSG.NEXT.{self._stream}.{consumer.name}",
            json.dumps(request).encode(),
            reply,
        )
        messages: list[LogMessage] = []
        while len(messages) < count:
            try:
                message = await consumer.inbox.next(wait_seconds + EXPIRY_SECONDS)
            except TimeoutError:
                self._consumer = None
                await self._connection.drop(consumer.session)
                raise Unanswered(f"the replica at {consumer.server} does not answer") from None
            if message.reply:
                messages.append(_log_message(message))
            elif message.subject == reply:
                break  # this is all for now; the end of an earlier batch has another subject
        return messages

    async def _consumer_behind(self, position: int) -> _Consumer:
        """The consumer whose next message is behind ``position``, or a new one."""
        now = asyncio.get_running_loop().time()
        consumer = self._consumer
        if (
            consumer is None
            or consumer.position != position
            or not consumer.session.is_open
            or now - consumer.last_use > CONSUMER_SECONDS / 2
        ):
            if consumer is not None:
                await self._leave(consumer)
            consumer = self._consumer = await self._new_consumer(position)
        return consumer

    async def _leave(self, consumer: _Consumer) -> None:
        """Remove a consumer, without waiting for the answer."""
        if self._consumer is consumer:
            self._consumer = None
        with contextlib.suppress(Unanswered):  # the server removes it after a while
            await consumer.session.close_inbox(consumer.inbox)
            await consumer.session.publish(
                f"{API}.CONSUMER.DELETE.{self._stream}.{consumer.name}", b"", ""
            )

    async def _new_consumer(self, position: int) -> _Consumer:
        session = await self._connection.session()
        name = f"aos-{secrets.token_hex(8)}"
        document = await self._connection.api(
            f"CONSUMER.CREATE.{self._stream}.{name}",
            {
                "stream_name": self._stream,
                "action": "create",
                "config": {
                    "name": name,
                    "deliver_policy": "by_start_sequence",
                    "opt_start_seq": position + 1,
                    "ack_policy": "none",
                    "replay_policy": "instant",
                    "mem_storage": True,
                    "num_replicas": 1,
                    "inactive_threshold": CONSUMER_SECONDS * 1_000_000_000,
                },
            },
        )
        inbox = await session.inbox()
        return _Consumer(
            name=name,
            server=str((document.get("cluster") or {}).get("leader", "")),
            session=session,
            inbox=inbox,
            position=position,
            last_use=asyncio.get_running_loop().time(),
        )

    async def _moved(self, position: int, state: NatsStreamState) -> _Consumer:
        """A consumer at another replica than the last one, if there is one."""
        former = self._consumer
        consumer = self._consumer = await self._new_consumer(position)
        if former is None:
            return consumer
        await self._leave(former)
        for _ in range(OTHER_SERVER_TRIES if len(state.replicas) > 1 else 0):
            if consumer.server != former.server:
                break
            await self._leave(consumer)
            consumer = self._consumer = await self._new_consumer(position)
        return consumer


def _log_message(message: NatsMessage) -> LogMessage:
    """A message of the stream. Its position is in the subject for its acknowledgement:
    ``$JS.ACK.<stream>.<consumer>.<deliveries>.<position>.…``, in newer servers behind
    ``$JS.ACK.<domain>.<account>``."""
    tokens = message.reply.split(".")
    position = int(tokens[5] if len(tokens) == 9 else tokens[7])
    headers = message.headers
    entry, part = headers.get(ENTRY_HEADER), headers.get(PART_HEADER)
    if entry is None or part is None:
        return LogMessage(position, None)
    return LogMessage(position, EntryPart.read(entry, part, message.data))
