"""Records and lanes of a world, with the queue of each lane, as the journal has them now."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from aos.core.journal.records import slot_bytes
from aos.core.state.cell import Cell, EventMail
from aos.core.state.version import workflow_of
from aos.errors import BadUsage, Damage, Refused, sentence
from aos.read.views.diagnosis import INTENT_DIGITS, open_intent
from aos.read.views.view import View
from aos.values.cbor import decode_record
from aos.values.errors import ValueProblem
from aos_gateway.keys import KINDS, Key, Kind, owner_key
from aos_gateway.requests import input_of, input_of_record
from aos_gateway.shipped_files import gateway_folder

NEAR_MAX: Final = 3
NEAR_READ: Final = 10_000
NEAR_CUTOFF: Final = 0.9
"""Keys of one studio have half of their digits in common, so only a mistyped one is nearer."""

_ARGUMENT_BYTES: Final = {24: 1, 25: 2, 26: 4, 27: 8}
"""Bytes of the argument after the first byte of a CBOR item, by the low bits of that byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEffect:
    """An effect that a cell waits for. ``text`` and ``next`` are those of ``aos inspect cell``;
    ``code`` is the reason why it is held or parked. ``is_runnable`` is false if the world runs and
    its process has no function for the effect; None if no process runs the world. ``digits`` name
    it in commands."""

    name: str
    digits: str
    text: str
    next: str | None
    is_stuck: bool
    code: str | None
    is_runnable: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayCell:
    """A record or a lane.

    ``state`` is its state, with variants in the ``$tag`` form and bytes as bytes; None if its first
    event has not run. ``created`` is then that event's value. ``fault`` is the kernel's, ``mail``
    the number of events that wait, ``halt_code`` the code of an effect that is held or parked.
    """

    key: Key
    state: Mapping[str, Any] | None
    created: Mapping[str, Any] | None = None
    fault: str | None = None
    mail: int = 0
    halt_code: str | None = None
    effects: Sequence[OpenEffect] = ()

    @property
    def input(self) -> dict[str, Any] | None:
        """The input of a record, or of the event that creates it; None if neither is known."""
        if self.state is not None:
            return input_of_record(self.state)
        return None if self.created is None else input_of(self.key, self.created)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePosition:
    """Where a request is at its lane: 1 is in flight. ``ahead`` is the record whose request is in
    flight, if this one waits."""

    request: int
    number: int
    total: int
    ahead: Key | None


def must_have_gateway(view: View) -> None:
    """Raise BadUsage unless the gateway's manifest is in force."""
    manifest = view.state.manifest
    workflows = {} if manifest is None else manifest.workflows
    missing = [kind.workflow for kind in KINDS if kind.workflow not in workflows]
    if missing:
        raise BadUsage(
            "the manifest in force has no gateway",
            expected="the workflows " + ", ".join(kind.workflow for kind in KINDS),
            actual="no " + ", no ".join(missing),
            hint=f"aos apply {gateway_folder(['air/generated.air.json'])}",
        )


def cells_of(view: View, kind: Kind) -> Iterator[GatewayCell]:
    """Every cell of one kind, in no order, without its open effects."""
    for cell in view.state.cells.of(kind.workflow):
        gateway_cell = _read_cell(view, kind, cell)
        if gateway_cell is not None:
            yield gateway_cell


def find_cell(view: View, key: Key) -> GatewayCell | None:
    """The cell of a key, with its open effects; None if there is none."""
    cell = view.state.cells.get(key.cell)
    return None if cell is None else _read_cell(view, key.kind, cell, with_effects=True)


def the_cell(view: View, key: Key) -> GatewayCell:
    """As ``find_cell``. Raises Refused, with keys that resemble this one, if there is none."""
    gateway_cell = find_cell(view, key)
    if gateway_cell is None:
        raise Refused(unknown_text(view, key))
    return gateway_cell


def unknown_text(view: View, key: Key) -> str:
    """The refusal of a key that no cell has, as a sentence."""
    near = near_keys(view, key)
    hint = f"keys like it: {', '.join(near)}" if near else "aos gateway list prints all keys"
    return sentence(f"there is no {key.words}", hint=hint)


def near_keys(view: View, key: Key) -> list[str]:
    """At most three keys of the same kind that differ from ``key`` in a few characters."""
    key_texts = (
        _key_text(cell) for cell in islice(view.state.cells.of(key.kind.workflow), NEAR_READ)
    )
    return difflib.get_close_matches(
        key.text, [text for text in key_texts if text is not None], n=NEAR_MAX, cutoff=NEAR_CUTOFF
    )


def _key_text(cell: Cell) -> str | None:
    key = decode_record(cell.id[1]) if cell.id[1] else None
    return key if isinstance(key, str) else None


def _read_cell(
    view: View, kind: Kind, cell: Cell, *, with_effects: bool = False
) -> GatewayCell | None:
    text = _key_text(cell)
    if text is None:
        return None
    state = _cell_state(view, cell)
    created = None
    if state is None:
        created = _creating_value(view, kind, cell)
        if created is None and cell.fault is None:
            return None
    fault = cell.fault
    return GatewayCell(
        key=Key(kind, text),
        state=state,
        created=created,
        fault=None if fault is None else f"{fault.kind.value}: {fault.message}",
        mail=len(cell.mailbox),
        halt_code=_halt_code(view, cell),
        effects=_open_effects(view, cell) if with_effects else (),
    )


