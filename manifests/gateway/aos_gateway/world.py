"""The records and lanes of a folder's world: one, with the lane that it waits at, or all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aos.read.views.view import View
from aos_cli.open_view import looking_at
from aos_gateway.cells import (
    GatewayCell,
    QueuePosition,
    cells_of,
    find_cell,
    must_have_gateway,
    place_of,
    requests,
    the_cell,
)
from aos_gateway.keys import KINDS, LANE, Key, Kind, lane_key
from aos_gateway.rows import Row, order, row, tag
from aos_gateway.waits import REGISTERING, waits


@contextmanager
def gateway_of(world: Path, *, asks: bool = False) -> Iterator[View]:
    """As ``looking_at``. Raises BadUsage unless the gateway's manifest is in force."""
    with looking_at(world, asks=asks, spells=True) as view:
        must_have_gateway(view)
        yield view


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which rows of a list are wanted; None takes all. A lane belongs to no studio."""

    kind: Kind | None = None
    state: str | None = None
    studio: str | None = None

    def has(self, row: Row) -> bool:
        return (self.state is None or row["state"] == self.state) and (
            self.studio is None or row["studio"] == self.studio
        )


def rows(view: View, row_filter: Filter) -> list[Row]:
    """The rows of records and lanes, in the order of ``order``."""
    kinds = [
        kind
        for kind in KINDS
        if row_filter.kind in (None, kind) and not (row_filter.studio is not None and kind is LANE)
    ]
    all_rows = (row(cell) for kind in kinds for cell in cells_of(view, kind))
    return sorted(filter(row_filter.has, all_rows), key=order)


def show(view: View, key: Key) -> Row:
    """A record or a lane in full (spec/cli.md, C-124). Raises Refused if there is none."""
    cell = the_cell(view, key)
    lane, position = (None, None) if key.kind is LANE else _lane_position(view, cell)
    cell_waits = waits(
        cell, lane=lane, position=position, is_run=view.running is not None, now_ns=view.now_ns
    )
    return {
        **row(cell),
        "waits": [
            {"text": wait.text, "next": wait.next, "is_stuck": wait.is_stuck} for wait in cell_waits
        ],
        "attempts": _attempts(cell, lane, position),
        "lane": None if lane is None else _lane(lane, position),
        "queue": None if key.kind is not LANE else _queue(cell),
        "stored": None if cell.state is None else _plain(_stored(cell.state)),
    }


def _lane_position(
    view: View, cell: GatewayCell
) -> tuple[GatewayCell | None, QueuePosition | None]:
    """The lane of a record's step, and the place of its open request there."""
    if cell.state is None:
        return None, None
    record_input, request = cell.state["input"], cell.state["at_lane"]
    signer = record_input["signer_address"]
    if tag(cell.state["step"]) in REGISTERING and record_input["admin_address"] is not None:
        signer = record_input["admin_address"]
    lane = find_cell(view, lane_key(record_input["chain"], signer))
    if lane is None or lane.state is None or request is None:
        return lane, None
    return lane, place_of(lane.state, cell.key, request)


def _attempts(
    cell: GatewayCell, lane: GatewayCell | None, position: QueuePosition | None
) -> list[Row]:
    """Every submission of the cell's transactions: those that are settled, then the open ones."""
    if cell.state is None:
        return []
    settled = [] if cell.key.kind is LANE else cell.state["attempts"]
    current = None
    if cell.key.kind is LANE:
        current = cell.state["current"]
    elif (
        lane is not None
        and lane.state is not None
        and position is not None
        and position.number == 1
    ):
        current = lane.state["current"]
    open_attempts = [] if current is None else current["attempts"]
    return [
        *(_attempt(attempt, is_open=False) for attempt in settled),
        *(_attempt(attempt, is_open=True) for attempt in open_attempts),
    ]


def _attempt(attempt: Mapping[str, Any], *, is_open: bool) -> Row:
    return {**attempt, "fate": tag(attempt["fate"]), "is_open": is_open}


def _lane(lane: GatewayCell, position: QueuePosition | None) -> Row:
    lane_row = row(lane)
    current = None if lane.state is None else lane.state["current"]
    return {
        **{name: lane_row[name] for name in ("key", "state", "doing", "stall", "code", "queued")},
        "nonce": None if current is None else current["nonce"],
        "request": None if position is None else position.request,
        "place": None if position is None else position.number,
        "of": None if position is None else position.total,
    }


def _queue(cell: GatewayCell) -> list[Row]:
    lane_requests = [] if cell.state is None else requests(cell.state)
    return [
        {
            "place": number,
            "owner": _owner(lane_request["owner"]),
            "request": lane_request["request"],
            "to": lane_request["to"],
            "value": lane_request["value"],
            "data_bytes": len(lane_request["data"]),
        }
        for number, lane_request in enumerate(lane_requests, 1)
    ]


def _owner(owner: Mapping[str, Any]) -> Row:
    return {"type": str(tag(owner)).lower(), "key": owner["$value"]}


def _stored(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state without what is shown in other form, or is only a copy of the evidence."""
    return {name: value for name, value in state.items() if name not in ("queue", "evidence")}


def _plain(value: Any) -> Any:
    """A state as JSON: bytes as hex."""
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, Mapping):
        return {name: _plain(field_value) for name, field_value in value.items()}
    return [_plain(element) for element in value] if isinstance(value, list) else value
