"""Run one world: inputs become frames, which become durable and are then published (H-10 to H-31).

    any thread          core's thread                          committer's thread
    submit ─▶ inbox ─▶ checks ─▶ kernel ─▶ seal ─▶ pipeline.put ─▶ store.append ─▶ publish, answer

Only the core's thread, which restored the world, touches the kernel. While the committer's thread
makes one group of frames durable, the core's thread computes the next ones. The engine publishes
nothing (answer, opened effect, figure) before it is durable (H-21).

A frame is one drain of the inbox and the steps until the next drain. It ends when no cell is ready,
or at a bound: a number of steps, a number of bytes, or a time while the committer is idle (H-11).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted, Answer, Decided, Refusal, Rule, admission
from aos.core.journal.identity import DELIVERY_PREFIX
from aos.core.journal.inputs import (
    ERASE,
    MIGRATE,
    ControlInput,
    EventInput,
    Input,
    ManifestInput,
    ReceiptInput,
    StartInput,
)
from aos.core.journal.ports import Call, Runner
from aos.core.journal.records import Faulted, KernelReceipt
from aos.core.kernel_protocol import FrameBounds, KernelProtocol, decided
from aos.core.state.cell import OpenIntent
from aos.errors import AosError, Damage, Erased
from aos.fastcore.errors import CoreDefect
from aos.host.errors import NotOwner, Stopping, WorldStopped
from aos.host.package_checks import GUARDED, admit_from_outside
from aos.host.schedules import schedule_events
from aos.host.stamps import Sources
from aos.host.world.checks import Checks
from aos.host.world.collecting import Arrivals, Collecting
from aos.host.world.deliveries import Deliveries, DeliveryInput
from aos.host.world.inbox import Bounds, Inbox, Lane, memory_problem
from aos.host.world.pipeline import KIB, MIB, Pipeline
from aos.host.world.restored_world import RestoredWorld
from aos.host.world.switching import SWITCHING
from aos.host.world.unit import FaultNote, Figures, InputBatch, Published, Unit
from aos.manifest.schedules import SCHEDULE
from aos.store.errors import Deposed, NoRoom
from aos.store.store import Store
from aos.values.digests import Hash

T = TypeVar("T")

FRAME_BYTES: Final = 256 * KIB
FRAME_BLOB_BYTES: Final = 4 * MIB
FRAME_BOUNDS: Final = FrameBounds(FRAME_BYTES, FRAME_BLOB_BYTES)
FRAME_STEPS: Final = 256
FRAME_S: Final = 0.010
"""Seconds that a frame may take while the committer is idle: its senders wait that long."""

INPUTS_PER_FRAME: Final = 256
INPUTS_TOGETHER: Final = 64
"""Inputs that are admitted by one call of the kernel: other threads wait that long."""

EVENTS_BEHIND_WORK: Final = 16
"""Events that enter a frame while cells are still ready from the frame before, at most (H-16): no
more than that frame had steps, so under a flood the inbox fills up instead of mailboxes. A frame
has many more steps than that, unless steps are slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """The durable ``figures``, and how busy this process is now.

    ``queued`` inputs of ``queued_bytes`` bytes wait in the inbox, ``frames`` wait for the disk.
    ``no_room`` is why nothing can be written at the moment, if so.
    """

    figures: Figures
    queued: int
    queued_bytes: int
    frames: int
    no_room: str | None


@dataclass(slots=True)
class _Draft:
    """The frame in progress, without its records, which the kernel collects.

    ``batches`` are batches whose last input is in the frame. ``blobs`` came with admitted inputs.
    """

    batches: list[InputBatch] = field(default_factory=list)
    blobs: dict[Hash, bytes] = field(default_factory=dict)
    faults: list[FaultNote] = field(default_factory=list)


@dataclass(slots=True)
class _Counts:
    """Numbers of records since the start of the engine."""

    events: int = 0
    receipts: int = 0
    steps: int = 0
    faults: int = 0


