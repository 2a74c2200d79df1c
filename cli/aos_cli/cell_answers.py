"""Send an event to one cell of a folder's world, and wait for the cell's answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from aos.core.decide.answers import Admitted, Duplicate, Refusal
from aos.core.journal.records import CellId
from aos.errors import Refused, Unavailable
from aos.host.door.writer import Item
from aos.read.views.cell_view import Annotation, annotation_in_journal
from aos.values.cbor import encode
from aos_cli.open_view import looking_at
from aos_cli.open_writing import writing_to

ANSWER_S: Final = 20.0
LOOK_S: Final = 0.05


def ask(
    world: Path, schema: str, value: Any, cell: CellId, refusal: Callable[[Annotation], str | None]
) -> tuple[int, bool]:
    """Send an event to ``cell``.

    Returns:
        The number of the event's record, and whether the cell has answered: false if no process
        runs the world.

    Raises:
        Refused: The world refuses the event, or the cell does, with the words of ``refusal``.
        Unavailable: The cell has not answered in time.
    """
    with writing_to(world) as writer:
        [answer] = writer.send([Item(schema=schema, value=encode(value))], batch_items=1)
        is_run = not writer.is_direct
    match answer:
        case Refusal():
            raise Refused(answer.message)
        case Admitted(seq=seq) | Duplicate(seq=seq):
            pass
    if is_run:
        wait_for_answer(world, seq, cell, refusal)
    return seq, is_run


def wait_for_answer(
    world: Path, seq: int, cell: CellId, refusal: Callable[[Annotation], str | None]
) -> None:
    """Wait for the answer of a cell to the event ``seq``.

    Raises:
        Refused: It refuses.
        Unavailable: It does not answer.
    """
    until_s = time.monotonic() + ANSWER_S
    while time.monotonic() < until_s:
        with looking_at(world) as view:
            last = view.state.next_seq - 1
            annotation = annotation_in_journal(view.journal, seq, cell, last)
        if annotation is not None:
            words = refusal(annotation)
            if words is not None:
                raise Refused(words)
            return
        time.sleep(LOOK_S)
    raise Unavailable(f"the world has not answered record {seq} (aos trace {seq})")
