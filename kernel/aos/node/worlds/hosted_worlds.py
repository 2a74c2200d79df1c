"""All worlds of a folder: which of them run, and what the node answers about them
(spec/worlds.md, WD-12 to WD-18)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from aos.errors import AosError, Unavailable
from aos.host.folder.neighbours import check_name
from aos.host.stamps import now_ns
from aos.node.problems import Problem
from aos.node.worlds.hosted_world import HostedPhase, HostedWorld, Hosting
from aos.node.worlds.worlds_folder import WorldsFolder
from aos.read.views.record_view import Document
from aos.values.digests import Hash, hash_text

LOOK_S: Final = 1.0
"""Seconds between two looks at the worlds: whether one has something to do, or nothing."""

STARTS_MAX: Final = 2
"""Worlds that are started at a time because they have something to do. One that is used is started
at once."""


class HostedWorlds:
    """The worlds of one node. ``idle_s`` is after how many seconds without a request a world that
    has nothing to do ends (None: never). Used from one event loop."""

    def __init__(self, hosting: Hosting, idle_s: float | None) -> None:
        self.folder: WorldsFolder = hosting.folder
        self._hosting = hosting
        self._idle_s = idle_s
        self._worlds: dict[str, HostedWorld] = {}
        self._changing = asyncio.Lock()
        self._look()

    def _look(self) -> None:
        """Take in worlds that other processes made, and let go of those that are gone."""
        names = set(self.folder.names())
        for name in sorted(names - set(self._worlds)):
            self._worlds[name] = HostedWorld(self._hosting, name)
        for name in set(self._worlds) - names:
            if self._worlds[name].pid is None:
                del self._worlds[name]

    def only_name(self) -> str | None:
        """The name of the only world; None if there are several, or none."""
        return next(iter(self._worlds)) if len(self._worlds) == 1 else None

    def find(self, name: str) -> HostedWorld:
        """Return a world. Raises: Problem: There is none of this name (404)."""
        if name not in self._worlds:
            self._look()
        world = self._worlds.get(name)
        if world is None:
            raise Problem(404, "world_is_unknown", f"no world is called {name} (aos world list)")
        return world

    async def run(self) -> None:
        """Start worlds that have something to do, and let those rest that have nothing, until
        canceled."""
        while True:
            with contextlib.suppress(Unavailable):
                self._look()
            await self._tend()
            await asyncio.sleep(LOOK_S)

    async def _tend(self) -> None:
        starting = sum(world.phase is HostedPhase.STARTING for world in self._worlds.values())
        now = now_ns()
        for world in list(self._worlds.values()):
            if starting < STARTS_MAX and world.wants_to_run(now):
                world.begin()
                starting += 1
            elif self._idle_s is not None and world.idle_s >= self._idle_s:
                await world.rest()
            # With many worlds, requests come between two of them.
            await asyncio.sleep(0)

    async def create(self, name: str, operator: str) -> Document:
        """Make a world, and return its document.

        Raises:
            BadUsage, Refused, Unavailable: As ``WorldsFolder.create``; nothing has changed.
        """
        async with self._changing:
            await asyncio.to_thread(self.folder.create, name, operator=operator)
            self._look()
            return self._document_of(self.find(name))

    async def start(self, name: str) -> Document:
        """Start a world, also one that was stopped, and return its document at once.

        Raises:
            Problem: There is none. AosError: It cannot be kept that it is to run.
        """
        async with self._changing:
            world = self.find(name)
            await world.start()
            return self._document_of(world)

    async def wake(self, name: str) -> Document:
        """Start a world that sleeps, wait until it answers, and return its document.

        Raises:
            Problem: There is none, or it was stopped, or failed, or does not answer in time.
        """
        world = self.find(name)
        async with world.using():
            return self._document_of(world)

    async def stop(self, name: str) -> Document:
        """Stop a world until it is started by name, and return its document once it has ended.

        Raises:
            Problem: There is none. AosError: It cannot be kept that it is stopped.
        """
        async with self._changing:
            world = self.find(name)
            await world.stop()
            return self._document_of(world)

    async def remove(self, name: str, id: Hash) -> Document:
        """Remove a stopped world for ever.

        Raises:
            Problem: It is not stopped (409), or there is none. BadUsage, Unavailable: As
                ``WorldsFolder.remove``.
        """
        check_name(name)
        async with self._changing:
            world = self.find(name)
            if world.phase is not HostedPhase.STOPPED:
                raise Problem(
                    409, "world_is_not_stopped",
                    f"{name}: only a stopped world is removed (aos world stop {name})",
                )  # fmt: skip
            await world.close()
            try:
                await asyncio.to_thread(self.folder.remove, name, id)
            finally:
                del self._worlds[name]
                self._look()
        return {"removed": name, "world": hash_text(id)}

    def document(self) -> Document:
        """The document of ``aos world list --json``."""
        return {"worlds": [self._document_of(world) for _, world in sorted(self._worlds.items())]}

    def _document_of(self, world: HostedWorld) -> Document:
        document = world_document(self.folder, world.name)
        return {
            **document,
            "phase": world.phase.value,
            "problem": world.problem or document["problem"],
            "pid": world.pid,
            "uses": world.uses,
            "wake_ns": world.wake_ns,
        }

    def phases(self) -> dict[HostedPhase, int]:
        """How many worlds are in each phase."""
        counts = dict.fromkeys(HostedPhase, 0)
        for world in self._worlds.values():
            counts[world.phase] += 1
        return counts

    def reload(self) -> None:
        """Let each world that runs read its settings again."""
        for world in self._worlds.values():
            world.reload()

    async def close(self) -> None:
        """End all worlds in order."""
        await asyncio.gather(*(world.close() for world in self._worlds.values()))


def world_document(folder: WorldsFolder, name: str) -> dict[str, Any]:
    """The row of a world that no node runs, as in ``HostedWorlds.document``."""
    problem: str | None = None
    id: str | None = None
    try:
        id = hash_text(folder.world(name).world)
    except AosError as error:
        problem = str(error)
    hosted = folder.hosted(name)
    return {
        "name": name,
        "world": id,
        "path": str(folder.path / name),
        "address": f"/w/{name}/",
        "phase": HostedPhase.STOPPED.value if hosted.is_stopped else HostedPhase.ASLEEP.value,
        "problem": problem,
        "pid": None,
        "uses": 0,
        "wake_ns": None if hosted.asleep is None else hosted.asleep.wake_ns,
    }
