"""``aos verify``: check chain, signatures and hashes without executing (spec/cli.md, C-41)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from aos.errors import BadUsage, Damage
from aos.host.folder.folder import open_folder
from aos.prove.replay.replay_store import verify_bundle
from aos.prove.verify.findings import FindingKind, VerifyReport
from aos.prove.verify.verify_world import verify_world
from aos.read.lens.words import count
from aos.values.digests import hash_text
from aos_cli.in_shards import on_each_shard
from aos_cli.log_comparing import Servers, compared_with_log, show_comparison
from aos_cli.options import DEFAULT_WORLD, Bundle, Json, World, option
from aos_cli.output import line, note, print_json, progress
from aos_cli.servers import Creds

if TYPE_CHECKING:
    from aos.host.cluster.log_comparison import LogComparison

FINDINGS_SHOWN: Final = 20


@on_each_shard(unless="file", of_one=("archive", "checkpoint", "log"))
def verify(
    file: Bundle = None,
    *,
    archive: Annotated[
        list[Path] | None,
        option(
            "FILE",
            "Check this archive of pruned records with the world. May be given several times.",
        ),
    ] = None,
    checkpoint: Annotated[
        list[Path] | None,
        option(
            "FILE",
            "Compare the journal with this checkpoint, which was kept elsewhere. May be given "
            "several times.",
        ),
    ] = None,
    log: Annotated[
        Path | None,
        option(
            "DIR",
            "With --checkpoint: folder with the header log of the other side, which names the "
            "first frame that differs.",
        ),
    ] = None,
    servers: Servers = False,
    creds: Creds = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    if file is not None and archive:
        raise BadUsage("--archive goes with a world: an archive alone is verified as FILE")
    if file is not None and servers:
        raise BadUsage("--servers goes with the folder of a node: a bundle has no servers")
    checkpoints = tuple(checkpoint or ())
    if file is None:
        report = _of_world(world, archive or [], checkpoints, log)
    else:
        report = _of_bundle(file, checkpoints, log)
    comparison: LogComparison | None = None
    is_readable = all(
        finding.kind is not FindingKind.STORE_UNREADABLE for finding in report.findings
    )
    if servers and is_readable:  # this process would die of reading such a file
        comparison = compared_with_log(world, creds)
    if json:
        of_servers = None if comparison is None else comparison.to_document()
        print_json({**report.to_document(), **({"servers": of_servers} if servers else {})})
    else:
        _show(report, "world" if file is None else "bundle", len(checkpoints))
        if comparison is not None:
            show_comparison(comparison)
    is_equal = comparison is None or comparison.problem is None
    return 0 if report.is_sound and is_equal else Damage.exit_code


def _of_bundle(file: Path, checkpoints: Sequence[Path], log: Path | None) -> VerifyReport:
    with progress("verifying") as advance:
        return verify_bundle(
            file, checkpoints=checkpoints, log=log, on_progress=lambda seq: advance(seq, 0)
        )


def _of_world(
    world: Path, archives: list[Path], checkpoints: Sequence[Path], log: Path | None
) -> VerifyReport:
    folder = open_folder(world)
    with progress("verifying") as advance:
        report = verify_world(
            folder.path,
            archives=archives,
            checkpoints=checkpoints,
            log=log,
            on_progress=lambda seq: advance(seq, 0),
        )
    if report.world is not None and report.world != folder.world:
        raise Damage(
            "the store holds another world",
            location=str(folder.path),
            expected=hash_text(folder.world),
            actual=hash_text(report.world),
            hint="world.json and store/ belong together; restore both from one copy",
        )
    return report


def _show(report: VerifyReport, subject: str, checkpoints: int) -> None:
    if report.is_sound:
        line(f"verify: sound to record {report.seq:,}", style="bold green")
        if checkpoints:
            line(f"  it continues {count(checkpoints, 'checkpoint')}")
    else:
        total = len(report.findings) + report.unlisted
        note(f"aos: the {subject} is damaged: {count(total, 'finding')}", style="red")
        for finding in report.findings[:FINDINGS_SHOWN]:
            line(f"  {finding.kind.value}: {finding}", style="red")
        if total > FINDINGS_SHOWN:
            line(f"  and {total - FINDINGS_SHOWN:,} more (--json lists them)", style="red")
        if all(finding.kind is FindingKind.DERIVED_DIFFERS for finding in report.findings):
            note("the journal itself is sound: aos rebuild makes the derived rows again from it")
    line(f"  {count(report.frames, 'frame')}, {count(report.records, 'record')} in one chain")
    if report.pruned:
        line(f"  from the snapshot of record {report.pruned:,} on: earlier records were pruned")
    line(
        f"  {count(report.signatures, 'signature')} and {count(report.blobs, 'blob')} checked, "
        f"{count(report.values, 'value')} by their schemas"
    )
    if report.erased:
        line(f"  {count(report.erased, 'value')} erased, each by a record of an operator")
    rows = f"{count(report.rows, 'derived row')} recomputed" if report.folded else "not recomputed"
    line(f"  {rows}, {report.seconds:.1f} s")
    if report.log_root is not None:
        line(f"  root {hash_text(report.log_root)}")
    if not checkpoints:
        way = (
            "see aos checkpoint status" if subject == "world" else "compare with --checkpoint FILE"
        )
        line(f"  verify alone finds neither a rollback nor a rewriting of the journal: {way}")
