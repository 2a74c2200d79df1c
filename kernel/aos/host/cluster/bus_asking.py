"""Make requests safe to repeat, and send them to the owner of a world (spec/cluster.md, CL-126,
CL-127).

``pass_on_to`` gives the function with which a standby's socket passes on the requests of its
clients.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aos.core.decide.answers import Answer, Refusal, Rule
from aos.errors import AosError, BadUsage, Refused
from aos.host.cluster.bus_client import BusClient, NotKnown
from aos.host.door.protocol import (
    MESSAGE_BYTES_MAX,
    bodies_of,
    pack,
    raise_error,
    read_answer,
    unpack,
)
from aos.host.door.remote import ANSWER_S, APPLY_S, SNAPSHOT_S, UNKNOWN
from aos.message_fields import Message, field
from aos.store.log.nats_connection import NatsConnection
from aos.values.cbor import Value
from aos.values.digests import Hash, hash_text

ID_BYTES: Final = 16
"""Length of the submission id that an event without one gets, before it is written in hex."""

_COMMANDS: Final = frozenset({"apply", "control", "governance"})
_REPEATABLE: Final = frozenset(
    {
        *("send", "deliver", "module", "retry", "snapshot", "find", "blob", "head"),
        *("hand_over", "try"),
        *("manifest", "status", "work"),
    }
)
_ANSWER_S: Final = {"apply": APPLY_S, "try": APPLY_S, "governance": APPLY_S, "snapshot": SNAPSHOT_S}
_SERIAL_RULES: Final = frozenset({Rule.CONTROL_SERIAL_IS_WRONG, Rule.MANIFEST_SERIAL_IS_WRONG})


@dataclass(frozen=True, slots=True, kw_only=True)
class BusRequest:
    """Packed messages, as one connection would carry them. ``command`` is the last of them if an
    operator signed it: it is carried out once at most, but its answer, if it is sent again, says
    that it came too late. ``is_repeatable``: sending it again does no harm."""

    messages: bytes
    is_repeatable: bool
    answer_s: float
    command: Message | None = None

    @classmethod
    def of(cls, messages: bytes) -> BusRequest:
        """Read packed messages. Each event without a submission id gets one.

        Raises:
            BadUsage: They are no messages.
            Refused: One is too large.
        """
        requests = [unpack(body) for body in bodies_of(messages)]
        if not requests:
            raise BadUsage("expected a message, found nothing")
        changes = [_give_ids(request) for request in requests]
        last = requests[-1]
        return cls(
            messages=joined(requests) if any(changes) else messages,
            is_repeatable=all(map(_is_repeatable, requests)),
            answer_s=_ANSWER_S.get(str(last.get("op")), ANSWER_S),
            command=last if _is_signed(last) else None,
        )


def _is_signed(request: Message) -> bool:
    return request.get("op") in _COMMANDS and "signature" in request


def _is_repeatable(request: Message) -> bool:
    """Whether a second time does nothing more. The owner would sign a command without a signature
    for the next number."""
    op = request.get("op")
    return (
        op in _REPEATABLE
        or _is_signed(request)
        or (op == "http" and request.get("repeats") is True)
    )


def _give_ids(request: Message) -> bool:
    """Give each event of a request a submission id; whether one had none."""
    items: Any = request.get("items")
    if request.get("op") != "send" or not isinstance(items, list):
        return False
    without_id = [item for item in items if isinstance(item, dict) and "id" not in item]
    for item in without_id:
        item["id"] = secrets.token_hex(ID_BYTES)
    return bool(without_id)


async def ask_owner(client: BusClient, messages: bytes) -> bytes:
    """Send packed messages to the owner of the world, as over one connection, and return its packed
    answers.

    Raises:
        BadUsage: They are no messages.
        NotKnown: Whether the last one was carried out is not known.
        NotCarriedOut, Refused: As ``BusClient.ask``.
    """
    request = BusRequest.of(messages)
    try:
        reply = await client.ask(
            request.messages,
            answer_s=request.answer_s,
            is_repeatable=request.is_repeatable,
            is_away=_is_away,
        )
    except NotKnown as problem:
        raise NotKnown(f"{problem}; {UNKNOWN}") from problem
    if reply.is_repeated and _is_away(reply.messages):
        text = (
            f"the owner of the world stops, and an earlier one may have had the request; {UNKNOWN}"
        )
        raise NotKnown(text)
    if request.command is not None and reply.is_repeated:
        return await _answer_again(client, request.command, reply.messages)
    return reply.messages


async def _answer_again(client: BusClient, command: Message, messages: bytes) -> bytes:
    """The answer to a command that was sent again. If it was carried out the first time, the owner
    has refused it now, and its journal has the record."""
    last = _last(messages)
    if "error" in last:
        return messages
    answer = read_answer(last.get("answer"))
    if not _may_be_done(command, answer):
        return messages
    lookup = await client.ask(
        pack({"op": "find", "signature": field(command, "signature", bytes)}),
        answer_s=ANSWER_S,
        is_repeatable=True,
        is_away=_is_away,
    )
    record = _last(lookup.messages)
    try:
        raise_error(record)
    except AosError as problem:
        raise NotKnown(
            "the owner of the world changed before it answered, and it is not known whether the "
            f"command was carried out (look at the journal: aos inspect journal): {problem}"
        ) from problem
    return messages if record.get("answer") is None else lookup.messages


def _may_be_done(command: Message, answer: Answer) -> bool:
    if not isinstance(answer, Refusal):
        return False
    return command.get("op") == "governance" or answer.rule in _SERIAL_RULES


def _last(messages: bytes) -> Message:
    bodies = list(bodies_of(messages))
    if not bodies:
        raise BadUsage("the owner answered nothing")
    return unpack(bodies[-1])


def _is_away(messages: bytes) -> bool:
    """Whether the owner answers that it stops, or owns the world no more."""
    match _last(messages).get("error"):
        case {"kind": "unavailable"}:
            return True
    return False


def pass_on_to(
    connection: NatsConnection, client: BusClient
) -> Callable[[bytes], Awaitable[bytes]]:
    """Return a function that passes packed messages on to the owner, and returns its packed
    answers. It may be called in any event loop, which it does not block. Raises as ``ask_owner``.
    """

    async def pass_on(messages: bytes) -> bytes:
        return await asyncio.wrap_future(connection.start(ask_owner(client, messages)))

    return pass_on


def blob_finder(
    connection: NatsConnection, client: BusClient, *, report: Callable[[str], None]
) -> Callable[[Hash], bytes | None]:
    """Return a function that asks the owner for a value, and returns its bytes, which are not
    checked; None if the owner does not have it, or is not reached while ``client`` is patient. It
    blocks its thread. ``report`` gets the reason why there is no answer (CL-64)."""

    def find_blob(value: Hash) -> bytes | None:
        try:
            messages = connection.run(ask_owner(client, pack({"op": "blob", "hash": value})))
            answer = _last(messages)
            raise_error(answer)
            return None if answer.get("blob") is None else field(answer, "blob", bytes)
        except AosError as problem:
            report(f"the owner has not answered with {hash_text(value)}: {problem}")
            return None

    return find_blob


def joined(requests: Sequence[Mapping[str, Value]]) -> bytes:
    """Pack requests for one connection. Raises: Refused: One is too large."""
    try:
        return b"".join(map(pack, requests))
    except OverflowError:
        raise Refused(
            f"the request is too large: expected at most {MESSAGE_BYTES_MAX} bytes"
        ) from None
