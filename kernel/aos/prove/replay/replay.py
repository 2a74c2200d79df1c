"""Execute the frames of a journal once more, and stop at the first difference (spec/audit.md, A-10
to A-19).

Rule 1: a kernel decides again. An input record becomes an input with its recorded stamp; a step or
fault record runs the head of the ring. The record that the kernel decides must be the recorded one
before the kernel enters it.

Rule 2: every frame is sealed again with its recorded salt, and each byte must be the same.

Rule 3: results that depend on the machine are copied from the record and counted: environmental
faults and, if another version of the engine ran, fuel figures. A record that needs a value erased
since is copied too (``erasures``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import Final, NoReturn, Protocol

from aos.core.decide.answers import Decided, Decision, Duplicate, Refusal
from aos.core.journal.faults import FaultKind
from aos.core.journal.fork import is_fork_signed
from aos.core.journal.frame import Frame, Head, Tip
from aos.core.journal.identity import world_id
from aos.core.journal.inputs import ERASE, SEMANTICS, GenesisInput, control_message
from aos.core.journal.ports import BlobReader, Call, Ran, Runner, Verify
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import (
    Attempt,
    CellId,
    Control,
    Event,
    Faulted,
    Fork,
    Genesis,
    Governance,
    KernelReceipt,
    Manifest,
    Receipt,
    Record,
    Snapshot,
    Start,
    Step,
    Stream,
)
from aos.core.journal.signing import is_signed
from aos.core.kernel import open_kernel
from aos.core.kernel_protocol import (
    KernelProtocol,
    OpenKernel,
    Redecided,
    Redecides,
    Request,
    decided,
)
from aos.core.snapshot.take import Put
from aos.errors import Damage, Erased, Unavailable
from aos.manifest.judging import judge
from aos.manifest.limits import STEP_RANGES
from aos.prove.replay.difference import FieldDifference, difference, differences
from aos.prove.replay.recorded_inputs import RecordedInput, input_of
from aos.prove.replay.replay_report import Divergence, Erasures, ReplayReport
from aos.prove.verify.roots import Roots
from aos.read.lens.lens import Lens, Manifests
from aos.values.digests import Hash, content_hash, hash_text

OF_THIS_MACHINE: Final = frozenset({FaultKind.HOST_MEMORY, FaultKind.WATCHDOG})
"""Faults that mean that replay itself lacks something, if the record has no fault."""

SIGNATURES_KEPT: Final = 256
"""How many results of signature checks are cached: the receipts of a batch share one signature."""


class OpensKernel(Protocol):
    """Opens the kernel of a world as a snapshot has it."""

    def __call__(self, *, read: BlobReader, verify: Verify) -> KernelProtocol: ...


def replay(
    frames: Iterable[Frame],
    read: BlobReader,
    runner: Runner,
    *,
    head: Head | None = None,
    wasmtime: str | None = None,
    on_progress: Callable[[int], None] | None = None,
    erased_since: Iterable[Control] = (),
    snapshots: Mapping[int, Hash] | None = None,
    start: OpensKernel | None = None,
    opens: OpenKernel = open_kernel,
) -> ReplayReport:
    """Execute a whole journal again, or the part after a snapshot, and compare everything.

    Args:
        frames: From the genesis, or with ``start`` from the record after it.
        read: Reads the blobs of the journal and the wasm of its modules.
        head: Where the journal must end.
        wasmtime: The engine's version behind ``runner``; a start record names the version that ran.
            None: the same one.
        on_progress: Called after each frame with the sequence reached.
        snapshots: The snapshots that the journal's own records name (``recorded_snapshots``).
            Replay takes them again and compares. None: it takes none.
        start: Opens the kernel with which the replay begins. None: at the genesis, with ``opens``.
        erased_since: Commands after the end of the journal that erased values. Such a value may be
            missing.

    Raises:
        Divergence: Something differs, at the first record where it does.
        Damage: The journal cannot be read to the end of ``frames``.
        Unavailable: This machine lacks something that a step needs.
    """
    began = time.perf_counter()
    run = _ReplayRun(read, runner, wasmtime, snapshots, opens)
    if start is not None:
        run.go_on_from(start)
    for frame in frames:
        run.frame(frame)
        if on_progress is not None:
            on_progress(frame.header.last)
    run.end(head, erased_since)
    return run.report(began)


@dataclass(slots=True)
class _Counts:
    frames: int = 0
    records: int = 0
    events: int = 0
    receipts: int = 0
    kernel_receipts: int = 0
    streams: int = 0
    attempts: int = 0
    controls: int = 0
    snapshots: int = 0
    manifests: int = 0
    starts: int = 0
    steps: int = 0
    faults: int = 0
    intents: int = 0
    emitted: int = 0
    environmental: int = 0
    fuel_taken: int = 0
    erased: int = 0
    fuel: int = 0

    def add(self, redecided: Redecided) -> None:
        self.records += redecided.records
        self.events += redecided.events
        self.receipts += redecided.receipts
        self.kernel_receipts += redecided.kernel_receipts
        self.steps += redecided.steps
        self.faults += redecided.faults
        self.intents += redecided.intents
        self.emitted += redecided.emitted
        self.fuel += redecided.fuel


class _Engine:
    """The runner. If another engine version recorded the steps, their fuel may differ: each step
    then gets the most fuel that is allowed, and reports the recorded figure."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.is_other = False
        self.recorded_fuel = 0

    def run(self, call: Call) -> Ran:
        if not self.is_other:
            return self._runner.run(call)
        ran = self._runner.run(call._replace(fuel=STEP_RANGES["fuel"].high))
        return ran._replace(fuel=self.recorded_fuel)


