"""All worlds and bundles that one page shows, and the document of its first page
(spec/page.md, PG-1 and PG-7)."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final, Self

from aos.errors import AosError, Unavailable
from aos.host.folder.folder import WorldFolder, open_folder
from aos.node.problems import Problem
from aos.page.bundle_reading import BundleReading
from aos.page.page_world import PageWorld
from aos.read.views.record_view import Document
from aos.store.bundle.reader import open_bundle
from aos.values.digests import hash_text

OPEN_MAX: Final = 16
"""Worlds that a page keeps open."""

SLUG_DIGITS: Final = 12
"""Digits of a world's id in addresses. Two folders with the same world have a number after it."""

_EMPTY_ROW: Final[Document] = dict.fromkeys(
    (
        "path", "address", "world", "problem", "records", "clock_ns", "cells", "failed", "open",
        "halted", "oldest_open_ns", "pid", "origin", "bundle",
    )
)  # fmt: skip


class OpenWorlds:
    """The worlds of a page that are open: at most a few (PG-107). It closes the world that was used
    least recently when one too many is open. Used from one event loop.

    An open world has its state in memory, and up to two reader processes and one that keeps its
    index. A world in use is never closed, so that more than ``open_max`` are open while more are in
    use.
    """

    def __init__(self, open_max: int = OPEN_MAX) -> None:
        self._open_max = open_max
        self._order: OrderedDict[PageWorld, None] = OrderedDict()
        """The worlds that were used, the least recent first."""

    @contextlib.asynccontextmanager
    async def using(self, world: PageWorld, *, is_brief: bool = False) -> AsyncIterator[None]:
        """Keep a world open inside the block, once a read has opened it. With ``is_brief`` it does
        not count as used, so it is closed before others."""
        if world not in self._order:
            self._order[world] = None
            self._order.move_to_end(world, last=False)
        if not is_brief:
            self._order.move_to_end(world)
        world.uses += 1
        try:
            await self._make_room()
            yield
        finally:
            world.uses -= 1
            await self._make_room()

    async def _make_room(self) -> None:
        """Close worlds that are not in use until there are few enough. One in use counts as open,
        because a read will open it."""
        for world in tuple(self._order):
            if (
                sum(candidate.is_open or candidate.uses > 0 for candidate in self._order)
                <= self._open_max
            ):
                return
            if world.is_open and not world.uses:
                await world.close_unused()


class PageWorlds:
    """The worlds of a page. Use it as an async context; bundles are unpacked meanwhile into a
    folder that is removed at the end."""

    def __init__(self, paths: Sequence[Path], *, open_max: int = OPEN_MAX) -> None:
        self._paths = tuple(paths)
        self._open = OpenWorlds(open_max)
        self._worlds: dict[str, PageWorld] = {}
        self._problems: list[Document] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def locate(self) -> None:
        """Find the worlds and bundles. One that cannot be read is listed with its problem.

        Raises:
            AosError: None of them can be read: the problem of the first.
        """
        first: AosError | None = None
        for number, path in enumerate(self._paths):
            try:
                world = self._world_at(path, number)
            except AosError as error:
                first = first or error
                self._problems.append({"path": str(path), "problem": str(error)})
            else:
                self._worlds[world.slug] = world
        if first is not None and not self._worlds:
            raise first

    def _world_at(self, path: Path, number: int) -> PageWorld:
        if not path.is_file():
            folder = open_folder(path)
            return PageWorld(folder, user_path=path, slug=self._slug(folder))
        with open_bundle(path) as bundle:
            header = bundle.header
        if self._scratch is None:
            self._scratch = _scratch_folder()
        target = Path(self._scratch.name) / str(number)
        folder = WorldFolder(
            path=target, world=header.world, created=header.created, executors=header.executors
        )
        reading = BundleReading(path, target)
        return PageWorld(folder, user_path=path, slug=self._slug(folder), bundle=reading)

    def _slug(self, folder: WorldFolder) -> str:
        base = folder.world.hex()[:SLUG_DIGITS]
        same = sum(slug.partition("-")[0] == base for slug in self._worlds)
        return f"{base}-{same + 1}" if same else base

    async def __aenter__(self) -> Self:
        for world in self._worlds.values():
            if world.bundle is not None:
                self._tasks.append(asyncio.create_task(world.bundle.run()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for world in self._worlds.values():
            await world.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def find(self, slug: str) -> PageWorld | None:
        """Return the world of an address; None if the page has no such world."""
        return self._worlds.get(slug)

    def world_of(self, slug: str) -> PageWorld:
        """Return the world of an address.

        Raises:
            Problem: The page has no such world (404).
        """
        world = self.find(slug)
        if world is None:
            raise Problem(
                404, "world_is_unknown", f"this page has no world {slug[:80]!r} (/ lists them)"
            )
        return world

    @contextlib.asynccontextmanager
    async def using(self, path: str) -> AsyncIterator[None]:
        """Keep the world of the address ``path`` open inside the block, if it is that of one."""
        parts = path.split("/")
        world = self.find(parts[2]) if len(parts) > 2 and parts[1] == "w" else None
        if world is None:
            yield
            return
        async with self._open.using(world):
            yield

    async def document(self) -> Document:
        """Return the worlds with what matters first (PG-7). One that cannot be read has a
        ``problem`` instead."""
        self._find_replaced()
        rows = []
        for world in tuple(self._worlds.values()):
            async with self._open.using(world, is_brief=True):
                rows.append(await self._row(world))
        return {"worlds": [*rows, *({**_EMPTY_ROW, **problem} for problem in self._problems)]}

    def sentence(self, error: AosError) -> str:
        """Return the sentence of an error that readers of the page see."""
        return str(error)

    def _find_replaced(self) -> None:
        """Add a world that has taken the folder of another one, under an address of its own."""
        served_worlds = {
            (page_world.user_path, page_world.id) for page_world in self._worlds.values()
        }
        for path in dict(served_worlds):
            with contextlib.suppress(AosError):
                if path.is_dir() and (path, open_folder(path).world) not in served_worlds:
                    world = self._world_at(path, 0)
                    self._worlds[world.slug] = world

    async def _row(self, world: PageWorld) -> Document:
        row: Document = {
            **_EMPTY_ROW,
            "path": world.label,
            "address": f"/w/{world.slug}/",
            "world": hash_text(world.id),
            "bundle": None if world.bundle is None else world.bundle.document(),
        }
        try:
            document = await world.document("read_world", {})
        except AosError as error:
            return {**row, "problem": self.sentence(error)}
        except Problem as problem:
            return {**row, "problem": problem.detail}
        return {
            **row,
            "records": document["journal"]["records"],
            "clock_ns": document["journal"]["clock_ns"],
            "cells": document["cells"]["total"],
            "failed": document["cells"]["failed"],
            "open": document["intents"]["open"],
            "halted": sum(group["count"] for group in document["intents"]["halted"]),
            "oldest_open_ns": document["intents"]["oldest_open_ns"],
            "pid": None if document["process"] is None else document["process"]["pid"],
            "origin": document["origin"],
        }


def _scratch_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="aos-page-")
    except OSError as error:
        subject = f"no folder can be made to unpack bundles: {error.strerror}"
        hint = "make room, or name another folder by TMPDIR"
        raise Unavailable(subject, location=str(error.filename or "TMPDIR"), hint=hint) from error
