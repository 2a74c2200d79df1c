"""Check the contents of each record by itself (spec/audit.md, A-24 to A-26).

The checks cover signatures and the right to make them, identities, values against their schemas,
and blobs. The fold checks the effect of a record on the state; replay checks whether the record was
the correct result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from aos.core.decide.migration import migrated_blobs
from aos.core.journal.fork import forked_world_id, is_fork_signed
from aos.core.journal.identity import world_id
from aos.core.journal.inputs import (
    CANCEL,
    CANCEL_OPEN,
    CLOCK,
    END,
    ERASE,
    SEMANTICS,
    SETTLE,
    STRICT,
    GenesisInput,
    ManifestInput,
    control_message,
    has_fields_of,
    needed_fields,
)
from aos.core.journal.journal_clock import CLOCK_AHEAD_NS, clock_after
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import (
    Attempt,
    CellId,
    Control,
    Emitted,
    Event,
    Faulted,
    Fork,
    Genesis,
    Governance,
    KernelReceipt,
    Manifest,
    Migrated,
    Receipt,
    Record,
    Snapshot,
    Start,
    Step,
    Stream,
    slot_hash,
)
from aos.core.journal.signing import (
    approver_with_used_key,
    back_from_revocation,
    is_misnamed,
    revoked_by,
)
from aos.core.journal.vocabulary import SETTLED_STATUSES, TERMINAL
from aos.core.state.state import State
from aos.core.state.version import manifest_under
from aos.errors import Damage, sentence
from aos.manifest.effective import Effective, Workflow
from aos.manifest.judging import judge
from aos.manifest.keys import key_text
from aos.manifest.names import NODE
from aos.prove.verify.checking import Add, Checking, Counts, RecordedValues
from aos.prove.verify.findings import FindingKind
from aos.prove.verify.governed import GovernedManifests
from aos.prove.verify.open_work import OpenWork
from aos.values.digests import Hash, hash_text


class Contents:
    """One pass over the records of one world, in order: ``check`` each, then ``finish``."""

    def __init__(self, world: Hash, read: BlobReader, add: Add, later: Callable[[], Add]) -> None:
        self._checking = Checking(world=world, add=add, later=later)
        self._values = RecordedValues(self._checking, read)
        self._work = OpenWork(self._checking, self._values)
        self._governed = GovernedManifests(self._checking, self._values)
        self._add = add

    @property
    def counts(self) -> Counts:
        return self._checking.counts

    @property
    def genesis(self) -> Genesis | Fork | None:
        """The record that the world begins with: its genesis, or the last fork."""
        return self._checking.genesis

    @property
    def world(self) -> Hash:
        return self._checking.world

    def enter(self, world: Hash) -> None:
        """Continue as another world, though no readable record announces it."""
        self._checking.world = world

    @property
    def blobs_read(self) -> int:
        """Return how many blobs were read and are unaltered."""
        return sum(problem is None for problem in self._values.blobs.values())

    def finish(self) -> None:
        """Report the problems that are certain only after the last record."""
        self._values.finish()

    def go_on(self, genesis: Genesis | Fork, state: State | None) -> None:
        """Begin with the state of a world, instead of the records that led to it. ``state`` is
        None if it cannot be read."""
        if isinstance(genesis, Fork):
            self._checking.genesis = genesis
            self.counts.signatures += 1
            if not is_fork_signed(genesis):
                self._add(
                    FindingKind.SIGNATURE_WRONG, "the signature is not that of the fork's own key"
                )
        else:
            self.check(genesis)
        if state is None:
            return
        checking = self._checking
        checking.effective, checking.revoked = state.manifest, state.revoked
        for era in state.eras.all:
            # The check of the record that names an unreadable manifest reports it.
            with contextlib.suppress(Damage):
                checking.manifests[era.seq] = manifest_under(state, era.seq)
        checking.clock_ns = state.clock_ns
        self._work.go_on(state)
        self._governed.go_on(state)

    def erased_since(self, command: Control) -> None:
        """Take a command from after the journal's end that erased a value, so that it may be
        missing."""
        self._control(command)

    def check(self, record: Record) -> None:
        if isinstance(record, Genesis) != (record.seq == 1):
            self._add(FindingKind.IDENTITY_WRONG, "record 1, and no other, is a genesis")
        if not isinstance(record, Step | Faulted | KernelReceipt):
            self._clock(record, record.stamp.ns)
        counts = self.counts
        match record:
            case Step():
                counts.steps += 1
                counts.intents += len(record.intents)
                self._step(record)
            case Receipt():
                counts.receipts += 1
                self._work.receipt(record)
            case Event():
                counts.events += 1
                self._event(record, "value")
            case KernelReceipt():
                counts.kernel_receipts += 1
                self._work.kernel_receipt(record)
            case Stream():
                counts.streams += 1
                self._work.stream(record)
            case Attempt():
                counts.attempts += 1
                self._work.attempt(record)
            case Control():
                counts.controls += 1
                self._control(record)
            case Faulted():
                counts.steps += 1
                counts.faults += 1
                self._workflow(record.cell, record.under)
            case Manifest():
                counts.manifests += 1
                self._manifest(record)
            case Governance():
                self._governed.record(record)
            case Genesis() if self.genesis is None:
                self._genesis(record)
            case Fork():
                self._fork(record)
            case Genesis() | Start() | Snapshot():
                pass

    def _clock(self, record: Record, stamp_ns: int) -> None:
        before_ns = self._checking.clock_ns
        after_ns = self._checking.clock_ns = clock_after(before_ns, record)
        if isinstance(record, Control) and record.action == CLOCK:
            if before_ns - after_ns <= CLOCK_AHEAD_NS:
                self._add(
                    FindingKind.VALUE_INVALID,
                    sentence(
                        "a command sets the journal clock back, which is not ahead of its stamp",
                        expected=f"more than {CLOCK_AHEAD_NS} ns",
                        actual=f"{before_ns - after_ns} ns",
                    ),
                )
        else:
            self.counts.stamps_behind += stamp_ns < before_ns

    def _genesis(self, record: Genesis) -> None:
        self._checking.genesis = record
        message = GenesisInput.message(record.nonce, record.world_key, record.operators)
        self._checking.signature(message, record.signature, record.world_key, "the world key's")
        computed = world_id(record.nonce, record.world_key)
        if computed != self._checking.world:
            self._add(
                FindingKind.IDENTITY_WRONG,
                sentence(
                    "the world's id is not that of its genesis",
                    expected=hash_text(computed),
                    actual=hash_text(self._checking.world),
                ),
            )
        if record.semantics != SEMANTICS:
            self._add(
                FindingKind.RECORD_UNREADABLE,
                sentence(
                    "this release computes by other rules",
                    expected=f"semantics {SEMANTICS}",
                    actual=f"{record.semantics}",
                ),
            )

    def _fork(self, record: Fork) -> None:
        checking = self._checking
        self.counts.signatures += 1
        if not is_fork_signed(record):
            self._add(
                FindingKind.SIGNATURE_WRONG, "the signature is not that of the fork's own key"
            )
        if (record.parent, record.at) != (checking.world, record.seq - 1):
            self._add(
                FindingKind.IDENTITY_WRONG,
                sentence(
                    "it is a fork of another world, or from another place",
                    expected=f"{hash_text(checking.world)} after record {record.seq - 1}",
                    actual=f"{hash_text(record.parent)} after record {record.at}",
                ),
            )
        checking.world = forked_world_id(record)
        checking.genesis = record
        self._governed.forked()
        if record.open_work == CANCEL_OPEN:
            self._work.cancel_all(record.seq)
        for value in record.erased:
            self._values.erase(value)

    # Records of operators.

    def _manifest(self, record: Manifest) -> None:
        message = ManifestInput.message(
            self._checking.world,
            record.serial,
            record.document.hash,
            mode=record.mode or STRICT,
            leaves=record.leaves,
            proposal=record.proposal,
        )
        self._operator(record, message)
        self._governed.manifest(record)
        self._checking.effective = None
        document = self._values.pinned(record.document.hash, size=record.document.size)
        if document is None:
            return
        try:
            effective = judge(document)
        except Damage as problem:
            self._add(FindingKind.MANIFEST_INVALID, str(problem))
            return
        self._checking.effective = effective
        self._checking.manifests[record.seq] = effective
        self._keys(effective)
        for module in effective.modules.values():
            self.counts.modules += 1
            self._values.pinned(module.hash, f"module {module.name}: ")
        for migration in record.migrated:
            self._migrated(migration)

    def _migrated(self, migrated: Migrated) -> None:
        """Check every blob that a migration made, by its hash."""
        try:
            for hash, description in migrated_blobs(migrated, self._values.read):
                self._values.check_blob(hash, f"{description} that was migrated: ")
        except Damage as problem:
            self._add(
                FindingKind.BLOB_DAMAGED, f"cells that were migrated cannot be read: {problem}"
            )

    def _keys(self, effective: Effective) -> None:
        """Check that the executor ``node``, and no other, has the world's own key, and that no
        revoked key is in use again."""
        world_key = self.genesis.world_key if self.genesis else None
        for executor in (effective.executors or {}).values():
            if world_key is not None and is_misnamed(executor, world_key):
                self._add(
                    FindingKind.MANIFEST_INVALID,
                    sentence(
                        f"executor {executor.name}: {NODE} alone has the world's own key",
                        expected=key_text(world_key) if executor.name == NODE else "another",
                        actual=key_text(executor.public_key),
                    ),
                )
        back = back_from_revocation(effective.executors, self._checking.revoked)
        if back is not None:
            name, key = back
            self._add(
                FindingKind.MANIFEST_INVALID,
                f"executor {name}: it has {key_text(key)}, which an earlier manifest revoked",
            )
        conflict = approver_with_used_key(
            effective.governance, self._checking.revoked, world_key or b""
        )
        if conflict is not None:
            name, owner = conflict
            self._add(FindingKind.MANIFEST_INVALID, f"approver {name}: it has {owner}")
        self._checking.revoked |= revoked_by(effective.executors)

    def _control(self, record: Control) -> None:
        message = control_message(
            world=self._checking.world,
            serial=record.serial,
            action=record.action,
            cell=record.cell,
            intent=record.intent,
            value=record.value,
            status=record.status,
            payload=None if record.payload is None else slot_hash(record.payload),
            why=record.why,
            restamp=record.restamp,
        )
        self._operator(record, message)
        field_names = [name for name in _COMMANDED if getattr(record, name) is not None]
        statuses = _STATUSES.get(record.action, (None,))
        if not has_fields_of(record.action, field_names) or record.status not in statuses:
            fields = needed_fields(record.action)
            self._add(
                FindingKind.VALUE_INVALID,
                sentence(
                    f"a command {record.action!r:.40} of an operator",
                    expected=f"one with {' and '.join(fields) or 'nothing'}",
                    actual=f"one with {' and '.join(field_names) or 'nothing'}",
                ),
            )
        if record.action == CANCEL and record.intent is not None:
            self._work.cancel(record.intent, record.seq)
        if record.action == SETTLE and record.intent is not None:
            self._work.settle(record.intent, record)
        if record.action == ERASE and record.value is not None:
            self._values.erase(record.value)

    def _operator(self, record: Manifest | Control, message: bytes) -> None:
        """Check that an operator of the genesis signed ``message``."""
        if self.genesis is None:
            return
        operators = {operator.name: operator.key for operator in self.genesis.operators}
        key = operators.get(record.principal)
        if key is None:
            self._add(
                FindingKind.AUTHORITY_MISSING, f"{record.principal!r} is no operator of the genesis"
            )
            return
        self._checking.signature(message, record.signature, key, f"{record.principal}'s")

    # Events and steps.

    def _event(self, event: Event | Emitted, path: str) -> None:
        schema, effective = None, self._checking.effective
        if effective is not None:
            schema = effective.schemas.get(event.schema)
            if schema is None:
                self._add(
                    FindingKind.VALUE_INVALID, f"{path}: schema {event.schema} is not in force"
                )
        self._values.normal(schema, event.value, path)

    def _step(self, record: Step) -> None:
        workflow = self._workflow(record.cell, record.under)
        if record.state is not None:
            schema = None if workflow is None or workflow.has_opaque_state else workflow.state
            self._values.normal(schema, record.state, "state")
        if record.ann is not None:
            self._values.normal(workflow.annotations if workflow else None, record.ann, "ann")
        for index, event in enumerate(record.events):
            self._event(event, f"events[{index}].value")
        for index, intent in enumerate(record.intents):
            self._work.open(record, index, intent, workflow)

    def _workflow(self, cell: CellId, under: int | None) -> Workflow | None:
        """Return the workflow of a cell in the manifest that it ran under. If the manifest does
        not have it, report that and return None."""
        checking = self._checking
        effective = checking.effective if under is None else checking.manifests.get(under)
        if effective is None:
            if under is not None:
                self._add(FindingKind.VALUE_INVALID, f"no manifest is of record {under}")
            return None
        workflow = effective.workflows.get(cell[0])
        if workflow is None:
            self._add(FindingKind.VALUE_INVALID, f"workflow {cell[0]} is not in force")
        return workflow


_COMMANDED: Final = ("cell", "intent", "value", "status", "payload", "why", "restamp")
"""The fields of a command that its operator chose."""

_STATUSES: Final[Mapping[str, tuple[str, ...]]] = {SETTLE: SETTLED_STATUSES, END: TERMINAL}
"""The statuses that a command may name; other commands name none."""