class _ReplayRun:
    """One replay. ``recorded`` is the record that is decided again."""

    def __init__(
        self,
        read: BlobReader,
        runner: Runner,
        wasmtime: str | None,
        snapshots: Mapping[int, Hash] | None,
        opens: OpenKernel,
    ) -> None:
        self.recorded: Record
        self._opens = opens
        self._roots = Roots(read, snapshots or {})
        self._erasures = Erasures(read)
        self._read = self._erasures.read
        self._wasmtime = wasmtime
        self._engine = _Engine(runner)
        self._verify = lru_cache(SIGNATURES_KEPT)(is_signed)
        self._kernel: KernelProtocol | None = None
        self._redecides: Redecides | None = None
        """The kernel, if it compares records itself."""
        self._manifests = Manifests()
        self._counts = _Counts()
        self._frame = self._seq = 1

    def go_on_from(self, start: OpensKernel) -> None:
        """Begin after a snapshot. A record that names it is compared with the root of its world."""
        kernel = self._begin(start(read=self._layered, verify=self._verify))
        if kernel.manifest is not None:
            self._manifests.add(kernel.figures().manifest_seq, kernel.manifest)
        self._frame = self._seq = kernel.next_seq
        recorded = self._roots.recorded.get(kernel.tip.seq)
        if recorded is not None:
            taken = partial(self._snapshot, content_hash)
            self._roots.documents[kernel.tip.seq] = self._roots.taken_as(recorded, taken)

    def _begin(self, kernel: KernelProtocol) -> KernelProtocol:
        self._kernel = kernel
        self._redecides = kernel if isinstance(kernel, Redecides) else None
        return kernel

    def _snapshot(self, put: Put, format: int | None = None) -> Hash:
        return self.kernel.snapshot(put, format=format).document

    def _layered(self, hash: Hash, /) -> bytes:
        """Return a value of the journal, or a part of a snapshot that this replay took."""
        part = self._roots.part(hash)
        return self._read(hash) if part is None else part

    @property
    def kernel(self) -> KernelProtocol:
        assert self._kernel is not None
        return self._kernel

    def frame(self, frame: Frame) -> None:
        self._frame = frame.header.first
        at = 0
        while at < len(frame.records):
            self._seq = 1 if self._kernel is None else self._kernel.next_seq
            try:
                at += self._redecide(frame.records[at:])
                if at < len(frame.records):
                    self._erasures.begin()
                    self.recorded = from_bytes(frame.records[at])
                    self._record(self.recorded)
                    at += 1
            except (Divergence, Unavailable):
                raise
            except Damage as problem:
                location = f"frame {self._frame}, record {self._seq}"
                raise Damage(str(problem), location=location) from problem
        self._seal(frame)
        self._roots.passed(self.kernel.tip.seq, self._snapshot, self.kernel.rebase)
        self._counts.frames += 1

    def report(self, began: float) -> ReplayReport:
        tip = self.kernel.tip
        return ReplayReport(
            **asdict(self._counts),
            erasures=tuple(self._erasures.erasures),
            world=tip.world,
            seq=tip.seq,
            frame=tip.frame,
            log_root=tip.log.root(),
            state_root=self._snapshot(content_hash),
            seconds=time.perf_counter() - began,
        )

    def end(self, head: Head | None, erased_since: Iterable[Control]) -> None:
        """Finish after the last frame. Values may be missing if ``erased_since`` erased them.

        Raises:
            Divergence: The journal does not end at ``head``.
            Damage: There was no frame, or a value is missing for another reason.
        """
        if self._kernel is None:
            raise Damage("the journal is empty: it has no genesis")
        if head is not None:
            self._compare_head(head, self.kernel.tip)
        for command in erased_since:
            self._erased_since(command)
        self._erasures.finish()

    def _erased_since(self, command: Control) -> None:
        operators, value = self.kernel.figures().operators, command.value
        keys = [operator.key for operator in operators if operator.name == command.principal]
        message = control_message(
            world=self.kernel.tip.world, serial=command.serial, action=command.action, value=value
        )
        if value is None or not any(is_signed(message, command.signature, key) for key in keys):
            raise Damage(
                f"record {command.seq}, behind the end, is said to erase a value: no operator of "
                "this world signed it"
            )
        self._erasures.erased(Hash(value), command.seq)

    def _differs(self, recomputed: Record, blobs: Mapping[Hash, bytes]) -> NoReturn:
        """Raise a divergence with every field of the current record that differs from
        ``recomputed``."""
        if (
            isinstance(recomputed, Faulted)
            and recomputed.fault.kind in OF_THIS_MACHINE
            and not isinstance(self.recorded, Faulted)
        ):
            raise Unavailable(
                f"this machine could not run it: {recomputed.fault.message}",
                location=f"frame {self._frame}, record {self._seq}",
                hint="replay where there is more room",
            )
        field_differences = differences(
            self.recorded, recomputed,
            manifests=self._manifests, read=self.kernel.read, blobs=blobs,
        )  # fmt: skip
        self._diverge(*field_differences or [difference("bytes", "as read", "other bytes")])

    def _diverge(self, *field_differences: FieldDifference, is_record: bool = True) -> NoReturn:
        record = self.recorded if is_record else None
        id: CellId | None = getattr(record, "cell", None)
        cell = None
        if id is not None and record is not None:
            lens = Lens(self._manifests, self._read)
            cell = (id[0], lens.key(id, seq=record.seq))
        raise Divergence(
            frame=self._frame,
            record=None if record is None else self._seq,
            kind=None if record is None else record.KIND,
            cell=cell,
            differences=field_differences,
        )

    def _redecide(self, records: Sequence[bytes]) -> int:
        """Let a kernel that compares records itself decide these again, and return how many it
        entered. The next one is decided as if it had not tried: that finds and names a difference,
        an erased value, and everything that is copied."""
        kernel = self._redecides
        if kernel is None or self._engine.is_other:
            return 0
        entered = 0
        ran: Ran | None = None
        while True:
            redecided = kernel.redecide(records, ran)
            entered += redecided.records
            self._seq += redecided.records
            self._counts.add(redecided)
            if redecided.call is None:
                return entered
            try:
                ran = self._engine.run(redecided.call)
            except Erased:
                return entered

    def _record(self, recorded: Record) -> None:
        self._counts.records += 1
        if recorded.seq != self._seq:
            self._diverge(difference("seq", recorded.seq, self._seq))
        match recorded:
            case Genesis():
                self._genesis(recorded)
            case _ if self._kernel is None:
                self._diverge(difference("kind", recorded.KIND, Genesis.KIND))
            case Step() | Faulted():
                self._run(recorded)
            case KernelReceipt():
                self._answer(recorded)
            case Snapshot():
                self._check_snapshot(recorded)
                self._input(recorded)
            case Fork():
                self._fork(recorded)
            case _:
                self._input(recorded)

    def _genesis(self, recorded: Genesis) -> None:
        if self._kernel is not None:
            self._diverge(difference("kind", recorded.KIND, "a genesis is record 1 alone"))
        if recorded.semantics != SEMANTICS:
            raise Damage(
                "this release computes by other rules",
                location="semantics",
                expected=f"{SEMANTICS}",
                actual=f"{recorded.semantics}",
                hint="replay with the release that knows them",
            )
        message = GenesisInput.message(recorded.nonce, recorded.world_key, recorded.operators)
        if not is_signed(message, recorded.signature, recorded.world_key):
            self._diverge(difference("signature", "signed", "not the world key's signature"))
        world = world_id(recorded.nonce, recorded.world_key)
        self._begin(
            self._opens(world=world, read=self._layered, verify=self._verify, manifest_of=judge)
        )
        self._copy(recorded)

    def _fork(self, recorded: Fork) -> None:
        """Continue as the fork's world. It must have forked from this very journal, and its key
        must have signed that."""
        if self.kernel.pending_records:
            self._diverge(difference("kind", recorded.KIND, "a fork is the first of its frame"))
        if not is_fork_signed(recorded):
            self._diverge(difference("signature", "signed", "not the world key's signature"))
        tip = self.kernel.tip
        self._copy(replace(recorded, parent=tip.world, at=tip.seq, frame=tip.frame))
        for value in recorded.erased:
            self._erasures.erased(value, recorded.seq)

    def _input(self, recorded: RecordedInput) -> None:
        self._count(recorded)
        try:
            input = input_of(recorded, self.kernel.read)
            self._enter(decided(self.kernel, input, recorded.stamp, self._engine, _keep_nothing))
        except Erased as problem:
            self._take_without_value(recorded, problem)
        match recorded:
            case Start():
                ran = dict(recorded.host).get("wasmtime", self._wasmtime)
                self._engine.is_other = self._wasmtime is not None and ran != self._wasmtime
            case Manifest():
                assert self.kernel.manifest is not None
                self._manifests.add(recorded.seq, self.kernel.manifest)
            case Control(action=action, value=bytes(value)) if action == ERASE:
                self._erasures.erased(Hash(value), recorded.seq)
            case _:
                pass

    def _check_snapshot(self, recorded: Snapshot) -> None:
        """Compare the recorded snapshot with the one that the replay computed at that place."""
        computed = self._roots.documents.get(recorded.at)
        if computed is not None and computed != recorded.document.hash:
            self._diverge(
                difference("document", hash_text(recorded.document.hash), hash_text(computed))
            )
        self._counts.snapshots += computed is not None

    def _count(self, recorded: RecordedInput) -> None:
        counts = self._counts
        match recorded:
            case Event():
                counts.events += 1
            case Receipt():
                counts.receipts += 1
            case Stream():
                counts.streams += 1
            case Attempt():
                counts.attempts += 1
            case Control():
                counts.controls += 1
            case Manifest():
                counts.manifests += 1
            case Governance():
                pass
            case Start():
                counts.starts += 1

    def _enter(self, decision: Decision) -> None:
        """Compare a decision with the recorded one, and enter it."""
        match decision:
            case Decided():
                self._compare(decision.record, decision.blobs)
                self.kernel.enter(decision)
                return
            case Duplicate():
                answer_json: dict[str, object] = {"duplicate_of": decision.seq}
            case Refusal():
                answer_json = {"refused": decision.rule.value, "message": decision.message}
        self._diverge(difference("admission", "admitted", answer_json))

    def _copy(self, record: Record) -> None:
        """Take a record that is not decided again."""
        self._compare(record, {})
        self.kernel.append(record, {})

    def _compare(self, record: Record, blobs: Mapping[Hash, bytes]) -> None:
        # Records read from bytes that are equal have the same bytes; ``frame`` checks it.
        if record is not self.recorded and record != self.recorded:
            self._differs(record, blobs)

    def _answer(self, recorded: KernelReceipt) -> None:
        """Decide a receipt of the core itself: the first one that the core owes."""
        self._counts.kernel_receipts += 1
        if not self.kernel.has_work(steps=False):
            self._diverge(difference("kind", recorded.KIND, "no receipt is owed"))
        self._decide(recorded)

    def _run(self, recorded: Step | Faulted) -> None:
        counts = self._counts
        counts.steps += 1
        self._check_schedule(recorded)
        counts.fuel += recorded.fuel
        if isinstance(recorded, Faulted):
            counts.faults += 1
            kind = recorded.fault.kind
            if recorded.fault.environmental or (self._engine.is_other and kind is FaultKind.FUEL):
                counts.environmental += 1
                self._take(recorded)
                return
        else:
            counts.intents += len(recorded.intents)
            counts.emitted += len(recorded.events)
        self._engine.recorded_fuel = recorded.fuel
        if self._decide(recorded):
            counts.fuel_taken += self._engine.is_other

    def _decide(self, recorded: Step | Faulted | KernelReceipt) -> bool:
        """Decide the record again; return False if an erased value prevents it and the record is
        copied."""
        try:
            decision: Request | Decision | None = self.kernel.next()
            if isinstance(decision, Call):
                decision = self.kernel.ran(self._engine.run(decision))
            assert isinstance(decision, Decided), "there is work, and a step ends with a record"
            self._enter(decision)
        except Erased as problem:
            self._take_without_value(recorded, problem)
            return False
        return True

    def _take_without_value(self, recorded: Record, problem: Erased) -> None:
        """Copy a record as it is, because a value that it needs was erased. Re-raise ``problem``
        if this record read no erased value."""
        if not self._erasures.take(recorded.seq):
            raise problem
        self._counts.erased += 1
        self._copy(recorded)

    def _check_schedule(self, recorded: Step | Faulted) -> None:
        """Check, before anything runs, that the ring's head and its first entry are the recorded
        ones."""
        if self.kernel.has_work(steps=False):
            self._diverge(difference("kind", recorded.KIND, KernelReceipt.KIND))
        head = self.kernel.ring_head()
        if head is None or head.cell != recorded.cell:
            lens = Lens(self._manifests, self._read)
            names = [
                None if id is None else {"workflow": id[0], "key": lens.key(id, seq=recorded.seq)}
                for id in (recorded.cell, None if head is None else head.cell)
            ]
            self._diverge(difference("cell", *names))
        if head.entry != recorded.entry:
            self._diverge(difference("entry", list(recorded.entry), list(head.entry)))

    def _take(self, recorded: Faulted) -> None:
        """Copy a fault that need not happen on this machine; all its other fields must still
        fit."""
        head = self.kernel.ring_head()
        assert head is not None, "compared before"
        self._copy(replace(recorded, root=head.root, depth=head.depth, output=None))

    def _seal(self, frame: Frame) -> None:
        sealed = self.kernel.seal(frame.salt)
        assert sealed is not None, "a frame holds records"
        if sealed.frame == frame:
            return
        for index, (recorded_bytes, recomputed_bytes) in enumerate(
            zip(frame.records, sealed.frame.records, strict=True)
        ):
            if recorded_bytes != recomputed_bytes:
                self.recorded, self._seq = from_bytes(recorded_bytes), frame.header.first + index
                self._diverge(difference("bytes", recorded_bytes.hex(), recomputed_bytes.hex()))
        recorded, recomputed = frame.header.value(), sealed.frame.header.value()
        header_differences = [
            difference(f"header.{name}", _hex(recorded[name]), _hex(recomputed[name]))
            for name in recorded
            if recorded[name] != recomputed[name]
        ]
        recorded_bytes, recomputed_bytes = frame.hash, sealed.frame.hash
        self._diverge(
            *header_differences
            or [difference("hash", recorded_bytes.hex(), recomputed_bytes.hex())],
            is_record=False,
        )

    def _compare_head(self, head: Head, tip: Tip) -> None:
        if not head.is_signed_by(self.kernel.figures().world_key):
            self._diverge(
                difference("head.signature", "signed", "not the world key's"), is_record=False
            )
        recomputed_head = Head.of(tip)
        head_differences = [
            difference(
                f"head.{name}", _hex(getattr(head, name)), _hex(getattr(recomputed_head, name))
            )
            for name in ("world", "seq", "frame", "log_root", "frames")
            if getattr(head, name) != getattr(recomputed_head, name)
        ]
        if head_differences:
            self._diverge(*head_differences, is_record=False)


def _keep_nothing(_: Mapping[Hash, bytes]) -> NoReturn:
    raise AssertionError("the blobs of a replayed migration come with its record")


def _hex(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value
