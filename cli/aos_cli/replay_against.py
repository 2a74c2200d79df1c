"""``aos replay --against``: run recorded steps on a candidate build (spec/cli.md, C-40b)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aos.audit.lens.words import count, short
from aos.audit.replay.against import CLASSES, AgainstReport, StepDifference
from aos.audit.replay.against_store import against_bundle, against_store
from aos.audit.views.record_view import name_cell
from aos.errors import BadUsage, Refused
from aos.host.folder.folder import open_folder
from aos.sandbox.caps import MODULE_BYTES_MAX
from aos.store.bundle.reader import open_bundle
from aos_cli.output import line, print_json
from aos_cli.progress import Advance, progress
from aos_cli.replay_start import snapshot_named, until_interrupted

STEPS_SHOWN: Final = 10
PLACES_SHOWN: Final = 8
VALUE_CHARACTERS: Final = 400
"""How much of one side is shown. ``--json`` has all of it, for more steps."""


def run_against(
    given: Sequence[str], *, file: Path | None, start: str | None, world: Path, json: bool
) -> int:
    """Compare, print, and return the exit code: 1 if a step differs or could not run."""
    if file is not None and start is not None:
        raise BadUsage("--from goes with a world: a bundle is replayed from its first record")
    candidates = _read(given)
    with progress("comparing") as advance:
        if file is None:
            report = _with_world(world, candidates, start, advance)
        else:
            with open_bundle(file) as bundle:
                report = until_interrupted(
                    lambda tell: against_bundle(bundle, candidates, on_progress=tell), advance
                )
    if json:
        print_json(report.to_document())
    else:
        _show(report)
    return 0 if report.is_same else Refused.exit_code


def _with_world(
    world: Path, candidates: dict[str | None, bytes], start: str | None, advance: Advance
) -> AgainstReport:
    with open_folder(world).open_store(readonly=True) as store:
        row = None if start is None else snapshot_named(store, start)
        return until_interrupted(
            lambda tell: against_store(store, candidates, start=row, on_progress=tell), advance
        )


def _read(given: Sequence[str]) -> dict[str | None, bytes]:
    """The candidates' bytes by module name; the name is None for a single ``FILE``."""
    found: dict[str | None, bytes] = {}
    for each in given:
        name, equals, path = each.partition("=")
        word = name if equals else None
        if word in found or (found and None in (word, *found)):
            raise BadUsage(
                f"--against {each}: expected one candidate for each module, NAME=FILE each"
            )
        found[word] = _module(Path(path if equals else each))
    return found


def _module(path: Path) -> bytes:
    try:
        with path.open("rb") as opened:
            data = opened.read(MODULE_BYTES_MAX + 1)
    except OSError as error:
        raise BadUsage(
            f"--against: {path} cannot be read: {error.strerror} "
            "(expected a built module, such as build/NAME.wasm)"
        ) from error
    if len(data) > MODULE_BYTES_MAX:
        raise BadUsage(f"--against: {path} is too large: expected at most {MODULE_BYTES_MAX} bytes")
    return data


def _show(report: AgainstReport) -> None:
    steps = count(report.compared, "step")
    if report.is_same:
        line(f"against: {steps} come out the same", style="bold green")
    else:
        line(f"against: {report.different:,} of {steps} come out otherwise", style="bold red")
    for workflow, problem in sorted(report.missing.items()):
        missed = count(report.missing_steps[workflow], "step")
        line(f"  {workflow}: {missed} could not run: {problem}", style="red")
    if report.different:
        counts = ((name, report.by_class[name]) for name in CLASSES)
        said = ", ".join(f"{name} {n:,}" for name, n in counts if n)
        line(f"  what differs: {said}")
        for workflow, n in sorted(report.by_workflow.items()):
            line(f"  {workflow}: {count(n, 'step')}")
    if report.schemas:
        _show_schemas(report)
    _show_rest(report)
    for each in report.first[:STEPS_SHOWN]:
        _show_step(each)
    more = report.different - STEPS_SHOWN
    if more > 0:
        line(f"and {count(more, 'step')} more (--json lists the first 100)")


def _show_schemas(report: AgainstReport) -> None:
    names = ", ".join(f"{name} ({count(n, 'step')})" for name, n in sorted(report.schemas.items()))
    line(f"  the candidate's schemas differ from the recorded ones: {names}", style="yellow")
    line(
        "  such steps say nothing of what it decides: take the states over with a migration "
        "(aos apply --mode migrate), or see what would become of them with aos apply --dry-run",
        style="yellow",
    )


def _show_rest(report: AgainstReport) -> None:
    line(f"  fuel {report.fuel_recorded:,} as recorded, {report.fuel_candidate:,} of the candidate")
    for n, what in (
        (report.erased, "not compared: what they need was erased"),
        (report.environmental, "not compared: faults of the machine"),
    ):
        if n:
            line(f"  {count(n, 'step')} {what}", style="yellow")
    if report.migrations:
        line(f"  {count(report.migrations, 'migration')} of states not done again", style="yellow")


def _show_step(step: StepDifference) -> None:
    what = ", ".join(step.classes)
    line(
        f"record {step.seq}: {name_cell(step.workflow, step.key)} on {step.on}: {what}",
        style="bold",
    )
    for found in step.differences:
        if not found.places:
            _show_both(found.field, found.recorded, found.recomputed)
        for place in found.places[:PLACES_SHOWN]:
            path = found.field + place.path.removeprefix("$")
            _show_both(path, place.recorded, place.recomputed)
        more = len(found.places) - PLACES_SHOWN
        if more > 0:
            line(f"  {found.field}: and {count(more, 'place')} more")


def _show_both(path: str, recorded: object, candidate: object) -> None:
    line(f"  {path}")
    line(f"    recorded   {short(recorded, VALUE_CHARACTERS)}")
    line(f"    candidate  {short(candidate, VALUE_CHARACTERS)}")
