"""Wait until a flow has ended, and print how (spec/cli.md, C-70a)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from aos.audit.lens.words import SECOND
from aos.client.current import CurrentState
from aos.client.instance import Instance
from aos.errors import Refused
from aos.flow.failure import failure_text
from aos.flow.flow_state import COMPLETED, ENDED, STUCK
from aos_cli import inspect_text
from aos_cli.flow_starting import Started
from aos_cli.output import note, print_json

FOR_EVER_S: Final = 100 * 365 * 86_400.0


def wait_for_end(world: Path, started: Started, *, timeout_ns: int | None, json: bool) -> int:
    """Wait for the end of a flow; print its output, or why it has none. Return the exit code.

    Raises:
        Unavailable: It has not ended in time.
    """
    flow = started.flow
    if started.is_run is False and not json:
        note("no process runs this world, so the flow does not advance (aos run)")
    current = CurrentState(world)
    try:
        instance = current.wait(
            flow.id[0],
            flow.key,
            _has_ended,
            FOR_EVER_S if timeout_ns is None else timeout_ns / SECOND,
        )
    finally:
        current.close()
    state: dict[str, Any] = instance.state or {}
    status = _status(instance)
    if json:
        print_json(
            {
                **started.document,
                "status": status,
                "output": state.get("output"),
                "error": state.get("error"),
                "fault": instance.fault,
            }
        )
        return 0 if status == COMPLETED else Refused.exit_code
    if status == COMPLETED:
        inspect_text.value(state.get("output"))
        return 0
    raise Refused(f"{flow.text} {_ending_text(instance, status)} (aos flow show {flow.words})")


def _has_ended(instance: Instance) -> bool:
    state = instance.state or {}
    if instance.fault is not None:
        return True
    return instance.status in ("completed", "failed") and state.get("status") != "pending"


def _status(instance: Instance) -> str:
    flow_status = (instance.state or {}).get("status")
    if instance.fault is not None:
        return "faulted"
    return flow_status if flow_status in (*ENDED, STUCK) else "closed"


def _ending_text(instance: Instance, status: str) -> str:
    error = (instance.state or {}).get("error")
    if status == "faulted":
        return f"is stopped by a fault: {instance.fault}"
    if status == STUCK:
        return "is stuck in its rollback"
    if status == "closed":
        return "was ended by an operator"
    error_text = "" if error is None else f": {failure_text(error)}"
    return f"{'failed' if status == 'failed' else 'was canceled'}{error_text}"
