"""Params of ``sys/portal.send@1`` -> the event for the other world (AG-87, AG-88)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.core.journal.inputs import EventInput
from aos.executors.portal.portal_errors import bad_request
from aos.values.cbor import Value, encode
from aos.values.sha256 import sha256_text
from aos.worker import EffectContext

DOMAIN: Final = "aos/portal/1"
TYPED: Final = "typed"
INBOX: Final = "inbox"

_FIELDS: Final = {TYPED: ("schema", "value_cbor"), INBOX: ("inbox", "payload_cbor")}


@dataclass(frozen=True, slots=True)
class PortalMessage:
    """A message: its id, the same for every attempt, and the event that carries it."""

    id: str
    event: EventInput


def destination(params: Mapping[str, Any]) -> str:
    """The name under which ``AOS_PORTAL_WORLDS`` has the other world."""
    universe, world = params["dest_universe"], params["dest_world"]
    return str(world) if universe is None else f"{universe}/{world}"


def message(params: Mapping[str, Any], ctx: EffectContext) -> PortalMessage:
    """The message of an effect.

    Raises:
        EffectFailed: The mode is unknown, or the params have not exactly its fields.
    """
    mode = params["mode"]
    if mode not in _FIELDS:
        raise bad_request(f"mode: expected {TYPED} or {INBOX}, found {mode!r:.40}")
    for name in (name for names in _FIELDS.values() for name in names):
        if (params[name] is not None) != (name in _FIELDS[mode]):
            expected = "a value" if name in _FIELDS[mode] else "null"
            raise bad_request(f"{name}: expected {expected} in the mode {mode}")
    if mode == TYPED and params["headers"] is not None:
        raise bad_request("headers: expected null in the mode typed: the event has its own fields")
    id = sha256_text(encode([DOMAIN, ctx.world, ctx.intent]))
    return PortalMessage(id, _typed(params, id) if mode == TYPED else _inbox(params, id, ctx))


def _typed(params: Mapping[str, Any], id: str) -> EventInput:
    return EventInput(
        schema=params["schema"], value=params["value_cbor"], submission_id=f"portal:{id}"
    )


def _inbox(params: Mapping[str, Any], id: str, ctx: EffectContext) -> EventInput:
    envelope: Value = {
        "message_id": id,
        "from_world": ctx.world,
        "payload": params["payload_cbor"],
        "headers": params["headers"] or {},
        "correlation_id": params["correlation_id"],
    }
    return EventInput(schema=params["inbox"], value=encode(envelope), submission_id=f"portal:{id}")
