"""Run a journal's steps on a candidate build, and list the steps that differ (A-80 to A-88).

Rule 1: each recorded step of the candidate's workflows runs again, with the recorded state, event
and context. A step that differs does not affect later steps: those use the recorded state too.

Rule 2: the journal is only folded. Running its own modules is the task of ``replay``.

Rule 3: the decisions of a workflow are compared: state, events, effects, status, annotation, fault.
Fuel and memory are summed up and are never a difference.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from aos.audit.lens.lens import ALL_BYTES, Lens, ran_under
from aos.audit.lens.manifests import Manifests
from aos.audit.replay.difference import FieldDifference, differences
from aos.audit.replay.misfits import unlike
from aos.core.decide.step import decide_step
from aos.core.journal.faults import FaultKind
from aos.core.journal.frame import Frame, Tip, follow
from aos.core.journal.ports import BlobReader, Call, Ran, Runner
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Faulted, Manifest, Record, Step
from aos.core.state.cell import EventMail, Mail, ReceiptMail
from aos.core.state.fold import fold
from aos.core.state.state import State, empty
from aos.core.state.version import manifest_under, runs_under
from aos.errors import BadUsage, Damage, Erased, Unavailable, sentence
from aos.manifest.effective import Effective, Workflow
from aos.sandbox.inspect import ModuleRefused, check_module, survey
from aos.values.digests import Hash, content_hash, hash_text

DIFFERENCES_KEPT: Final = 100
"""How many differing steps a report describes one by one; the others are only counted."""

CLASSES: Final = ("state", "events", "effects", "status", "annotation", "fault")
"""The parts of a step that may differ."""

_CLASS_OF: Final = {
    "state": "state",
    "abandoned": "state",
    "events": "events",
    "intents": "effects",
    "status": "status",
    "ann": "annotation",
    "fault": "fault",
    "kind": "fault",
}


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
            "differences": [
                {
                    "field": each.field,
                    "recorded": each.recorded,
                    "candidate": each.recomputed,
                    "places": [
                        {
                            "path": place.path,
                            "recorded": place.recorded,
                            "candidate": place.recomputed,
                        }
                        for place in each.places
                    ],
                }
                for each in self.differences
            ],
        }


@dataclass(slots=True, kw_only=True)
class AgainstReport:
    """The result of running the steps of the candidates' workflows.

    Attributes:
        candidates: Hash of each build, by the name of its module.
        compared: Steps that ran again, including faults.
        different: How many of them had another result; ``first`` lists the first of them.
        by_class: Number of steps by the part that differs; one step may count several times.
        schemas: Steps that say nothing about the candidate's decisions, by the recorded schema that
            is another one in the candidate.
        missing: Steps of a workflow whose entrypoint the candidate does not have, and the reason.
        erased: Steps that could not run again, because a value that they need was erased.
        environmental: Recorded faults of the machine, which are not compared.
        migrations: Manifests that migrated states. Migrations are not run again.
        fuel: Of all compared steps, as recorded and in the candidate.
        seq: The last record.
    """

    candidates: Mapping[str, Hash]
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
    fuel_recorded: int = 0
    fuel_candidate: int = 0
    seq: int = 0

    @property
    def is_same(self) -> bool:
        return not self.different and not self.missing

    def to_document(self) -> dict[str, object]:
        """Return the document of spec/audit.md, A-87."""
        return {
            "same": self.is_same,
            "candidates": {name: hash_text(each) for name, each in sorted(self.candidates.items())},
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
            "fuel": {"recorded": self.fuel_recorded, "candidate": self.fuel_candidate},
            "seq": self.seq,
            "differences": [each.to_document() for each in self.first],
            "left_out": self.different - len(self.first),
        }


def check_candidates(given: Mapping[str, bytes]) -> None:
    """Check that each candidate is a module that may run.

    Raises:
        ModuleRefused: A candidate may not run; the message lists every reason.
    """
    for name, wasm in given.items():
        problems = check_module(wasm, ())
        if problems:
            raise ModuleRefused(name, problems)


def against(
    frames: Iterable[Frame],
    read: BlobReader,
    runner: Runner,
    candidates: Mapping[str, bytes],
    *,
    start: State | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> AgainstReport:
    """Run the recorded steps of ``candidates``, given by the names of their modules, once more.

    Args:
        frames: From the genesis, or with ``start`` from the record after it.
        runner: Runs modules by hash, including the candidates.
        start: The state of a snapshot. This call takes ownership of it and changes it.

    Raises:
        Damage: The journal cannot be read to the end of ``frames``.
        Unavailable: This machine lacks something that a step needs.
    """
    again = _Against(read, runner, candidates, start)
    for frame in frames:
        again.frame(frame)
        if on_progress is not None:
            on_progress(frame.header.last)
    return again.report


def module_names(manifests: Iterable[Effective]) -> list[str]:
    return sorted({name for each in manifests for name in each.modules})


def named_module(word: str, names: Iterable[str]) -> str:
    """Find a module by its name, or by a part of it that only one module has (A-5).

    Raises:
        BadUsage: No module matches, or several do.
    """
    known = list(names)
    if word in known:
        return word
    found = [name for name in known if word in _nearly(name)] or [
        name for name in known if word in _loosely(name)
    ]
    if len(found) == 1:
        return found[0]
    of = "several modules" if found else "no module of this journal"
    raise BadUsage(
        sentence(
            f"{word!r} is the name of {of}",
            where="--against",
            expected="one of " + ", ".join(found or known),
        )
    )


def _nearly(name: str) -> set[str]:
    base, local = name.partition("@")[0], name.partition("/")[2]
    return {base, local, local.partition("@")[0]}


def _loosely(name: str) -> set[str]:
    parts = name.partition("/")[2].partition("@")[0].split(".")
    return {".".join(parts[:n]) for n in range(1, len(parts))}


class _Candidate:
    """The runner, with one module replaced by a candidate."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.module: Hash | None = None

    def run(self, call: Call) -> Ran:
        assert self.module is not None
        return self._runner.run(replace(call, module=self.module))


