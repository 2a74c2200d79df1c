"""A candidate: decides one recorded step in another way than the journal did (spec/audit.md, A-80).

(State before the step, Step | Faulted) -> Retried
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from aos.audit.lens.manifests import Manifests
from aos.audit.replay.difference import FieldDifference
from aos.core.decide.flow_gate import FlowGate, flow_gate
from aos.core.decide.step import decide_step
from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.ports import BlobReader, Call, Ran, Runner
from aos.core.journal.records import Faulted, Step
from aos.core.state.state import State
from aos.core.state.version import manifest_under, runs_under
from aos.errors import Unavailable, sentence
from aos.flow.declaration import declared_flows
from aos.flow.flow_state import TRIED
from aos.manifest.effective import Effective, Workflow
from aos.sandbox.inspect import survey
from aos.values.digests import Hash, content_hash


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


def refuse_host_memory(fault: Fault, record: Step | Faulted) -> None:
    """Raise Unavailable if only this machine prevented the step (A-85)."""
    if fault.kind is FaultKind.HOST_MEMORY:
        raise Unavailable(
            sentence(
                f"this machine could not run it: {fault.message}",
                location=f"record {record.seq}",
                hint="try where there is more room",
            )
        )


class CandidateBuilds:
    """Other builds of modules of the journal. All else is as recorded (A-81)."""

    def __init__(
        self,
        builds: Mapping[str, bytes],
        runner: Runner,
        read: BlobReader,
        manifests: Manifests,
    ) -> None:
        self._builds = builds
        self._hashes = {name: content_hash(wasm) for name, wasm in builds.items()}
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
        decided = decide_step(state, _Replaced(self._runner, self._hashes[module]), self._read)
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
        for name, hash in self._hashes.items():
            names = [
                flow.name
                for flow in flows.values()
                if flow.workflow.module.name == name and self.problem(flow.workflow) is None
            ]
            if manifest is not None and names:
                runner = _Replaced(self._runner, hash)
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


class _Replaced:
    """The runner, with a candidate in place of each module."""

    def __init__(self, runner: Runner, module: Hash) -> None:
        self._runner = runner
        self._module = module

    def run(self, call: Call) -> Ran:
        return self._runner.run(replace(call, module=self._module))
