"""Run a journal's steps on a candidate, and list the steps that differ (A-80 to A-90).

Rule 1: each recorded step of the candidate's workflows runs again, with the recorded state, event
and context. A step that differs does not affect later steps: those use the recorded state too.

Rule 2: the journal is only folded. Running its own modules is the task of ``replay``.

The result of a comparison with a candidate (spec/audit.md, A-83 to A-89b).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from aos.core.decide.flow_gate import NO_FLOWS, FlowGate
from aos.core.journal.faults import Fault, FaultKind, refuse_host_memory
from aos.core.journal.frame import Frame, follow
from aos.core.journal.ports import BlobReader, Runner
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Faulted, Manifest, Record, Step
from aos.core.state.cell import EventMail, Mail
from aos.core.state.fold import fold
from aos.core.state.state import State
from aos.core.state.version import manifest_under, runs_under
from aos.errors import BadUsage, Damage, Erased
from aos.manifest.effective import Effective, Workflow
from aos.manifest.judging import judge
from aos.manifest.load import Loaded
from aos.prove.replay.difference import FieldDifference
from aos.prove.verify.journal_source import JournalSource, Progress, records_of_kinds
from aos.prove.whatif.candidate import Candidate, CandidateBuilds, CandidateManifest
from aos.prove.whatif.step_comparison import (
    CLASSES,
    DIFFERENCES_KEPT,
    classes_of,
    decision_differences,
    on_text,
)
from aos.read.lens.flow_lens import gate_document
from aos.read.lens.lens import ALL_BYTES, Lens, Manifests, ran_under
from aos.sandbox.engine import Sandbox
from aos.sandbox.inspect import ModuleRefused, check_module
from aos.values.digests import Hash, content_hash, hash_text

Candidates: TypeAlias = Mapping[str | None, bytes] | Loaded
"""Builds by the names of their modules (None names the journal's only module), or a manifest with
its modules, whose migrations then convert the recorded states (A-89)."""

_RETURN_FAULTS: Final = frozenset(
    {
        FaultKind.STATE_INVALID,
        FaultKind.ANNOTATION_INVALID,
        FaultKind.EVENT_INVALID,
        FaultKind.PARAMS_INVALID,
    }
)
_NAME_BEFORE_PATH: Final = re.compile(r"(?:^|: )([^ :\"]+@[0-9]+): \$")
"""The name of the schema or effect in front of the path into a value."""

_UNKNOWN_SCHEMA: Final = re.compile(r'schema "([^"]+)" is not in the manifest')
_UNREAD_INPUT: Final = re.compile(r"sdk_input: (state|event|key): ")
_UNREAD_PAYLOAD: Final = re.compile(r"sdk_payload: the receipt of ([^ ]+) is not of its schema")


def against(
    source: JournalSource,
    candidates: Candidates,
    *,
    start: State | None = None,
    on_progress: Progress | None = None,
) -> AgainstReport:
    """Run the recorded steps of a journal once more on candidates, in the real sandbox.

    Args:
        start: The state of a snapshot to begin after; None: all records that are kept. The
            comparison takes ownership of it and changes it.
        on_progress: Called on another thread after each frame.

    Raises:
        ModuleRefused: A candidate may not run; the message lists every reason.
        BadUsage: The journal has no module of that name, or no name is given and the journal has
            several modules.
        Damage: The journal cannot be read to its end.
        Unavailable: This machine lacks something that a step needs.
    """
    state = source.first_state() if start is None else start
    first = state.tip.seq + 1
    if isinstance(candidates, Loaded):
        ready: Mapping[str, bytes] | Effective = candidates.effective
        modules = candidates.modules
    else:
        ready = _builds_by_name(candidates, _module_names(source, first, state.manifest))
        _check_builds(ready)
        modules = {content_hash(wasm): wasm for wasm in ready.values()}

    def run(sandbox: Sandbox) -> AgainstReport:
        comparison = _Against(source.blob, sandbox, ready, state)
        for frame in source.frames(first, source.last):
            comparison.frame(frame)
            if on_progress is not None:
                on_progress(frame.header.last, source.last)
        comparison.finish()
        return comparison.report

    return source.in_sandbox(modules, run)


def _module_names(source: JournalSource, first: int, in_force: Effective | None) -> list[str]:
    """The names of the modules of all manifests: the one in force before record ``first``, and
    those that come into force from there on."""
    names = set() if in_force is None else set(in_force.modules)
    for record in records_of_kinds(source.frames(first, source.last), Manifest):
        assert isinstance(record, Manifest)
        names |= judge(source.blob(record.document.hash)).modules.keys()
    return sorted(names)


def _builds_by_name(candidates: Mapping[str | None, bytes], names: list[str]) -> dict[str, bytes]:
    if not names:
        raise BadUsage("--against: the journal has no modules: no manifest was ever applied")
    if None in candidates and len(names) > 1:
        raise BadUsage(
            "--against: the journal has several modules: say which with NAME=FILE, one of "
            + ", ".join(names)
        )
    return {
        names[0] if word is None else named_module(word, names): wasm
        for word, wasm in candidates.items()
    }


def _check_builds(builds: Mapping[str, bytes]) -> None:
    for name, wasm in builds.items():
        problems = check_module(wasm, ())
        if problems:
            raise ModuleRefused(name, problems)


def named_module(word: str, names: Iterable[str]) -> str:
    """Find a module by its name, or by a part of it that only one module has (A-5).

    Raises:
        BadUsage: No module matches, or several do.
    """
    all_names = list(names)
    if word in all_names:
        return word
    matches = [name for name in all_names if word in _nearly(name)] or [
        name for name in all_names if word in _loosely(name)
    ]
    if len(matches) == 1:
        return matches[0]
    of = "several modules" if matches else "no module of this journal"
    raise BadUsage(
        f"{word!r} is the name of {of}",
        location="--against",
        expected="one of " + ", ".join(matches or all_names),
    )


def _nearly(name: str) -> set[str]:
    base, local = name.partition("@")[0], name.partition("/")[2]
    return {base, local, local.partition("@")[0]}


def _loosely(name: str) -> set[str]:
    parts = name.partition("/")[2].partition("@")[0].split(".")
    return {".".join(parts[:n]) for n in range(1, len(parts))}


class _Against:
    def __init__(
        self,
        read: BlobReader,
        runner: Runner,
        candidates: Mapping[str, bytes] | Effective,
        state: State,
    ) -> None:
        self._read = read
        self._manifests = Manifests()
        self._state = state
        if state.manifest is not None:
            self._manifests.add(state.manifest_seq, state.manifest)
        self._candidate: Candidate
        if isinstance(candidates, Effective):
            self._candidate = CandidateManifest(candidates, runner, read, self._manifests)
            modules = {name: module.hash for name, module in candidates.modules.items()}
            self.report = AgainstReport(candidates=modules, manifest=candidates.hash)
        else:
            builds = CandidateBuilds(candidates, runner, read, self._manifests)
            self._candidate = builds
            self.report = AgainstReport(candidates=builds.hashes)

    def frame(self, frame: Frame) -> None:
        state = self._state
        tip = follow(state.tip, frame)
        for data in frame.records:
            record = from_bytes(data)
            if isinstance(record, Step | Faulted):
                self._step(state, record)
            fold(state, record, self._read)
            self._note(state, record)
        state.tip = tip
        self.report.seq = frame.header.last

    def finish(self) -> None:
        """Try the candidate on the flows that are in progress at the end (A-90)."""
        report = self.report
        report.flows = self._candidate.gate(self._state)
        lens = Lens(self._manifests, self._read, value_bytes_max=ALL_BYTES)
        seq = self._state.next_seq
        report.keys = {flow.cell: lens.key(flow.cell, seq=seq) for flow in report.flows.stopped}

    def _note(self, state: State, record: Record) -> None:
        if isinstance(record, Manifest):
            self._manifests.add(record.seq, state.effective)
            self.report.migrations += bool(record.migrated)

    def _step(self, state: State, record: Step | Faulted) -> None:
        if not state.ring or state.ring[0] != record.cell:
            raise Damage(f"record {record.seq} runs a cell that was not to run: see aos verify")
        cell = state.cells[record.cell]
        workflow = manifest_under(state, runs_under(state, cell)).workflows[record.cell[0]]
        if not self._candidate.has(workflow):
            return
        problem = self._candidate.problem(workflow)
        if isinstance(record, Faulted) and record.fault.environmental:
            self.report.environmental += 1
        elif problem is not None:
            self.report.missing[workflow.name] = problem
            self.report.missing_steps[workflow.name] += 1
        else:
            self._compare(state, record, cell.mailbox[0])

    def _compare(self, state: State, record: Step | Faulted, mail: Mail) -> None:
        report = self.report
        try:
            retried = self._candidate.retry(state, record)
        except Erased:
            report.erased += 1
            return
        report.compared += 1
        report.fuel_recorded += record.fuel
        report.migrated.update({record.cell[0]: retried.migrated} if retried.migrated else {})
        field_differences, schemas = retried.problems, retried.schemas
        recomputed = retried.recomputed
        if recomputed is not None:
            if isinstance(recomputed, Faulted):
                refuse_host_memory(recomputed.fault, f"record {record.seq}")
            report.fuel_candidate += recomputed.fuel
            decisions = decision_differences(
                recomputed, retried.expected,
                manifests=retried.manifests, read=self._read, blobs=retried.blobs,
            )  # fmt: skip
            field_differences += decisions
            if decisions:
                schemas += _unlike_schemas(recomputed, mail, retried.manifest)
        report.schemas.update(schemas)
        if field_differences:
            self._differs(record, field_differences, mail)

    def _differs(
        self,
        record: Step | Faulted,
        field_differences: tuple[FieldDifference, ...],
        mail: Mail,
    ) -> None:
        report = self.report
        classes = classes_of(field_differences)
        report.different += 1
        report.by_class.update(classes)
        report.by_workflow[record.cell[0]] += 1
        if len(report.first) < DIFFERENCES_KEPT:
            recorded = Lens(self._manifests, self._read, value_bytes_max=ALL_BYTES)
            report.first.append(
                StepDifference(
                    seq=record.seq,
                    workflow=record.cell[0],
                    key=recorded.key(record.cell, seq=ran_under(record)),
                    on=on_text(mail),
                    classes=classes,
                    differences=field_differences,
                )
            )


def _unlike_schemas(recomputed: Step | Faulted, mail: Mail, manifest: Effective) -> tuple[str, ...]:
    if isinstance(recomputed, Step):
        return ()
    name = unlike(recomputed.fault, manifest.workflows[recomputed.cell[0]], mail, manifest)
    return () if name is None else (name,)


def unlike(fault: Fault, workflow: Workflow, mail: Mail, manifest: Effective) -> str | None:
    """Find out from a candidate's fault that it was built for another schema than the recorded one
    (spec/audit.md, A-84a). Return the name of that schema; None if the fault has another cause.
    ``manifest`` is the one that the step ran under.

    A candidate is a module without its manifest, so its own schemas are not known. They show only
    where one of them meets a recorded one: either the kernel finds that a returned value does not
    fit the recorded schema, or the SDK in the module finds that it cannot read a recorded value.

    This module parses fault messages; no other module does. A typed answer is not available: a
    guest's fault is text that a foreign module wrote (spec/sdk.md, SD-5), and the kernel's own
    faults are recorded and hashed as kind and message, so a field for the schema would change their
    bytes. The messages themselves are frozen (K-33). A message without a match costs only a hint in
    the report: the step still counts as different.
    """
    if fault.kind is FaultKind.GUEST:
        return _unread_schema(fault.message, workflow, mail, manifest)
    if fault.kind not in _RETURN_FAULTS:
        return None
    unknown = _UNKNOWN_SCHEMA.search(fault.message)
    if unknown is not None:
        return unknown[1]
    match = _NAME_BEFORE_PATH.search(fault.message)
    name = "" if match is None else match[1]
    if name in manifest.effects:
        return manifest.effects[name].params.name
    return name if name in manifest.schemas else None


def _unread_schema(message: str, workflow: Workflow, mail: Mail, manifest: Effective) -> str | None:
    """Return the schema of the value that an SDK could not read (spec/sdk.md, SD-5)."""
    payload = _UNREAD_PAYLOAD.match(message)
    if payload is not None:
        effect = manifest.effects.get(payload[1])
        return None if effect is None else effect.receipt.name
    input_match = _UNREAD_INPUT.match(message)
    match None if input_match is None else input_match[1]:
        case "state":
            return workflow.state.name
        case "event":
            return mail.schema if isinstance(mail, EventMail) else workflow.event.name
        case "key" if workflow.key is not None:
            return workflow.key.name
        case _:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDifference:
    """A step with another result in the candidate. ``on`` is the event schema that the step ran
    on, or the effect whose receipt it ran on. ``classes`` is a selection of ``CLASSES``."""

    seq: int
    workflow: str
    key: object
    on: str
    classes: tuple[str, ...]
    differences: tuple[FieldDifference, ...]

    def to_document(self) -> dict[str, object]:
        return {
            "record": self.seq,
            "cell": {"workflow": self.workflow, "key": self.key},
            "on": self.on,
            "classes": list(self.classes),
            "differences": [difference.to_document("candidate") for difference in self.differences],
        }


@dataclass(slots=True, kw_only=True)
class AgainstReport:
    """The result of running the steps of the candidates' workflows (A-87).

    Attributes:
        candidates: Hash of each build, by the name of its module.
        manifest: Hash of the candidate's effective manifest; None if only builds were given.
        compared: Steps that ran again, including faults.
        different: How many of them had another result; ``first`` lists the first of them.
        by_class: Number of steps by the part that differs; one step may count several times.
        schemas: Steps that say nothing about the candidate's decisions, by the recorded schema that
            is another one in the candidate.
        missing: Steps of a workflow whose entrypoint the candidate does not have, and the reason.
        erased: Steps that could not run again, because a value that they need was erased.
        environmental: Recorded faults of the machine, which are not compared.
        migrations: Manifests that migrated states. Migrations are not run again.
        migrated: Recorded states that the candidate's migrations converted, by workflow.
        fuel: Of all compared steps, as recorded and in the candidate.
        flows: How the candidate continues the flows that are in progress at the last record (A-90).
        keys: The keys of flows that diverge, as JSON.
        seq: The last record.
    """

    candidates: Mapping[str, Hash]
    manifest: Hash | None = None
    compared: int = 0
    different: int = 0
    by_class: Counter[str] = field(default_factory=Counter)
    by_workflow: Counter[str] = field(default_factory=Counter)
    schemas: Counter[str] = field(default_factory=Counter)
    first: list[StepDifference] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    missing_steps: Counter[str] = field(default_factory=Counter)
    erased: int = 0
    environmental: int = 0
    migrations: int = 0
    migrated: Counter[str] = field(default_factory=Counter)
    fuel_recorded: int = 0
    fuel_candidate: int = 0
    flows: FlowGate = NO_FLOWS
    keys: Mapping[CellId, object] = field(default_factory=dict)
    seq: int = 0

    @property
    def is_same(self) -> bool:
        """Whether no compared step differs, none is missing, and no flow would be stopped."""
        return not self.different and not self.missing and not self.flows.stopped

    def to_document(self) -> dict[str, object]:
        """Return the document of spec/audit.md, A-87."""
        return {
            "same": self.is_same,
            "candidates": {
                name: hash_text(module_hash)
                for name, module_hash in sorted(self.candidates.items())
            },
            "manifest": None if self.manifest is None else hash_text(self.manifest),
            "compared": self.compared,
            "different": self.different,
            "by_class": {name: self.by_class[name] for name in CLASSES},
            "by_workflow": dict(sorted(self.by_workflow.items())),
            "schemas": dict(sorted(self.schemas.items())),
            "missing": [
                {"workflow": name, "steps": self.missing_steps[name], "problem": problem}
                for name, problem in sorted(self.missing.items())
            ],
            "not_compared": {
                "erased": self.erased,
                "environmental": self.environmental,
                "migrations": self.migrations,
            },
            "migrated": dict(sorted(self.migrated.items())),
            "fuel": {"recorded": self.fuel_recorded, "candidate": self.fuel_candidate},
            "flows": gate_document(self.flows, self.keys.__getitem__),
            "seq": self.seq,
            "differences": [difference.to_document() for difference in self.first],
            "left_out": self.different - len(self.first),
        }