class _Against:
    def __init__(
        self,
        read: BlobReader,
        runner: Runner,
        candidates: Mapping[str, bytes],
        start: State | None,
    ) -> None:
        self._read = read
        self._candidates = candidates
        self._hashes = {name: content_hash(wasm) for name, wasm in candidates.items()}
        self._runner = _Candidate(runner)
        self._entrypoints: dict[tuple[str, str], str | None] = {}
        self._manifests = Manifests()
        self._state = start
        if start is not None and start.manifest is not None:
            self._manifests.add(start.manifest_seq, start.manifest)
        self.report = AgainstReport(candidates=self._hashes)

    def frame(self, frame: Frame) -> None:
        if self._state is None:
            self._state = empty(Tip(world=frame.header.world), self._read)
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

    def _note(self, state: State, record: Record) -> None:
        if isinstance(record, Manifest):
            self._manifests.add(record.seq, state.effective)
            self.report.migrations += bool(record.migrated)

    def _step(self, state: State, record: Step | Faulted) -> None:
        if not state.ring or state.ring[0] != record.cell:
            raise Damage(f"record {record.seq} runs a cell that was not to run: see aos verify")
        cell = state.cells[record.cell]
        workflow = manifest_under(state, runs_under(state, cell)).workflows[record.cell[0]]
        hash = self._hashes.get(workflow.module.name)
        if hash is None:
            return
        if isinstance(record, Faulted) and record.fault.environmental:
            self.report.environmental += 1
        elif self._has_entrypoint(workflow):
            self._runner.module = hash
            self._compare(state, record, cell.mailbox[0], workflow)

    def _has_entrypoint(self, workflow: Workflow) -> bool:
        module, report = workflow.module.name, self.report
        key = module, workflow.entrypoint
        if key not in self._entrypoints:
            _, problems = survey(self._candidates[module], [workflow.entrypoint])
            self._entrypoints[key] = "; ".join(problems) or None
        problem = self._entrypoints[key]
        if problem is not None:
            report.missing[workflow.name] = problem
            report.missing_steps[workflow.name] += 1
        return problem is None

    def _compare(
        self, state: State, record: Step | Faulted, mail: Mail, workflow: Workflow
    ) -> None:
        report = self.report
        try:
            decided = decide_step(state, self._runner, self._read)
        except Erased:
            report.erased += 1
            return
        made = decided.record
        assert isinstance(made, Step | Faulted)
        if isinstance(made, Faulted) and made.fault.kind is FaultKind.HOST_MEMORY:
            raise Unavailable(
                sentence(
                    f"this machine could not run it: {made.fault.message}",
                    where=f"record {record.seq}",
                    hint="try where there is more room",
                )
            )
        report.compared += 1
        report.fuel_recorded += record.fuel
        report.fuel_candidate += made.fuel
        made = _comparable(made, record)
        if made == record:
            return
        if isinstance(made, Faulted):
            under = manifest_under(state, runs_under(state, state.cells[record.cell]))
            name = unlike(made.fault, workflow, mail, under)
            report.schemas.update(() if name is None else (name,))

        def read(hash: Hash, /) -> bytes:
            found = decided.blobs.get(hash)
            return self._read(hash) if found is None else found

        lens = Lens(self._manifests, read, most=ALL_BYTES)
        self._differs(record, differences(record, made, lens), lens, mail)

    def _differs(
        self,
        record: Step | Faulted,
        found: tuple[FieldDifference, ...],
        lens: Lens,
        mail: Mail,
    ) -> None:
        report = self.report
        classes = {_CLASS_OF[each.field.partition("[")[0].partition(".")[0]] for each in found}
        report.different += 1
        report.by_class.update(classes)
        report.by_workflow[record.cell[0]] += 1
        if len(report.first) < DIFFERENCES_KEPT:
            report.first.append(
                StepDifference(
                    seq=record.seq,
                    workflow=record.cell[0],
                    key=lens.key(record.cell, seq=ran_under(record)),
                    on=_on(mail),
                    classes=tuple(each for each in CLASSES if each in classes),
                    differences=found,
                )
            )


def _comparable(made: Step | Faulted, record: Step | Faulted) -> Step | Faulted:
    """Return ``made`` with the parts that are not compared copied from the record (Rule 3)."""
    if isinstance(made, Faulted):
        output = record.output if isinstance(record, Faulted) else made.output
        return replace(made, fuel=record.fuel, pages=record.pages, output=output)
    if isinstance(record, Faulted):
        return made
    # An intent's hash covers every part of it that is compared.
    intents = tuple(
        dataclasses.replace(ours, intent=theirs.intent)
        for ours, theirs in zip(made.intents, record.intents, strict=False)
    )
    return replace(
        made,
        fuel=record.fuel,
        pages=record.pages,
        output=record.output,
        fits=record.fits,
        intents=intents + made.intents[len(intents) :],
    )


def _on(mail: Mail) -> str:
    if isinstance(mail, EventMail):
        return mail.schema
    if isinstance(mail, ReceiptMail):
        return f"receipt of {mail.intent.effect.name}: {mail.receipt.status}"
    return f"stream frame of {mail.intent.effect.name}: {mail.frame.frame_kind}"
