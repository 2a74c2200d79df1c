"""The batches of a replicated world, kept in its bucket by the process of the node that owns it
(spec/cluster.md, CL-335 to CL-338).

    list at record 4,711 ─▶ bucket: order, record, digest of the items ─▶ group ─▶ bucket: done ─▶ …
    takeover ─▶ the next owner's node lists at record 4,711 again ─▶ the group in progress ─▶ …

``DIR/node/batches/ID/items`` of a node is a copy of what it has listed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from aos.errors import AosError, Damage
from aos.host.door.link import Link
from aos.message_fields import field
from aos.node.batches.batch import (
    KEPT_MAX,
    BatchFiles,
    BatchItem,
    BatchJob,
    digest_of_items,
)
from aos.node.position_file import PositionMovedError
from aos.node.problems import Problem
from aos.values.cbor import Value

SHARED_MAX: Final = 32
"""Batches that a bucket keeps: at most half of them are in progress."""

ORDER_BYTES_MAX: Final = 32 * 1024
"""The longest order, as JSON."""

ROW_BYTES_MAX: Final = 56 * 1024
"""Refusals are left out, the last ones first, of a row that would be longer."""

ListAgain = Callable[[BatchJob], Awaitable[Sequence[str]]]
"""Lists the items of a batch as of the record ``listed``. Raises AosError, Problem."""


class BatchStore(Protocol):
    """Where the batches of a node are kept."""

    kept_max: int

    def check(self, batch: BatchJob) -> None:
        """Raises: Problem: A batch cannot be kept (413)."""

    async def load(self) -> tuple[list[BatchJob], list[str]]:
        """All batches by time, and the names of those that are damaged."""

    async def begin(
        self, batch: BatchJob, lines: Sequence[str], surplus: Sequence[BatchJob]
    ) -> None:
        """Keep a new batch, and then remove those of ``surplus``, which are over. It is durable on
        return."""

    async def save(self, batch: BatchJob) -> None:
        """Replace the state of a batch. It is durable on return."""

    async def items(self, batch: BatchJob) -> list[BatchItem]:
        """The items of a batch. Raises: Damage: They are not those with which it began."""


class StoredBatches:
    """Those of an embedded world, in its folder. Every method raises OSError as the system reports
    it."""

    kept_max = KEPT_MAX

    def __init__(self, files: BatchFiles, list_again: ListAgain) -> None:
        self._files = files
        self._list_again = list_again

    def check(self, batch: BatchJob) -> None:
        """As ``BatchStore``: the API has bounded the order."""

    async def load(self) -> tuple[list[BatchJob], list[str]]:
        return await asyncio.to_thread(self._files.load)

    async def begin(
        self, batch: BatchJob, lines: Sequence[str], surplus: Sequence[BatchJob]
    ) -> None:
        await asyncio.to_thread(self._files.begin, batch, lines)
        if surplus:
            await asyncio.to_thread(self._files.remove, surplus)

    async def save(self, batch: BatchJob) -> None:
        await asyncio.to_thread(self._files.save, batch)

    async def items(self, batch: BatchJob) -> list[BatchItem]:
        if batch.items_digest:  # it began while the world was replicated (CL-339)
            return await _listed_items(self._files, batch, self._list_again)
        return await asyncio.to_thread(self._files.items, batch)


class SharedBatches:
    """Those of a replicated world, during one term. Every method raises Unavailable if the servers
    do not answer, or the term is over."""

    kept_max = SHARED_MAX

    def __init__(self, link: Link, term: int, files: BatchFiles, list_again: ListAgain) -> None:
        self._link = link
        self._term = term
        self._files = files
        self._list_again = list_again

    def check(self, batch: BatchJob) -> None:
        """As ``BatchStore``."""
        size = len(json.dumps(batch.to_row()["order"]).encode())
        if size > ORDER_BYTES_MAX:
            raise Problem(
                413, "batch_is_too_large",
                f"the order of a batch of a replicated world: expected at most {ORDER_BYTES_MAX:,} "
                f"bytes as JSON, found {size:,}",
            )  # fmt: skip

    async def load(self) -> tuple[list[BatchJob], list[str]]:
        """As ``BatchStore``."""
        answer = await self._ask("batches")
        jobs, damaged = [], []
        for number, data in enumerate(field(answer, "rows", list)):
            try:
                jobs.append(BatchJob.from_row(json.loads(data)))
            except (ValueError, KeyError, TypeError, AttributeError):
                damaged.append(f"{number + 1} of the bucket")
        jobs += await self._taken_over({job.id for job in jobs})
        return sorted(jobs, key=lambda job: (job.created_ns, job.id)), damaged

    async def _taken_over(self, known_ids: set[str]) -> list[BatchJob]:
        """The batches of this folder from the time before its world was replicated; from now on,
        the bucket has them."""
        stored_jobs, _ = await asyncio.to_thread(self._files.load)
        newest = [job for job in stored_jobs if job.is_over][::-1]
        room = max(0, self.kept_max // 2 - len(known_ids))
        kept_jobs = [*(job for job in stored_jobs if not job.is_over), *newest[:room]]
        jobs = []
        for stored_job in stored_jobs:
            if stored_job.id not in known_ids and stored_job in kept_jobs:
                job = await self._with_digest(stored_job)
                await self.save(job)
                jobs.append(job)
            await asyncio.to_thread(self._files.remove_state, stored_job.id)
        return jobs

    async def _with_digest(self, job: BatchJob) -> BatchJob:
        """The batch with the digest of the items in this folder; without them it is damaged."""
        with contextlib.suppress(OSError, Damage, ValueError):
            lines = await asyncio.to_thread(self._files.lines, job.id)
            return replace(job, items_digest=digest_of_items(lines))
        return job

    async def begin(
        self, batch: BatchJob, lines: Sequence[str], surplus: Sequence[BatchJob]
    ) -> None:
        """As ``BatchStore``: it takes the slot of the first one of ``surplus``. Raises OSError and
        PositionMovedError, too."""
        await asyncio.to_thread(self._files.keep_items, batch.id, lines)
        await self._keep(batch, surplus[0].id if surplus else None)
        await asyncio.to_thread(self._files.remove_items, [job.id for job in surplus])

    async def save(self, batch: BatchJob) -> None:
        """As ``BatchStore``.

        Raises:
            PositionMovedError: Another process has done more of it: it owns the world.
        """
        await self._keep(batch, None)

    async def _keep(self, batch: BatchJob, instead_of: str | None) -> None:
        progress = 2 * batch.next + batch.is_over
        answer = await self._ask(
            "keep_batch", id=batch.id, progress=progress, row=shortened_row(batch),
            instead_of=instead_of,
        )  # fmt: skip
        if not field(answer, "kept", bool):
            raise PositionMovedError("another node has done more of it", location=batch.id)

    async def items(self, batch: BatchJob) -> list[BatchItem]:
        """As ``BatchStore``: those of this node's file, or else listed again (CL-336)."""
        return await _listed_items(self._files, batch, self._list_again)

    async def _ask(self, op: str, **fields: Value) -> dict[str, Any]:
        return await self._link.cluster(op, term=self._term, **fields)


