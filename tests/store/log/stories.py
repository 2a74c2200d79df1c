"""Stories of several writers on one log, and the checks that each of them must pass."""

from __future__ import annotations

import random
from collections.abc import Sequence

from aos.store.errors import Deposed
from aos.store.log.entry import FramesEntry
from aos.store.log.log import LogUnreachable
from aos.store.log.memory_log import Fate, MemoryLog, SharedStream
from tests.store.log.nodes import LogNode, frames_after

WRITERS = 3
ACTIONS = ("append", "append", "read", "arrive", "noise")


def check_story(
    actions: Sequence[tuple[int, str]], fates: Sequence[Fate], *, checks: bool, part_bytes: int
) -> None:
    """Carry out actions of writers, whose messages have these fates, and check that each record
    that a writer was told of is in every reader's journal, once. ``checks``: the log compares the
    positions that writers expect."""
    stream = SharedStream(checks=checks)
    remaining = list(fates)

    def fate() -> Fate:
        return remaining.pop(0) if remaining else Fate.ANSWERED

    nodes = [LogNode(MemoryLog(stream, fate), part_bytes=part_bytes) for _ in range(WRITERS)]
    pending: dict[int, FramesEntry] = {}
    acknowledged: list[bytes] = []
    for number, (index, action) in enumerate(actions):
        node = nodes[index]
        if action == "read" and index not in pending:
            node.read()
        elif action == "arrive":
            stream.arrive(number)
        elif action == "noise":
            stream.publish(None)
        elif action == "append":
            record = b"%d" % number
            entry = pending.pop(index, None)
            if entry is None:
                entry = frames_after(node.tip, record, salt=record.ljust(32, b"x"))
            try:
                node.writer.append(entry)
            except LogUnreachable:
                pending[index] = entry
            except Deposed:
                # Another process takes over from what it has read.
                nodes[index] = LogNode(node.log, part_bytes=part_bytes)
                nodes[index].read()
            else:
                acknowledged += [record for frame in entry.frames for record in frame.records]
    while stream.late:
        stream.arrive()
    _check(stream, nodes, acknowledged)


def _check(stream: SharedStream, nodes: Sequence[LogNode], acknowledged: Sequence[bytes]) -> None:
    readers = [LogNode(MemoryLog(stream)) for _ in range(2)]
    for reader in readers:
        reader.read()
    journal = readers[0].journal
    assert readers[1].journal == journal
    assert len(set(acknowledged)) == len(acknowledged)
    for record in acknowledged:
        assert journal.count(record) == 1
    for node in nodes:
        assert journal[: len(node.journal)] == node.journal


def check_seed(seed: int) -> None:
    """Check the story of a seed."""
    rng = random.Random(seed)  # choices of a test
    actions = [(rng.randrange(WRITERS), rng.choice(ACTIONS)) for _ in range(rng.randrange(60))]
    unlucky = rng.random() * 0.6
    fates = [
        rng.choice(list(Fate)) if rng.random() < unlucky else Fate.ANSWERED for _ in range(400)
    ]
    check_story(actions, fates, checks=rng.random() < 0.5, part_bytes=rng.choice((64, 200, 10_000)))
