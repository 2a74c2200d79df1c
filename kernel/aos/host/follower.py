"""Follow a running world record by record, in another process (spec/host.md, H-45a).

A follower restores the state as a restart does, then folds each frame once it is durable, and tells
its listeners of each record. At a new snapshot it continues from that snapshot, so its memory does
not grow with the journal. It takes no lock, writes nothing and has no key.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from aos.core.journal.records import Record
from aos.core.state.state import State
from aos.errors import Damage, Erased, Pruned
from aos.host.folder.reader import WorldReader, open_reader
from aos.store.store import Store

SLICE_S: Final = 0.005
"""Seconds of folding after which the event loop does something else."""

LOOK_S: Final = 0.25
"""Interval of looks at the store, in seconds, for records of which no head was announced."""


class RecordListener(Protocol):
    """Gets every record that a follower folds, on its event loop."""

    def rebased(self, state: State) -> None:
        """The follower has begun, or begun again, with this state: forget the one before.

        After a ``restart``, records may have been passed over: compare ``state.next_seq``.
        """

    def on_record(self, record: Record, state: State) -> None:
        """Take the next record, which ``state`` has just folded. Never waits; must not change the
        state."""


class Follower:
    """The durable state of a world that another process runs. Used from one event loop.

    ``state`` is one object until ``restart``; records are folded into it between two turns of the
    loop, never during one. Call ``start`` first.
    """

    def __init__(self, path: Path, listeners: Sequence[RecordListener] = ()) -> None:
        self._path = path
        self._listeners = tuple(listeners)
        self._reader: WorldReader | None = None
        self._folding = asyncio.Lock()
        self._arrived = asyncio.Event()

    @property
    def _open_reader(self) -> WorldReader:
        assert self._reader is not None, "used before start, or after close"
        return self._reader

    @property
    def state(self) -> State:
        """The state at record ``seq``. It must not be changed."""
        return self._open_reader.state

    @property
    def seq(self) -> int:
        """The last record that ``state`` has folded."""
        return self._open_reader.seq

    @property
    def store(self) -> Store:
        """The world's store, open for reading."""
        return self._open_reader.store

    def head_seq(self) -> int:
        """Return the last durable record."""
        return self._open_reader.head().seq

    async def start(self) -> None:
        """Restore the state on another thread, then tell the listeners.

        Raises:
            BadUsage, Refused, Damage, Unavailable: As ``open_reader``.
        """
        reader = await asyncio.to_thread(open_reader, self._path)
        previous, self._reader = self._reader, reader
        if previous is not None:
            previous.close()
        for listener in self._listeners:
            listener.rebased(reader.state)

    async def restart(self) -> None:
        """Begin again at the newest snapshot. ``state`` and ``store`` are other objects afterwards.

        Needed when the parts of the snapshot that the state reads from were removed (``aos gc``
        after a follower had been behind). Raises as ``start``; then nothing has changed.
        """
        async with self._folding:
            await self.start()

    async def run(self) -> None:
        """Fold each record soon after it is durable, until this is canceled.

        Raises:
            Damage: The journal is damaged, also after one ``restart``.
        """
        while True:
            await self.advance_to()
            await self.wait_past(self.seq, LOOK_S)

    async def advance_to(self, seq: int | None = None) -> int:
        """Fold up to record ``seq``, or to the durable head of this moment; return the last record
        folded. The loop does other things after each slice of a few milliseconds.

        A record that is not durable yet is not waited for. Damage is met once by a ``restart``.

        Raises:
            Damage: The journal is damaged.
        """
        target = self.head_seq() if seq is None else min(seq, self.head_seq())
        while self.seq < target:
            async with self._folding:
                try:
                    self._fold_slice(target)
                except Erased:
                    raise
                except (Damage, Pruned):
                    # Frames or parts of a snapshot may have been removed while this one was behind.
                    # If it was damage, the restart finds it again.
                    await self.start()
            await asyncio.sleep(0)
        return self.seq

    def _fold_slice(self, target: int) -> None:
        if self.seq < target:
            until_s = time.monotonic() + SLICE_S
            self._open_reader.advance(
                on_record=self._tell, is_late=lambda: time.monotonic() >= until_s
            )

    def _tell(self, record: Record) -> None:
        state = self._open_reader.state
        for listener in self._listeners:
            listener.on_record(record, state)

    async def wait_past(self, seq: int, timeout_s: float) -> bool:
        """Wait until a record after ``seq`` is durable. False if there is none in time."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while True:
            arrived = self._arrived
            if self.head_seq() > seq:
                return True
            left_s = deadline_s - loop.time()
            if left_s <= 0:
                return False
            await _set_or(arrived, min(left_s, LOOK_S))

    def head_arrived(self) -> None:
        """Wake everything that waits for a record: the durable head has moved."""
        arrived, self._arrived = self._arrived, asyncio.Event()
        arrived.set()

    def close(self) -> None:
        """Close the store. The follower cannot be used afterwards."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


async def _set_or(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, for at most so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
