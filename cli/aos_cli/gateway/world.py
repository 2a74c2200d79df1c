"""The records and lanes of a folder's world: one, with the lane that it waits at, or all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aos.audit.views.view import View
from aos_cli.gateway.cells import GatewayCell, cells_of, find_cell, must_have_gateway, the_cell
from aos_cli.gateway.keys import KINDS, LANE, Key, Kind, lane_key
from aos_cli.gateway.lane_queue import Place, place_of, requests
from aos_cli.gateway.rows import Row, order, row, tag
from aos_cli.gateway.waits import REGISTERING, waits
from aos_cli.open_view import looking_at


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

    def has(self, found: Row) -> bool:
        return (self.state is None or found["state"] == self.state) and (
            self.studio is None or found["studio"] == self.studio
        )


def rows(view: View, wanted: Filter) -> list[Row]:
    """The rows of records and lanes, in the order of ``order``."""
    kinds = [
        kind
        for kind in KINDS
        if wanted.kind in (None, kind) and not (wanted.studio is not None and kind is LANE)
    ]
    found = (row(cell) for kind in kinds for cell in cells_of(view, kind))
    return sorted(filter(wanted.has, found), key=order)


def show(view: View, key: Key) -> Row:
    """A record or a lane in full (spec/cli.md, C-124). Raises Refused if there is none."""
    cell = the_cell(view, key)
    lane, place = (None, None) if key.kind is LANE else _place(view, cell)
    found = waits(cell, lane=lane, place=place, is_run=view.running is not None, now_ns=view.now_ns)
    return {
        **row(cell),
        "waits": [
            {"text": each.text, "next": each.next, "is_stuck": each.is_stuck} for each in found
        ],
        "attempts": _attempts(cell, lane, place),
        "lane": None if lane is None else _lane(lane, place),
        "queue": None if key.kind is not LANE else _queue(cell),
        "stored": None if cell.state is None else _plain(_stored(cell.state)),
    }


def _place(view: View, cell: GatewayCell) -> tuple[GatewayCell | None, Place | None]:
    """The lane of a record's step, and the place of its open request there."""
    if cell.state is None:
        return None, None
    given, request = cell.state["input"], cell.state["at_lane"]
    signer = given["signer_address"]
    if tag(cell.state["step"]) in REGISTERING and given["admin_address"] is not None:
        signer = given["admin_address"]
    lane = find_cell(view, lane_key(given["chain"], signer))
    if lane is None or lane.state is None or request is None:
        return lane, None
    return lane, place_of(lane.state, cell.key, request)


def _attempts(cell: GatewayCell, lane: GatewayCell | None, place: Place | None) -> list[Row]:
    """Every submission of the cell's transactions: those that are settled, then the open ones."""
    if cell.state is None:
        return []
    settled = [] if cell.key.kind is LANE else cell.state["attempts"]
    current = None
    if cell.key.kind is LANE:
        current = cell.state["current"]
    elif lane is not None and lane.state is not None and place is not None and place.number == 1:
        current = lane.state["current"]
    opened = [] if current is None else current["attempts"]
    return [
        *(_attempt(each, is_open=False) for each in settled),
        *(_attempt(each, is_open=True) for each in opened),
    ]


def _attempt(attempt: Mapping[str, Any], *, is_open: bool) -> Row:
    return {**attempt, "fate": tag(attempt["fate"]), "is_open": is_open}


def _lane(lane: GatewayCell, place: Place | None) -> Row:
    found = row(lane)
    current = None if lane.state is None else lane.state["current"]
    return {
        **{name: found[name] for name in ("key", "state", "doing", "stall", "code", "queued")},
        "nonce": None if current is None else current["nonce"],
        "request": None if place is None else place.request,
        "place": None if place is None else place.number,
        "of": None if place is None else place.total,
    }


def _queue(cell: GatewayCell) -> list[Row]:
    found = [] if cell.state is None else requests(cell.state)
    return [
        {
            "place": number,
            "owner": _owner(each["owner"]),
            "request": each["request"],
            "to": each["to"],
            "value": each["value"],
            "data_bytes": len(each["data"]),
        }
        for number, each in enumerate(found, 1)
    ]


def _owner(owner: Mapping[str, Any]) -> Row:
    return {"type": str(tag(owner)).lower(), "key": owner["$value"]}


def _stored(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state without what is shown in other form, or is only a copy of the evidence."""
    return {name: each for name, each in state.items() if name not in ("queue", "evidence")}


def _plain(value: Any) -> Any:
    """A state as JSON: bytes as hex."""
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
