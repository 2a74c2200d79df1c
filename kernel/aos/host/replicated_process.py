"""The process of a node of a replicated world: it follows, owns, and follows again
(spec/cluster.md, CL-110).

    node's thread:  turns, beats, the log       (aos.host.cluster.replica_node)
    event loop:     the socket of a standby; for each term of an owner, the run of the world
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from aos.errors import Damage
from aos.host.cluster.loop import OwnerTerm
from aos.host.cluster.replica import NodeView
from aos.host.cluster.replica_node import ReplicaNode, ReplicaNodeSettings
from aos.host.cluster.standby_collecting import StandbyCollecting
from aos.host.door.front_requests import AskCluster
from aos.host.errors import NoRoomLeft, NotOwner
from aos.host.executors.task import Report
from aos.host.folder.folder import WorldFolder
from aos.host.folder.replica_file import ReplicaFile
from aos.host.run_end import RunEnd
from aos.host.standby import PassOn, Standby
from aos.host.world.collecting import StillNeeded


async def _at_once() -> None:
    """Wait for nothing."""


class ReplicatedProcess:
    """A node in this process, with its socket. Used from one event loop.

    ``own`` runs the world for one term, from ``term.runs`` until the engine has stopped; it raises
    why the engine has stopped, or why the process must end. It calls ``standby.close`` before it
    serves the socket itself. ``before_end`` is called before a node that follows ends, while its
    socket still answers.
    """

    def __init__(
        self,
        folder: WorldFolder,
        replica: ReplicaFile,
        settings: ReplicaNodeSettings,
        end: RunEnd,
        own: Callable[[OwnerTerm], Awaitable[None]],
        *,
        report: Report,
        still_needed: Callable[[int], StillNeeded],
        pass_on: PassOn | None = None,
        fresh: Callable[[], Awaitable[int]] | None = None,
        cluster: AskCluster | None = None,
        before_end: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.has_journal = asyncio.Event()
        """Set once the node has read a journal, or its process ends."""
        self._before_end = before_end
        self._folder = folder
        self._replica = replica
        self._report = report
        self._end = end
        self._own = own
        self._terms: asyncio.Queue[OwnerTerm | None] = asyncio.Queue()
        """The terms of this node, and None at its end."""

        def later(act: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(act)

        def take_later(view: NodeView) -> None:
            self.standby.take(view)
            if view.world is not None:
                self.has_journal.set()

        def take(view: NodeView) -> None:
            later(partial(take_later, view))

        self.node = ReplicaNode(
            folder,
            replica,
            settings,
            begin=lambda term: later(partial(self._terms.put_nowait, term)),
            on_view=take,
            on_end=lambda: later(partial(self._terms.put_nowait, None)),
        )
        self.standby = Standby(
            folder.world, replica, stop=end.stop, report=report, pass_on=pass_on,
            collecting=StandbyCollecting(self.node.between_entries), still_needed=still_needed,
            fresh=fresh, cluster=cluster, is_ending=lambda: end.is_final,
        )  # fmt: skip

    async def run(self) -> None:
        """Follow and own until the end.

        Raises:
            AosError: Why the node has stopped, or the run of a term has failed.
            NoRoomLeft: At the end, the last records could not be written.
        """
        problem: NoRoomLeft | None = None
        self._report(
            f"node {self._replica.node} of {self._replica.address.text}: it follows the world, and "
            "takes over when no other node owns it (Ctrl-C stops it)"
        )
        self.node.start()
        try:
            while not self._end.is_final:
                async with self._serving():
                    term = await self._next_term()
                    if term is None:
                        await self._before_end()
                        break
                    self.has_journal.set()
                    problem = await self._term(term)
        finally:
            try:
                await self.standby.finish()
            finally:
                self.node.stop()
                while (term := await self._terms.get()) is not None:
                    term.ended()
        if self.node.problem is not None:
            raise self.node.problem
        if problem is not None:
            raise problem

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        """Serve the socket of a standby in the block, until a term serves it."""
        self.standby.open(self._folder.socket)
        try:
            yield
        finally:
            self.standby.close()

    async def _next_term(self) -> OwnerTerm | None:
        """The next term; None if the process is to end, or the node has ended."""
        getting = asyncio.ensure_future(self._terms.get())
        while not (getting.done() or self._end.is_final):
            self._end.resume()  # the node may have ended a term that was over already
            ending = asyncio.ensure_future(self._end.over.wait())
            await asyncio.wait({getting, ending}, return_when=asyncio.FIRST_COMPLETED)
            ending.cancel()
        if not getting.done():
            getting.cancel()
            return None
        term = getting.result()
        if term is None or self._end.is_final:
            self._terms.put_nowait(term)  # for the end of ``run``
            return None
        self._end.resume()
        return term

    async def _term(self, term: OwnerTerm) -> NoRoomLeft | None:
        """Run one term; return why its last records could not be written, if so."""
        problem: NotOwner | NoRoomLeft | None = None
        try:
            await self._own(term)
        except (NotOwner, NoRoomLeft) as stopped:
            problem = stopped
        except BaseException as failure:
            self._end.stop()
            self.node.stop()
            # A node whose log or journal is damaged does not hand over in good order.
            term.ended(failure if isinstance(failure, Damage) else None)
            raise
        if self._end.is_final:
            self.node.stop()
        term.ended(problem)
        return problem if isinstance(problem, NoRoomLeft) and self._end.is_final else None
