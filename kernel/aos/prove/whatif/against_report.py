"""The result of a comparison with a candidate (spec/audit.md, A-83 to A-89b)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from aos.core.decide.flow_gate import NO_FLOWS, FlowGate
from aos.core.journal.records import CellId
from aos.prove.replay.difference import FieldDifference
from aos.prove.whatif.step_comparison import CLASSES
from aos.read.lens.gate_document import gate_document
from aos.values.digests import Hash, hash_text


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
