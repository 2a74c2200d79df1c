"""``aos clock``: show the journal clock, and set it back if it is ahead (spec/cli.md, C-29b)."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

from aos.core.decide.answers import Answer, Refusal
from aos.core.journal.inputs import CLOCK
from aos.errors import Refused
from aos.read.lens.words import count, name_cell, span_text, time_text
from aos.read.views import clock_view
from aos.read.views.record_view import Document
from aos_cli.node_option import NodeUrl, client_of, from_node
from aos_cli.open_view import looking_at
from aos_cli.open_writing import writing_to
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import fields, line, note, print_json

TIMERS_SHOWN: Final = 20


def clock(
    *,
    set_back: Annotated[
        bool,
        typer.Option(
            "--set", help="Set the journal clock to this machine's time, if it is ahead of it."
        ),
    ] = False,
    world: World = DEFAULT_WORLD,
    node: NodeUrl = None,
    json: Json = False,
) -> None:
    seq = _set(world, node) if set_back else None
    reading = _clock(world, node)
    if json:
        print_json({**reading, "seq": seq})
        return
    if seq is not None:
        line(f"record {seq:,} sets the journal clock to {time_text(reading['journal_ns'])}")
    else:
        _show(reading)
    _show_timers(reading, node)


def _clock(world: Path, node: str | None) -> Document:
    if node is not None:
        return from_node(node, "/v1/clock")
    with looking_at(world) as view:
        return clock_view.clock(view)


def _set(world: Path, node: str | None) -> int:
    """Set the journal clock and return the record. Raises Refused: It is not ahead."""
    if node is not None:
        with client_of(node) as client:
            answer: Answer = client.command(CLOCK)
    else:
        with writing_to(world) as writer:
            answer = writer.control(CLOCK)
    if isinstance(answer, Refusal):
        raise Refused(answer.message)
    return answer.seq


def _show(reading: Document) -> None:
    fields(
        [
            ("journal clock", time_text(reading["journal_ns"])),
            ("machine clock", time_text(reading["machine_ns"])),
            ("difference", _difference(reading["ahead_ns"])),
        ]
    )
    if reading["is_ahead"]:
        note(clock_view.ahead_text(reading["ahead_ns"]), style="yellow")


def _difference(ahead_ns: int) -> str:
    if ahead_ns > 0:
        return f"the journal clock is {span_text(ahead_ns)} ahead"
    return f"the last stamp is {span_text(-ahead_ns)} old"


def _show_timers(reading: Document, node: str | None) -> None:
    """List the timers that wait for times which the clock that was ahead made too late."""
    rows, total = reading["timers"], reading["timers_total"]
    if not total:
        return
    line(
        f"{count(total, 'timer')} {'was' if total == 1 else 'were'} set while the clock was ahead, "
        "and due far from now. To end one as if it were due:"
    )
    node_option = "" if node is None else f" --node {shlex.quote(node)}"
    for timer in rows[:TIMERS_SHOWN]:
        line(f"  {name_cell(timer['workflow'], timer['key'])}, due {time_text(timer['due_ns'])}")
        line(f"    {timer['settle']}{node_option}")
    if total > TIMERS_SHOWN:
        line(f"  and {total - TIMERS_SHOWN:,} more (--json lists up to {clock_view.TIMERS_MAX:,})")
