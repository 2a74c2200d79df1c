"""``aos shadow``: what a journal would have been under another manifest (spec/cli.md, C-149).

``aos gov shadow`` takes its options from here, and makes its report with ``make_shadow`` (C-149a).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from aos.core.journal.inputs import STRICT
from aos.core.journal.vocabulary import MODES, word_of
from aos.errors import BadUsage, Refused, either
from aos.host.checkpoints.named_files import read_named
from aos.host.executors.carrying import carry_out
from aos.manifest.effective import Effective
from aos.prove.verify.journal_source import JournalSource
from aos.prove.whatif.shadow_answers import (
    ANSWERS_BYTES_MAX,
    ScriptAnswers,
    read_script_answers,
)
from aos.prove.whatif.shadow_state import Proposed
from aos.prove.whatif.shadowing import ShadowRequest, chosen_range, run_shadow
from aos.read.views.proposal_view import read_report
from aos.values.digests import Hash
from aos_cli.apply_target import load_named
from aos_cli.options import (
    DEFAULT_WORLD,
    Abi,
    Json,
    LeaveCells,
    World,
    argument,
    flag,
    number,
    option,
    span,
)
from aos_cli.output import print_json, progress
from aos_cli.replay_start import open_source, until_interrupted
from aos_cli.shadow_text import show_shadow

NS_PER_S = 10**9

FromRecord = Annotated[
    int | None,
    option(
        "SEQ",
        "Begin at this record, or at the nearest manifest, start or snapshot before it "
        "(default: the last one with 10,000 records behind it).",
        "--from",
        parser=number,
    ),
]
ToRecord = Annotated[
    int | None,
    option("SEQ", "End after this record (default: the last one).", "--to", parser=number),
]
All = Annotated[bool, flag("--all", "Begin when the manifest in force came into force.")]
For = Annotated[
    int | None,
    option("SPAN", "Follow the running world for this time, such as 10m.", "--for", parser=span),
]
Answers = Annotated[
    Path | None,
    option(
        "FILE",
        "Answers to effects that the journal does not answer: a JSON object a line, with "
        "effect, params, status and payload.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowOptions:
    """The options that ``aos shadow`` and ``aos gov shadow`` share."""

    first: int | None = None
    last: int | None = None
    is_all: bool = False
    for_ns: int | None = None
    answers: Path | None = None

    def check(self, bundle: Path | None = None) -> None:
        """Raise BadUsage for options that exclude each other."""
        if self.first is not None and self.is_all:
            raise BadUsage("--all goes without --from: it begins with the manifest in force")
        if self.for_ns is not None and self.last is not None:
            raise BadUsage("--for goes without --to: it ends when the time is over")
        if self.for_ns is not None and bundle is not None:
            raise BadUsage("--for goes with a world: a bundle does not grow")


def shadow(
    path: Annotated[Path, argument("PATH", "Manifest: a folder or one .air.json file.")],
    bundle: Annotated[
        Path | None, argument("[BUNDLE]", "Bundle (see aos export) to read instead of a world.")
    ] = None,
    *,
    first: FromRecord = None,
    last: ToRecord = None,
    is_all: All = False,
    for_ns: For = None,
    answers: Answers = None,
    mode: Annotated[
        str,
        option(
            "|".join(MODES),
            "How it would be applied, as of aos apply: strict (default), pin or migrate.",
        ),
    ] = STRICT,
    leave_cells: LeaveCells = False,
    abi: Abi = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    word = word_of(MODES, mode)
    if word is None:
        raise BadUsage("--mode", expected=either(MODES), actual=repr(mode))
    loaded = load_named(path, abi)
    proposed = Proposed(effective=loaded.effective, mode=word, leaves_removed=leave_cells)
    options = ShadowOptions(first=first, last=last, is_all=is_all, for_ns=for_ns, answers=answers)
    report = make_shadow(world, bundle, options, lambda _: proposed, loaded.modules)
    document = read_report(report)
    if json:
        print_json(document)
    else:
        show_shadow(document)
    return 0 if document["same"] else Refused.exit_code


def make_shadow(
    world: Path,
    bundle: Path | None,
    options: ShadowOptions,
    proposed: Callable[[JournalSource], Proposed],
    modules: Mapping[Hash, bytes],
    *,
    base: Hash | None = None,
    around: int | None = None,
    records: int = 0,
) -> bytes:
    """Return the report of a shadow of a world or of a bundle.

    ``proposed`` finds the manifest; ``base`` must be in force where the shadow begins, if it is
    given; ``around`` and ``records`` are those of ``chosen_range``. Raises as ``shadow_of``.
    """
    options.check(bundle)
    with progress("shadowing") as advance, open_source(world, bundle) as (source, store):
        manifest = proposed(source)
        request = ShadowRequest(
            proposed=manifest,
            range=chosen_range(
                source, first=options.first, last=options.last, is_all=options.is_all,
                around=around, records=records,
            ),
            answers=_script_answers(options.answers, manifest.effective),
            base=base,
        )  # fmt: skip
        follows = None
        if options.for_ns is not None and store is not None:
            follows = store, options.for_ns / NS_PER_S
        return until_interrupted(
            lambda tell: run_shadow(
                source, request, modules, carry_out=carry_out, follows=follows, on_progress=tell
            ),
            advance,
        )


def _script_answers(file: Path | None, manifest: Effective) -> ScriptAnswers | None:
    if file is None:
        return None
    return read_script_answers(read_named(file, ANSWERS_BYTES_MAX), manifest)
