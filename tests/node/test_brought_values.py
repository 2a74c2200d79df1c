"""The positions and the batches of a world that has left its servers are in its folder
(spec/cluster.md, CL-339)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from aos.errors import Damage, Unavailable
from aos.host.cluster.kept_positions import KeptPosition
from aos.host.cluster.kept_values import KeptValues
from aos.host.folder.folder import WorldFolder, open_folder
from aos.host.folder.making import init_world
from aos.node.batches.batch import DONE, BatchFiles, BatchItem, BatchJob
from aos.node.batches.shared_batches import StoredBatches
from aos.node.brought_values import bring_to_folder
from aos.node.position_file import PositionFile
from aos.node.tracing import span_poster
from aos.node.webhooks import Position
from tests.node.batches.test_shared_batches import JOB, LINES


@pytest.fixture
def folder(tmp_path: Path) -> WorldFolder:
    init_world(tmp_path / "a")
    return open_folder(tmp_path / "a")


def position(folder: WorldFolder, reader: str, seq: int, more: bytes = b"") -> KeptPosition:
    return KeptPosition(
        world=folder.world, stream="AOS-1", reader=reader, seq=seq, index=1, reader_bytes=more
    )


def values(*positions: KeptPosition, jobs: Sequence[BatchJob] = ()) -> KeptValues:
    rows = tuple(json.dumps(job.to_row()).encode() for job in jobs)
    return KeptValues(positions=positions, batches=rows)


def spans(folder: WorldFolder) -> object:
    file = PositionFile(folder, span_poster.FOLDER, span_poster.NAME, bytes_max=1 << 20)
    return file.load()


def test_the_later_one_of_file_and_bucket_counts(folder: WorldFolder) -> None:
    webhook = Position(folder, "orders")
    for seq, expected in ((7, 7), (6, 7), (9, 9)):
        bring_to_folder(
            folder,
            values(
                position(folder, "webhook/orders", seq),
                position(folder, span_poster.READER, seq, b'{"%d": []}' % seq),
            ),
        )
        assert webhook.load() == (expected, 1)
        assert spans(folder) == {"version": 1, "seq": expected, "attempts": {f"{expected}": []}}
    files = BatchFiles(folder)
    half, over = replace(JOB, next=3), replace(JOB, next=3).ended(DONE, 99)
    for job, kept in ((half, half), (JOB, half), (over, over), (half, over)):
        bring_to_folder(folder, values(jobs=[job]))
        assert files.load() == ([kept], [])


def test_files_and_values_that_are_none_stay_as_they_are(folder: WorldFolder) -> None:
    bring_to_folder(
        folder, values(position(folder, "webhook/w", 7), position(folder, "tracing/otlp", 7))
    )
    assert spans(folder) is None, "its attempts are no JSON"
    node = folder.path / "node"
    for name in ("webhooks/w.json", "tracing/otlp.json", "batches/one/batch.json"):
        (node / name).parent.mkdir(parents=True, exist_ok=True)
        (node / name).write_text("damaged")
    readers = ("webhook/w", "webhook/../w", "webhook/", "webhook", "other/w")
    positions = [position(folder, reader, 8) for reader in readers]
    bring_to_folder(
        folder,
        KeptValues(
            positions=(*positions, position(folder, span_poster.READER, 8, b"{}")),
            batches=(b"", b"[]", b"{}", json.dumps(JOB.to_row()).encode()),
        ),
    )
    assert {path.read_text() for path in node.rglob("*.json")} == {"damaged"}
    assert len(list(node.rglob("*.json"))) == 3


def test_a_folder_that_cannot_be_written_stops_the_command(folder: WorldFolder) -> None:
    node = folder.path / "node"
    node.mkdir()
    (node / "webhooks").mkdir()
    (node / "webhooks" / "w.json").mkdir()
    with pytest.raises((Unavailable, Damage), match="node"):
        bring_to_folder(folder, values(position(folder, "webhook/w", 7)))


def test_an_embedded_world_lists_the_items_of_a_brought_batch_again(folder: WorldFolder) -> None:
    """CL-336: as of the record at which they were listed."""
    bring_to_folder(folder, values(jobs=[JOB]))
    listed: list[int] = []

    async def list_again(job: BatchJob) -> Sequence[str]:
        listed.append(job.listed)
        return LINES if len(listed) == 1 else ()

    async def run() -> None:
        batches = StoredBatches(BatchFiles(folder), list_again)
        assert await batches.load() == ([JOB], [])
        for _ in range(2):
            assert await batches.items(JOB) == list(map(BatchItem.from_line, LINES))
        embedded = replace(JOB, listed=0, items_digest="")
        assert len(await batches.items(embedded)) == len(LINES)
        other = replace(JOB, id="two")
        await batches.begin(other, LINES[:2], ())
        with pytest.raises(Damage, match="listed again as of record 40"):
            await batches.items(other)

    asyncio.run(run())
    assert listed == [40, 40]
