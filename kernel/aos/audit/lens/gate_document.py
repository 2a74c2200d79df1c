"""Show which flows in progress new code would continue or stop, as JSON (spec/audit.md, A-90)."""

from __future__ import annotations

from collections.abc import Callable

from aos.core.decide.flow_gate import FlowGate, StoppedFlow
from aos.core.journal.records import CellId


def gate_document(gate: FlowGate, key: Callable[[CellId], object]) -> dict[str, object]:
    """Return the gate's result; ``key`` returns the key of a cell as JSON."""
    return {
        "checked": gate.checked,
        "go_on": gate.continued,
        "diverge": [_stopped(each, key(each.cell)) for each in gate.stopped],
    }


def _stopped(each: StoppedFlow, key: object) -> dict[str, object]:
    found = each.divergence
    return {
        "cell": {"workflow": each.cell[0], "key": key},
        "path": None if found is None else found.path,
        "expected": None if found is None else found.expected,
        "found": None if found is None else found.found,
        "fault": {"kind": each.fault.kind.value, "message": each.fault.message},
    }
