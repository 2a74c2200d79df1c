"""One world that the page shows, read as the front of a node reads it
(spec/page.md, PG-1 to PG-4)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from aos.core.state.state import State
from aos.errors import AosError, BadUsage, Damage, Erased, Pruned, Refused
from aos.host.door.remote import ask_running
from aos.host.folder.folder import STORE, WorldFolder, open_folder
from aos.host.follower import Follower
from aos.host.stamps import now_ns
from aos.host.transfer.adopting import origin_at
from aos.node.kept_index import KeptIndex
from aos.node.node_settings import read_settings
from aos.node.problems import REFUSED, Problem
from aos.node.readers import Readers
from aos.node.reading import BY_NAME, LIST_S, ListTime, read_document, timed
from aos.page.bundle_reading import BundleReading
from aos.read.operations.journal_reads import READ_MINUTES
from aos.read.operations.operation import names_fields
from aos.read.views.cell_selection import BY_KEY
from aos.read.views.journal_view import value_bytes
from aos.read.views.record_view import Document
from aos.read.views.view import Running, View, process_document, with_process
from aos.values.digests import Hash, hash_text

T = TypeVar("T")

ASK_S: Final = 2.0
"""Seconds in which the process that runs a world answers; after them, it counts as silent."""

LISTS: Final = frozenset({"read_cells", "read_faults", "read_intents", "read_records"})
"""Documents that the page reads within the time of a list."""


class PageWorld:
    """A world, or a bundle that was unpacked into a folder.

    ``user_path`` is the path that the user named; ``slug`` names the world in addresses. The world
    is opened at the first read, again when its files were replaced, and never locked or changed.
    """

    def __init__(
        self,
        folder: WorldFolder,
        *,
        user_path: Path,
        slug: str,
        bundle: BundleReading | None = None,
    ) -> None:
        self.user_path = user_path
        self.slug = slug
        self.id: Hash = folder.world
        self.bundle = bundle
        self.uses = 0
        """Requests that need the world to be open, now."""
        self._path = folder.path
        self._opening = asyncio.Lock()
        self._follower: Follower | None = None
        self._readers: Readers | None = None
        self._index: KeptIndex | None = None
        self._files: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """A short name for people: that of the folder or file."""
        return self.user_path.resolve().name

    @property
    def label(self) -> str:
        """The world as its pages name it: the path that the user gave."""
        return str(self.user_path)

    def world_option(self, _address: str) -> tuple[str, str]:
        """Return the option of commands that names the world; ``_address`` is that of the page."""
        return "--world", str(self.user_path)

    @property
    def known_state(self) -> State | None:
        """The state of the last reading; None if the world was not opened."""
        return None if self._follower is None else self._follower.state

    async def read(self, take: Callable[[View], T], *, running: Running | None = None) -> T:
        """Return ``take`` of a view as of the durable head of now.

        Raises:
            AosError: As ``take``, or the world cannot be read now.
            Problem: Another world is in this folder now.
        """
        follower = await self._open_follower()
        await follower.advance_to()
        try:
            return take(_view(follower, running))
        except Erased:
            raise
        except Damage:
            # Parts of the snapshot that the state reads from may have been removed meanwhile.
            await follower.restart()
            return take(_view(follower, running))

    async def document(self, operation: str, query: Mapping[str, Any]) -> Document:
        """Return the document of a reading operation; see ``aos.read.operations``.

        Raises:
            AosError, Problem: As ``read``, or as the document.
        """
        await self._open_follower()
        request = BY_NAME[operation]
        running = await self._running() if request.asks_process and "at" not in query else None
        full_query = self._with_names(query)
        if request.takes_long(query):
            assert self._readers is not None, "made when the world was opened"
            document: Document = await self._readers.document(operation, full_query, running)
        else:
            document = await self.read(
                lambda view: read_document(view, operation, full_query), running=running
            )
        if request.has_process:
            document = await self._with_process(document, is_past="at" in query)
        return document

    async def list_document(self, operation: str, query: Mapping[str, Any]) -> Document:
        """Return the same document of a list, within the time of a list (PG-8).

        Raises:
            AosError, Problem: As ``document``; or the list takes too long (503).
        """
        if operation not in LISTS or "at" in query:
            return await self.document(operation, query)
        full_query = self._with_names(query)

        follower = await self._open_follower()
        if self._readers is not None and self._index is not None and self._index.folder:
            await follower.advance_to()
            document: Document = await self._readers.document(
                operation, full_query, None, list_s=LIST_S
            )
            return document
        return await self.read(
            lambda view: read_document(timed(view, ListTime()), operation, full_query)
        )

    async def beginning(self, text: str, limit: int) -> list[Document] | None:
        """Return the rows of cells whose key begins with a text (A-63), at most so many; None if no
        index answers within the time of a list."""
        if self.index_folder is None:
            return None
        query = {"key_prefix": text, "sort": BY_KEY, "limit": limit, "offset": 0}
        try:
            document = await self.list_document("read_cells", query)
        except Problem:
            return None
        rows: list[Document] = document["cells"]
        return rows

    async def minutes(self) -> Document | None:
        """Return the records of each minute of the last hour (PG-104); None if they would take
        longer than a list."""
        try:
            if self.index_folder is not None and self._readers is not None:
                return await self._readers.document(READ_MINUTES.name, {}, None, list_s=LIST_S)
            return await self.read(lambda view: READ_MINUTES.read(timed(view, ListTime()), {}))
        except (AosError, Problem):
            return None

    async def bytes_of(self, value: str) -> bytes:
        """Return the bytes of a value that is stored outside its records.

        Raises:
            AosError, Problem: As ``read``; or there is no such value.
        """
        return await self.read(lambda view: value_bytes(view, value))

    @property
    def index_folder(self) -> Path | None:
        """The folder of the index of this world, if there is one that answers."""
        return None if self._index is None else self._index.folder

    def index(self) -> Document | None:
        """How far the index is; None if there is none. See ``KeptIndex.document``."""
        return None if self._index is None else self._index.document()

    @property
    def is_open(self) -> bool:
        """Whether the world has its store open, and perhaps processes that read it."""
        return self._follower is not None

    async def close_unused(self) -> None:
        """Close the world, unless it is in use; the next read opens it again."""
        async with self._opening:
            if not self.uses:
                await self.close()

    async def close(self) -> None:
        """Close the store and end the reader processes."""
        follower, parts = self._follower, (self._index, self._readers)
        self._follower = self._readers = self._index = self._files = None
        try:
            # Also for a browser that goes away meanwhile: no process is left.
            ending = asyncio.gather(*(part.close() for part in parts if part is not None))
            await asyncio.shield(ending)
        finally:
            if follower is not None:
                follower.close()

    async def _open_follower(self) -> Follower:
        if self.bundle is not None:
            self.bundle.check()
        async with self._opening:
            folder = open_folder(self._path)
            if folder.world != self.id:
                raise Problem(
                    410, "world_was_replaced",
                    f"{self.user_path}: another world is in this folder now: expected "
                    f"{hash_text(self.id)}, found {hash_text(folder.world)} (start aos page again)",
                )  # fmt: skip
            files = _files_at(self._path)
            if self._follower is None or files != self._files:
                await self.close()
                follower = Follower(self._path)
                await follower.start()
                self._follower, self._files = follower, files
                self._index = KeptIndex(self._path, follower.head_seq, _report)
                self._readers = Readers(self._path, index=lambda: self.index_folder)
                self._index.start()
            return self._follower

    def _with_names(self, query: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add the names that ``node.toml`` gives to paths of states, for conditions (SE-21)."""
        if not names_fields(query):
            return query
        return {**query, "aliases": read_settings(self._path).search}

    async def _ask_process(self, op: str) -> Mapping[str, Any] | None:
        """Ask the process that runs the world; None if there is none or it does not answer."""
        try:
            async with asyncio.timeout(ASK_S):
                return await asyncio.to_thread(_ask, self._path, op)
        except (AosError, TimeoutError):
            return None

    async def _running(self) -> Running | None:
        answer = await self._ask_process("work")
        return None if answer is None else Running.of_answer(answer)

    async def _with_process(self, document: Document, *, is_past: bool) -> Document:
        """Add the folder, the process that runs the world and how the world came here, as the
        command does."""
        process = None
        if not is_past:
            status = await self._ask_process("status")
            if status is not None:
                process = process_document(status, await self._ask_process("work"))
        origin = origin_at(self._path)
        return with_process(document, process, origin and origin.value, path=str(self.user_path))