async def _listed_items(
    files: BatchFiles, batch: BatchJob, list_again: ListAgain
) -> list[BatchItem]:
    """The items of a batch with a digest: those of the file, or else listed again. Raises: Damage:
    They are not those with which it began."""
    try:
        lines: Sequence[str] = await asyncio.to_thread(files.lines, batch.id)
    except (OSError, Damage, ValueError):
        lines = ()
    if digest_of_items(lines) != batch.items_digest:
        try:
            lines = await list_again(batch)
        except (AosError, Problem) as problem:
            raise Damage(
                f"the items of batch {batch.id} cannot be listed again as of record "
                f"{batch.listed:,}: {problem}"
            ) from problem
        if digest_of_items(lines) != batch.items_digest:
            raise Damage(
                f"the items of batch {batch.id}, listed again as of record {batch.listed:,}, "
                "are others than those with which it began (do all nodes have the same names "
                "of search in node.toml?)"
            )
        await asyncio.to_thread(files.keep_items, batch.id, lines)
    return [BatchItem.from_line(line) for line in lines]


def shortened_row(batch: BatchJob, bytes_max: int = ROW_BYTES_MAX) -> bytes:
    """Return the row of a batch as JSON. Of refusals that do not fit, the first ones stay."""
    while True:
        row: Mapping[str, Any] = batch.to_row()
        data = json.dumps(row).encode()
        if len(data) <= bytes_max or not batch.refusals:
            return data
        batch = replace(batch, refusals=batch.refusals[: len(batch.refusals) // 2])
