"""``aos clock``: show the journal clock, and set it back if it is ahead (spec/cli.md, C-29b)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from aos.core.decide.answers import Answer, Refusal
from aos.core.journal.inputs import CLOCK
from aos.errors import Refused
from aos.read.lens.words import count, name_cell, span_text, time_text
from aos.read.operations.world_reads import READ_CLOCK
from aos.read.views import clock_view
from aos.read.views.record_view import Document
from aos.shell_text import shell_word
from aos_cli.open_writing import writing_to
from aos_cli.options import client_of, flag
from aos_cli.output import fields, line, note, print_json
from aos_cli.reading_command import ReadingCall, reading

TIMERS_SHOWN: Final = 20


@reading(READ_CLOCK)
def clock(
    call: ReadingCall,
    *,
    set_back: Annotated[
        bool, flag("--set", "Set the journal clock to this machine's time, if it is ahead of it.")
    ] = False,
) -> None:
    seq = _set(call.world, call.node) if set_back else None
    clocks = call.document()
    if call.json:
        print_json({**clocks, "seq": seq})
        return
    if seq is not None:
        line(f"record {seq:,} sets the journal clock to {time_text(clocks['journal_ns'])}")
    else:
        _show(clocks)
    _show_timers(clocks, call.node)


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
    node_option = "" if node is None else f" --node {shell_word(node)}"
    for timer in rows[:TIMERS_SHOWN]:
        line(f"  {name_cell(timer['workflow'], timer['key'])}, due {time_text(timer['due_ns'])}")
        line(f"    {timer['settle']}{node_option}")
    if total > TIMERS_SHOWN:
        line(f"  and {total - TIMERS_SHOWN:,} more (--json lists up to {clock_view.TIMERS_MAX:,})")
