"""Events that workflows emit and that anyone may send (spec/cli.md, C-21c).

A manifest declares which effects a workflow requests, but not which events it emits. So this looks
for the names of subscribed schemas in the constants of the modules: a module that emits an event
names its schema, unless it puts the name together while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aos.manifest.effective import Effective, Workflow
from aos.manifest.load import Loaded
from aos.manifest.schedule_names import SCHEDULE
from aos.sandbox.module import Unreadable, constants


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEvent:
    """An event with a subscription that the steps of a workflow emit, and that senders may send."""

    event: str
    workflow: str


def open_events(loaded: Loaded) -> tuple[OpenEvent, ...]:
    """The events to warn of, with one of the workflows that emit each. Empty where the manifest
    lists the events from outside."""
    effective = loaded.effective
    if effective.ingress is not None:
        return ()
    workflow_by_event: dict[str, str] = {}
    for event, workflow in _emitted(loaded):
        if effective.routes(event):
            workflow_by_event.setdefault(event, workflow)
    return tuple(
        OpenEvent(event=event, workflow=workflow_by_event[event])
        for event in sorted(workflow_by_event)
    )


def _emitted(loaded: Loaded) -> Iterator[tuple[str, str]]:
    effective = loaded.effective
    for module in effective.modules.values():
        wasm = loaded.modules.get(module.hash)
        workflows = [
            workflow for workflow in effective.workflows.values() if workflow.module == module
        ]
        if wasm is not None and workflows:
            yield from _constant_events(effective, workflows, wasm)
    for schedule in effective.schedules:
        if schedule.event is not None:
            yield schedule.event, SCHEDULE


def _constant_events(
    effective: Effective, workflows: list[Workflow], wasm: bytes
) -> Iterator[tuple[str, str]]:
    """The events whose names are constants of the module of some workflows.

    Flows, and modules in AssemblyScript, whose texts are UTF-16, also name the events that they
    take: these are left out.
    """
    try:
        data = constants(wasm)
    except Unreadable:
        return
    handled_events = {event for workflow in workflows for event in workflow.arms}
    has_flows = any(workflow.is_flow for workflow in workflows)
    for event in effective.by_event:
        is_taken = event in handled_events
        is_named = event.encode() in data and not (is_taken and has_flows)
        if is_named or (event.encode("utf-16-le") in data and not is_taken):
            yield event, workflows[0].name
