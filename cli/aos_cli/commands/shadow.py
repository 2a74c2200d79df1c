"""``aos shadow``: what a journal would have been under another manifest (spec/cli.md, C-149)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aos.audit.shadow.report_document import read_report
from aos.audit.shadow.shadow_beginning import Proposed
from aos.core.journal.inputs import STRICT
from aos.core.journal.vocabulary import MODES, word_of
from aos.errors import BadUsage, Refused, either, sentence
from aos_cli.apply_loading import load_named
from aos_cli.options import DEFAULT_WORLD, Abi, Json, LeaveCells, World
from aos_cli.output import print_json
from aos_cli.shadow_making import ShadowOptions, make_shadow
from aos_cli.shadow_options import All, Answers, For, FromRecord, ToRecord
from aos_cli.shadow_text import show_shadow


def shadow(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="Manifest: a folder or one .air.json file.")
    ],
    bundle: Annotated[
        Path | None,
        typer.Argument(
            metavar="[BUNDLE]", help="Bundle (see aos export) to read instead of a world."
        ),
    ] = None,
    *,
    first: FromRecord = None,
    last: ToRecord = None,
    is_all: All = False,
    for_ns: For = None,
    answers: Answers = None,
    mode: Annotated[
        str,
        typer.Option(
            "--mode", metavar="|".join(MODES), help="How it would be applied, as of aos apply: "
            "strict (default), pin or migrate.",
        ),
    ] = STRICT,
    leave_cells: LeaveCells = False,
    abi: Abi = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:  # fmt: skip
    word = word_of(MODES, mode)
    if word is None:
        raise BadUsage(sentence("--mode", expected=either(MODES), actual=repr(mode)))
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
