"""A bucket on NATS JetStream: the last value of each key in a stream (spec/cluster.md, CL-25
and CL-50 to CL-53). ``nats kv`` reads it as a bucket of its own.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from aos.errors import Damage, Refused
from aos.store.log.bucket import (
    KEY,
    VALUE_BYTES_MAX,
    BucketConflict,
    BucketEntry,
    BucketUnreachable,
    is_below,
)
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_errors import (
    NO_MESSAGE,
    NO_STREAM,
    WRONG_LAST,
    JetStreamError,
    Unanswered,
    read_answer,
)
from aos.store.log.nats_stream import (
    bucket_settings,
    bucket_stream,
    make_stream,
    stream_document,
    stream_state,
    time_ns,
)

WORLDS: Final = "AOS"
"""The bucket with the place of each world's log, on disk."""

BEATS: Final = "AOS_BEATS"
"""The bucket of beats, in memory."""

EXPECTED_HEADER: Final = "Nats-Expected-Last-Subject-Sequence"
OPERATION: Final = b"KV-Operation:"
"""The header of a message that says that a key was deleted, as ``nats kv del`` writes it."""

_Value = TypeVar("_Value")


class _Row(NamedTuple):
    """The last message of a key. ``is_deleted``: it says that the key has no value."""

    entry: BucketEntry
    is_deleted: bool


class NatsBucket:
    """The bucket ``AOS`` or ``AOS_BEATS``, as ``Bucket``. If it is not there, it is made with this
    number of ``replicas``; one that is there may have more. With None, it is only read, whatever
    its settings are. Its connection stays with the caller.

    Raises:
        Refused: It has other settings, or a server refuses this client.
        BucketUnreachable: The servers do not answer.

    Reading raises Damage if the bucket was deleted meanwhile; a later start makes it again.
    """

    def __init__(self, connection: NatsConnection, bucket: str, *, replicas: int | None) -> None:
        assert bucket in (WORLDS, BEATS), bucket
        self._connection = connection
        self._stream = bucket_stream(bucket)
        self._prefix = f"$KV.{bucket}."
        if replicas is not None:
            self._run(self._make(bucket, replicas))

    async def _make(self, bucket: str, replicas: int) -> None:
        with contextlib.suppress(Damage):  # it is not there
            state = await stream_state(self._connection, self._stream)
            replicas = max(replicas, state.replica_count)
        settings = bucket_settings(bucket, replicas, in_memory=bucket == BEATS)
        await make_stream(self._connection, settings)

    def get(self, key: str) -> BucketEntry | None:
        """As ``Bucket.get``."""
        _check_key(key)
        row = self._run(self._row(key))
        return None if row is None or row.is_deleted else row.entry

    def create(self, key: str, value: bytes) -> int:
        """As ``Bucket.create``. A key that was deleted by hand gets a value again."""
        _check_value(key, value)
        try:
            return self._run(self._write(key, value, 0))
        except BucketConflict:
            row = self._run(self._row(key))
            if row is None or not row.is_deleted:
                raise
        return self._run(self._write(key, value, row.entry.revision))

    def replace(self, key: str, value: bytes, revision: int) -> int:
        """As ``Bucket.replace``."""
        _check_value(key, value)
        assert revision > 0, "the revision of a value"
        return self._run(self._write(key, value, revision))

    def remove(self, key: str) -> None:
        """As ``Bucket.remove``, as ``nats kv del`` does it."""
        _check_key(key)
        self._run(self._remove(key))

    def entries(
        self, below: str = "", *, without: Sequence[str] = ()
    ) -> Iterator[tuple[str, BucketEntry]]:
        """As ``Bucket.entries``, or of keys below the key ``below`` alone. A key that was changed
        meanwhile has its newest value."""
        rows = self._run(self._rows(f"{below}." if below else "", without))
        yield from sorted((key, row.entry) for key, row in rows.items() if not row.is_deleted)

    def _run(self, job: Coroutine[Any, Any, _Value]) -> _Value:
        try:
            return self._connection.run(job)
        except Unanswered as problem:
            raise BucketUnreachable(f"the bucket does not answer: {problem}") from problem
        except JetStreamError as problem:
            raise problem.as_error(f"stream {self._stream}") from None

    async def _row(self, key: str) -> _Row | None:
        try:
            document = await self._connection.api(
                f"STREAM.MSG.GET.{self._stream}", {"last_by_subj": self._prefix + key}
            )
        except JetStreamError as problem:
            if problem.code == NO_MESSAGE:
                return None
            if problem.code == NO_STREAM:
                await stream_document(self._connection, self._stream)  # Damage, if it is missing
                raise Unanswered(str(problem)) from None
            raise
        return _row(document)

    async def _rows(self, below: str, without: Sequence[str]) -> dict[str, _Row]:
        document = await stream_document(
            self._connection, self._stream, {"subjects_filter": f"{self._prefix}{below}>"}
        )
        subjects = (document.get("state") or {}).get("subjects") or {}
        if len(subjects) < int(document.get("total", 0)):
            raise Refused(
                "a bucket has too many keys",
                location=f"stream {self._stream}",
                expected=f"at most {len(subjects)}",
                actual=str(document["total"]),
            )
        every_key = [subject.removeprefix(self._prefix) for subject in subjects]
        keys = [key for key in every_key if not is_below(key, without)]
        rows = await asyncio.gather(*map(self._row, keys))
        return {
            key: row
            for key, row in zip(keys, rows, strict=True)
            if row is not None and KEY.fullmatch(key)
        }

    async def _remove(self, key: str) -> None:
        row = await self._row(key)
        if row is None or row.is_deleted:
            return
        session = await self._connection.session()
        answer = await session.send(self._prefix + key, b"", {"KV-Operation": "DEL"})
        read_answer((await self._connection.answered(session, answer)).data)

    async def _write(self, key: str, value: bytes, expected: int) -> int:
        session = await self._connection.session()
        headers = {EXPECTED_HEADER: str(expected)}
        answer = await session.send(self._prefix + key, value, headers)
        message = await self._connection.answered(session, answer)
        try:
            document = read_answer(message.data)
        except JetStreamError as problem:
            if problem.code not in WRONG_LAST:
                raise
            raise BucketConflict(
                f"the value of {key} was changed by others",
                expected=f"revision {expected}",
                actual=problem.description,
            ) from None
        match document:
            case {"stream": self._stream, "seq": int(revision)}:
                return revision
        raise Unanswered(f"no revision in the answer: {document}", location=session.server)


def _row(document: Mapping[str, Any]) -> _Row:
    try:
        message = document["message"]
        headers = base64.b64decode(message.get("hdrs", ""))
        entry = BucketEntry(
            value=base64.b64decode(message.get("data", "")),
            revision=int(message["seq"]),
            written_ns=time_ns(message["time"]),
        )
    except (KeyError, TypeError, ValueError, binascii.Error) as problem:
        raise Unanswered(f"no message in the answer: {problem!r}") from None
    return _Row(entry, OPERATION in headers)


def _check_key(key: str) -> None:
    assert KEY.fullmatch(key), f"{key!r}: expected names of letters, digits, _ and - with dots"


def _check_value(key: str, value: bytes) -> None:
    _check_key(key)
    assert len(value) <= VALUE_BYTES_MAX, "a value that is too long"
