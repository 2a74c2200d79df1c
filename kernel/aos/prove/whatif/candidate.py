"""Decide a recorded step as a candidate would, which is other builds of modules or a whole manifest
(spec/audit.md, A-80, A-89 to A-89c).

    (State before the step, Step | Faulted) -> Retried
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from aos.core.decide.fits import as_received, completed, key_problem, mail_problem, state_problem
from aos.core.decide.flow_gate import FlowGate, flow_gate
from aos.core.decide.migration import StateConversion
from aos.core.decide.quiescence import takes_over
from aos.core.decide.step import decide_step
from aos.core.journal.faults import Fault, refuse_host_memory
from aos.core.journal.ports import BlobReader, Call, Ran, Runner
from aos.core.journal.records import Emitted, Faulted, Intent, Slot, Step, slot, slot_bytes
from aos.core.state.cell import Cell, EventMail
from aos.core.state.eras import Eras, era_of
from aos.core.state.state import State
from aos.core.state.version import manifest_under, runs_under
from aos.flow.declaration import declared_flows
from aos.flow.flow_state import TRIED
from aos.manifest.effective import Effective, Workflow
from aos.prove.replay.difference import FieldDifference, difference
from aos.read.lens.lens import ALL_BYTES, Lens, Manifests
from aos.sandbox.inspect import survey
from aos.values.digests import Hash, content_hash
from aos.values.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """A recorded step as a candidate decides it.

    Attributes:
        recomputed: The candidate's record; None if the step could not run: ``problems`` has the
            reason.
        expected: The recorded step, in the form in which it is compared with ``recomputed``.
        problems: Differences that were found apart from the comparison of the two.
        schemas: Names of recorded schemas that are others in the candidate.
        manifest: The manifest that the step ran under in the candidate.
        manifests: Read the values of both records.
        blobs: Values of both records that the journal does not have.
        migrated: How many states a migration converted for this step.
    """

    recomputed: Step | Faulted | None
    expected: Step | Faulted
    manifest: Effective
    manifests: Manifests
    problems: tuple[FieldDifference, ...] = ()
    schemas: tuple[str, ...] = ()
    blobs: Mapping[Hash, bytes] = field(default_factory=dict)
    migrated: int = 0


class Candidate(Protocol):
    """Decides recorded steps again, with other builds of modules or with another manifest
    (A-80)."""

    def has(self, workflow: Workflow, /) -> bool:
        """Whether the steps of this workflow of the journal are compared."""

    def problem(self, workflow: Workflow) -> str | None:
        """Why the candidate cannot run any step of this workflow; None if it can."""

    def retry(self, state: State, record: Step | Faulted) -> Retried:
        """Decide a recorded step again. ``state`` is that before the record; it stays as it is.

        Raises:
            Erased: A value that the step needs was erased.
            Damage: The journal cannot be read.
            Unavailable: This machine lacks something that the step needs.
        """

    def gate(self, state: State) -> FlowGate:
        """Try the candidate on the flows that are in progress (A-90). Raises as ``flow_gate``."""


class CandidateBuilds:
    """A ``Candidate`` of other builds of modules of the journal. All else is as recorded (A-81)."""

    def __init__(
        self,
        builds: Mapping[str, bytes],
        runner: Runner,
        read: BlobReader,
        manifests: Manifests,
    ) -> None:
        self._builds = builds
        self.hashes = {name: content_hash(wasm) for name, wasm in builds.items()}
        self._runner = runner
        self._read = read
        self._manifests = manifests
        self._problems: dict[tuple[str, str], str | None] = {}

    def has(self, workflow: Workflow, /) -> bool:
        return workflow.module.name in self._builds

    def problem(self, workflow: Workflow) -> str | None:
        module = workflow.module.name
        key = module, workflow.entrypoint
        if key not in self._problems:
            _, problems = survey(self._builds[module], [workflow.entrypoint])
            self._problems[key] = "; ".join(problems) or None
        return self._problems[key]

    def retry(self, state: State, record: Step | Faulted) -> Retried:
        manifest = manifest_under(state, runs_under(state, state.cells[record.cell]))
        module = manifest.workflows[record.cell[0]].module.name
        decided = decide_step(
            state, _ReplacingRunner(self._runner, self.hashes[module]), self._read
        )
        assert isinstance(decided.record, Step | Faulted)
        return Retried(
            recomputed=decided.record,
            expected=record,
            manifest=manifest,
            manifests=self._manifests,
            blobs=decided.blobs,
        )

    def gate(self, state: State) -> FlowGate:
        gates: list[FlowGate] = []
        manifest = state.manifest
        flows = {} if manifest is None else declared_flows(manifest)
        for name, hash in self.hashes.items():
            names = [
                flow.name
                for flow in flows.values()
                if flow.workflow.module.name == name and self.problem(flow.workflow) is None
            ]
            if manifest is not None and names:
                runner = _ReplacingRunner(self._runner, hash)
                gates.append(
                    flow_gate(
                        state, manifest, dict.fromkeys(names, TRIED),
                        runner=runner, read=self._read, skips_unchanged=False,
                    )
                )  # fmt: skip
        return FlowGate(
            checked=sum(gate.checked for gate in gates),
            stopped=tuple(flow for gate in gates for flow in gate.stopped),
        )


class _ReplacingRunner:
    """The runner, with a candidate in place of each module."""

    def __init__(self, runner: Runner, module: Hash) -> None:
        self._runner = runner
        self._module = module

    def run(self, call: Call) -> Ran:
        return self._runner.run(call._replace(module=self._module))


class CandidateManifest:
    """A ``Candidate`` that is a manifest with all its modules, definitions, routes and migrations
    (A-89 to A-89c).

    Each step runs as if the candidate had been applied with the mode ``migrate`` directly before
    it:

        recorded state before  --migrate-->  state before  --step-->  candidate's outcome
                                                                              compared with
        recorded state after   --migrate----------------------------> expected outcome

    So a difference is one of the decision. The recorded state of every step is converted on its
    own: a step whose result differs, or whose migration fails, does not affect later steps.
    """

    def __init__(
        self, effective: Effective, runner: Runner, read: BlobReader, recorded: Manifests
    ) -> None:
        self.effective = effective
        self.runner = runner
        self.read = read
        self.recorded = recorded
        self.own_manifests = Manifests()
        self.own_manifests.add(0, effective)
        self._conversions: dict[str, StateConversion] = {}

    def has(self, _workflow: Workflow, /) -> bool:
        return True

    def problem(self, workflow: Workflow) -> str | None:
        has_workflow = workflow.name in self.effective.workflows
        return None if has_workflow else "the manifest does not have this workflow"

    def retry(self, state: State, record: Step | Faulted) -> Retried:
        cell = state.cells[record.cell]
        return _ManifestRetry(self, state, record, cell, runs_under(state, cell)).run()

    def recorded_as(
        self, state: State, record: Step | Faulted, under: int, recomputed: Step | Faulted
    ) -> Retried:
        """Return a recorded step in the form in which it is compared with ``recomputed``, which was
        decided elsewhere (A-89a). ``under`` is the record of the manifest that the recorded one
        ran under. Raises as ``retry``."""
        return _ManifestRetry(self, state, record, None, under).compared_with(recomputed)

    def gate(self, state: State) -> FlowGate:
        flows = dict.fromkeys(declared_flows(self.effective), TRIED)
        return flow_gate(state, self.effective, flows, runner=self.runner, read=self.read)

    def conversion(self, workflow: Workflow) -> StateConversion:
        """Return the migration of the states of a workflow of the candidate."""
        if workflow.name not in self._conversions:
            conversion = StateConversion(self.effective, workflow)
            self._conversions[workflow.name] = conversion
        return self._conversions[workflow.name]


@dataclass(slots=True)
class _ManifestRetry:
    """One step. ``under`` is the record of the manifest that it ran under; ``cell`` is its cell
    before it, if it is to run."""

    candidate: CandidateManifest
    state: State
    record: Step | Faulted
    cell: Cell | None
    under: int
    problems: list[FieldDifference] = field(default_factory=list)
    schemas: list[str] = field(default_factory=list)
    blobs: dict[Hash, bytes] = field(default_factory=dict)
    migrated: int = 0

    @property
    def old(self) -> Workflow:
        return manifest_under(self.state, self.under).workflows[self.record.cell[0]]

    @property
    def new(self) -> Workflow:
        return self.candidate.effective.workflows[self.record.cell[0]]

    def run(self) -> Retried:
        assert self.cell is not None
        cell_state = self._candidate_state(self.cell.state, "before")
        self._check_input(self.cell)
        recomputed: Step | Faulted | None = None
        if not self.problems:
            recomputed = self._recomputed_step(self.cell, cell_state)
        return self.compared_with(recomputed)

    def compared_with(self, recomputed: Step | Faulted | None) -> Retried:
        return Retried(
            recomputed=recomputed,
            expected=self._expected(recomputed),
            manifest=self.candidate.effective,
            manifests=self.candidate.own_manifests,
            problems=tuple(self.problems),
            schemas=tuple(dict.fromkeys(self.schemas)),
            blobs=self.blobs,
            migrated=self.migrated,
        )

    def _candidate_state(self, state_slot: Slot | None, moment: str) -> Slot | None:
        """A recorded state, as the candidate's module is given it: converted by its migration, or
        completed (K-71d). A state that it cannot take is one of ``problems``, and stays as it is.
        """
        if state_slot is None:
            return None
        if takes_over(self.old, self.new):
            return self._converted(state_slot, moment)
        problem = state_problem(self.new, state_slot, self.candidate.read)
        if problem is not None:
            self._misfit(
                f"state.{moment}", self._state_json(state_slot), problem, self.old.state.name
            )
            return state_slot
        if self.new.has_opaque_state:
            return state_slot
        return self._completed(self.new.state, state_slot)

    def _converted(self, state_slot: Slot, moment: str) -> Slot:
        data = slot_bytes(state_slot, self.candidate.read)
        if not self.old.has_opaque_state:
            data = completed(self.old.state, data)
        source = manifest_under(self.state, self.under)
        conversion = self.candidate.conversion(self.new)
        call = conversion.call(source, self.record.cell, data)
        converted = conversion.result(self.candidate.runner.run(call))
        if isinstance(converted, Fault):
            refuse_host_memory(converted, f"record {self.record.seq}")
            fault_text = f"{converted.kind.value}: {converted.message}"
            self.problems.append(
                difference(f"migration.{moment}", self._state_json(state_slot), fault_text)
            )
            return state_slot
        self.migrated += 1
        return slot(converted, self.blobs)

    def _check_input(self, cell: Cell) -> None:
        """Find a key or mail that the candidate cannot take (K-75)."""
        effective, read, mail = self.candidate.effective, self.candidate.read, cell.mailbox[0]
        problem = key_problem(self.new, cell.id[1])
        if problem is not None:
            key = Lens(self.candidate.recorded, read).key(cell.id, seq=self.under + 1)
            old_key = self.old.key
            self._misfit("key", key, problem, None if old_key is None else old_key.name)
        problem = mail_problem(effective, self.new, mail, read)
        if problem is not None:
            name = mail.schema if isinstance(mail, EventMail) else self.old.event.name
            self._misfit("event", None, problem, name)

    def _misfit(self, subject: str, recorded: object, problem: str, schema: str | None) -> None:
        self.problems.append(difference(f"misfit.{subject}", recorded, problem))
        self.schemas += [] if schema is None else [schema]

    def _state_json(self, state_slot: Slot) -> object:
        lens = Lens(self.candidate.recorded, self.candidate.read, value_bytes_max=ALL_BYTES)
        return lens.state_of(
            self.record.cell[0], manifest_under(self.state, self.under), state_slot
        )

    def _recomputed_step(self, cell: Cell, cell_state: Slot | None) -> Step | Faulted:
        with self._in_force(cell, cell_state) as state:
            decided = decide_step(state, self.candidate.runner, self._read)
        self.blobs |= decided.blobs
        assert isinstance(decided.record, Step | Faulted)
        return decided.record

    @contextmanager
    def _in_force(self, cell: Cell, cell_state: Slot | None) -> Iterator[State]:
        """The state as it would be had the candidate been applied directly before the step. The
        journal's own state is as before at the end."""
        effective, seq = self.candidate.effective, self.state.next_seq
        active, id = self.state.cells.active, cell.id
        active[id] = replace(cell, state=cell_state)
        try:
            yield replace(
                self.state,
                manifest=effective,
                manifest_seq=seq,
                serial=self.state.serial + 1,
                eras=Eras((era_of(seq, effective),)),
            )
        finally:
            active[id] = cell

    def _read(self, hash: Hash, /) -> bytes:
        blob = self.blobs.get(hash)
        return self.candidate.read(hash) if blob is None else blob

    def _expected(self, recomputed: Step | Faulted | None) -> Step | Faulted:
        """The recorded step in the form of the candidate's schemas. A state that cannot be brought
        into that form is a problem, and not compared."""
        record = replace(self.record, under=None)
        if isinstance(record, Faulted) or recomputed is None:
            return record
        problem_count = len(self.problems)
        state = self._candidate_state(record.state, "after")
        if len(self.problems) > problem_count and isinstance(recomputed, Step):
            state = recomputed.state
        return replace(
            record,
            state=state,
            events=tuple(map(self._event, record.events)),
            intents=tuple(map(self._intent, record.intents)),
        )

    def _event(self, emitted: Emitted) -> Emitted:
        schema = self.candidate.effective.schemas.get(emitted.schema)
        if schema is None:
            return replace(emitted, kept=())
        data = as_received(schema, slot_bytes(emitted.value, self._read))
        return replace(emitted, value=slot(data, self.blobs), kept=())

    def _intent(self, intent: Intent) -> Intent:
        effect = self.candidate.effective.effects.get(intent.effect)
        if effect is None:
            return intent
        return replace(intent, params=self._completed(effect.params, intent.params))

    def _completed(self, schema: Schema, value: Slot) -> Slot:
        return slot(completed(schema, slot_bytes(value, self._read)), self.blobs)
