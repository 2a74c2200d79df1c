"""``aos apply`` on a group: try the manifest on every shard, then apply it to one after the other
(spec/groups.md, GR-65 to GR-67).

A shard that has the manifest already is passed over, so a command that was interrupted between two
shards is finished by running it again.

At the address of a group, the owner of each shard tries the manifest (spec/cluster.md, CL-303).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aos.core.decide.answers import Refusal, Rule
from aos.core.journal.inputs import STRICT
from aos.errors import AosError, Refused
from aos.host.apply.dry_run import ApplyReport
from aos.host.folder.group import GroupShards
from aos.host.folder.reader import open_reader
from aos.manifest.effective import Effective
from aos.manifest.load import Loaded
from aos.manifest.shards import group_findings, with_shard
from aos.shell_text import shell_word
from aos_cli.apply_target import ApplyTarget, with_answer
from aos_cli.apply_text import (
    is_fine,
    refusal_text,
    show_changes,
    show_flows,
    show_report,
)
from aos_cli.open_writing import writing_to
from aos_cli.options import DEFAULT_WORLD, address_of
from aos_cli.output import line, note, print_json


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupApply:
    """Applies a manifest to a group with these options of ``aos apply``."""

    group: GroupShards
    loaded: Loaded
    mode: str = STRICT
    leave_cells: bool = False
    allow_diverged: bool = False

    def check(self) -> None:
        """Check that a group can have the manifest.

        Raises:
            Refused: It breaks rules for groups, each with its place; or it is governed.
        """
        effective = self.loaded.effective
        problems = [
            f"{finding.subject[1]}{finding.pointer}: {finding.message}"
            + (f" ({finding.hint})" if finding.hint else "")
            for finding in group_findings(effective)
        ]
        if effective.governance is not None:
            problems.append(
                "manifest/governance: expected none, because a group is not governed: each shard "
                "would count its own votes"
            )
        if problems:
            raise Refused("\n".join(["a group cannot have this manifest", *problems]))

    def dry_run(self) -> list[ApplyReport]:
        """Try the manifest on every shard; change nothing. A shard that has it is not in its own
        way. Raises as ``ApplyTarget.apply``."""
        return [self._dry_run(index) for index in range(self.group.shards)]

    def _dry_run(self, index: int) -> ApplyReport:
        report = self._apply(index, dry_run=True)
        in_force = _in_force(self.group.location(index))
        if in_force is None or in_force.hash != self._manifest(index).hash:
            return report
        return with_answer(report, Refusal(rule=Rule.MANIFEST_IS_IN_FORCE, message="in force"))

    def apply(self) -> Iterator[ApplyReport]:
        """Apply the manifest to the shards, in order, until one refuses it. Raises as
        ``ApplyTarget.apply``."""
        for index in range(self.group.shards):
            report = self._apply(index, dry_run=False)
            yield report
            if not self.passes(report):
                return

    def passes(self, report: ApplyReport) -> bool:
        """Whether a shard has the manifest, or could have it after a dry run."""
        is_stopped = ApplyTarget.is_stopped(report, allow_diverged=self.allow_diverged)
        return is_fine(report) and (bool(report["in_force"]) or not is_stopped)

    def _manifest(self, index: int) -> Effective:
        return with_shard(self.loaded.effective, index, self.group.shards)

    def _apply(self, index: int, *, dry_run: bool) -> ApplyReport:
        return ApplyTarget(self.group.location(index), None).apply(
            replace(self.loaded, effective=self._manifest(index)),
            dry_run=dry_run,
            mode=self.mode,
            leave_cells=self.leave_cells,
            show=0,
            allow_diverged=self.allow_diverged,
        )


def _in_force(location: Path) -> Effective | None:
    """The manifest in force of a shard, in a folder or at an address."""
    if address_of(location) is None:
        with open_reader(location) as reader:
            return reader.manifest
    with writing_to(location) as writer:
        return writer.signed_state().manifest


def apply_to_group(applying: GroupApply, *, dry_run: bool, json: bool) -> int:
    """Apply a manifest, print which shards have it, and return the exit code.

    Raises:
        Refused: A group cannot have the manifest. Nothing has changed.
        AosError: As ``ApplyTarget.apply``. The shards before may have the manifest; the same
            command continues.
    """
    applying.check()
    reports = applying.dry_run()
    can_be_applied = all(map(applying.passes, reports))
    if can_be_applied and not dry_run:
        try:
            for index, report in enumerate(applying.apply()):
                reports[index] = report
                if not json:
                    line(f"{applying.group.names[index]}: {_state_of(report)}")
        except AosError:
            _note_difference(applying, reports)
            raise
    is_done = all(map(applying.passes, reports))
    if json:
        print_json(_document(applying.group, reports))
    elif not can_be_applied or dry_run:
        _show(applying, reports, dry_run=dry_run)
    if not json:
        _show_end(applying, reports, is_tried=dry_run or not can_be_applied)
    return 0 if is_done else Refused.exit_code


def _document(group: GroupShards, reports: Sequence[ApplyReport]) -> dict[str, Any]:
    return {
        "shards": [
            {"shard": name, **report} for name, report in zip(group.names, reports, strict=True)
        ]
    }


def _show(applying: GroupApply, reports: Sequence[ApplyReport], *, dry_run: bool) -> None:
    """Print the reports of shards that refuse the manifest, or the changes of a dry run."""
    names = applying.group.names
    refusing = [index for index, report in enumerate(reports) if not applying.passes(report)]
    if not refusing and dry_run:
        show_changes(next((row for row in reports if not row["in_force"]), reports[0])["changes"])
    for index in refusing:
        report = reports[index]
        line(f"shard {names[index]}", style="bold")
        show_report(report)
        is_stopped = ApplyTarget.is_stopped(report, allow_diverged=applying.allow_diverged)
        show_flows(report["flows"], is_refused=is_stopped)
        if is_stopped:
            note(f"aos: {refusal_text(report['flows'])}", style="red")


def _show_end(applying: GroupApply, reports: Sequence[ApplyReport], *, is_tried: bool) -> None:
    names = applying.group.names
    if all(report["in_force"] for report in reports):
        line(f"all {len(names)} shards have it", style="bold")
    elif is_tried:
        can_be_applied = all(map(applying.passes, reports))
        line("nothing was changed" + (f"; all {len(names)} shards can have it" * can_be_applied))
    _note_difference(applying, reports)


def _note_difference(applying: GroupApply, reports: Sequence[ApplyReport]) -> None:
    """Print which shards have the manifest, if only some of them do."""
    group = applying.group
    having = [name for name, report in zip(group.names, reports, strict=True) if report["in_force"]]
    lacking = [name for name in group.names if name not in having]
    if not (having and lacking):
        return
    word = address_of(group.path) or shell_word(group.path)
    world = "" if group.path == DEFAULT_WORLD else f" --world {word}"
    note(
        f"aos: the manifests of the group differ: {', '.join(having)} have it, "
        f"{', '.join(lacking)} do not (aos apply PATH{world} again)",
        style="red",
    )


def _state_of(report: ApplyReport) -> str:
    if report["applied"]:
        return f"applied as record {report['seq']}"
    if report["in_force"]:
        return "already in force"
    refused = report["refused"]
    return f"refused: {refused['message']}" if refused is not None else "refused"
