"""Records and lanes as rows of one list (spec/cli.md, C-123)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aos.errors import BadUsage, either
from aos_gateway.cells import GatewayCell
from aos_gateway.keys import KIND_NAMES, LANE, parts_of_lane

PENDING: Final = "PENDING"
RUNNING: Final = "RUNNING"
STALLED: Final = "STALLED"
COMPLETED: Final = "COMPLETED"
FAILED: Final = "FAILED"
IDLE: Final = "IDLE"
STATES: Final = (PENDING, RUNNING, STALLED, COMPLETED, FAILED, IDLE)
"""Those of records, and IDLE: a lane without a request."""

AUTO: Final = "auto"
PARKED: Final = "parked"

Row = dict[str, Any]


def tag(value: Any) -> str | None:
    """The arm of a variant; None for an absent option."""
    return None if value is None else str(value["$tag"])


def read_state(text: str | None) -> str | None:
    """The state that ``--state`` names, in any case. Raises BadUsage."""
    if text is None or text.upper() in STATES:
        return None if text is None else text.upper()
    raise BadUsage("--state", expected=either(STATES), actual=repr(text))


_ABSENT: Final[Mapping[str, Any]] = dict.fromkeys(
    (
        "id", "chain", "studio", "epoch", "signer", "state", "step", "step_attempts", "doing",
        "pause", "stall", "stall_until_ns", "stall_cycle", "stall_why", "code", "error",
        "error_step", "queued", "drift", "created_ns", "updated_ns",
    )
)  # fmt: skip


def row(cell: GatewayCell) -> Row:
    """A cell as a row: the same keys for each kind, with None for those that a kind does not
    have."""
    is_lane = cell.key.kind is LANE
    if cell.state is None:
        base_fields = _of_lane_key(cell) if is_lane else _of_record(cell, cell.created or {})
        state_fields = {**base_fields, "state": PENDING}
    else:
        state_fields = _lane(cell, cell.state) if is_lane else _record(cell, cell.state)
    return {
        "type": cell.key.kind.name,
        "key": cell.key.text,
        **_ABSENT,
        **state_fields,
        "fault": cell.fault,
        "mail": cell.mail,
        "held": cell.halt_code,
    }


def order(row: Row) -> tuple[int, str, str]:
    """Works, scores, epochs, lanes; each by key."""
    return KIND_NAMES.index(row["type"]), row["key"].partition("/")[0].zfill(20), row["key"]


def _record(cell: GatewayCell, state: Mapping[str, Any]) -> Row:
    return {
        **_of_record(cell, state["input"]),
        "state": tag(state["state"]),
        "step": tag(state["step"]),
        "doing": tag(state["doing"]),
        "pause": tag(state["pause"]),
        **_trouble(state),
        "drift": state["drift"],
        "created_ns": state["created_at"],
        "updated_ns": state["updated_at"],
    }


def _of_record(cell: GatewayCell, record_input: Mapping[str, Any]) -> Row:
    return {
        "id": cell.key.id,
        "chain": record_input.get("chain"),
        "studio": record_input.get("studio_address"),
        "epoch": record_input.get("epoch"),
        "signer": record_input.get("signer_address"),
    }


def _lane(cell: GatewayCell, state: Mapping[str, Any]) -> Row:
    return {
        **_of_lane_key(cell),
        "state": _lane_state(state),
        "doing": tag(state["doing"]),
        **_trouble(state),
        "queued": state["queued"],
        "updated_ns": state["updated_at"],
    }


def _of_lane_key(cell: GatewayCell) -> Row:
    chain, signer = parts_of_lane(cell.key)
    return {"chain": chain, "signer": signer}


def _lane_state(state: Mapping[str, Any]) -> str:
    if state["stall"] is not None:
        return STALLED
    is_used = state["current"] is not None or state["queued"] or state["open"] is not None
    return RUNNING if is_used else IDLE


def _trouble(state: Mapping[str, Any]) -> Row:
    """Retries, the stall and the last error: records and lanes have the same fields."""
    stall, error = state["stall"], state["error"]
    kind = tag(stall)
    stall_fields = {} if stall is None else stall["$value"]
    return {
        "step_attempts": state["step_attempts"],
        "stall": None if kind is None else AUTO if kind == "Auto" else PARKED,
        "stall_until_ns": stall_fields.get("until"),
        "stall_cycle": stall_fields.get("cycle"),
        "stall_why": stall_fields.get("why"),
        "code": None if error is None else error["code"],
        "error": None if error is None else error["message"],
        "error_step": None if error is None else error["step"],
    }
