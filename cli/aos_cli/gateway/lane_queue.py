"""The requests that a lane has: the one in flight, and those that wait in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.errors import Damage
from aos.values.cbor import decode_record
from aos.values.errors import ValueProblem
from aos_cli.gateway.keys import Key, owner_key

_ARGUMENT_BYTES: Final = {24: 1, 25: 2, 26: 4, 27: 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePosition:
    """Where a request is at its lane: 1 is in flight. ``ahead`` is the record whose request is in
    flight, if this one waits."""

    request: int
    number: int
    total: int
    ahead: Key | None


def requests(lane: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Every ``gw/TxRequested@1`` of a lane, the one in flight first.

    Raises:
        Damage: The queue cannot be read.
    """
    current = lane["current"]
    waiting = [_request(data) for _, data in _waiting(lane["queue"])]
    return waiting if current is None else [current["request"], *waiting]


def place_of(lane: Mapping[str, Any], key: Key, request: int) -> QueuePosition | None:
    """Where the request of a record is; None if the lane does not have it. Raises as
    ``requests``."""
    current = lane["current"]
    names = [name for name, _ in _waiting(lane["queue"])]
    if current is not None:
        owner = owner_key(current["request"]["owner"])
        names.insert(0, _name(owner, current["request"]["request"]))
    name = _name(key, request)
    if name not in names:
        return None
    number = names.index(name) + 1
    return QueuePosition(
        request=request,
        number=number,
        total=len(names),
        ahead=owner if number > 1 and current is not None else None,
    )


def _name(owner: Key, request: int) -> str:
    """The name of a request in the queue."""
    return f"{owner.words} {request}"


def _waiting(queue: bytes) -> Iterator[tuple[str, bytes]]:
    """The waiting requests: the queue has two items of CBOR for each, its name and its bytes."""
    at = 0
    try:
        while at < len(queue):
            middle = item_end(queue, at)
            end = item_end(queue, middle)
            name, data = decode_record(queue[at:middle]), decode_record(queue[middle:end])
            if not (isinstance(name, str) and isinstance(data, bytes)):
                raise _unreadable(f"byte {at} begins no request")
            yield name, data
            at = end
    except (IndexError, ValueProblem) as problem:
        raise _unreadable(f"byte {at} begins no request ({problem})") from problem


def _request(data: bytes) -> Mapping[str, Any]:
    try:
        request: Any = decode_record(data)
    except ValueProblem as problem:
        raise _unreadable(str(problem)) from problem
    return request  # type: ignore[no-any-return]  # the module wrote it by its schema


def _unreadable(reason: str) -> Damage:
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