async def if_readable(reading: Awaitable[T]) -> T | None:
    """Return what a page shows in addition to its document; None if it cannot be read now."""
    try:
        return await reading
    except (AosError, Problem):
        return None


async def document_or_404(reading: Awaitable[Document]) -> Document:
    """Return a document. A page changes nothing, so one that is refused is one that is not there.

    Raises:
        BadUsage, Problem: It is not there (404), or as ``reading``.
    """
    try:
        return await reading
    except Pruned:
        raise
    except Refused as error:
        raise BadUsage(str(error)) from error
    except Problem as problem:
        if problem.rule == REFUSED:
            problem.status, problem.rule = 404, "name_is_unknown"
        raise


def _report(text: str) -> None:
    sys.stderr.write(f"aos page: {text}\n")
    sys.stderr.flush()


def _ask(path: Path, op: str) -> Mapping[str, Any] | None:
    return ask_running(path, op) if os.path.lexists(open_folder(path).socket) else None


def _view(follower: Follower, running: Running | None) -> View:
    view = View(follower.state, follower.store, now_ns=now_ns())
    view.running = running
    return view


def _files_at(path: Path) -> tuple[int, int] | None:
    """The identity of the file with the journal. A folder that was restored has another one."""
    try:
        file_stat = (path / STORE / "data.mdb").lstat()
    except OSError:
        return None
    return file_stat.st_dev, file_stat.st_ino
