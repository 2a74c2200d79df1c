"""A flood into a world whose disk is slow: bounded, told, nothing lost (H-15, H-16, H-22)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.frame import Head
from aos.core.journal.inputs import EventInput
from aos.core.journal.records import Event, slot_bytes
from aos.core.pending import Sealed
from aos.host.errors import Busy
from aos.host.world import pipeline
from aos.host.world.inbox import Bounds
from aos.host.world.pipeline import FRAMES_MAX
from aos.store.lmdb_store import LmdbStore
from aos.store.store import NO_NOTES
from aos.values.cbor import encode
from aos.values.digests import Hash
from tests.host.rig import (
    TIMEOUT_S,
    FaultyStore,
    Rig,
    add,
    asking,
    begin,
    counter,
    eventually,
    running,
)

BOUNDS: Final = Bounds(inputs=64, bytes=256 * 1024)
PIPELINE_BYTES: Final = 512 * 1024

KEY_BYTES: Final = 900
APPEND_S: Final = 0.004
SENDERS: Final = 4
BATCHES: Final = 40
BATCH: Final = 8


@dataclass(frozen=True)
class Sample:
    """The inputs, frames and mail that wait when a commit begins."""

    queued: int
    queued_bytes: int
    frames: int
    frame_bytes: int
    held: int
    mail: int


class SlowStore(FaultyStore):
    """A store that delays each group, and takes a sample meanwhile."""

    rig: Rig
    append_s = APPEND_S

    def __init__(self, store: LmdbStore) -> None:
        super().__init__(store)
        self.samples: list[Sample] = []

    def append(
        self,
        group: Sequence[Sealed],
        head: Head,
        *,
        expected: Hash,
        notes: Mapping[int, str] = NO_NOTES,
    ) -> None:
        engine, active = self.rig.engine, self.rig.state.cells.active
        time.sleep(self.append_s)
        if not any(sample.frame_bytes > PIPELINE_BYTES / 2 for sample in self.samples):
            # Once, the disk is as slow as a busy core needs to be ahead of it.
            deadline = time.monotonic() + TIMEOUT_S / 4
            while engine._pipeline._bytes <= PIPELINE_BYTES / 2 and time.monotonic() < deadline:
                time.sleep(self.append_s)
        stats = engine.stats()
        self.samples.append(
            Sample(
                queued=stats.queued,
                queued_bytes=stats.queued_bytes,
                frames=stats.frames,
                frame_bytes=engine._pipeline._bytes,
                held=len(engine._overlay),
                # All mail is in active cells. The core's thread changes them at the same time;
                # no other thread runs while the values of a dictionary are copied.
                mail=sum(len(cell.mailbox) for cell in tuple(active.values())),
            )
        )
        super().append(group, head, expected=expected, notes=notes)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr(pipeline, "BYTES_MAX", PIPELINE_BYTES)
    with LmdbStore.create(tmp_path / "store") as store:
        begin(store)
        slow = SlowStore(store)
        slow.rig = Rig(store=slow, bounds=BOUNDS)
        yield slow.rig


@dataclass
class Sender:
    """Sends numbered events in batches, each of them again until it is taken."""

    rig: Rig
    name: str
    times_busy: int = 0
    acknowledged: list[tuple[str, int]] = field(default_factory=list)

    def event(self, number: int) -> EventInput:
        key = f"{self.name}-{number % 5}".ljust(KEY_BYTES, ".")
        return add(key, 1, f"{self.name}-{number:05}")

    def run(self) -> None:
        waiting = []
        for batch in range(BATCHES):
            events = [self.event(batch * BATCH + at) for at in range(BATCH)]
            while True:
                try:
                    waiting.append((events, self.rig.submit(*events)))
                except Busy:
                    self.times_busy += 1
                    time.sleep(0.001)
                else:
                    break
        for events, answers in waiting:
            for event, answer in zip(events, answers.result(TIMEOUT_S), strict=True):
                assert isinstance(answer, Admitted)
                self.acknowledged.append((str(event.submission_id), answer.seq))


def test_a_flood_on_a_slow_disk_is_bounded_and_nothing_of_it_is_lost_or_reordered(
    rig: Rig,
) -> None:
    """H-12, H-15, H-22: an input for which there is no place waits with its sender."""
    senders = [Sender(rig, name) for name in "abcd"[:SENDERS]]
    with running(rig):
        threads = [threading.Thread(target=each.run) for each in senders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(4 * TIMEOUT_S)
        rig.quiet()

    assert all(each.times_busy for each in senders), "no sender ever had to wait"
    events = {
        str(each.submission_id): each.seq for each in rig.records() if isinstance(each, Event)
    }
    assert len(events) == SENDERS * BATCHES * BATCH
    for sender in senders:
        assert dict(sender.acknowledged).items() <= events.items()
        own = [name for name in events if name.startswith(sender.name)]
        assert own == sorted(own)
        for key in range(5):
            cell = rig.state.cells[counter(f"{sender.name}-{key}".ljust(KEY_BYTES, "."))]
            assert cell.state == encode(BATCHES * BATCH // 5)

    slow = rig.store
    assert isinstance(slow, SlowStore)
    samples = slow.samples
    assert max(each.queued for each in samples) <= BOUNDS.inputs
    assert max(each.queued_bytes for each in samples) <= BOUNDS.bytes
    assert max(each.frames for each in samples) <= FRAMES_MAX
    largest = max(each.frame_bytes for each in samples)
    assert PIPELINE_BYTES / 2 < largest <= PIPELINE_BYTES, "more than has room waits"
    assert max(each.mail for each in samples) < BOUNDS.inputs + 256


def test_values_that_wait_for_the_disk_are_forgotten_once_it_has_them(rig: Rig) -> None:
    """H-14, H-22: the core reads them from memory until then, and no longer."""
    with running(rig):
        rig.store.gate.clear()
        asked = [rig.submit(asking("a", f"{number} ".ljust(5000, "x"))) for number in range(40)]
        eventually(lambda: len(rig.engine._overlay) > 10, "values wait")
        rig.store.gate.set()
        for each in asked:
            assert isinstance(each.result(TIMEOUT_S)[0], Admitted)
        rig.quiet()

        assert len(rig.engine._overlay) == 0
        assert rig.engine._pipeline._bytes == 0
        assert (rig.engine.stats().queued, rig.engine.stats().queued_bytes) == (0, 0)
        for intent in rig.opened(40):
            assert len(slot_bytes(intent.params, rig.store.blob)) > 5000
