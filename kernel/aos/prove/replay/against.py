"""Run a journal's steps on a candidate, and list the steps that differ (A-80 to A-90).

Rule 1: each recorded step of the candidate's workflows runs again, with the recorded state, event
and context. A step that differs does not affect later steps: those use the recorded state too.

Rule 2: the journal is only folded. Running its own modules is the task of ``replay``.

Rule 3: the decisions of a workflow are compared: state, events, effects, status, annotation, fault.
Fuel and memory are summed up and are never a difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.frame import Frame, Tip, follow
from aos.core.journal.ports import BlobReader, Runner
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Faulted, Intent, Manifest, Record, Step
from aos.core.state.cell import EventMail, Mail, ReceiptMail
from aos.core.state.fold import fold
from aos.core.state.state import State, empty
from aos.core.state.version import manifest_under, runs_under
from aos.errors import BadUsage, Damage, Erased, sentence
from aos.manifest.effective import Effective, Workflow
from aos.manifest.judging import judge
from aos.prove.replay.against_report import AgainstReport, StepDifference, classes_of
from aos.prove.replay.candidate import (
    Candidate,
    CandidateBuilds,
    CandidateManifest,
    Retried,
    refuse_host_memory,
)
from aos.prove.replay.difference import FieldDifference, differences
from aos.read.lens.lens import ALL_BYTES, Lens, ran_under
from aos.read.lens.manifests import Manifests
from aos.sandbox.inspect import ModuleRefused, check_module
from aos.values.digests import Hash, content_hash

DIFFERENCES_KEPT: Final = 100
"""How many differing steps a report describes one by one; the others are only counted."""

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


def check_candidates(builds: Mapping[str, bytes]) -> None:
    """Check that each candidate is a module that may run.

    Raises:
        ModuleRefused: A candidate may not run; the message lists every reason.
    """
    for name, wasm in builds.items():
        problems = check_module(wasm, ())
        if problems:
            raise ModuleRefused(name, problems)


def against(
    frames: Iterable[Frame],
    read: BlobReader,
    runner: Runner,
    candidates: Mapping[str, bytes] | Effective,
    *,
    start: State | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> AgainstReport:
    """Run recorded steps once more on ``candidates``: builds by the names of their modules, or a
    whole manifest, whose migrations then convert the recorded states (A-89).

    Args:
        frames: From the genesis, or with ``start`` from the record after it.
        runner: Runs modules by hash, including the candidates.
        start: The state of a snapshot. This call takes ownership of it and changes it.

    Raises:
        Damage: The journal cannot be read to the end of ``frames``.
        Unavailable: This machine lacks something that a step needs.
    """
    comparison = _Against(read, runner, candidates, start)
    for frame in frames:
        comparison.frame(frame)
        if on_progress is not None:
            on_progress(frame.header.last)
    comparison.finish()
    return comparison.report


def module_names(manifests: Iterable[Effective]) -> list[str]:
    return sorted({name for manifest in manifests for name in manifest.modules})


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
        sentence(
            f"{word!r} is the name of {of}",
            location="--against",
            expected="one of " + ", ".join(matches or all_names),
        )
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
        start: State | None,
    ) -> None:
        self._read = read
        self._manifests = Manifests()
        self._state = start
        if start is not None and start.manifest is not None:
            self._manifests.add(start.manifest_seq, start.manifest)
        self._candidate: Candidate
        if isinstance(candidates, Effective):
            self._candidate = CandidateManifest(candidates, runner, read, self._manifests)
            modules = {name: module.hash for name, module in candidates.modules.items()}
            self.report = AgainstReport(candidates=modules, manifest=candidates.hash)
        else:
            self._candidate = CandidateBuilds(candidates, runner, read, self._manifests)
            builds = {name: content_hash(wasm) for name, wasm in candidates.items()}
            self.report = AgainstReport(candidates=builds)

    def frame(self, frame: Frame) -> None:
        if self._state is None:
            self._state = empty(Tip(world=frame.header.world), self._read, manifest_of=judge)
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
        if self._state is None:
            return
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
        lens = self._lens(retried)
        field_differences, schemas = retried.problems, retried.schemas
        if retried.recomputed is not None:
            if isinstance(retried.recomputed, Faulted):
                refuse_host_memory(retried.recomputed.fault, record)
            report.fuel_candidate += retried.recomputed.fuel
            recomputed = comparable(retried.recomputed, retried.expected)
            if recomputed != retried.expected:
                field_differences += differences(retried.expected, recomputed, lens)
                schemas += _unlike_schemas(recomputed, mail, retried.manifest)
        report.schemas.update(schemas)
        if field_differences:
            self._differs(record, field_differences, mail)

    def _lens(self, retried: Retried) -> Lens:
        def read(hash: Hash, /) -> bytes:
            blob = retried.blobs.get(hash)
            return self._read(hash) if blob is None else blob

        return Lens(retried.manifests, read, value_bytes_max=ALL_BYTES)

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


def comparable(recomputed: Step | Faulted, record: Step | Faulted) -> Step | Faulted:
    """Return ``recomputed`` with the parts that are not compared taken from the record (Rule 3)."""
    if isinstance(recomputed, Faulted):
        output = record.output if isinstance(record, Faulted) else recomputed.output
        return replace(recomputed, fuel=record.fuel, pages=record.pages, output=output)
    if isinstance(record, Faulted):
        return recomputed
    intents = tuple(
        _comparable_intent(intent, recorded_intent)
        for intent, recorded_intent in zip(recomputed.intents, record.intents, strict=False)
    )
    return replace(
        recomputed,
        fuel=record.fuel,
        pages=record.pages,
        output=record.output,
        fits=record.fits,
        intents=intents + recomputed.intents[len(intents) :],
    )


def _comparable_intent(intent: Intent, recorded: Intent) -> Intent:
    # An intent's hash covers every part of it that is compared.
    intent = replace(intent, intent=recorded.intent)
    # The definition of an effect (its executor, its retries) is no decision of the workflow.
    return (
        replace(intent, effect_hash=recorded.effect_hash)
        if intent.effect == recorded.effect
        else intent
    )


def on_text(mail: Mail) -> str:
    """Name the mail that a step ran on, for people (A-87)."""
    if isinstance(mail, EventMail):
        return mail.schema
    if isinstance(mail, ReceiptMail):
        return f"receipt of {mail.intent.effect.name}: {mail.receipt.status}"
    return f"stream frame of {mail.intent.effect.name}: {mail.frame.frame_kind}"


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
