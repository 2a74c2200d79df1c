"""The host of a test world: the kernel with a store in memory, a clock that moves only on request,
and randomness from a seed (spec/testing.md, T-1, T-4).

Like a real host it seals a frame after each drain and each run, and publishes opened intents only
then. It keeps every appended record, so that tests can inspect the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, Protocol, TypeVar

from aos.core.decide.answers import (
    Admitted,
    Answer,
    Decided,
    Duplicate,
    Refusal,
    Rule,
    admission,
)
from aos.core.journal.faults import Fault
from aos.core.journal.frame import NO_FRAME, Head
from aos.core.journal.inputs import (
    STRICT,
    EventInput,
    GenesisInput,
    Input,
    ManifestInput,
    ReceiptInput,
)
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import (
    CellId,
    Event,
    Faulted,
    KernelReceipt,
    Manifest,
    Principal,
    Receipt,
    Record,
    Stamp,
    Step,
)
from aos.core.kernel import genesis, world_state
from aos.core.kernel_protocol import CellView, KernelFigures, KernelProtocol, decided, step
from aos.core.pending import Sealed, receipt_digest
from aos.core.state.cell import OpenIntent
from aos.core.state.state import State
from aos.errors import BadUsage
from aos.fastcore.core_kind import CoreKind, core_of_environment
from aos.host.apply.apply import sign_manifest
from aos.host.executors.redelivery import Redelivery, left_open
from aos.host.folder.restore import restore_kernel
from aos.host.package_checks import GUARDED, ended_receivers, refused_event
from aos.host.schedules import refused_manifest, schedule_events
from aos.host.world.checks import unerasable
from aos.manifest.effective import Effective
from aos.manifest.judging import judge
from aos.manifest.load import Loaded
from aos.manifest.schedules import SCHEDULE
from aos.prove.replay.replay import replay
from aos.prove.replay.replay_report import ReplayReport
from aos.prove.verify.roots import recorded_snapshots
from aos.read.lens.lens import Manifests
from aos.store.memory_store import MemoryStore
from aos.store.rows import SnapshotRow
from aos.store.stored_world import open_stored
from aos.testing import governing
from aos.testing.problems import InputRefused
from aos.testing.sources import OPERATOR_KEY, OPERATOR_NAME, SHARED, WORLD_KEY
from aos.testing.threaded_kernel import ThreadedKernel
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash, derive, hash_text

FRAME_RECORDS: Final = 2_000
"""Records after which a run continues in another frame."""

DEFAULT_CORE: Final = CoreKind.PYTHON
"""The core of a test world if neither its test nor ``AOS_CORE`` names one."""

T = TypeVar("T")


def core_of_test(word: str | None) -> CoreKind:
    """The core that a test names, or else ``AOS_CORE``, or else the default.

    Raises:
        BadUsage: One of them names none.
    """
    if word is None:
        return core_of_environment() or DEFAULT_CORE
    words = [kind.value for kind in CoreKind]
    if word not in words:
        raise BadUsage("core", expected=" or ".join(words), actual=repr(word))
    return CoreKind(word)


class Desk:
    """Admits inputs, runs cells and seals frames, as a host does.

    Attributes:
        records: The whole journal, sealed or not.
        notes: The engine's notes on faults, by record.
        failed: Every fault of a cell, with the record that caused it.
        opened_intents: Every intent that a step opened, in order; ``settled``: the status of its
            receipt.
        receipts: The receipts that settled an intent, as they were given.
        steps: The number of steps so far.
    """

    def __init__(
        self,
        *,
        seed: str,
        now_ns: int,
        core: CoreKind,
        published: Callable[[OpenIntent], None],
        over: Callable[[Hash], None],
    ) -> None:
        """``core`` runs the world. ``published`` is called with each intent that executors may run,
        ``over`` with each intent that has ended."""
        self.now_ns = now_ns
        self.core = core
        # Several calls of a kernel in a row are made on its thread.
        self._on_owner: _OnOwner = _directly if core is CoreKind.PYTHON else SHARED.on_module_thread
        self.store = MemoryStore()
        self.records: list[Record] = []
        self.failed: list[tuple[int, CellId, Fault]] = []
        self.notes: dict[int, str] = {}
        self.manifests = Manifests()
        self.opened_intents: dict[Hash, OpenIntent] = {}
        self.settled: dict[Hash, str] = {}
        self.receipts: dict[Hash, ReceiptInput] = {}
        self._seed = encode(seed)
        self._draws = 0
        self.steps = 0
        self._crash_step: int | None = None
        self._crashed: Callable[[list[Redelivery]], None] | None = None
        self._salts = 0
        self._published = published
        self._over = over
        self._frame = NO_FRAME
        self._kernel = self._begin()

    def _begin(self) -> KernelProtocol:
        nonce = self._draw(32)
        key, operators = bytes(WORLD_KEY.verify_key), _OPERATORS
        message = GenesisInput.message(nonce, key, operators)
        genesis_input = GenesisInput(
            nonce=nonce,
            world_key=key,
            operators=operators,
            signature=WORLD_KEY.sign(message).signature,
        )
        sealed = genesis(genesis_input, self.stamp(), self._draw(32))
        self._keep(sealed)
        self.records.append(from_bytes(sealed.frame.records[0]))
        return self._restored(sealed.tip.world)

    def _restored(self, world: Hash) -> KernelProtocol:
        if self.core is CoreKind.PYTHON:
            return restore_kernel(self.store, world)
        return ThreadedKernel(self.store, world, self.core.opens)

    @property
    def state(self) -> State:
        """The world as data, for what a test reads."""
        kernel = self._kernel
        return world_state(kernel.reference() if isinstance(kernel, ThreadedKernel) else kernel)

    @property
    def world(self) -> Hash:
        return self._kernel.tip.world

    @property
    def manifest(self) -> Effective | None:
        """The manifest in force; None before the first one."""
        return self._kernel.manifest

    @property
    def effective(self) -> Effective:
        """The manifest in force."""
        manifest = self.manifest
        assert manifest is not None, "asked before a manifest was applied"
        return manifest

    def figures(self) -> KernelFigures:
        """The world in figures."""
        return self._kernel.figures()

    def cell(self, id: CellId) -> CellView | None:
        return self._kernel.cell(id)

    def cells_of(self, workflow: str) -> Iterator[CellView]:
        return self._kernel.cells_of(workflow)

    def open_intents(self) -> list[OpenIntent]:
        """The open intents in the order of opening."""
        return [progress.intent for progress in self._kernel.open_intents()]

    def is_open(self, intent: OpenIntent) -> bool:
        work = self._kernel.progress_of(intent.intent)
        return work is not None and not work.is_abandoned

    def attempt(self, intent: OpenIntent) -> int:
        """The last attempt of an intent that has begun; 0 if its first must still be journaled."""
        work = self._kernel.progress_of(intent.intent)
        if work is None:
            return 0 if intent.effect.delivery == "at_most_once" else 1
        return work.attempt

    def next_frame(self, intent: OpenIntent) -> int:
        """The number of the next stream frame of an intent."""
        work = self._kernel.progress_of(intent.intent)
        return 0 if work is None else work.next_frame

    def read(self, hash: Hash, /) -> bytes:
        return self._kernel.read(hash)

    def stamp(self) -> Stamp:
        return Stamp(self.now_ns, self._draw(64))

    def _draw(self, size: int) -> bytes:
        self._draws += 1
        return derive("aos testing chance", self._seed + self._draws.to_bytes(8, "big"), size)

    def admit(
        self, input: Input, blobs: Mapping[Hash, bytes] | None = None
    ) -> Admitted | Duplicate:
        """Admit an input. Raises: InputRefused: A rule refuses it. Nothing has changed."""
        if blobs:
            self.store.put_blobs(blobs)
        answer = self._on_owner(lambda: self._answer(input))
        if isinstance(answer, Refusal):
            raise InputRefused(answer)
        if isinstance(input, ReceiptInput) and isinstance(answer, Admitted):
            self.receipts[input.intent] = input
        return answer

    def _answer(self, input: Input) -> Answer:
        if isinstance(input, ReceiptInput):
            over = self._settled_already(input)
            if over is not None:
                return over
        kernel = self._kernel
        if isinstance(input, ManifestInput):
            new = judge(input.document)
            refused = refused_manifest(kernel.cells_of(SCHEDULE), new, self.store.blob)
            # A migration runs modules.
            return refused or SHARED.on_module_thread(lambda: self._decided(input))
        if isinstance(input, EventInput) and input.schema in GUARDED:
            return refused_event(kernel.manifest, input) or self._decided(input)
        return self._decided(input)

    def _decided(self, input: Input) -> Answer:
        """The answer of the kernel, which enters its record."""
        kernel = self._kernel
        decision = decided(kernel, input, self.stamp(), SHARED, self.store.put_blobs)
        if not isinstance(decision, Decided):
            return decision
        record = decision.record
        ended = ended_receivers(kernel, record) if isinstance(record, Event) else ()
        if isinstance(ended, Refusal):
            return ended
        kernel.enter(decision)
        self._watch(record)
        return replace(admission(record), ended=ended)

    def _settled_already(self, receipt: ReceiptInput) -> Duplicate | Refusal | None:
        """The answer of a host to a receipt for an intent that has ended."""
        if self._kernel.takes_receipt(receipt.intent):
            return None
        self.seal()
        row = self.store.intent(receipt.intent)
        if row is None or row.settled_seq is None:
            return None
        if row.receipt_digest == receipt_digest(receipt):
            return Duplicate(seq=row.settled_seq)
        message = (
            f"intent {hash_text(receipt.intent)}: record {row.settled_seq} settled it with another "
            "receipt"
        )
        return Refusal(rule=Rule.RECEIPT_INTENT_IS_SETTLED, message=message)

    def apply(
        self,
        manifest: Loaded,
        *,
        mode: str = STRICT,
        leaves: tuple[str, ...] = (),
        proposal: int | None = None,
    ) -> None:
        """Apply a manifest; one already in force changes nothing. In a governed world it is
        proposed and approved first, unless it names a ``proposal``. Raises: InputRefused."""
        world = self._kernel.figures()
        if world.manifest is not None and world.manifest == manifest.effective:
            return
        if proposal is None:
            proposal = governing.ready(self, manifest, mode=mode, leaves=leaves)
        manifest_input = sign_manifest(
            manifest.effective,
            world=self._kernel.tip.world,
            serial=self._kernel.figures().serial,
            operators=world.operators,
            key=OPERATOR_KEY,
            mode=mode,
            leaves=leaves,
            proposal=proposal,
        )
        self.admit(manifest_input, manifest.modules)
        kernel = self._kernel
        for event in schedule_events(kernel.manifest, kernel.cells_of(SCHEDULE), self.read):
            self._decided(event)
        self.seal()

    def run(self) -> int:
        """Run cells until none is ready, publish the intents that they opened, and return the
        number of steps."""
        steps_before = self.steps
        self._on_owner(self._run_until_idle)
        return self.steps - steps_before

    def _run_until_idle(self) -> None:
        while self._kernel.has_work():
            SHARED.on_module_thread(self._run)
            if self.steps == self._crash_step and self._crashed is not None:
                self._crash_step = None
                self._crashed(self.restart())
        self.seal()

    def crash_after(self, step: int, crashed: Callable[[list[Redelivery]], None]) -> None:
        """Crash once, right after this step of the world (0: never), and call ``crashed`` with the
        intents that must be published again.

        The salts of frames are drawn apart from now on, so that a crash, which ends a frame, does
        not change any other draw.
        """
        self._crash_step, self._crashed = step or None, crashed

    def _run(self) -> None:
        """Run cells until none is ready, or until the step after which the world crashes."""
        while (entered := step(self._kernel, SHARED)) is not None:
            record = entered.record
            self._watch(record)
            is_step = isinstance(record, Step | Faulted)
            self.steps += is_step
            if entered.engine_text:
                self.notes[record.seq] = entered.engine_text
            if self._kernel.pending_records >= FRAME_RECORDS:
                self.seal()
            if is_step and self.steps == self._crash_step:
                return

    def seal(self) -> None:
        """Seal the frame: its records are durable from here on, and opened intents published."""
        self._on_owner(self._seal)

    def _seal(self) -> None:
        sealed = self._kernel.seal(self._salt()) if self._kernel.pending_records else None
        if sealed is not None:
            self._keep(sealed)
            for hash in (*sealed.abandoned, *sealed.canceled):
                self._over(hash)
            for intent in sealed.to_publish:
                self._published(intent)

    def _salt(self) -> bytes:
        if self._crashed is None:
            return self._draw(32)
        self._salts += 1
        return derive("aos testing salt", self._seed + self._salts.to_bytes(8, "big"), 32)

    def _keep(self, sealed: Sealed) -> None:
        head = Head.of(sealed.tip).signed(WORLD_KEY)
        self.store.append([sealed], head, expected=self._frame)
        self._frame = sealed.frame.hash
        self.opened_intents.update((intent.intent, intent) for intent in sealed.opened_intents)

    def _watch(self, record: Record) -> None:
        """Note a record that the kernel has just entered."""
        kernel = self._kernel
        self.records.append(record)
        if isinstance(record, Manifest):
            assert kernel.manifest is not None
            self.manifests.add(record.seq, kernel.manifest)
        if isinstance(record, Receipt | KernelReceipt):
            self.settled[record.intent] = record.status
            self._over(record.intent)
        for id in _may_fail(record):
            cell = kernel.cell(id)
            if cell is not None and cell.fault is not None and cell.fault_seq == record.seq:
                self.failed.append((record.seq, id, cell.fault))

    def restart(self) -> list[Redelivery]:
        """Discard all but the store, and recover from the last snapshot and the journal. Return the
        intents that must be published again."""
        self.seal()
        self._kernel = self._restored(self._kernel.tip.world)
        return list(left_open(self._kernel.open_intents()))

    def snapshot(self) -> int:
        """Take a snapshot, then discard the state and recover from that snapshot. Return the
        sequence number of its record."""
        self.seal()
        blobs: dict[Hash, bytes] = {}

        def put(data: bytes) -> Hash:
            hash = content_hash(data)
            blobs[hash] = data
            return hash

        snapshot = self._kernel.snapshot(put)
        self.store.put_blobs(blobs)
        answer = self.admit(snapshot)
        self.seal()
        self._kernel = self._restored(self._kernel.tip.world)
        return answer.seq

    def check_erasable(self, value: Hash) -> None:
        """Check an erasure as a host does before it asks the kernel. Raises: InputRefused."""
        self.seal()
        refused = unerasable(self.store, value, is_there=self.store.has_blob(value))
        if refused is not None:
            raise InputRefused(refused)

    def replay(self) -> ReplayReport:
        """Replay the journal from the genesis, and again from each snapshot.

        Raises: Divergence, Damage: As ``aos.prove.replay.replay``.
        """
        self.seal()
        report = self._replayed(None)
        for row in self.store.snapshots():
            self._replayed(row)
        return report

    def _replayed(self, start: SnapshotRow | None) -> ReplayReport:
        first = 1 if start is None else start.at + 1
        recorded = dict(recorded_snapshots(self.store.frames(first)))
        return SHARED.on_module_thread(
            lambda: replay(
                self.store.frames(first),
                self.store.blob,
                SHARED,
                head=self.store.head(),
                snapshots=recorded,
                start=None if start is None else partial(open_stored, self.store, start),
            )
        )


class _OnOwner(Protocol):
    """Calls a function on the thread of a kernel."""

    def __call__(self, function: Callable[[], T]) -> T: ...


def _directly(function: Callable[[], T]) -> T:
    return function()


_OPERATORS: Final = (Principal(OPERATOR_NAME, bytes(OPERATOR_KEY.verify_key)),)


def _may_fail(record: Record) -> tuple[CellId, ...]:
    """The cells that a record may have failed."""
    match record:
        case Faulted():
            return (record.cell,)
        case Receipt() | KernelReceipt() if record.outcome in ("faulted", "overloaded"):
            return (record.cell,)
        case Event():
            return record.overloaded
        case Step():
            return tuple(id for event in record.events for id in event.overloaded)
        case _:
            return ()
