"""The duties of the front of the node that owns a world: leases of workers, plan steps, batches,
webhooks and spans (spec/cluster.md, CL-207, CL-211).

An embedded world has them all the time. Of a replicated one, they begin with each term of this
process and end with it: each term has new objects, because another node may have been the owner
meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, Final

from aos.core.journal.records import Record
from aos.core.state.state import State
from aos.errors import Unavailable
from aos.host.door.following import ReplicaPlace
from aos.host.door.link import TermLink
from aos.host.executors.task import Report
from aos.host.follower import RecordListener
from aos.node.batches.batch import BatchFiles, BatchJob, order_query
from aos.node.batches.batch_runner import Batches
from aos.node.batches.shared_batches import BatchStore, SharedBatches, StoredBatches
from aos.node.leases.work import LeasedWork, open_work
from aos.node.node_settings import NodeSettings
from aos.node.position_file import SharedPosition
from aos.node.reading import LIST_BATCH_ITEMS
from aos.node.services import Services
from aos.node.steps.step_work import StepWork
from aos.node.tracing.span_poster import READER, keep_exporting
from aos.node.webhooks import keep_posting

_AGAIN_S: Final = 0.2


class _LaterListener:
    """Passes on records to a listener that is made after the follower has started."""

    listener: RecordListener | None = None

    def rebased(self, state: State) -> None:
        if self.listener is not None:
            self.listener.rebased(state)

    def on_record(self, record: Record, state: State) -> None:
        if self.listener is not None:
            self.listener.on_record(record, state)


class TermListeners:
    """The places of the listeners of a term among those of the follower."""

    def __init__(self) -> None:
        self.work = _LaterListener()
        self.steps = _LaterListener()
        self.all: tuple[RecordListener, ...] = (self.work, self.steps)

    def clear(self) -> None:
        """End those of a term."""
        self.work.listener = self.steps.listener = None


class Duties:
    """The duties of one front, over all terms. Used from one event loop."""

    def __init__(
        self, services: Services, node: NodeSettings, listeners: TermListeners, report: Report
    ) -> None:
        self._services = services
        self._node = node
        self._listeners = listeners
        self._report = report
        self._term: int | None = None
        self._work: LeasedWork | None = None
        self._has_changed = asyncio.Event()

    def take(self, place: ReplicaPlace) -> None:
        """Take the place of this node. The duties of a term that is over end at once: what they
        still submit, the process of the world refuses."""
        if place.term == self._term and self._services.is_replica:
            return
        self._term = place.term
        self._release()
        self._has_changed.set()

    async def open(self, term: int | None) -> None:
        """Open the leases and make the others, for a term; None is that of an embedded world.

        Raises:
            Unavailable: The table of leases cannot be opened.
        """
        services = self._services
        follower, link = services.follower, services.link
        self._work = await open_work(
            services.folder.path,
            TermLink(link, term),
            lambda: follower.store,
            self._node,
            seq=follower.head_seq(),
            report=self._report,
            holds_lease=lambda: self._term == term and link.holds_lease(),
        )
        if term != self._term:
            return  # the term is over already
        steps = StepWork(services)
        steps.rebased(follower.state)
        self._listeners.steps.listener = services.steps = steps
        services.batches = Batches(services, self._report, self._batch_store(term))

    async def run(self) -> None:
        """Carry out the duties of each term, until this is canceled."""
        while self._services.is_replica:
            self._has_changed.clear()
            if (term := self._term) is None:
                await self._has_changed.wait()
                continue
            carrying = asyncio.ensure_future(self._of_term(term))
            changing = asyncio.ensure_future(self._has_changed.wait())
            try:
                await asyncio.wait({carrying, changing}, return_when=asyncio.FIRST_COMPLETED)
                if carrying.done():
                    carrying.result()
            finally:
                for future in (carrying, changing):
                    future.cancel()
                await asyncio.gather(carrying, changing, return_exceptions=True)
        await self._carried_out(None)

    async def _of_term(self, term: int) -> None:
        opening = asyncio.ensure_future(self.open(term))
        try:
            await asyncio.shield(opening)
            if term == self._term:
                await self._carried_out(term)
        finally:
            # A table that is being opened is open afterwards.
            await asyncio.wait({opening})
            await self.close()

    async def _carried_out(self, term: int | None) -> None:
        """Carry out what ``open`` has made. Raises: AosError: As its parts."""
        tasks = [asyncio.ensure_future(part) for part in self._parts(term)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _parts(self, term: int | None) -> Iterator[Coroutine[Any, Any, None]]:
        services = self._services
        assert self._work is not None
        assert services.steps is not None
        assert services.batches is not None
        yield self._worked(self._work, term)
        yield services.steps.run()
        yield services.batches.run()
        for webhook in services.webhooks:
            yield keep_posting(webhook, self._report, self._position(webhook.reader, term))
        if services.spans is not None:
            yield keep_exporting(services.spans, self._report, self._position(READER, term))

    def _batch_store(self, term: int | None) -> BatchStore:
        """Where the batches of a term are kept (CL-335)."""
        services = self._services
        files = BatchFiles(services.folder)

        async def list_again(batch: BatchJob) -> list[str]:
            query = {
                **order_query(batch.order), "aliases": services.index.settings,
                "at": batch.listed,
            }  # fmt: skip
            document = await services.readers.document(LIST_BATCH_ITEMS.name, query, None)
            lines: list[str] = document["items"]
            return lines

        if term is None:
            return StoredBatches(files, list_again)
        return SharedBatches(services.link, term, files, list_again)

    def _position(self, reader: str, term: int | None) -> SharedPosition | None:
        """The position of a reader of a replicated world (CL-330); None of an embedded one."""
        if term is None:
            return None
        return SharedPosition(self._services.link, term, reader, self._report)

    async def _worked(self, work: LeasedWork, term: int | None) -> None:
        """Serve workers once the kernel process has told which effects it runs itself."""
        while True:
            try:
                await work.start()
            except Unavailable:
                await asyncio.sleep(_AGAIN_S)
            else:
                break
        if term == self._term:
            work.rebased(self._services.follower.state)
            self._listeners.work.listener = self._services.work = work
        await work.run()

    def _release(self) -> None:
        """Let no request reach the duties any more."""
        services = self._services
        services.work = services.steps = services.batches = None
        self._listeners.clear()

    async def close(self) -> None:
        """End the duties, and close the table of leases."""
        work, self._work = self._work, None
        if self._services.is_replica:
            self._release()
        if work is not None:
            await work.close()
