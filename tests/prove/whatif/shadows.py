"""Make shadows of worlds in memory whose modules are Python functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aos.core.journal.inputs import STRICT
from aos.core.journal.vocabulary import ApplyMode
from aos.host.executors.carrying import carry_out
from aos.manifest.load import Loaded
from aos.prove.verify.journal_source import JournalSource, source_of_store
from aos.prove.whatif import shadowing
from aos.prove.whatif.shadow import Shadow
from aos.prove.whatif.shadow_answers import read_script_answers
from aos.prove.whatif.shadow_course import recorded_keys
from aos.prove.whatif.shadow_state import Proposed
from aos.prove.whatif.shadowing import Making, ShadowRequest, chosen_range, shadow_of
from aos.read.views.proposal_view import read_report
from tests.memory_world import MemoryWorld, Module, PythonRunner
from tests.prove.journals import store_of


def beginnings(source: JournalSource) -> list[int]:
    """All records where a shadow may begin."""
    return [point.seq for point in shadowing._start_points(source)]


def shadow_bytes(
    world: MemoryWorld,
    proposed: Loaded,
    modules: Mapping[str, Module],
    *,
    first: int | None = None,
    last: int | None = None,
    mode: ApplyMode = STRICT,
    leaves: tuple[str, ...] = (),
    answers: bytes | None = None,
    source: JournalSource | None = None,
    keep: Callable[[Shadow], None] | None = None,
) -> bytes:
    """The report of a shadow of the world's journal, under ``proposed`` with these functions."""
    source = source or source_of_store(store_of(world))
    script = None if answers is None else read_script_answers(answers, proposed.effective)
    request = ShadowRequest(
        proposed=Proposed(effective=proposed.effective, mode=mode, leaves=leaves),
        range=chosen_range(source, first=first, last=last),
        answers=script,
    )
    functions = {**world.runner.modules, **world.by_hash(proposed, modules)}
    making = shadow_of if keep is None else _keeping(keep)
    return making(source, request, runner=PythonRunner(functions), carry_out=carry_out)


def _keeping(keep: Callable[[Shadow], None]) -> Callable[..., bytes]:
    """``shadow_of``, which also hands out the shadow."""

    def made(source: JournalSource, request: ShadowRequest, **options: Any) -> bytes:
        first, last = request.range.first, request.range.last
        to_come = recorded_keys(source.frames(first, last), first, last)
        making = Making(source, request, options["runner"], options["carry_out"], to_come)
        for frame in source.frames(request.range.first, request.range.last):
            if not making.frame(frame, request.range.last):
                break
        report = making.report()
        assert making.shadow is not None
        keep(making.shadow)
        return report

    return made


def shadow_of_world(
    world: MemoryWorld, proposed: Loaded, modules: Any, **options: Any
) -> tuple[dict[str, Any], Shadow]:
    """The report as a document, and the shadow itself at its end."""
    kept: list[Shadow] = []
    report = shadow_bytes(world, proposed, modules, keep=kept.append, **options)
    return read_report(report), kept[0]


def shadowed(world: MemoryWorld, proposed: Loaded, modules: Any, **options: Any) -> dict[str, Any]:
    """The report as a document."""
    return read_report(shadow_bytes(world, proposed, modules, **options))
