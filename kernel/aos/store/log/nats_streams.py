"""The streams of worlds on NATS JetStream, as ``WorldStreams`` (spec/cluster.md, CL-11 to CL-19).

A stream of a base has the settings and the replicas of one of a log, so it is written and read as
one.
"""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import datetime
from typing import Any, Final, TypeVar

from aos.errors import Damage
from aos.store.log.log import LogUnreachable
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_errors import NO_STREAM, JetStreamError, Unanswered
from aos.store.log.nats_log import HEADER_BYTES, NatsLog
from aos.store.log.nats_stream import (
    log_settings,
    make_stream,
    stream_document,
)
from aos.store.log.world_streams import StreamAge, base_prefix
from aos.values.digests import Hash

NO_TIME: Final = "0001-01-01"
"""The beginning of the time of the last message in a stream that has none."""

_Value = TypeVar("_Value")


class NatsStreams:
    """Makes streams with so many ``replicas``. The connection stays with the caller."""

    def __init__(self, connection: NatsConnection, *, replicas: int) -> None:
        self._connection = connection
        self._replicas = replicas

    def make(self, stream: str) -> None:
        """As ``WorldStreams.make``."""
        self._run(stream, make_stream(self._connection, log_settings(stream, self._replicas)))

    def log(self, stream: str) -> NatsLog:
        """As ``WorldStreams.log``."""
        return NatsLog(self._connection, stream)

    def part_bytes(self) -> int:
        """As ``WorldStreams.part_bytes``."""
        return self._run("", self._part_bytes())

    def size_bytes(self, stream: str) -> int:
        """As ``WorldStreams.size_bytes``."""
        document = self._run(stream, stream_document(self._connection, stream))
        return int(document["state"].get("bytes", 0))

    def first(self, stream: str) -> int:
        """As ``WorldStreams.first``."""
        document = self._run(stream, stream_document(self._connection, stream))
        return max(1, int(document["state"]["first_seq"]))  # 0 before the first message

    def seal(self, stream: str) -> None:
        """As ``WorldStreams.seal``."""
        self._run(stream, self._seal(stream))

    def remove(self, stream: str) -> None:
        """As ``WorldStreams.remove``."""
        self._run(stream, self._remove(stream))

    def bases(self, world: Hash) -> list[StreamAge]:
        """As ``WorldStreams.bases``."""
        return self._run(base_prefix(world), self._bases(base_prefix(world)))

    def _run(self, stream: str, job: Coroutine[Any, Any, _Value]) -> _Value:
        try:
            return self._connection.run(job)
        except Unanswered as problem:
            raise LogUnreachable(f"the servers do not answer: {problem}") from problem
        except JetStreamError as problem:
            raise problem.as_error(f"stream {stream}") from None

    async def _part_bytes(self) -> int:
        return (await self._connection.session()).payload_bytes_max - HEADER_BYTES

    async def _seal(self, stream: str) -> None:
        document = await stream_document(self._connection, stream)
        settings = document["config"]
        if not settings.get("sealed"):
            await self._connection.api(f"STREAM.UPDATE.{stream}", {**settings, "sealed": True})

    async def _remove(self, stream: str) -> None:
        try:
            await self._connection.api(f"STREAM.DELETE.{stream}")
        except JetStreamError as problem:
            if problem.code != NO_STREAM:
                raise

    async def _bases(self, prefix: str) -> list[StreamAge]:
        names: list[str] = []
        request = {"subject": f"aos.log.{prefix.removeprefix('AOS-').replace('-', '.')}>"}
        while True:
            document = await self._connection.api("STREAM.NAMES", {**request, "offset": len(names)})
            page = document.get("streams") or []
            names += page
            if not page or len(names) >= int(document.get("total", 0)):
                break
        ages = [await self._age(name) for name in sorted(names) if name.startswith(prefix)]
        return [age for age in ages if age is not None]

    async def _age(self, name: str) -> StreamAge | None:
        try:
            document = await stream_document(self._connection, name)
        except Damage:  # it was removed meanwhile
            return None
        last = str(document["state"].get("last_ts", NO_TIME))
        since = str(document["created"]) if last.startswith(NO_TIME) else last
        idle_s = (_time(str(document["ts"])) - _time(since)).total_seconds()
        return StreamAge(name, max(0, int(idle_s * 1e9)))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(f"{text[:19]}+00:00")
