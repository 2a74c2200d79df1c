"""Apply a manifest to the world of a folder or of a node (spec/cli.md, C-21, C-21b)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.host.apply.apply import Applied
from aos.host.apply.dry_run import dry_run_of
from aos.host.apply.flow_gating import gate_flows
from aos.host.apply.report import ApplyReport, apply_report
from aos.host.apply.ways_out import ways_out
from aos.host.door.writer import Writer, open_writer
from aos.manifest.load import Loaded
from aos_cli.node_option import client_of
from aos_cli.progress import progress


@dataclass(frozen=True, slots=True)
class ApplyTarget:
    """The world that a manifest is applied to. ``node`` None: that of the folder ``world``.
    ``proposal`` is the record of the approved proposal, in a governed world."""

    world: Path
    node: str | None
    proposal: int | None = None

    def apply(
        self,
        loaded: Loaded,
        *,
        dry_run: bool,
        mode: str,
        leave_cells: bool,
        show: int,
        allow_diverged: bool,
    ) -> ApplyReport:
        """Apply a manifest, unless this is a dry run or it would stop flows; return the report.

        Raises:
            AosError: A module is refused, or the world cannot be read or written.
        """
        if self.node is None:
            return self._here(
                loaded, dry_run=dry_run, mode=mode, leave_cells=leave_cells, show=show,
                allow_diverged=allow_diverged,
            )  # fmt: skip
        what = loaded if self.proposal is None else self.proposal
        with client_of(self.node) as client:
            report: ApplyReport = client.try_manifest(
                what, mode=mode, leave_cells=leave_cells, show=show
            )
            leaves = report.pop("leaves")
            if dry_run or self.is_stopped(report, allow_diverged=allow_diverged):
                return report
            answer = client.apply_manifest(
                what, mode=mode, leaves=leaves, allow_diverged=allow_diverged
            )
        return _with_answer(report, answer)

    @staticmethod
    def is_stopped(report: ApplyReport, *, allow_diverged: bool) -> bool:
        """Whether the manifest is refused because it would stop flows in progress."""
        return bool(report["flows"]["diverge"]) and not allow_diverged

    def _here(
        self,
        loaded: Loaded,
        *,
        dry_run: bool,
        mode: str,
        leave_cells: bool,
        show: int,
        allow_diverged: bool,
    ) -> ApplyReport:
        with progress("reading the journal") as advance:
            gate = gate_flows(self.world, loaded, progress=advance)
        with progress("reading the journal") as advance:
            if dry_run or (gate.stopped and not allow_diverged):
                applied = dry_run_of(
                    self.world, loaded, mode=mode, leave_cells=leave_cells, show=show,
                    progress=advance,
                )  # fmt: skip
            else:
                with open_writer(self.world, progress=advance) as writer:
                    applied = self._applied(writer, loaded, mode=mode, leave_cells=leave_cells)
        ways = None
        if applied.blockers and self.proposal is None:
            ways = ways_out(
                self.world, loaded, applied.blockers, mode=mode, leave_cells=leave_cells
            )
        return apply_report(applied, gate, ways, loaded.effective)

    def _applied(self, writer: Writer, loaded: Loaded, *, mode: str, leave_cells: bool) -> Applied:
        """Apply a manifest. A governed world asks for a proposal first, also of the manifest that
        is in force: nothing would change, so none is needed."""
        in_force = writer.about().manifest
        applied = writer.apply(loaded, mode=mode, leave_cells=leave_cells, proposal=self.proposal)
        is_same = in_force is not None and in_force.hash == loaded.effective.hash
        answer = applied.answer
        if not (is_same and isinstance(answer, Refusal)):
            return applied
        if answer.rule is not Rule.MANIFEST_NEEDS_PROPOSAL:
            return applied
        same = Refusal(rule=Rule.MANIFEST_IS_IN_FORCE, message="this manifest is already in force")
        return replace(applied, answer=same)


def _with_answer(report: ApplyReport, answer: Admitted | Refusal) -> ApplyReport:
    """The report of a dry run, with the answer to the manifest itself."""
    found = {**report, "fates": None, "states": []}
    match answer:
        case Admitted(seq=seq):
            return found | {
                "applied": True, "in_force": True, "seq": seq, "blockers": [], "groups": [],
                "ways_out": None,
            }  # fmt: skip
        case Refusal(rule=Rule.MANIFEST_IS_IN_FORCE):
            return found | {"in_force": True}
    return found | {"refused": {"rule": answer.rule.value, "message": answer.message}}
