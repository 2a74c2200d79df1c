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
        "diverge": [_stopped(flow, key(flow.cell)) for flow in gate.stopped],
    }


def _stopped(flow: StoppedFlow, key: object) -> dict[str, object]:
    divergence = flow.divergence
    return {
        "cell": {"workflow": flow.cell[0], "key": key},
        "path": None if divergence is None else divergence.path,
        "expected": None if divergence is None else divergence.expected,
        "found": None if divergence is None else divergence.found,
        "fault": {"kind": flow.fault.kind.value, "message": flow.fault.message},
    }
