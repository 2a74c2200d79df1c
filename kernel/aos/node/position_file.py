"""Where a reader of the journal continues: ``DIR/node/FOLDER/NAME.json``, 0600, synced. Of a
replicated world also in its bucket, so that the next owner's node continues there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from aos.errors import Unavailable
from aos.host.door.link import Link
from aos.host.folder.folder import WorldFolder
from aos.message_fields import Message, field
from aos.node.tokens import NODE
from aos.values.cbor import Value

_FORMAT: Final = 1

KEEP_PAUSE_S: Final = 1.0
"""Pause before a position is kept again that the servers have not acknowledged, in seconds."""


class PositionFile:
    """One file. ``bytes_max`` bounds what is read of it."""

    def __init__(self, folder: WorldFolder, kind: str, name: str, *, bytes_max: int) -> None:
        self.path = folder.path / NODE / kind / f"{name}.json"
        self._folder = folder
        self._kind = kind
        self._name = name
        self._bytes_max = bytes_max

    def load(self) -> dict[str, Any] | None:
        """Return the document; None if there is no file.

        Raises:
            ValueError: The file is not one of ours.
            OSError: It cannot be read.
        """
        try:
            with self._folder.open_plain() as world, world.inner(NODE) as node:
                document = json.loads(node.inner(self._kind).read(self.path.name, self._bytes_max))
        except FileNotFoundError:
            return None
        if not isinstance(document, dict) or document.get("version") != _FORMAT:
            raise ValueError("another format")
        return document

    def save(self, document: Mapping[str, Any]) -> None:
        """Replace the file. It is durable on return. Raises OSError."""
        with (
            self._folder.open_plain() as world,
            world.inner(NODE, make=True) as node,
            node.inner(self._kind, make=True) as folder,
        ):
            folder.put(self.path.name, json.dumps({"version": _FORMAT, **document}).encode())


class SharedPosition:
    """The position of a reader in the bucket of a replicated world, during one term of the node
    that owns it (spec/cluster.md, CL-330 to CL-333). ``report`` gets a line if the servers
    do not answer."""

    def __init__(self, link: Link, term: int, reader: str, report: Callable[[str], None]) -> None:
        self._link = link
        self._term = term
        self._reader = reader
        self._report = report

    async def load(self) -> tuple[int, int, bytes] | None:
        """Return the record and the item that come next, and the bytes that were kept with them;
        None without a position. Servers that do not answer are asked again."""
        answer = await self._answered("position")
        match answer.get("position"):
            case [int(seq), int(index), bytes(more)]:
                return seq, index, more
        return None

    async def save(self, seq: int, index: int = 0, more: bytes = b"") -> None:
        """Keep a position. Servers that do not answer are asked again, until the caller cancels
        this: nothing is posted meanwhile.

        Raises:
            PositionMovedError: Another process has kept a later one.
        """
        answer = await self._answered("keep_position", seq=seq, index=index, more=more)
        if not field(answer, "kept", bool):
            raise PositionMovedError("another node has a later position", location=self._reader)

    async def _answered(self, op: str, **fields: Value) -> Message:
        is_reported = False
        while True:
            try:
                return await self._link.cluster(op, reader=self._reader, term=self._term, **fields)
            except Unavailable as problem:
                if not is_reported:
                    self._report(f"{self._reader}: it waits for the servers: {problem}")
                is_reported = True
            await asyncio.sleep(KEEP_PAUSE_S)


class PositionMovedError(Unavailable):
    """Another process has kept a later position of the reader: it continues there."""
