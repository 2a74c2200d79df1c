"""Load the manifest that a user names, and apply it to the world of a folder or of a node
(spec/cli.md, C-21, C-21b).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aos.author.build_record import project_built_at, refuse_stale_build
from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.decide.flow_gate import NO_FLOWS, taken_over
from aos.errors import BadUsage, Refused
from aos.host.apply.apply import Applied
from aos.host.apply.dry_run import ApplyReport, apply_report, dry_run_of, gate_flows, ways_out
from aos.host.apply.manifest_files import AIR_FOLDER, AIR_SUFFIX, load_manifest_files
from aos.host.door.writer import Writer, open_writer
from aos.host.folder.folder import WORLD_FILE
from aos.manifest.load import Loaded, ManifestProblems
from aos.shell_text import shell_word
from aos_cli.open_writing import current_core, patience, writing_to
from aos_cli.options import address_of, check_abi, client_of
from aos_cli.output import note, progress

if TYPE_CHECKING:
    from aos.client import Client


_NOTHING_BLOCKS: Final[ApplyReport] = {"blockers": [], "groups": [], "ways_out": None}
_NEEDS_VOTES: Final = frozenset({
    Rule.MANIFEST_NEEDS_PROPOSAL, Rule.PROPOSAL_IS_UNKNOWN, Rule.PROPOSAL_IS_CLOSED,
    Rule.PROPOSAL_IS_STALE, Rule.PROPOSAL_LACKS_QUORUM,
})  # fmt: skip
"""Refusals after which a world has not looked for blockers."""


@dataclass(frozen=True, slots=True)
class ApplyTarget:
    """The world that a manifest is applied to. ``node`` None: that of the folder ``world``.
    ``proposal`` is the record of the approved proposal, in a governed world."""

    world: Path
    node: str | None
    proposal: int | None = None

    def apply(
        self,
        loaded: Loaded | None,
        *,
        dry_run: bool,
        mode: str,
        leave_cells: bool,
        show: int,
        allow_diverged: bool,
    ) -> ApplyReport:
        """Apply a manifest, unless this is a dry run or it would stop flows; return the report.

        Args:
            loaded: The manifest. Only a node can do without it: it has that of ``proposal``.

        Raises:
            AosError: A module is refused, or the world cannot be read or written.
        """
        if self.node is None:
            assert loaded is not None, "only a node has the manifest itself"
            if address_of(self.world) is not None:
                return self._apply_at_address(
                    loaded, dry_run=dry_run, mode=mode, leave_cells=leave_cells,
                    allow_diverged=allow_diverged,
                )  # fmt: skip
            return self._apply_in_folder(
                loaded, dry_run=dry_run, mode=mode, leave_cells=leave_cells, show=show,
                allow_diverged=allow_diverged,
            )  # fmt: skip
        manifest_or_proposal = self.proposal if loaded is None else loaded
        assert manifest_or_proposal is not None, "a manifest, or the proposal of one"
        with client_of(self.node) as client:
            report: ApplyReport = client.try_manifest(
                manifest_or_proposal, mode=mode, leave_cells=leave_cells, show=show
            )
            leaves = report.pop("leaves")
            if dry_run or self.is_stopped(report, allow_diverged=allow_diverged):
                return report
            answer = client.apply_manifest(
                manifest_or_proposal, mode=mode, leaves=leaves, allow_diverged=allow_diverged
            )
            if isinstance(answer, Refusal) and answer.rule is Rule.MANIFEST_NEEDS_PROPOSAL:
                is_same = _in_force(client) == report["manifest"]
                answer = _unless_same(answer, is_same=is_same)
        return with_answer(report, answer)

    @staticmethod
    def is_stopped(report: ApplyReport, *, allow_diverged: bool) -> bool:
        """Whether the manifest is refused because it would stop flows in progress."""
        return bool(report["flows"]["diverge"]) and not allow_diverged

    def _apply_in_folder(
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
                with open_writer(
                    self.world, core=current_core(), patience=patience(), progress=advance
                ) as writer:
                    applied = self._applied(writer, loaded, mode=mode, leave_cells=leave_cells)
        ways = None
        if applied.blockers and self.proposal is None:
            ways = ways_out(
                self.world, loaded, applied.blockers, mode=mode, leave_cells=leave_cells
            )
        return apply_report(applied, gate, ways, loaded)

    def _apply_at_address(
        self, loaded: Loaded, *, dry_run: bool, mode: str, leave_cells: bool, allow_diverged: bool
    ) -> ApplyReport:
        """Apply a manifest to a world whose journal is not here: its owner tries it, if this is a
        dry run or the manifest takes over flows in progress (H-71c)."""
        flows = None
        if dry_run or (taken_over(loaded.effective) and not allow_diverged):
            from aos_cli.addressed_world import try_at_address  # noqa: PLC0415  # few worlds have one

            report = try_at_address(self.world, loaded, mode=mode, leave_cells=leave_cells)
            if dry_run or self.is_stopped(report, allow_diverged=allow_diverged):
                return report
            flows = report["flows"]
        with writing_to(self.world) as writer:
            applied = self._applied(writer, loaded, mode=mode, leave_cells=leave_cells)
        report = apply_report(applied, NO_FLOWS, None, loaded)
        return report if flows is None else {**report, "flows": flows}

    def _applied(self, writer: Writer, loaded: Loaded, *, mode: str, leave_cells: bool) -> Applied:
        """Apply a manifest. A governed world asks for a proposal first, also of the manifest that
        is in force: nothing would change, so none is needed."""
        in_force = writer.signed_state().manifest
        applied = writer.apply(loaded, mode=mode, leave_cells=leave_cells, proposal=self.proposal)
        is_same = in_force is not None and in_force.hash == loaded.effective.hash
        answer = applied.answer
        if isinstance(answer, Refusal) and answer.rule is Rule.MANIFEST_NEEDS_PROPOSAL:
            return replace(applied, answer=_unless_same(answer, is_same=is_same))
        return applied


def _in_force(client: Client) -> str | None:
    """The hash of the manifest in force; None if the token may not read."""
    try:
        manifest = client.document("/v1/world")["manifest"]
    except Refused:
        return None
    return None if manifest is None else str(manifest["hash"])


def _unless_same(answer: Refusal, *, is_same: bool) -> Refusal:
    """The refusal of a manifest without a proposal; another one if it is in force already."""
    if not is_same:
        return answer
    return Refusal(rule=Rule.MANIFEST_IS_IN_FORCE, message="this manifest is already in force")


def with_answer(report: ApplyReport, answer: Admitted | Refusal) -> ApplyReport:
    """The report of a dry run, with the answer to the manifest itself."""
    updated = {**report, "fates": None, "states": []}
    match answer:
        case Admitted(seq=seq):
            return updated | _NOTHING_BLOCKS | {"applied": True, "in_force": True, "seq": seq}
        case Refusal(rule=Rule.MANIFEST_IS_IN_FORCE):
            return updated | _NOTHING_BLOCKS | {"in_force": True}
    if answer.rule in _NEEDS_VOTES:
        updated |= _NOTHING_BLOCKS
    return updated | {"refused": {"rule": answer.rule.value, "message": answer.message}}


def load_named(path: Path, abi: str | None) -> Loaded:
    """Load the manifest at ``path``, a folder or a file.

    Raises:
        BadUsage: There is none, or it is the folder of a world.
        Refused: It was built from sources that have changed since.
        ManifestProblems: All its problems.
    """
    check_abi(abi)
    _check_path(path)
    project = project_built_at(path)
    if project is not None:
        refuse_stale_build(project)
        abi = abi or project.abi
    try:
        return load_manifest_files(path, abi=abi)
    except ManifestProblems as error:
        problems = f"{len(error.problems)} problems" if len(error.problems) > 1 else "1 problem"
        note(f"aos: the manifest at {path} has {problems}; nothing was applied", style="red")
        raise


def _check_path(path: Path) -> None:
    """Raise BadUsage for two paths that are often mistaken for a manifest's."""
    if (path / WORLD_FILE).is_file() and not (path / AIR_FOLDER).is_dir():
        raise BadUsage(
            f"{path}: expected a manifest, found the folder of a world "
            f"(aos apply PATH --world {shell_word(path)})"
        )
    if path.is_file() and not path.name.endswith(AIR_SUFFIX):
        raise BadUsage(f"{path}: expected a folder, or a file whose name ends in {AIR_SUFFIX}")
