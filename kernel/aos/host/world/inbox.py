"""Inputs that wait for the core's thread, within bounds (spec/host.md, H-12 to H-16).

    any thread ── put ──▶ urgent: receipts, manifests, ... ─┐
                      └─▶ events ───────────────────────────┴─▶ the core's thread

Receipts pass before events, so that a flood of events cannot delay the end of running effects. The
inbox also holds errands: calls that the core's thread makes between two frames.

One lock guards everything here. The core's thread reads ``is_closed`` and the lanes without it:
only that thread removes batches, and a new batch that it misses is found before it waits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from aos.core.decide.answers import Answer
from aos.core.journal.governing import GovernanceInput
from aos.core.journal.inputs import EventInput, Input, ManifestInput, ReceiptInput, StreamInput
from aos.core.kernel_protocol import KernelMemory
from aos.errors import AosError
from aos.host.errors import Busy, Stopping, nothing_durable
from aos.host.world.pipeline import MIB, Pipeline
from aos.host.world.unit import InputBatch
from aos.values.digests import Hash

MEMORY_PERCENT: Final = 80
"""A kernel whose memory is fuller takes no event: the work that it has may need the rest."""

INPUT_BYTES: Final = 256
"""Bytes that an input counts for in addition to its payload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much may wait in each of the two lanes (H-15)."""

    inputs: int = 16_384
    bytes: int = 64 * MIB


@dataclass(slots=True)
class Lane:
    """One queue of the inbox. A batch counts in full until its last input is taken."""

    batches: deque[InputBatch] = field(default_factory=deque)
    count: int = 0
    bytes: int = 0

    def has_room(self, batch: InputBatch, bounds: Bounds) -> bool:
        """Whether ``batch`` fits. An empty lane takes a batch of any size."""
        return not self.count or (
            self.count + len(batch.inputs) <= bounds.inputs
            and self.bytes + batch.size <= bounds.bytes
        )


@dataclass(frozen=True, slots=True)
class _Errand:
    """A call on the kernel's thread, and the answer if the engine ends first."""

    act: Callable[[], object]
    refuse: Callable[[AosError], object] | None