class Engine:
    """Runs one world, which the engine owns from now on, with its thread. ``cells_kept`` idle cells
    of each workflow stay in memory, if given (H-48).

    With a ``runner`` the engine runs steps, and its first record names what runs them (``host``,
    H-13), unless the world ``has_started`` already: the journal of a replicated world has that
    record before the engine is made (CL-91). Without one it admits inputs, which then wait in
    their mailboxes; ``migrator`` runs the modules of a migrating manifest.

    ``on_published`` is called on the committer's thread, ``on_quiet`` on either thread (nothing is
    queued, ready or on its way to the disk), ``on_stopped`` once, when the world cannot continue.
    They must return soon and must not raise.

    By thread, each field has one owner:

    - any thread: ``signatures``, ``collecting``, and ``_inbox``, ``_pipeline``, ``_overlay``,
      ``_checks``, which do their own locking;
    - the core's thread: ``_kernel``, ``_sources``, ``_counts`` and ``_draft``, the frame in
      progress. They run ahead of the disk by up to ``FRAMES_MAX`` units;
    - the committer's thread: ``_figures``, which never run ahead of the disk. Other threads read
      them.
    """

    def __init__(
        self,
        world: RestoredWorld,
        *,
        store: Store,
        key: SigningKey,
        runner: Runner | None = None,
        migrator: Runner | None = None,
        host: Mapping[str, str] | None = None,
        sources: Sources | None = None,
        bounds: Bounds | None = None,
        cells_kept: int | None = None,
        has_started: bool = False,
        on_published: Callable[[Published], None] | None = None,
        on_quiet: Callable[[], None] | None = None,
        on_stopped: Callable[[AosError], None] | None = None,
    ) -> None:
        self._sources = sources or Sources()
        self._host = host or {}
        self._runner = runner
        self._migrator = runner or migrator
        self._runs = runner is not None
        self._has_started = has_started
        self._on_published = on_published
        self._on_quiet = on_quiet
        self._on_stopped = on_stopped
        self._overlay = world.blobs
        self.signatures = world.signatures
        self._kernel = kernel = world.kernel
        self._thread = world.thread
        self._store = store
        self._counts = _Counts()
        self._draft = _Draft()
        self._most_behind = EVENTS_BEHIND_WORK
        self._figures = self._thread.call(partial(self._take_over, cells_kept))
        arrivals = Arrivals(kernel.pins)
        self._deliveries = Deliveries(store, lambda: self._figures.seq)
        self._checks = Checks(kernel, store, self._overlay, arrivals, self._deliveries)
        self._pipeline = Pipeline(
            store, key, follows=world.tip.frame,
            durable=self._durable, released=self._tell_if_quiet, failed=self._lose,
            noted=arrivals.note,
        )  # fmt: skip
        self._inbox = Inbox(bounds or Bounds(), self._pipeline)
        self.collecting = Collecting(kernel, store, arrivals, self._inbox, self._pipeline)
        self._running: Future[None] | None = None
        """The loop on the core's thread, from ``start`` to ``stop``."""

    # Any thread

    @property
    def host(self) -> Mapping[str, str]:
        """The software that executes here, as in this process's ``start`` record (H-13)."""
        return self._host

    def start(self) -> None:
        """Start to run. The interpreter's switch interval is shortened until ``stop``."""
        SWITCHING.shorten()
        self._pipeline.start()
        if self._runs:
            self._pipeline.make_reserve()
        self._running = self._thread.submit(self._run)

    def submit(
        self, inputs: Sequence[Input], *, blobs: Mapping[Hash, bytes] | None = None
    ) -> Future[list[Answer]]:
        """Queue inputs that are answered together, once all of them are durable or refused.

        Inputs of one call keep their order; events keep it across calls. ``blobs`` become durable
        with the first of ``inputs`` that is admitted. The future raises Stopping or WorldStopped if
        the world ends first; then a submission id shows which inputs were admitted.

        Raises:
            Busy: The inbox is full, or there is no room on the disk or, for events, in the kernel's
                memory. Nothing was queued.
            Stopping: The world is stopping. Nothing was queued.
            WorldStopped: The world stopped, for the reason given. Nothing was queued.
        """
        return self._inbox.put(inputs, blobs or {})

    def keep(self, blobs: Mapping[Hash, bytes]) -> Future[int]:
        """Make blobs durable without a record. See ``Pipeline.keep``."""
        return self._pipeline.keep(blobs)

    def between_groups(self, act: Callable[[], T]) -> Future[T]:
        """Call ``act`` on the committer's thread. See ``Pipeline.between``."""
        return self._pipeline.between(act)

    @property
    def commit_ns(self) -> int:
        """How long recent groups of frames took to become durable, in ns."""
        return self._pipeline.commit_ns

    def read(self, hash: Hash) -> bytes:
        """Return a blob that is durable or on its way to the disk. Raises as ``Store.blob``."""
        return self._overlay.read(hash)

    def find_blob(self, hash: Hash) -> bytes | None:
        """Return a blob as ``read`` does; None if it is missing or was erased.

        Raises:
            Damage: It is altered.
        """
        if self._overlay.has(hash) or self._store.has_blob(hash):
            with contextlib.suppress(Erased):
                return self._overlay.read(hash)
        return None

    def rebase(self, document: Hash) -> Future[None]:
        """Continue from a durable snapshot before the next frame (H-47a). Cells that have not
        changed since need not stay in memory.

        The future raises Damage if the snapshot cannot be read; the world continues as before.

        Raises:
            Stopping, WorldStopped: As ``submit``.
        """
        return self.between_frames(lambda kernel: kernel.rebase(document))

    def between_frames(self, act: Callable[[KernelProtocol], T]) -> Future[T]:
        """Call ``act`` with the kernel before the next frame. It must be short, and may change
        nothing that is in a frame. The future raises Damage as ``act`` does; the world continues.

        Raises:
            Stopping, WorldStopped: As ``submit``.
        """
        future: Future[T] = Future()

        def call() -> None:
            try:
                result = act(self._kernel)
            except Damage as problem:
                future.set_exception(problem)
            except BaseException as problem:
                future.set_exception(_reason(problem))
                raise
            else:
                future.set_result(result)

        self._inbox.between_frames(call, refuse=future.set_exception)
        return future

    def find_command(self, signature: bytes) -> Admitted | None:
        """Return the answer to an operator's command that was admitted lately. See
        ``signed_commands``."""
        from aos.host.world.signed_commands import find_command  # noqa: PLC0415  # rarely asked

        return find_command(self._store, signature)

    def stats(self) -> EngineStats:
        """Return the durable figures, and how much waits."""
        urgent, events = self._inbox.urgent, self._inbox.events
        return EngineStats(
            figures=self._figures,
            queued=urgent.count + events.count,
            queued_bytes=urgent.bytes + events.bytes,
            frames=self._pipeline.frames,
            no_room=self._pipeline.no_room,
        )

    @property
    def problem(self) -> AosError | None:
        """Why the world has stopped; None if it has not."""
        return self._inbox.problem

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is queued, ready or on its way to the disk."""
        return self._inbox.is_quiet

    def wait_quiet(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing is left to do. False after ``timeout_s`` or if the world stopped."""
        return self._inbox.wait_quiet(timeout_s)

    def stop(self) -> None:
        """Finish the current step and batch, make everything durable, end both threads (H-28).

        Batches that were queued but not begun are answered with Stopping.

        Raises:
            AosError: Why the world had stopped already, or what could not be made durable.
        """
        self._inbox.close()
        if self._running is not None:
            self._pipeline.hurry()
            self._running.result()
            self._pipeline.close()
            SWITCHING.restore()
            self._running = None
        self._thread.close()
        self._refuse_queued(Stopping("the world is stopping"))
        if self._inbox.problem is not None:
            raise self._inbox.problem

    def _tell_if_quiet(self) -> None:
        if self._inbox.notify_if_quiet() and self._on_quiet is not None:
            self._on_quiet()

    # The core's thread

    def _take_over(self, cells_kept: int | None) -> Figures:
        """Prepare the kernel for a run. Raises: WorldStopped: The core has a defect."""
        try:
            self._kernel.spill(resting_max=cells_kept)
            return self._figures_now()
        except CoreDefect as defect:
            raise _reason(defect) from defect

    def _run(self) -> None:
        try:
            if self._runs:
                if not self._has_started:
                    self._admit(StartInput(host=tuple(sorted(self._host.items()))), {})
                self._set_schedules()
            while self._wait_for_work():
                self._make_frame(time.monotonic())
            self._finish_begun()
        except BaseException as problem:  # noqa: BLE001  # the last stop of this thread: passed on whole
            self._stop_for(problem)

    def _wait_for_work(self) -> bool:
        inbox, kernel = self._inbox, self._kernel
        if inbox.is_closed:
            return False
        if inbox.has_inputs or kernel.pending_records or kernel.has_work(steps=self._runs):
            return True
        return inbox.wait(self._tell_if_quiet)

    def _make_frame(self, began_s: float) -> None:
        inbox = self._inbox
        if inbox.has_errands:
            inbox.run_errands()
        is_behind = self._runs and self._kernel.ready_cells > 0
        self._drain(inbox.urgent, INPUTS_PER_FRAME)
        self._drain(inbox.events, self._most_behind if is_behind else INPUTS_PER_FRAME)
        steps = self._counts.steps
        self._run_ring(began_s)
        self._most_behind = min(EVENTS_BEHIND_WORK, self._counts.steps - steps)
        self._hand_over()
        inbox.no_memory = memory_problem(self._kernel.memory)

    def _drain(self, lane: Lane, limit: int) -> None:
        """Admit up to ``limit`` inputs of a lane, as far as the frame has room."""
        while limit > 0 and lane.batches and self._frame_has_room():
            plain = self._plain_inputs(lane, min(limit, INPUTS_TOGETHER))
            if plain:
                answers = self._admit_plain(plain)
            else:
                batch = lane.batches[0]
                answers = [self._admit(batch.inputs[len(batch.answers)], batch.blobs)]
            limit -= len(answers)
            self._answered(lane, answers)

    def _plain_inputs(self, lane: Lane, limit: int) -> list[Input]:
        """The first inputs of a lane, at most ``limit``, that the kernel alone decides. Together
        they are about as long as a frame."""
        manifest = self._kernel.manifest
        flow_events = () if manifest is None else manifest.flow_events
        inputs: list[Input] = []
        size = 0
        # Other threads append batches meanwhile, so the lane is not iterated.
        for index in range(len(lane.batches)):
            batch = lane.batches[index]
            if batch.blobs:
                return inputs
            for input in islice(batch.inputs, len(batch.answers), None):
                if isinstance(input, EventInput):
                    schema, id = input.schema, input.submission_id
                    if schema in GUARDED or schema in flow_events or self._inbox.no_memory:
                        return inputs
                    if id is not None and id.startswith(DELIVERY_PREFIX):
                        return inputs
                    size += len(input.value)
                elif isinstance(input, ReceiptInput):
                    size += len(input.payload)
                else:
                    return inputs
                inputs.append(input)
                if len(inputs) == limit or size >= FRAME_BYTES:
                    return inputs
        return inputs

    def _admit_plain(self, inputs: Sequence[Input]) -> Sequence[Answer]:
        """Admit inputs of ``_plain_inputs`` as far as the frame has room."""
        stamps = self._sources.stamps(len(inputs))
        answers = self._kernel.admit_all(list(zip(inputs, stamps, strict=True)), FRAME_BOUNDS)
        return [
            self._counted(input, answer) for input, answer in zip(inputs, answers, strict=False)
        ]

    def _answered(self, lane: Lane, answers: Sequence[Answer]) -> None:
        """Give the first inputs of a lane their answers, and take the batches that are complete."""
        begun = 0
        while begun < len(answers):
            batch = lane.batches[0]
            end = begun + len(batch.inputs) - len(batch.answers)
            batch.answers += answers[begun:end]
            begun = end
            if len(batch.answers) == len(batch.inputs):
                self._draft.batches.append(batch)
                self._inbox.remove_first(lane)

    def _frame_has_room(self) -> bool:
        kernel = self._kernel
        return kernel.pending_bytes < FRAME_BYTES and kernel.pending_blob_bytes < FRAME_BLOB_BYTES

    def _run_ring(self, began_s: float) -> None:
        """Run ready cells until the frame is full, none is left, or the committer is idle too long.

        The ring also yields receipts that the core owes: they settle intents, but are no steps."""
        kernel, runner = self._kernel, self._runner
        inbox = self._inbox
        for count in range(FRAME_STEPS):
            if inbox.is_closed or not self._frame_has_room():
                return
            if self._pipeline.is_idle and count and time.monotonic() - began_s > FRAME_S:
                return
            work = kernel.next(steps=runner is not None)
            if work is None:
                return
            if isinstance(work, Call):
                assert runner is not None
                ran = runner.run(work)
                failed, engine_text = kernel.end_step(ran), ran.engine_text
            else:
                kernel.enter(work)
                record, engine_text = work.record, work.engine_text
                if isinstance(record, KernelReceipt):
                    self._checks.settling(record, record.seq)
                    continue
                assert isinstance(record, Faulted)
                failed = record
            self._counts.steps += 1
            if failed is not None:
                self._note(failed, engine_text)

    def _note(self, record: Faulted, engine_text: str | None) -> None:
        self._counts.faults += 1
        self._draft.faults.append(
            FaultNote(
                seq=record.seq,
                cell=record.cell,
                kind=record.fault.kind.value,
                message=record.fault.message,
                engine_text=engine_text,
            )
        )

    def _finish_begun(self) -> None:
        """Before the end, admit the rest of a batch whose first inputs are in a frame (H-28)."""
        for lane in (self._inbox.urgent, self._inbox.events):
            while lane.batches and (begun := len(lane.batches[0].answers)):
                self._drain(lane, len(lane.batches[0].inputs) - begun)
                self._hand_over()

    def _hand_over(self) -> None:
        """Seal the frame and pass it to the committer's thread, with everything that waits for it.

        The overlay holds the blobs first, so that the next frame reads them before they are
        durable."""
        kernel, draft = self._kernel, self._draft
        sealed = kernel.seal(self._sources.salt()) if kernel.pending_records else None
        if sealed is not None:
            if draft.blobs:
                sealed = replace(sealed, blobs={**sealed.blobs, **draft.blobs})
            self._overlay.hold(sealed.blobs, until=sealed.tip.seq)
        elif not draft.batches:
            return
        unit = Unit(
            sealed=sealed,
            batches=tuple(draft.batches),
            figures=self._figures_now(),
            faults=tuple(draft.faults),
            size=0
            if sealed is None
            else sum(map(len, (*sealed.frame.records, *sealed.blobs.values()))),
        )
        self._draft = _Draft()
        if not self._pipeline.put(unit):
            self._answer(unit.batches, self._inbox.problem or Stopping("the world is stopping"))

    def _figures_now(self) -> Figures:
        world, counts = self._kernel.figures(), self._counts
        return Figures(
            seq=self._kernel.tip.seq,
            clock_ns=world.clock_ns,
            serial=world.serial,
            controls=world.controls,
            manifest=world.manifest,
            cells=world.cells,
            ready_cells=world.ready_cells,
            open_intents=world.open_intents,
            open_timers=world.open_timers,
            snapshot=world.snapshot,
            proposed=world.proposed,
            proposals=world.proposals,
            events=counts.events,
            receipts=counts.receipts,
            steps=counts.steps,
            faults=counts.faults,
        )

    def _admit(self, input: Input, blobs: Mapping[Hash, bytes]) -> Answer:
        answer = self._counted(
            input, self._checks.answer(input, blobs) or self._decided(input, blobs)
        )
        if not isinstance(answer, Admitted):
            return answer
        draft = self._draft
        if blobs:
            draft.blobs.update(blobs)
            self._overlay.hold(blobs, until=answer.seq)
        if isinstance(input, ManifestInput):
            if self._runs:
                self._set_schedules()
        elif isinstance(input, ControlInput) and input.action == ERASE and input.value is not None:
            # Also if it came with an input of this frame. The same bytes may come again later.
            self._checks.erased(by=answer.seq)
            draft.blobs.pop(input.value, None)
            self._overlay.erase(input.value, by=answer.seq)
        return answer

    def _counted(self, input: Input, answer: Answer) -> Answer:
        """Count an input that the kernel has admitted. Return its answer: that of a receipt whose
        intent the kernel does not have is found in the store."""
        if not isinstance(answer, Admitted):
            if _is_unknown(answer) and isinstance(input, ReceiptInput):
                return self._checks.settled_already(input) or answer
        elif isinstance(input, ReceiptInput):
            self._counts.receipts += 1
            self._checks.settling(input, answer.seq)
        elif isinstance(input, EventInput):
            self._counts.events += 1
        return answer

    def _decided(self, input: Input, blobs: Mapping[Hash, bytes]) -> Answer:
        if isinstance(input, EventInput):
            if self._inbox.no_memory is not None:
                # It was queued before. As in the inbox, the kernel does not learn of it.
                return Refusal(rule=Rule.WORLD_IS_BUSY, message=self._inbox.no_memory)
            stamp = self._sources.stamp()
            if isinstance(input, DeliveryInput):
                return self._deliveries.admit(self._kernel, input, stamp)
            return admit_from_outside(self._kernel, input, stamp)
        if not (isinstance(input, ManifestInput) and input.mode == MIGRATE):
            return self._kernel.admit(input, self._sources.stamp())
        assert self._migrator is not None, "this engine runs no module"
        # A migration runs the new modules before the manifest's blobs are on their way to the disk.
        lent = self._overlay.lend(blobs)
        try:
            stamp = self._sources.stamp()
            decision = decided(self._kernel, input, stamp, self._migrator, self._keep_now)
            if not isinstance(decision, Decided):
                return decision
            self._kernel.enter(decision)
            return admission(decision.record)
        except (NoRoom, Stopping) as problem:
            return Refusal(
                rule=Rule.WORLD_IS_BUSY, message=f"the migration was given up: {problem}"
            )
        finally:
            self._overlay.take_back(lent)

    def _set_schedules(self) -> None:
        """Bring the schedules to those of the manifest in force, in this frame (SC-30)."""
        kernel = self._kernel
        cells = kernel.cells_of(SCHEDULE)
        for event in schedule_events(kernel.manifest, cells, self._overlay.read):
            if isinstance(self._kernel.admit(event, self._sources.stamp()), Admitted):
                self._counts.events += 1

    def _keep_now(self, blobs: Mapping[Hash, bytes]) -> None:
        """Make blobs of a migration durable while the core waits."""
        self._pipeline.keep(blobs).result()

    # The committer's thread

    def _durable(self, group: Sequence[Unit]) -> None:
        """Publish a group that is durable now, in the order of ``unit.py`` (H-21, H-31)."""
        opened_intents: dict[Hash, OpenIntent] = {}
        ended: list[Hash] = []
        dropped: list[Hash] = []
        for unit in group:
            if unit.sealed is None:
                continue
            self._overlay.drop(unit.sealed.blobs, durable=unit.sealed.tip.seq)
            self._checks.durable(unit.sealed.settled)
            ended += [settled.intent for settled in unit.sealed.settled]
            opened_intents |= {intent.intent: intent for intent in unit.sealed.to_publish}
            ended += unit.sealed.abandoned
            over = (*unit.sealed.abandoned, *unit.sealed.canceled)
            dropped.extend(over)
            for intent in over:
                opened_intents.pop(intent, None)
        self._figures = group[-1].figures
        if self._on_published is not None:
            self._on_published(
                Published(
                    figures=self._figures,
                    opened_intents=tuple(opened_intents.values()),
                    ended=tuple(ended),
                    dropped=tuple(dropped),
                    faults=tuple(note for unit in group for note in unit.faults),
                )
            )
        for unit in group:
            for batch in unit.batches:
                batch.future.set_result(batch.answers)

    # The end of a world that cannot continue (H-25, H-26)

    def _lose(self, problem: BaseException, lost: Sequence[Unit]) -> None:
        self._stop_for(problem)
        for unit in lost:
            self._answer(unit.batches, self._inbox.problem or Stopping("the world is stopping"))

    def _stop_for(self, problem: BaseException) -> None:
        """Stop the world; the first problem is the reason that all waiting callers get."""
        is_first = self._inbox.close(_reason(problem))
        reason = self._inbox.problem
        assert reason is not None
        if self._thread.is_current:
            self._answer(self._draft.batches, reason)
            self._draft.batches = []
        self._refuse_queued(reason)
        if is_first and self._on_stopped is not None:
            self._on_stopped(reason)

    def _refuse_queued(self, reason: AosError) -> None:
        self._answer(self._inbox.clear(reason), reason)

    def _answer(self, batches: Sequence[InputBatch], reason: AosError) -> None:
        for batch in batches:
            # Both threads may meet a batch when the world ends; the first answer counts.
            with contextlib.suppress(InvalidStateError):
                batch.future.set_exception(reason)


def _reason(problem: BaseException) -> AosError:
    if isinstance(problem, Damage | Stopping):
        return problem
    if isinstance(problem, Deposed):
        deposed = NotOwner(
            f"{problem} (it is not known whether this input was admitted: send it again, under the "
            "same submission id, to the node that owns the world)"
        )
        deposed.__cause__ = problem
        return deposed
    if isinstance(problem, CoreDefect):
        stopped = WorldStopped(f"the world stopped: {problem.stops()}")
        stopped.__cause__ = problem
        return stopped
    stopped = WorldStopped(
        f"the world stopped: {type(problem).__name__}: {problem} "
        "(everything acknowledged is durable; start it again to continue from there)"
    )
    stopped.__cause__ = problem
    return stopped


def _is_unknown(answer: Answer) -> bool:
    return isinstance(answer, Refusal) and answer.rule is Rule.RECEIPT_INTENT_IS_UNKNOWN
