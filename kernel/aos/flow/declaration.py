"""Which workflows of a manifest are flows, and what each is called with (spec/flow.md, FL-80).

The manifest alone says it: a flow's state is ``aos/Flow@1``, and the arms of its event have fixed
names in a fixed order: ``Start``, ``Control``, ``Receipt``, ``Rejected``, then ``Call`` if others
may call it, ``Return`` if it calls others, then ``M0``, ``M1``, … for the messages that it listens
for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aos.manifest.effective import Effective, Workflow
from aos.values.cbor import Value
from aos.values.schema import Schema

CANCEL: Final = "Cancel"
RESUME: Final = "Resume"
CONTINUE: Final = "Continue"

START_ARM: Final = "Start"
CONTROL_ARM: Final = "Control"
CALL_ARM: Final = "Call"
"""Arms of a flow's event (FL-3)."""

_MESSAGE: Final = re.compile(r"M[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowDeclaration:
    """One flow of a manifest.

    Attributes:
        start: The schema of its input, whose event starts it.
        start_field: The field of the input with the key.
        control: The schema of the commands Cancel, Resume and Continue.
        call: The schema by which another flow calls it; None if none can.
        returned: The schema by which its children's results come back; None if it has none.
        messages: Schema of each message that it listens for -> the field with the key.
    """

    workflow: Workflow
    start: Schema = field(repr=False)
    start_field: str | None
    control: Schema = field(repr=False)
    call: str | None
    returned: str | None
    messages: Mapping[str, str | None]

    @property
    def name(self) -> str:
        return self.workflow.name

    @property
    def key(self) -> Schema:
        """The schema of its instances' keys."""
        assert self.workflow.key is not None, "a flow has a key"
        return self.workflow.key

    def control_value(self, key: bytes, command: str, **fields: bool) -> bytes:
        """Return the canonical bytes of a command for the instance with this key.

        Raises:
            ValueProblem: The manifest's control schema has no such command.
        """
        arm: dict[str | int, Value] = {"$tag": command}
        if fields:
            arm["$value"] = dict(fields.items())
        value: Value = {"instance": self.key.from_record(key), "command": arm}
        return self.control.encode(self.control.normalise(value))


def declared_flow(manifest: Effective, name: str) -> FlowDeclaration | None:
    """Return what a manifest says about the flow ``name``; None if it is no flow, or has no such
    workflow."""
    workflow = manifest.workflows.get(name)
    if workflow is None or not workflow.is_flow or workflow.key is None:
        return None
    by_arm = {tag: schema for schema, tag in workflow.arms.items()}
    start, control = by_arm.get(START_ARM), by_arm.get(CONTROL_ARM)
    if start is None or control is None:
        return None
    return FlowDeclaration(
        workflow=workflow,
        start=manifest.schemas[start],
        start_field=_key_field(manifest, name, start),
        control=manifest.schemas[control],
        call=by_arm.get(CALL_ARM),
        returned=by_arm.get("Return"),
        messages={
            schema: _key_field(manifest, name, schema)
            for tag, schema in sorted(by_arm.items(), key=_arm_order)
            if _MESSAGE.fullmatch(tag)
        },
    )


def declared_flows(manifest: Effective) -> dict[str, FlowDeclaration]:
    """Return the flows of a manifest by name."""
    declarations = ((name, declared_flow(manifest, name)) for name in manifest.workflows)
    return {name: declaration for name, declaration in declarations if declaration is not None}


def _key_field(manifest: Effective, workflow: str, event: str) -> str | None:
    routes = (route for route in manifest.routes(event) if route.workflow == workflow)
    return next((route.key_field for route in routes), None)


def _arm_order(arm: tuple[str, str]) -> tuple[int, str]:
    """Sort M2 before M10."""
    return len(arm[0]), arm[0]