class Inbox:
    """The waiting inputs and errands of one engine.

    ``is_closed`` means that nothing is taken any more; ``problem`` is the reason if the world
    stopped by itself. ``no_memory`` is why no event is taken at the moment, if so; the core's
    thread sets it.
    """

    def __init__(self, bounds: Bounds, pipeline: Pipeline) -> None:
        self.bounds = bounds
        self.urgent = Lane()
        self.events = Lane()
        self.is_closed = False
        self.problem: AosError | None = None
        self.no_memory: str | None = None
        self._pipeline = pipeline
        self._errands: list[_Errand] = []
        self._core_waits = False
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._quiet = threading.Condition(self._lock)

    # Any thread

    def put(self, inputs: Sequence[Input], blobs: Mapping[Hash, bytes]) -> Future[list[Answer]]:
        """Queue one batch; see ``Engine.submit``."""
        batch = InputBatch(inputs, dict(blobs), _size(inputs, blobs))
        # A caller that gives up waiting must not cancel the future under the committer's hands.
        batch.future.set_running_or_notify_cancel()
        if not inputs:
            batch.future.set_result([])
            return batch.future
        is_event = isinstance(inputs[0], EventInput)
        with self._lock:
            self._refuse_if_closed()
            if self._pipeline.no_room is not None:
                raise Busy(nothing_durable(self._pipeline.no_room))
            if is_event and self.no_memory is not None:
                raise Busy(self.no_memory)
            lane = self.events if is_event else self.urgent
            if not lane.has_room(batch, self.bounds):
                raise Busy(
                    f"the world is busy: {lane.count} inputs of {lane.bytes} bytes are queued "
                    "already (try again in a moment)"
                )
            lane.batches.append(batch)
            lane.count += len(inputs)
            lane.bytes += batch.size
            self._wake.notify()
        return batch.future

    def between_frames(
        self, act: Callable[[], object], *, refuse: Callable[[AosError], object] | None = None
    ) -> None:
        """Have the core's thread call ``act`` before its next frame.

        If the world ends first, ``refuse`` is called with the reason instead.

        Raises:
            Stopping, WorldStopped: As ``put``, if ``refuse`` is given. Without it the errand is
                queued in any case, and is dropped if the world ends first.
        """
        with self._lock:
            if refuse is not None:
                self._refuse_if_closed()
            self._errands.append(_Errand(act, refuse))
            self._wake.notify()

    def _refuse_if_closed(self) -> None:
        if self.problem is not None:
            raise self.problem
        if self.is_closed:
            raise Stopping("the world is stopping")

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is queued, ready or on its way to the disk."""
        with self._lock:
            return self._is_quiet()

    def _is_quiet(self) -> bool:
        is_empty = not self.urgent.count and not self.events.count
        return self._core_waits and is_empty and self._pipeline.is_idle

    def notify_if_quiet(self) -> bool:
        """Wake the threads in ``wait_quiet`` if the world is quiet; return whether it is."""
        with self._lock:
            is_quiet = self._is_quiet()
            if is_quiet:
                self._quiet.notify_all()
            return is_quiet

    def wait_quiet(self, timeout_s: float | None) -> bool:
        """Wait until the world is quiet. False after ``timeout_s`` or if the world stopped."""
        with self._lock:
            return (
                self._quiet.wait_for(lambda: self._is_quiet() or self.is_closed, timeout_s)
                and self.problem is None
            )

    def close(self, problem: AosError | None = None) -> bool:
        """Take nothing more. The first ``problem`` is kept; return whether this is the first."""
        with self._lock:
            is_first = problem is not None and self.problem is None
            if is_first:
                self.problem = problem
            self.is_closed = True
            self._wake.notify_all()
            self._quiet.notify_all()
            return is_first

    def clear(self, reason: AosError) -> list[InputBatch]:
        """Refuse all errands and remove all batches, for the caller to answer. Once closed."""
        with self._lock:
            queued = [*self.urgent.batches, *self.events.batches]
            errands, self._errands = self._errands, []
            self.urgent, self.events = Lane(), Lane()
        for errand in errands:
            if errand.refuse is not None:
                errand.refuse(reason)
        return queued

    # The core's thread

    @property
    def has_inputs(self) -> bool:
        """Whether a batch waits."""
        return bool(self.urgent.batches or self.events.batches)

    def wait(self, on_wait: Callable[[], None]) -> bool:
        """Wait for an input or an errand, after one call of ``on_wait``. False once closed."""
        with self._lock:
            self._core_waits = True
        on_wait()
        with self._lock:
            self._wake.wait_for(lambda: self.is_closed or self.has_inputs or self.has_errands)
            self._core_waits = False
            return not self.is_closed

    @property
    def has_errands(self) -> bool:
        """Whether an errand waits."""
        return bool(self._errands)

    def run_errands(self) -> None:
        """Call everything that waits for the time between two frames, in order."""
        with self._lock:
            errands, self._errands = self._errands, []
        for errand in errands:
            errand.act()

    def remove_first(self, lane: Lane) -> None:
        """Remove the first batch of ``lane``: all its inputs have been taken."""
        with self._lock:
            batch = lane.batches.popleft()
            lane.count -= len(batch.inputs)
            lane.bytes -= batch.size


def memory_problem(memory: KernelMemory | None) -> str | None:
    """Why the kernel of a world takes no event with this memory (CR-37); None if it does."""
    if memory is None or not takes_no_event(memory):
        return None
    return (
        f"{memory_in_use(memory)} (let running work end, or start the world again with more: "
        f"{memory.setting})"
    )


def takes_no_event(memory: KernelMemory) -> bool:
    """Whether so much of the memory is in use that the work of the world may need the rest."""
    return memory.used * 100 > memory.allowed * MEMORY_PERCENT


def memory_in_use(memory: KernelMemory) -> str:
    """How much of the memory a kernel uses that takes no event, in words."""
    return (
        f"the kernel uses {memory.used // MIB} of {memory.allowed // MIB} MiB of memory, and takes "
        f"no event above {MEMORY_PERCENT} %"
    )


def _size(inputs: Sequence[Input], blobs: Mapping[Hash, bytes]) -> int:
    size = sum(map(len, blobs.values()))
    for input in inputs:
        size += INPUT_BYTES
        if isinstance(input, EventInput):
            size += len(input.value)
        elif isinstance(input, ReceiptInput | StreamInput):
            size += len(input.payload)
        elif isinstance(input, ManifestInput):
            size += len(input.document)
        elif isinstance(input, GovernanceInput):
            size += input.size
    return size