def _cell_state(view: View, cell: Cell) -> Mapping[str, Any] | None:
    if cell.state is None:
        return None
    data = slot_bytes(cell.state, view.journal.blob)
    workflow = workflow_of(view.state, cell)
    if workflow is not None:
        with contextlib.suppress(ValueProblem):  # raised if it is pinned to an earlier manifest
            data = workflow.state.completed(data)
    state = decode_record(data)
    return state if isinstance(state, dict) else None  # type: ignore[return-value]  # keys are text


def _creating_value(view: View, kind: Kind, cell: Cell) -> Mapping[str, Any] | None:
    for mail in cell.mailbox:
        if isinstance(mail, EventMail) and mail.schema == kind.created_by:
            event_value: Any = decode_record(slot_bytes(mail.value, view.journal.blob))
            return event_value  # type: ignore[no-any-return]  # a record of its schema
    return None


def _halt_code(view: View, cell: Cell) -> str | None:
    halts = (view.state.halt(view.state.intents[intent]) for intent in cell.inflight)
    return next((halt.code for halt in halts if halt is not None), None)


def _open_effects(view: View, cell: Cell) -> list[OpenEffect]:
    return [_open_effect(view, intent) for intent in cell.inflight]


def _open_effect(view: View, intent: Any) -> OpenEffect:
    intent_entry = view.state.intents[intent]
    reason = open_intent(
        view.state, intent_entry, view.journal.blob, now_ns=view.now_ns, running=view.running
    )
    halt = view.state.halt(intent_entry)
    name = intent_entry.effect.name
    is_ours = name.startswith(("evm/", "arweave/"))
    running = view.running
    return OpenEffect(
        name=name,
        digits=intent_entry.intent.hex()[:INTENT_DIGITS],
        text=reason.text,
        next=reason.next,
        is_stuck=reason.is_stuck,
        code=None if halt is None else halt.code,
        is_runnable=None if running is None else not is_ours or name in running.effects,
    )


def requests(lane: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Every ``gw/TxRequested@1`` of a lane: the one in flight, then those that wait, in order.

    Raises:
        Damage: The queue cannot be read.
    """
    current = lane["current"]
    waiting = [_decoded_request(data) for _, data in _waiting_requests(lane["queue"])]
    return waiting if current is None else [current["request"], *waiting]


def place_of(lane: Mapping[str, Any], key: Key, request: int) -> QueuePosition | None:
    """Where the request of a record is; None if the lane does not have it. Raises as
    ``requests``."""
    current = lane["current"]
    names = [name for name, _ in _waiting_requests(lane["queue"])]
    if current is not None:
        owner = owner_key(current["request"]["owner"])
        names.insert(0, _request_name(owner, current["request"]["request"]))
    name = _request_name(key, request)
    if name not in names:
        return None
    number = names.index(name) + 1
    return QueuePosition(
        request=request,
        number=number,
        total=len(names),
        ahead=owner if number > 1 and current is not None else None,
    )


def _request_name(owner: Key, request: int) -> str:
    """The name of a request in the queue."""
    return f"{owner.words} {request}"


def _waiting_requests(queue: bytes) -> Iterator[tuple[str, bytes]]:
    """The waiting requests: the queue has two items of CBOR for each, its name and its bytes."""
    at = 0
    try:
        while at < len(queue):
            middle = item_end(queue, at)
            end = item_end(queue, middle)
            name, data = decode_record(queue[at:middle]), decode_record(queue[middle:end])
            if not (isinstance(name, str) and isinstance(data, bytes)):
                raise _queue_unreadable(f"byte {at} begins no request")
            yield name, data
            at = end
    except (IndexError, ValueProblem) as problem:
        raise _queue_unreadable(f"byte {at} begins no request ({problem})") from problem


def _decoded_request(data: bytes) -> Mapping[str, Any]:
    try:
        request: Any = decode_record(data)
    except ValueProblem as problem:
        raise _queue_unreadable(str(problem)) from problem
    return request  # type: ignore[no-any-return]  # the module wrote it by its schema


def _queue_unreadable(reason: str) -> Damage:
    return Damage(f"the queue of the lane cannot be read: {reason}")


def item_end(data: bytes, at: int) -> int:
    """The end of the CBOR item that begins at ``at``; its content is not checked.

    Raises IndexError if the data end before it.
    """
    items_remaining = 1
    while items_remaining:
        major, info = data[at] >> 5, data[at] & 31
        size = _ARGUMENT_BYTES.get(info, 0)
        argument = int.from_bytes(data[at + 1 : at + 1 + size], "big") if size else info
        at += 1 + size
        items_remaining -= 1
        if major in (2, 3):
            at += argument
        elif major in (4, 5):
            items_remaining += argument * (major - 3)
        if at > len(data):
            raise IndexError("the data end within an item")
    return at
