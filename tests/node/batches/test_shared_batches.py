"""The batches of a replicated world, as the fronts of its nodes keep them (spec/cluster.md, CL-335
to CL-338). The nodes are folders of one world with one bucket."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from aos.core.journal.inputs import RETRY
from aos.errors import Damage
from aos.host.cluster.kept_batches import KeptBatches
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.node.batches.batch import (
    DONE,
    BatchFiles,
    BatchItem,
    BatchJob,
    BatchOrder,
    digest_of_items,
)
from aos.node.batches.shared_batches import ORDER_BYTES_MAX, SharedBatches, shortened_row
from aos.node.position_file import PositionMovedError
from aos.node.problems import Problem
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket

LINES = [BatchItem(("shop/order@1", bytes([number]))).to_line() for number in range(5)]
JOB = BatchJob(
    id="one", order=BatchOrder(action=RETRY, workflow="shop/order@1"), created_ns=7, token="ann",
    total=len(LINES), seq=40, listed=40, items_digest=digest_of_items(LINES),
)  # fmt: skip


@dataclass
class FakeLink:
    """The process of a node that owns the world."""

    path: Path
    bucket: SharedBucket

    async def cluster(self, op: str, **fields: Any) -> dict[str, Any]:
        folder = open_folder(self.path)
        kept = KeptBatches(MemoryBucket(self.bucket), folder.world, folder.world_key())
        assert fields["term"] == 1
        match op:
            case "batches":
                return {"rows": kept.load()}
            case "keep_batch":
                parts = [fields[name] for name in ("id", "progress", "row")]
                return {"kept": kept.keep(*parts, instead_of=fields["instead_of"])}
        raise AssertionError(op)


@dataclass
class BatchNode:
    """A node: its batches, its files, and the batches whose items it has listed again."""

    batches: SharedBatches
    files: BatchFiles
    listed: list[int]


def node(path: Path, bucket: SharedBucket, lines: Sequence[str] = LINES) -> BatchNode:
    """A node that lists these lines."""
    files, listed = BatchFiles(open_folder(path)), list[int]()

    async def list_again(job: BatchJob) -> Sequence[str]:
        listed.append(job.listed)
        if not lines:
            raise Problem(410, "record_is_pruned", "the record was pruned")
        return lines

    link = cast("Any", FakeLink(path, bucket))
    return BatchNode(SharedBatches(link, 1, files, list_again), files, listed)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders of one world."""
    init_world(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    return tmp_path / "a", tmp_path / "b"


def test_the_next_node_has_the_batch_and_lists_its_items_again(two: tuple[Path, Path]) -> None:
    bucket = SharedBucket()
    first, second = (node(path, bucket) for path in two)
    done = replace(JOB, next=3, refused=1, seq=52)

    async def run() -> None:
        await first.batches.begin(JOB, LINES, [])
        await first.batches.save(done)
        assert await second.batches.load() == ([done], [])
        assert await first.batches.items(done) == list(map(BatchItem.from_line, LINES))
        for _ in range(2):
            assert await second.batches.items(done) == list(map(BatchItem.from_line, LINES))
        with pytest.raises(PositionMovedError):
            await second.batches.save(JOB)
        await second.batches.save(done.ended(DONE, 99))
        assert (await first.batches.load())[0] == [done.ended(DONE, 99)]
        other = replace(JOB, id="two")
        await second.batches.begin(other, LINES, [done])
        assert await first.batches.load() == ([other], [])

    asyncio.run(run())
    assert (first.listed, second.listed) == ([], [40]), "the items that are listed are kept"
    assert second.files.load() == ([], []), "the bucket alone has the state"


@pytest.mark.parametrize("lines", [LINES[:-1], []], ids=["others", "pruned"])
def test_a_batch_whose_items_cannot_be_listed_again_is_damaged(
    two: tuple[Path, Path], lines: Sequence[str]
) -> None:
    """CL-336"""
    bucket = SharedBucket()
    first, second = node(two[0], bucket), node(two[1], bucket, lines)

    async def run() -> None:
        await first.batches.begin(JOB, LINES, [])
        with pytest.raises(Damage, match="listed again as of record 40"):
            await second.batches.items(JOB)

    asyncio.run(run())


def test_batches_of_an_embedded_world_go_to_the_bucket(two: tuple[Path, Path]) -> None:
    """CL-338"""
    bucket = SharedBucket()
    first, second = (node(path, bucket) for path in two)
    embedded = replace(JOB, listed=0, items_digest="", next=2)
    first.files.begin(embedded, LINES)
    for number in range(40):
        over = replace(embedded, id=f"b-{number}", created_ns=100 + number).ended(DONE, 99)
        first.files.begin(over, LINES)

    async def run() -> None:
        expected = replace(embedded, items_digest=JOB.items_digest)
        for batches in (first.batches, first.batches, second.batches):
            jobs, damaged = await batches.load()
            assert (jobs[0], damaged) == (expected, [])
            assert [job.id for job in jobs[1:]] == [f"b-{number}" for number in range(24, 40)]
        assert len(await first.batches.items(expected)) == len(LINES)

    asyncio.run(run())
    assert first.files.load() == ([], [])


def test_a_long_order_is_refused_and_long_refusals_are_left_out(two: tuple[Path, Path]) -> None:
    """CL-338"""
    batches = node(two[0], SharedBucket()).batches
    batches.check(JOB)
    with pytest.raises(Problem) as refused:
        batches.check(replace(JOB, order=replace(JOB.order, value="x" * ORDER_BYTES_MAX)))
    assert (refused.value.status, refused.value.rule) == (413, "batch_is_too_large")

    refusals = tuple({"detail": f"{number}" * 100} for number in range(100))
    job = replace(JOB, next=5, refused=5, refusals=refusals)
    assert BatchJob.from_row(json.loads(shortened_row(job))) == job
    shortened = BatchJob.from_row(json.loads(shortened_row(job, 3_000)))
    assert 0 < len(shortened.refusals) < 100
    assert shortened.refusals == refusals[: len(shortened.refusals)]
    assert len(shortened_row(job, 3_000)) <= 3_000
