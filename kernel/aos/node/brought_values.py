"""Write the positions and the batches of a world that leaves its servers to the files of its
folder, where the front of an embedded world continues (spec/cluster.md, CL-339).

    webhook/NAME  ─▶ DIR/node/webhooks/NAME.json
    tracing/otlp  ─▶ DIR/node/tracing/otlp.json
    batch         ─▶ DIR/node/batches/ID/batch.json; its items are listed again
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from aos.errors import BadUsage, Unavailable
from aos.host.cluster.kept_positions import KeptPosition
from aos.host.cluster.kept_values import KeptValues
from aos.host.folder.folder import WorldFolder
from aos.node.batches.batch import BatchFiles, BatchJob
from aos.node.tracing import span_poster
from aos.node.webhooks import READER, Position


def bring_to_folder(folder: WorldFolder, kept: KeptValues) -> None:
    """Write the values to the files of a folder. A file that is further than its value stays, and
    so does one that cannot be read, which the front reports.

    Raises:
        Unavailable: A file cannot be written. Call it again.
        Damage: Something else is in the place of a folder of the node.
    """
    try:
        for position in kept.positions:
            _bring_position(folder, position)
        _bring_batches(folder, kept.batches)
    except OSError as error:
        raise Unavailable(
            f"the files of the node cannot be written: {error.strerror}",
            location=str(folder.path),
            hint="make room on the disk, and run the command again",
        ) from error


def _bring_position(folder: WorldFolder, kept: KeptPosition) -> None:
    kind, _, name = kept.reader.partition("/")
    if kept.reader == span_poster.READER:
        span_poster.bring_position(folder, kept.seq, kept.reader_bytes)
    elif kind == READER and name and "/" not in name:
        position = Position(folder, name)
        try:
            place = position.load()
        except BadUsage:
            return
        if place is None or place < kept.place:
            position.save(kept.place)


def _bring_batches(folder: WorldFolder, rows: Iterable[bytes]) -> None:
    files = BatchFiles(folder)
    stored_jobs, damaged_ids = files.load()
    next_by_id = {job.id: (job.next, job.is_over) for job in stored_jobs}
    for row in rows:
        try:
            job = BatchJob.from_row(json.loads(row))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # no front has written it
        if "/" in job.id or job.id in damaged_ids:
            continue
        if next_by_id.get(job.id, (-1, False)) < (job.next, job.is_over):
            files.keep_state(job)
