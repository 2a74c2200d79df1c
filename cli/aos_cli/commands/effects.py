"""``aos effects cancel INTENT``: end an open effect as canceled (spec/cli.md, C-27)."""

from __future__ import annotations

from typing import Annotated

import typer

from aos.audit.views import intent_view
from aos.audit.views.record_view import name_cell
from aos.core.decide.answers import Refusal
from aos.core.journal.inputs import CANCEL
from aos.errors import Refused
from aos.host.door.writer import open_writer
from aos.values.digests import parse_hash
from aos_cli.open_view import looking_at
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import line, note, print_json
from aos_cli.progress import progress


def cancel(
    intent: Annotated[
        str,
        typer.Argument(metavar="INTENT", help="The intent's hash, or at least its first 8 digits."),
    ],
    *,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    with looking_at(world) as view:
        found = intent_view.intent(view, intent)
    with progress("reading the journal") as advance:
        writer = open_writer(world, progress=advance)
    with writer:
        answer = writer.control(CANCEL, intent=parse_hash(found["intent"]))
    if isinstance(answer, Refusal):
        raise Refused(answer.message)
    if json:
        print_json(
            {
                "intent": found["intent"],
                "effect": found["effect"],
                "cell": {"workflow": found["workflow"], "key": found["key"]},
                "seq": answer.seq,
            }
        )
        return
    of = name_cell(found["workflow"], found["key"])
    line(f"record {answer.seq:,} cancels {found['effect']} of {of}")
    line(f"  {found['intent']}")
    note("the effect may have run all the same; only its executor can tell")
