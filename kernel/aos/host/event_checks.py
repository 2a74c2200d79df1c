"""Checks of events from outside by which a package emits an event that the sender chooses.

A definition of a schedule names the event that the schedule emits, and the result of a plan step
has the events of its handler. The steps that emit them are the world's own, so the kernel does not
ask whether these events are open at ingress. It is asked here, just before the kernel's own checks
(spec/schedule.md, SC-22; spec/linear.md, L-34).
"""

from __future__ import annotations

from typing import Any, Final

from aos.core.decide.answers import Refusal, Rule
from aos.core.journal.inputs import EventInput
from aos.core.state.state import State
from aos.host.schedules import refused_schedule
from aos.manifest.effective import ONLY_OWN_STEPS, Effective
from aos.manifest.linear_names import RESULT
from aos.manifest.schedule_names import DELETE, SET
from aos.values.errors import ValueProblem

GUARDED: Final = frozenset({SET, DELETE, RESULT})
"""Events of senders that ``refused_event`` looks at."""


def refused_event(state: State, event: EventInput) -> Refusal | None:
    """Why an event of ``GUARDED`` must not be admitted; None if it may, or if the kernel refuses it
    anyway."""
    manifest = state.manifest
    schema = None if manifest is None else manifest.schemas.get(event.schema)
    if manifest is None or schema is None or not manifest.is_open(event.schema):
        return None
    try:
        value: Any = schema.from_ingress_value(event.value)[1]
    except ValueProblem:
        return None
    if event.schema == RESULT:
        return _refused_result(manifest, value)
    return refused_schedule(manifest, event.schema, value)


def _refused_result(manifest: Effective, result: Any) -> Refusal | None:
    """Why a result of a plan step must not be admitted: an event of its handler is not open."""
    for index, event in enumerate(result["outbound"]):
        schema = event["schema"]
        if schema in manifest.schemas and not manifest.is_open(schema):
            return Refusal(
                rule=Rule.EVENT_IS_INTERNAL,
                message=f"{RESULT}: outbound[{index}]: {schema} {ONLY_OWN_STEPS}",
            )
    return None
