"""Send an event to a cell, and wait for its answer: the annotation of its step."""

from __future__ import annotations

from typing import Any, Final

from aos.audit.views.annotations import Annotation, annotation_of
from aos.core.decide.answers import Admitted, Refusal
from aos.core.journal.records import Step
from aos.host.door.writer import Item
from aos.node.events import sent_events
from aos.node.problems import Problem
from aos.node.refusals import refused
from aos.node.services import Services
from aos.values.cbor import encode

ANSWER_S: Final = 20.0
"""Seconds within which a cell takes an event."""


async def ask_cell(services: Services, schema: str, value: Any, name: str) -> Annotation:
    """Send an event without a submission id, to one cell that people know as ``name``.

    Returns:
        The annotation of the cell's step, once that is durable.

    Raises:
        Problem: The event is refused, or the cell has failed by a fault or does not answer.
    """
    [answer] = await sent_events(services, [Item(schema=schema, value=encode(value))])
    match answer:
        case Refusal():
            raise refused(answer, services.follower.state.manifest)
        case Admitted(seq=seq, to=to):
            pass
        case _:
            raise AssertionError("these events have no submission ids")
    waits, _ = await services.waiting.wait(
        seq, to, until_settled=False, seconds=ANSWER_S, store=services.follower.store
    )
    run = waits[0].run if waits else None
    annotation = annotation_of(run, services.follower.store) if isinstance(run, Step) else None
    if annotation is None:
        raise Problem(503, "no_answer", f"{name} has not answered (send it again)", retry_after_s=1)
    return annotation
