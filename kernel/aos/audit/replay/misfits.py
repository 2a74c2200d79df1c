"""Find out from a candidate's fault that it was built for another schema than the recorded one
(spec/audit.md, A-84a).

A candidate is a module without its manifest, so its own schemas are not known. They show only where
one of them meets a recorded one: either the kernel finds that a returned value does not fit the
recorded schema, or the SDK in the module finds that it cannot read a recorded value.

This module parses fault messages; no other module does. A typed answer is not available: a guest's
fault is text that a foreign module wrote (spec/sdk.md, SD-5), and the kernel's own faults are
recorded and hashed as kind and message, so a field for the schema would change their bytes. The
messages themselves are frozen (K-33). A message without a match costs only a hint in the report:
the step still counts as different.
"""

from __future__ import annotations

import re
from typing import Final

from aos.core.journal.faults import Fault, FaultKind
from aos.core.state.cell import EventMail, Mail
from aos.manifest.effective import Effective, Workflow

_RETURNED: Final = frozenset(
    {
        FaultKind.STATE_INVALID,
        FaultKind.ANNOTATION_INVALID,
        FaultKind.EVENT_INVALID,
        FaultKind.PARAMS_INVALID,
    }
)
_OF: Final = re.compile(r"(?:^|: )([^ :\"]+@[0-9]+): \$")
"""The name of the schema or effect in front of the path into a value."""

_UNKNOWN: Final = re.compile(r'schema "([^"]+)" is not in the manifest')
_READ: Final = re.compile(r"sdk_input: (state|event|key): ")
_PAYLOAD: Final = re.compile(r"sdk_payload: the receipt of ([^ ]+) is not of its schema")


def unlike(fault: Fault, workflow: Workflow, mail: Mail, manifest: Effective) -> str | None:
    """Return the name of the recorded schema that differs in the candidate; None if the fault has
    another cause (A-84a). ``manifest`` is the one that the step ran under."""
    if fault.kind is FaultKind.GUEST:
        return _unread(fault.message, workflow, mail, manifest)
    if fault.kind not in _RETURNED:
        return None
    unknown = _UNKNOWN.search(fault.message)
    if unknown is not None:
        return unknown[1]
    match = _OF.search(fault.message)
    name = "" if match is None else match[1]
    if name in manifest.effects:
        return manifest.effects[name].params.name
    return name if name in manifest.schemas else None


def _unread(message: str, workflow: Workflow, mail: Mail, manifest: Effective) -> str | None:
    """Return the schema of the value that an SDK could not read (spec/sdk.md, SD-5)."""
    payload = _PAYLOAD.match(message)
    if payload is not None:
        effect = manifest.effects.get(payload[1])
        return None if effect is None else effect.receipt.name
    input_match = _READ.match(message)
    match None if input_match is None else input_match[1]:
        case "state":
            return workflow.state.name
        case "event":
            return mail.schema if isinstance(mail, EventMail) else workflow.event.name
        case "key" if workflow.key is not None:
            return workflow.key.name
        case _:
            return None
