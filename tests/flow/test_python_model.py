"""Random programs on the flow in Python do as the model does, with the records of the flow in Rust
(spec/pyflow.md, PY-40; ``test_model.py``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings

from aos.core.journal.records import Slot, Step, slot_bytes
from aos.sandbox.stack import run_on_big_stack
from tests.flow.programs import Action, Modelled, programs, schedules
from tests.flow.python_model import definitions, in_microseconds, python_manifest
from tests.flow.test_model import play
from tests.tools import long_form


def test_the_reader_makes_the_definitions_of_the_flow_in_rust() -> None:
    """PF-24"""
    python, rust = definitions()
    assert python == rust


@settings(max_examples=1_500 if long_form() else 12)
@given(programs(), schedules())
def test_a_program_in_python_does_what_its_model_does(
    program: dict[str, Any], schedule: list[Action]
) -> None:
    def play_both() -> None:
        python, rust = Modelled(python_manifest()), Modelled(compares=False)
        for modelled in (python, rust):
            play(modelled, in_microseconds(program), schedule)
        assert list(turns(python)) == list(turns(rust))

    run_on_big_stack(play_both)


def turns(modelled: Modelled) -> Iterator[tuple[object, ...]]:
    """All that the turns have made, byte for byte. Hashes of other modules differ, and so do their
    fuel and memory."""

    def read(slot: Slot | None) -> bytes | None:
        return None if slot is None else slot_bytes(slot, modelled.desk.read)

    for record in modelled.desk.records:
        if isinstance(record, Step):
            events = [(event.schema, read(event.value)) for event in record.events]
            intents = [
                (intent.effect, read(intent.params), intent.issuer_ref) for intent in record.intents
            ]
            yield (
                record.seq, record.cell, record.entry, record.root, record.depth,
                read(record.state), record.status, events, intents, read(record.ann),
            )  # fmt: skip
        else:
            yield (record.seq, record.KIND)
