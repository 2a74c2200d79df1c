"""``aos replay --against``: run recorded steps on a candidate (spec/cli.md, C-40b)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aos.author.build_record import project_built_at, refuse_stale_build
from aos.errors import BadUsage, Refused
from aos.host.apply.manifest_files import AIR_SUFFIX, load_manifest_files
from aos.manifest.load import Loaded
from aos.prove.whatif.against import AgainstReport, Candidates, StepDifference, against
from aos.prove.whatif.step_comparison import CLASSES
from aos.read.lens.words import count, name_cell, short
from aos.sandbox.caps import FILE_BYTES_MAX
from aos.store.stored_world import state_of
from aos_cli.output import line, print_json, progress
from aos_cli.replay_start import open_source, snapshot_named, until_interrupted

STEPS_SHOWN: Final = 10
PLACES_SHOWN: Final = 8
_ADVICE: Final = (
    "such steps cannot be compared: declare a migration (aos build --migration "
    "WORKFLOW writes one), and compare with the manifest that has it (aos replay --against PATH)"
)

VALUE_CHARACTERS: Final = 400
"""How much of one side is shown. ``--json`` has all of it, for more steps."""


def run_against(
    arguments: Sequence[str],
    *,
    abi: str | None,
    file: Path | None,
    start: str | None,
    world: Path,
    json: bool,
) -> int:
    """Compare, print, and return the exit code: 1 if a step differs or could not run."""
    if file is not None and start is not None:
        raise BadUsage("--from goes with a world: a bundle is replayed from its first record")
    candidates = _read(arguments, abi)
    with progress("comparing") as advance, open_source(world, file) as (source, store):
        state = None
        if start is not None and store is not None:
            state = state_of(store, snapshot_named(store, start))
        report = until_interrupted(
            lambda tell: against(source, candidates, start=state, on_progress=tell), advance
        )
    if json:
        print_json(report.to_document())
    else:
        _show(report)
    return 0 if report.is_same else Refused.exit_code


def _read(arguments: Sequence[str], abi: str | None) -> Candidates:
    """A manifest, or builds by module name; the name is None for a single ``FILE``."""
    manifests = [argument for argument in arguments if _is_manifest(Path(argument))]
    if not manifests:
        if abi is not None:
            raise BadUsage(
                f"--abi {abi}: expected a manifest, found the build {arguments[0]} (a build "
                "keeps the ABI of the recorded module)"
            )
        return _builds(arguments)
    if len(arguments) > 1:
        raise BadUsage(
            f"--against {manifests[0]}: a manifest has all its modules: expected no other --against"
        )
    return _manifest(Path(manifests[0]), abi)


def _is_manifest(path: Path) -> bool:
    return path.name.endswith(AIR_SUFFIX) or path.is_dir()


def _manifest(path: Path, abi: str | None) -> Loaded:
    project = project_built_at(path)
    if project is not None:
        refuse_stale_build(project)
    return load_manifest_files(path, abi=abi)


def _builds(arguments: Sequence[str]) -> dict[str | None, bytes]:
    builds: dict[str | None, bytes] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        word = name if equals else None
        if word in builds or (builds and None in (word, *builds)):
            raise BadUsage(
                f"--against {argument}: expected one candidate for each module, NAME=FILE each"
            )
        file = Path(path if equals else argument)
        project = project_built_at(file)
        if project is not None:
            refuse_stale_build(project)
        builds[word] = _module(file)
    return builds


def _module(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadUsage(
            f"--against: {path} cannot be read: {error.strerror} "
            "(expected a built module, such as build/NAME.wasm, or the folder of a manifest)"
        ) from error
    if len(data) > FILE_BYTES_MAX:
        raise BadUsage(f"--against: {path} is too large: expected at most {FILE_BYTES_MAX} bytes")
    return data


def _show(report: AgainstReport) -> None:
    steps = count(report.compared, "step")
    if not report.different and not report.missing:
        verb = "comes" if report.compared == 1 else "come"
        line(f"against: {steps} {verb} out the same", style="bold green")
    else:
        verb = "comes" if report.different == 1 else "come"
        line(f"against: {report.different:,} of {steps} {verb} out otherwise", style="bold red")
    for workflow, problem in sorted(report.missing.items()):
        missed = count(report.missing_steps[workflow], "step")
        line(f"  {workflow}: {missed} could not run: {problem}", style="red")
    if report.different:
        counts = ((name, report.by_class[name]) for name in CLASSES)
        counts_text = ", ".join(f"{name} {n:,}" for name, n in counts if n)
        line(f"  differences: {counts_text}")
        for workflow, n in sorted(report.by_workflow.items()):
            line(f"  {workflow}: {count(n, 'step')}")
    if report.schemas:
        _show_schemas(report)
    _show_flows(report)
    _show_rest(report)
    for step in report.first[:STEPS_SHOWN]:
        _show_step(step)
    remaining = report.different - STEPS_SHOWN
    if remaining > 0:
        line(f"and {count(remaining, 'step')} more (--json lists the first 100)")


def _show_schemas(report: AgainstReport) -> None:
    names = ", ".join(f"{name} ({count(n, 'step')})" for name, n in sorted(report.schemas.items()))
    line(f"  the candidate's schemas differ from the recorded ones: {names}", style="yellow")
    line(f"  {_ADVICE}", style="yellow")


def _show_flows(report: AgainstReport) -> None:
    gate = report.flows
    if not gate.checked:
        return
    flows = count(gate.checked, "flow")
    if not gate.stopped:
        line(f"  {flows} in progress: the candidate fits the history of each", style="green")
        return
    line(
        f"  {flows} in progress: the candidate does not fit the history of "
        f"{len(gate.stopped):,} of them",
        style="bold red",
    )
    for stopped_flow in gate.stopped[:STEPS_SHOWN]:
        cell, divergence = (
            name_cell(stopped_flow.cell[0], report.keys[stopped_flow.cell]),
            stopped_flow.divergence,
        )
        if divergence is None:
            line(f"    {cell}: {stopped_flow.fault.kind.value}: {stopped_flow.fault.message}")
        else:
            path = divergence.path or "its end"
            line(f"    {cell}: at {path} the history has {divergence.expected}, the candidate "
                 f"{divergence.found}")  # fmt: skip
    if len(gate.stopped) > STEPS_SHOWN:
        line(f"    and {len(gate.stopped) - STEPS_SHOWN:,} more (--json lists them all)")


def _show_rest(report: AgainstReport) -> None:
    line(f"  fuel {report.fuel_recorded:,} as recorded, {report.fuel_candidate:,} of the candidate")
    for n, text in (
        (report.erased, "not compared: what they need was erased"),
        (report.environmental, "not compared: faults of the machine"),
    ):
        if n:
            line(f"  {count(n, 'step')} {text}", style="yellow")
    for workflow, n in sorted(report.migrated.items()):
        line(f"  {workflow}: {count(n, 'recorded state')} converted by its migration")
    if report.migrations:
        line(f"  {count(report.migrations, 'migration')} of states not done again", style="yellow")


def _show_step(step: StepDifference) -> None:
    classes_text = ", ".join(step.classes)
    line(
        f"record {step.seq}: {name_cell(step.workflow, step.key)} on {step.on}: {classes_text}",
        style="bold",
    )
    for difference in step.differences:
        if not difference.places:
            _show_both(difference.field, difference.recorded, difference.recomputed)
        for part in difference.places[:PLACES_SHOWN]:
            path = difference.field + part.path.removeprefix("$")
            _show_both(path, part.recorded, part.recomputed)
        remaining = len(difference.places) - PLACES_SHOWN
        if remaining > 0:
            line(f"  {difference.field}: and {count(remaining, 'place')} more")


def _show_both(path: str, recorded: object, candidate: object) -> None:
    line(f"  {path}")
    line(f"    recorded   {short(recorded, VALUE_CHARACTERS)}")
    line(f"    candidate  {short(candidate, VALUE_CHARACTERS)}")
