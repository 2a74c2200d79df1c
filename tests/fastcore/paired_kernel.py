"""Both kernels as one: each call goes to both, which must give the same result (CR-16).

    with paired(): ...      every kernel that is opened in the block is a pair

A pair is the reference, so tests may read its ``State``. Its second kernel gets the same calls.
Compared are answers with their words and blockers, calls of modules, kept blobs and their order,
frames, all of ``Sealed``, documents of snapshots with their blobs, every read, and the words of
Damage. An exception of a host's own function must be raised by both.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeVar, cast

import pytest

import tests.memory_world
from aos.core import kernel as kernel_module
from aos.core.decide.answers import Answer, Decided, Decision, Refusal, admission
from aos.core.journal.frame import Frame
from aos.core.journal.inputs import Input, SnapshotInput
from aos.core.journal.ports import BlobReader, Call, Keep, Ran, Verify
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import (
    CellId,
    Event,
    Faulted,
    KernelReceipt,
    Receipt,
    Record,
    Stamp,
    Step,
)
from aos.core.journal.signing import is_signed
from aos.core.kernel import Kernel
from aos.core.kernel_protocol import (
    CellView,
    FrameBounds,
    KernelFigures,
    KernelMemory,
    KernelProtocol,
    OpenKernel,
    Redecided,
    Redecides,
    Request,
    RingHead,
)
from aos.core.pending import Sealed
from aos.core.state.cell import Cell
from aos.core.state.intent_progress import IntentProgress, OpenTimer
from aos.core.state.state import State
from aos.fastcore.fast_kernel import FastKernel
from aos.manifest.effective import Effective, Workflow
from aos.prove.replay.recorded_inputs import input_of
from aos.values.digests import Hash, content_hash
from tests.fastcore.lockstep import Differs, differing, plain
from tests.fastcore.owned_kernel import open_owned

T = TypeVar("T")

_CELL: Final = ("id", "state", "declared", "fault", "fault_seq", "last_seq", "status")


class PairedKernel(Kernel):
    """The reference, and a second kernel that does the same."""

    def __init__(
        self,
        state: State,
        second: KernelProtocol,
        sealed_blobs: dict[Hash, bytes],
        *,
        read: BlobReader,
        verify: Verify,
        keeps: bool,
    ) -> None:
        super().__init__(state, read=read, verify=verify, keeps=keeps)
        self.second = second
        self.calls = 0
        self.frames = 0
        self._parts = state, state.limits, state.proposals
        self._sealed_blobs = sealed_blobs
        """Those of the last frame: a host may store them only when it has the frame."""
        self._last: tuple[Decided, Decided] | None = None
        """The last decision of both."""
        self._ran: Ran | None = None
        """How the call of the last decision ended, if that is of a step."""
        self._recorded: list[bytes] = []
        """Records that are still to be decided again."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        """A copy is the reference alone."""
        alone = Kernel.__new__(Kernel)
        memo[id(self)] = alone
        own = {"second", "calls", "frames", "_parts", "_sealed_blobs", "_last", "_ran", "_recorded"}
        parts = {name: part for name, part in vars(self).items() if name not in own}
        vars(alone).update(copy.deepcopy(parts, memo))
        return alone

    @property
    def is_pair(self) -> bool:
        """Whether no test has put another part into the state of the reference alone."""
        state, limits, proposals = self._parts
        now = self.state
        return now is state and now.limits == limits and now.proposals is proposals

    def _both(
        self,
        operation: str,
        one: Callable[[], T],
        two: Callable[[], object],
        shown: Callable[[Any], object] = lambda result: result,
    ) -> tuple[T, Any]:
        """The results of both, or the exception that both raise. ``shown`` is what is compared."""
        if not self.is_pair:
            return one(), None
        self.calls += 1
        place = f"{operation} at record {self.state.next_seq}"
        left, problem = _tried(one)
        right, second_problem = _tried(two)
        if isinstance(second_problem, ValueError) and not _can_be_written(left):
            # The input has a field that no record can hold (CR-19).
            right, second_problem = left, problem
        if (type(problem), str(problem)) != (type(second_problem), str(second_problem)):
            raise Differs(f"{place}: expected {problem!r}, found {second_problem!r}") from (
                second_problem or problem
            )
        if problem is not None:
            raise problem
        expected, found = shown(left), shown(right)
        if expected != found:
            raise Differs(f"{place}: {differing(expected, found)}")
        return cast("T", left), right

    def _read_by_both(
        self,
        operation: str,
        read: Callable[[KernelProtocol], T],
        shown: Callable[[Any], object] = lambda result: result,
    ) -> T:
        """``read`` gets the methods of the reference, then the second kernel."""
        reference: Any = super()
        return self._both(operation, lambda: read(reference), lambda: read(self.second), shown)[0]

    def compare_all(self) -> None:
        """Compare every read of the protocol, and at the end of a frame the snapshot."""
        self._read_by_both("tip", lambda kernel: kernel.tip)
        self.figures()
        self.manifests()
        self.ring_head()
        list(self.open_intents())
        first = self.open_timers(None, 2)
        if first:
            self.open_timers(first[0].place, 3)
        self._read_by_both("base", lambda kernel: kernel.base)
        for workflow in self.state.cells.shelves:
            # All are compared as a list.
            for cell in list(self.cells_of(workflow))[-2:]:
                self.cell(cell.id)
                self.writer_of(cell.id)
        for intent in (*list(self.state.intents)[-2:], *list(self.state.abandoned)[-2:]):
            self.progress_of(intent)
        if not self.pending_records:
            self.snapshot(content_hash)

    # The world after the last record

    def figures(self) -> KernelFigures:
        return self._read_by_both("figures", lambda kernel: kernel.figures())

    def manifests(self) -> Sequence[Effective]:
        return self._read_by_both("manifests", lambda kernel: kernel.manifests(), _manifests)

    # Inputs

    def decide(self, input: Input, stamp: Stamp) -> Request | Decision:
        return self._decided(
            f"{input!r:.300}",
            lambda: super(PairedKernel, self).decide(input, stamp),
            lambda: self.second.decide(input, stamp),
        )

    def admit(self, input: Input, stamp: Stamp) -> Answer:
        """Decide by both, and enter by ``admit`` of the second one, which decides again."""
        decision = self.decide(input, stamp)
        if not isinstance(decision, Decided):
            assert isinstance(decision, Answer)
            return decision
        decided = decision
        if not self.is_pair or not _can_be_written(decided):
            self.enter(decided)
            return admission(decided.record)

        def enter() -> Answer:
            super(PairedKernel, self).enter(decided)
            return admission(decided.record)

        answer = self._both("admit", enter, lambda: self.second.admit(input, stamp))[0]
        self._compare_sizes()
        return answer

    def admit_all(
        self, inputs: Sequence[tuple[Input, Stamp]], bounds: FrameBounds
    ) -> Sequence[Answer]:
        if not self.is_pair:
            return super().admit_all(inputs, bounds)

        def one() -> Sequence[Answer]:
            answers: list[Answer] = []
            for input, stamp in inputs:
                decision = super(PairedKernel, self).decide(input, stamp)
                if isinstance(decision, Decided):
                    super(PairedKernel, self).enter(decision)
                    answers.append(admission(decision.record))
                else:
                    assert isinstance(decision, Answer)
                    answers.append(decision)
                sizes = FrameBounds(self.pending_bytes, self.pending_blob_bytes)
                if any(size >= bound for size, bound in zip(sizes, bounds, strict=True)):
                    break
            return answers

        try:
            return self._both(
                f"admit {len(inputs)}", one, lambda: self.second.admit_all(inputs, bounds), list
            )[0]
        finally:
            self._compare_sizes()

    def next(self, *, steps: bool = True) -> Call | Decided | None:
        return self._decided(
            f"next, steps={steps}",
            lambda: super(PairedKernel, self).next(steps=steps),
            lambda: self.second.next(steps=steps),
        )

    def ran(self, ran: Ran) -> Request | Decision:
        decision = self._decided(
            "ran", lambda: super(PairedKernel, self).ran(ran), lambda: self.second.ran(ran)
        )
        if isinstance(decision, Decided) and isinstance(decision.record, Step | Faulted):
            self._ran = ran
        return decision

    def _end_step(self, ran: Ran) -> None:
        """Begin the step again by the second kernel, and end it by one call, which begins the next
        one ahead."""
        assert isinstance(self.second.next(), Call)
        self.second.end_step(ran)

    def end_step(self, ran: Ran) -> Faulted | None:
        self._last = None

        def end() -> Faulted | None:
            decision = super(PairedKernel, self).ran(ran)
            assert isinstance(decision, Decided)
            super(PairedKernel, self).enter(decision)
            return decision.record if isinstance(decision.record, Faulted) else None

        failed = self._both(
            "end_step",
            end,
            lambda: self.second.end_step(ran),
            lambda record: record and to_bytes(record),
        )[0]
        self._compare_sizes()
        return failed

    def redecide(self, records: Sequence[bytes], ran: Ran | None = None) -> Redecided:
        """The second kernel decides again, and the reference each record that it entered. If it
        left the next one to its host, the reference decides nothing that it should have entered."""
        if not self.is_pair:
            return _redecided([], None)
        place = f"redecide at record {self.state.next_seq}"
        assert isinstance(self.second, Redecides)
        redecided = self.second.redecide(records, ran)
        if ran is None:
            self._recorded = list(records)
        entered = [from_bytes(data) for data in self._recorded[: redecided.records]]
        for record in entered:
            decision = self._again(record, ran)
            if decision != Decided(record=record, blobs=getattr(decision, "blobs", {})):
                raise Differs(
                    f"{place}: entered {record!r}, and the reference came to {decision!r}"
                )
            ran = None
            super().enter(decision)
        del self._recorded[: redecided.records]
        decision = None
        if self._recorded:
            record = from_bytes(self._recorded[0])
            decision = self._again(record, ran)
            if isinstance(decision, Decided) and decision.record == record:
                raise Differs(f"{place}: left {record!r}, which the reference decides, too")
        call = decision if isinstance(decision, Call) else None
        expected = _redecided(entered, call)
        if redecided != expected:
            raise Differs(f"{place}: {differing(expected, redecided)}")
        self._last = self._ran = None
        self._compare_sizes()
        return redecided

    def _again(self, record: Record, ran: Ran | None) -> Request | Decision | None:
        """The decision of the reference about a record, or its next call; None if the record
        is one of those that a kernel leaves to its host."""
        if ran is not None:
            return super().ran(ran)
        match record:
            case Event() | Receipt():
                return super().decide(input_of(record, self.read), record.stamp)
            case KernelReceipt() if super().has_work(steps=False):
                return super().next(steps=False)
            case Step() | Faulted():
                head = super().ring_head()
                is_environmental = isinstance(record, Faulted) and record.fault.environmental
                is_next = head is not None and (head.cell, head.entry) == (
                    record.cell,
                    record.entry,
                )
                if is_next and not is_environmental and not super().has_work(steps=False):
                    return super().next()
        return None

    def kept(self) -> Request | Decision:
        return self._decided("kept", super().kept, self.second.kept)

    def _decided(self, operation: str, one: Callable[[], T], two: Callable[[], Any]) -> T:
        self._last = self._ran = None
        left, right = self._both(operation, one, two, _decision)
        if isinstance(left, Decided):
            self._last = left, right
        return left

    def has_work(self, *, steps: bool = True) -> bool:
        return self._read_by_both("has_work", lambda kernel: kernel.has_work(steps=steps))

    def ring_head(self) -> RingHead | None:
        return self._read_by_both("ring_head", lambda kernel: kernel.ring_head())

    # Records and frames

    def enter(self, decided: Decided) -> None:
        last = self._last
        other = last[1] if last is not None and decided is last[0] else decided
        ran = self._ran if other is not decided else None
        self._ran = None
        self._both(
            f"enter {decided.record!r:.300}",
            lambda: super(PairedKernel, self).enter(decided),
            lambda: self.second.enter(other) if ran is None else self._end_step(ran),
        )
        self._compare_sizes()

    def append(self, record: Record, blobs: Mapping[Hash, bytes]) -> None:
        self.enter(Decided(record=record, blobs=blobs))

    def follow(self, frame: Frame) -> None:
        self._both(
            f"follow {frame.header.first}",
            lambda: super(PairedKernel, self).follow(frame),
            lambda: self.second.follow(frame),
        )
        self._compare_sizes()

    def _compare_sizes(self) -> None:
        self._read_by_both(
            "sizes",
            lambda kernel: (
                kernel.next_seq, kernel.ready_cells, kernel.pending_records, kernel.pending_bytes,
                kernel.pending_blob_bytes,
            ),
        )  # fmt: skip

    def seal(self, salt: bytes) -> Sealed | None:
        sealed = self._both(
            "seal",
            lambda: super(PairedKernel, self).seal(salt),
            lambda: self.second.seal(salt),
            _sealed,
        )[0]
        if sealed is not None:
            self.frames += 1
            self._sealed_blobs.clear()
            self._sealed_blobs.update(sealed.blobs)
            if self.is_pair:
                self.compare_all()
        return sealed

    # Reading

    def cell(self, id: CellId) -> Cell | None:
        return cast("Cell | None", self._read_by_both("cell", lambda it: it.cell(id), _cell))

    def cells_of(self, workflow: str) -> Iterator[Cell]:
        cells = self._read_by_both(
            "cells_of",
            lambda kernel: list(kernel.cells_of(workflow)),
            lambda cells: [_cell(cell) for cell in cells],
        )
        return cast("Iterator[Cell]", iter(cells))

    def writer_of(self, id: CellId) -> Workflow | None:
        return self._read_by_both("writer_of", lambda kernel: kernel.writer_of(id))

    def takes_receipt(self, intent: Hash) -> bool:
        return self._read_by_both("takes_receipt", lambda kernel: kernel.takes_receipt(intent))

    def progress_of(self, intent: Hash) -> IntentProgress | None:
        return self._read_by_both("progress_of", lambda kernel: kernel.progress_of(intent))

    def open_intents(self, *, but: str | None = None) -> Iterator[IntentProgress]:
        return iter(
            self._read_by_both("open_intents", lambda kernel: list(kernel.open_intents(but=but)))
        )

    def open_timers(self, after: Hash | None, count: int) -> Sequence[OpenTimer]:
        return self._read_by_both("open_timers", lambda kernel: kernel.open_timers(after, count))

    def uses(self, value: Hash) -> Iterator[str]:
        return iter(self._read_by_both("uses", lambda kernel: list(kernel.uses(value))))

    # Memory and snapshots

    def spill(self, *, resting_max: int | None = None) -> None:
        self._read_by_both("spill", lambda kernel: kernel.spill(resting_max=resting_max))

    def snapshot(self, put: Callable[[bytes], Hash], *, format: int | None = None) -> SnapshotInput:
        blobs: tuple[dict[Hash, bytes], dict[Hash, bytes]] = ({}, {})

        def putting(kept: dict[Hash, bytes]) -> Callable[[bytes], Hash]:
            def keep(data: bytes) -> Hash:
                kept[content_hash(data)] = data
                return content_hash(data)

            return keep

        taken = self._both(
            "snapshot",
            lambda: super(PairedKernel, self).snapshot(putting(blobs[0]), format=format),
            lambda: self.second.snapshot(putting(blobs[1]), format=format),
            lambda taken: taken,
        )[0]
        if blobs[0] != blobs[1]:
            raise Differs(f"a snapshot's blobs: {differing(*blobs)}")
        for data in blobs[0].values():
            put(data)
        return taken

    def rebase(self, document: Hash) -> None:
        self._read_by_both("rebase", lambda kernel: kernel.rebase(document))

    @property
    def memory(self) -> KernelMemory | None:
        """That of the second kernel: the reference has no bound (CR-37)."""
        return self.second.memory

    @property
    def pins(self) -> Container[Hash]:
        pins = super().pins
        self._read_by_both("pins", lambda kernel: kernel.pins, _pins)
        return pins

    def keep_resting(self, most: int) -> None:
        """Have at most so many idle cells of each workflow decoded, also none."""
        keep_resting(self, self.second, most)


def _redecided(entered: Sequence[Record], call: Call | None) -> Redecided:
    """The answer to ``redecide`` that entered these records."""

    def count(*kinds: type) -> int:
        return sum(isinstance(record, kinds) for record in entered)

    steps = [record for record in entered if isinstance(record, Step)]
    return Redecided(
        records=len(entered),
        events=count(Event),
        receipts=count(Receipt),
        kernel_receipts=count(KernelReceipt),
        steps=count(Step, Faulted),
        faults=count(Faulted),
        intents=sum(len(step.intents) for step in steps),
        emitted=sum(len(step.events) for step in steps),
        fuel=sum(record.fuel for record in entered if isinstance(record, Step | Faulted)),
        call=call,
    )


class LedKernel(Kernel):
    """A second kernel that decides alone. The reference only folds its records, so that tests may
    read a ``State``; it spills nothing and continues from no snapshot."""

    def __init__(
        self, state: State, second: KernelProtocol, *, read: BlobReader, verify: Verify
    ) -> None:
        super().__init__(state, read=read, verify=verify)
        self.second = second

    def decide(self, input: Input, stamp: Stamp) -> Request | Decision:
        try:
            return self.second.decide(input, stamp)
        except ValueError:
            # The input has a field that no record can hold (CR-19).
            refusal = super().decide(input, stamp)
            assert isinstance(refusal, Refusal)
            return refusal

    def next(self, *, steps: bool = True) -> Call | Decided | None:
        return self.second.next(steps=steps)

    def ran(self, ran: Ran) -> Request | Decision:
        return self.second.ran(ran)

    def kept(self) -> Request | Decision:
        return self.second.kept()

    def has_work(self, *, steps: bool = True) -> bool:
        return self.second.has_work(steps=steps)

    def enter(self, decided: Decided) -> None:
        self.second.enter(decided)
        super().enter(decided)

    def follow(self, frame: Frame) -> None:
        self.second.follow(frame)
        super().follow(frame)

    def seal(self, salt: bytes) -> Sealed | None:
        sealed = self.second.seal(salt)
        super().seal(salt)
        return sealed

    def read(self, hash: Hash, /) -> bytes:
        # The state is read with this, also while it is made.
        return self.second.read(hash) if "second" in vars(self) else super().read(hash)

    def takes_receipt(self, intent: Hash) -> bool:
        return self.second.takes_receipt(intent)

    def figures(self) -> KernelFigures:
        return self.second.figures()

    def spill(self, *, resting_max: int | None = None) -> None:
        self.second.spill(resting_max=resting_max)

    def snapshot(self, put: Callable[[bytes], Hash], *, format: int | None = None) -> SnapshotInput:
        return self.second.snapshot(put, format=format)

    def rebase(self, document: Hash) -> None:
        self.second.rebase(document)

    @property
    def base(self) -> int:
        return self.second.base

    @property
    def memory(self) -> KernelMemory | None:
        return self.second.memory

    @property
    def pins(self) -> Container[Hash]:
        return self.second.pins

    def keep_resting(self, most: int) -> None:
        """Have at most so many idle cells of each workflow decoded, also none."""
        keep_resting(None, self.second, most)


def keep_resting(reference: Kernel | None, second: KernelProtocol, most: int) -> None:
    """Let frames carry states, and keep at most so many idle cells of each workflow decoded; a
    host keeps one at least."""
    if reference is not None:
        reference.state.cells._resting_max = most
        reference.state.cells.spilling.is_on = True
    kernel: FastKernel = cast("Any", second)._kernel
    kernel._resting_max = most
    second.spill()


def _tried(function: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return function(), None
    except BaseException as problem:  # noqa: BLE001  # both must raise the same
        return None, problem


def _can_be_written(decision: object) -> bool:
    try:
        return isinstance(decision, Decided) and bool(to_bytes(decision.record))
    except (TypeError, ValueError):
        return False


def _decision(decision: Request | Decision | None) -> Any:
    match decision:
        case Decided(record=record, blobs=blobs, engine_text=text):
            return {"record": to_bytes(record), "blobs": dict(blobs), "text": text}
        case Keep(blobs):
            return {"keep": list(blobs.items())}
        case _:
            return decision


def _sealed(sealed: Sealed | None) -> Any:
    if sealed is None:
        return None
    bytes_of = plain(sealed)
    data = sealed.frame.to_bytes()
    return {**bytes_of._asdict(), "data": data, "tip": sealed.tip, "intents": sealed.opened_intents}


def _cell(cell: CellView | None) -> Any:
    return None if cell is None else [getattr(cell, name) for name in _CELL]


def _manifests(manifests: Sequence[Effective]) -> Any:
    return [manifest.hash for manifest in manifests]


def _pins(pins: Any) -> Any:
    return set(pins.at if hasattr(pins, "at") else pins.hashes)


def open_paired(**arguments: Any) -> KernelProtocol:
    """Open a pair; the arguments are those of ``open_kernel``."""
    sealed_blobs: dict[Hash, bytes] = {}
    host_read: BlobReader = arguments["read"]

    def read(hash: Hash, /) -> bytes:
        blob = sealed_blobs.get(hash)
        return host_read(hash) if blob is None else blob

    arguments["read"] = read
    reference, problem = _tried(lambda: REFERENCE(**arguments))
    second, second_problem = _tried(lambda: open_owned(**arguments))
    if (type(problem), str(problem)) != (type(second_problem), str(second_problem)):
        raise Differs(f"opening: expected {problem!r}, found {second_problem!r}") from (
            second_problem or problem
        )
    if problem is not None:
        raise problem
    assert isinstance(reference, Kernel)
    return PairedKernel(
        reference.state,
        cast("KernelProtocol", second),
        sealed_blobs,
        read=read,
        verify=arguments.get("verify", is_signed),
        keeps=arguments.get("keeps", False),
    )


def open_led(**arguments: Any) -> KernelProtocol:
    """Open a second kernel that decides alone; the arguments are those of ``open_kernel``."""
    reference, second = REFERENCE(**arguments), open_owned(**arguments)
    assert isinstance(reference, Kernel)
    verify = arguments.get("verify", is_signed)
    return LedKernel(reference.state, second, read=arguments["read"], verify=verify)


REFERENCE: Final = kernel_module.open_kernel


@contextlib.contextmanager
def opening(opens: OpenKernel) -> Iterator[None]:
    """Let ``opens`` open each kernel of a world in memory, a restart or a desk of tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_module, "open_kernel", opens)
        patch.setattr(tests.memory_world, "open_kernel", opens)
        yield


def opens_in_turn(chance: Random) -> OpenKernel:
    """Open the reference or a second kernel alone, by chance: each restart may change it."""

    def opened(**arguments: Any) -> KernelProtocol:
        return chance.choice([REFERENCE, open_led])(**arguments)

    return opened


@contextlib.contextmanager
def paired() -> Iterator[list[PairedKernel]]:
    """Make a pair of each kernel that is opened."""
    pairs: list[PairedKernel] = []

    def opened(**arguments: Any) -> KernelProtocol:
        pair = open_paired(**arguments)
        assert isinstance(pair, PairedKernel)
        pairs.append(pair)
        return pair

    with opening(opened):
        yield pairs
