"""The options of ``aos shadow`` and ``aos gov shadow`` (spec/cli.md, C-149)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aos_cli.options import number, span

FromRecord = Annotated[
    int | None,
    typer.Option(
        "--from", metavar="SEQ", parser=number,
        help="Begin at this record, or at the nearest manifest, start or snapshot before it "
        "(default: the last one with 10,000 records behind it).",
    ),
]  # fmt: skip
ToRecord = Annotated[
    int | None,
    typer.Option(
        "--to", metavar="SEQ", parser=number, help="End after this record (default: the last one)."
    ),
]
All = Annotated[
    bool, typer.Option("--all", help="Begin when the manifest in force came into force.")
]
For = Annotated[
    int | None,
    typer.Option(
        "--for", metavar="SPAN", parser=span,
        help="Follow the running world for this time, such as 10m.",
    ),
]  # fmt: skip
Answers = Annotated[
    Path | None,
    typer.Option(
        "--answers", metavar="FILE",
        help="Answers to effects that the journal does not answer: a JSON object a line, with "
        "effect, params, status and payload.",
    ),
]  # fmt: skip
