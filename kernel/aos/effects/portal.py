"""Events to other worlds of this machine: ``--executors portal`` (spec/agentos.md, AG-85).

The effect ``sys/portal.send@1`` sends an event through the socket of another world, which takes it
once (AG-86 to AG-89). ``AOS_PORTAL_WORLDS`` has the worlds of this machine that get events, by UUID
(AG-86).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from aos.core.decide.answers import Admitted, Duplicate, Rule
from aos.core.journal.inputs import EventInput
from aos.effects.named_addresses import pairs
from aos.errors import AosError, BadUsage, Damage, Refused, Unavailable
from aos.host.door.link import Link
from aos.host.door.remote import NotSent
from aos.host.errors import Busy
from aos.host.folder.folder import WorldFolder, open_folder
from aos.values.cbor import Value, encode
from aos.values.digests import Hash
from aos.values.sha256 import sha256_text
from aos.values.spelling import normal_uuid
from aos.worker import EffectContext, EffectFailed, Executors, NotConfigured, effect

VARIABLE: Final = "AOS_PORTAL_WORLDS"

DOMAIN: Final = "aos/portal/1"
TYPED: Final = "typed"
INBOX: Final = "inbox"

CONCURRENCY: Final = 64
ATTEMPTS: Final = 8
BACKOFF_MS: Final = 1000
TIMEOUT_S: Final = 90
"""More than one answer of a world may take (60 s)."""

_EXAMPLE: Final = f'{VARIABLE}="1b4e28ba-2fa1-41d2-883f-0016d3cca427=/srv/worlds/billing"'

_MODE_FIELDS: Final = {TYPED: ("schema", "value_cbor"), INBOX: ("inbox", "payload_cbor")}


@dataclass(frozen=True, slots=True)
class PortalMessage:
    """A message: its id, the same for every attempt, and the event that carries it."""

    id: str
    event: EventInput


class Destinations:
    """The connections of this process to other worlds, made when they are needed."""

    def __init__(self, worlds: Mapping[str, Path]) -> None:
        self._worlds = worlds
        self._links: dict[tuple[Path, Hash], Link] = {}

    def link(self, name: str) -> Link:
        """The way to the world of a name. Connects to nothing.

        Raises:
            NotConfigured: The name is unknown, or its folder has no world.
        """
        path = self._worlds.get(name)
        if path is None:
            raise not_configured(name, VARIABLE)
        folder = _world_folder(name, path)
        # A world that was made again in the same folder is another one.
        link = self._links.get((path, folder.world))
        if link is None:
            link = self._links[path, folder.world] = Link(folder)
        return link

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(link.close() for link in self._links.values()))


def _world_folder(name: str, path: Path) -> WorldFolder:
    try:
        return open_folder(path)
    except AosError as problem:
        raise world_unusable(name, str(problem)) from None


@effect(
    "sys/portal.send@1",
    concurrency=CONCURRENCY,
    attempts=ATTEMPTS,
    timeout_s=TIMEOUT_S,
    backoff_ms=BACKOFF_MS,
)
async def send(params: Mapping[str, Any], ctx: EffectContext) -> dict[str, Any]:
    """Send one event to another world; return once it is durable there (AG-85)."""
    assert isinstance(ctx.resource, Destinations)
    name, sent = destination(params), message(params, ctx)
    link = ctx.resource.link(name)
    try:
        [answer] = await link.send([sent.event], None)
    except NotSent:
        raise not_running(name) from None
    except Busy:
        raise busy(name) from None
    except (Unavailable, Damage):
        raise unanswered(name) from None
    except (Refused, BadUsage) as problem:
        raise rejected(f"world {name}: {problem}") from None
    if not isinstance(answer, Admitted | Duplicate):
        if answer.rule is Rule.WORLD_IS_BUSY:
            raise busy(name)
        raise rejected(f"world {name}: {answer.rule.value}: {answer.message}")
    return {
        "status": "ok",
        "message_id": sent.id,
        "dest_world": params["dest_world"],
        "enqueued_seq": encode(answer.seq),
    }


@asynccontextmanager
async def open_destinations() -> AsyncIterator[Destinations]:
    """The worlds of ``AOS_PORTAL_WORLDS``. Connects to none.

    Raises:
        BadUsage: The variable is malformed.
    """
    destinations = Destinations(read_worlds(os.environ.get(VARIABLE, "")))
    try:
        yield destinations
    finally:
        await destinations.close()


portal = Executors("portal", (send,), setup=open_destinations)


def destination(params: Mapping[str, Any]) -> str:
    """The name under which ``AOS_PORTAL_WORLDS`` has the other world."""
    universe, world = params["dest_universe"], params["dest_world"]
    return str(world) if universe is None else f"{universe}/{world}"


def message(params: Mapping[str, Any], ctx: EffectContext) -> PortalMessage:
    """The message of an effect: its params -> the event for the other world (AG-87, AG-88).

    Raises:
        EffectFailed: The mode is unknown, or the params have not exactly its fields.
    """
    mode = params["mode"]
    if mode not in _MODE_FIELDS:
        raise bad_request(f"mode: expected {TYPED} or {INBOX}, found {mode!r:.40}")
    for name in (name for names in _MODE_FIELDS.values() for name in names):
        if (params[name] is not None) != (name in _MODE_FIELDS[mode]):
            expected = "a value" if name in _MODE_FIELDS[mode] else "null"
            raise bad_request(f"{name}: expected {expected} in the mode {mode}")
    if mode == TYPED and params["headers"] is not None:
        raise bad_request("headers: expected null in the mode typed: the event has its own fields")
    id = sha256_text(encode([DOMAIN, ctx.world, ctx.intent]))
    return PortalMessage(
        id, _typed_event(params, id) if mode == TYPED else _inbox_event(params, id, ctx)
    )


def _typed_event(params: Mapping[str, Any], id: str) -> EventInput:
    return EventInput(
        schema=params["schema"], value=params["value_cbor"], submission_id=f"portal:{id}"
    )


def _inbox_event(params: Mapping[str, Any], id: str, ctx: EffectContext) -> EventInput:
    envelope: Value = {
        "message_id": id,
        "from_world": ctx.world,
        "payload": params["payload_cbor"],
        "headers": params["headers"] or {},
        "correlation_id": params["correlation_id"],
    }
    return EventInput(schema=params["inbox"], value=encode(envelope), submission_id=f"portal:{id}")


def read_worlds(text: str) -> dict[str, Path]:
    """Read ``UUID=FOLDER`` and ``UNIVERSE/UUID=FOLDER`` pairs, separated by blanks.

    Raises:
        BadUsage: A pair is malformed, or a name is there twice.
    """
    worlds: dict[str, Path] = {}
    for position, name_text, folder in pairs(text):
        parts = [normal_uuid(part) for part in name_text.split("/")]
        if not folder or len(parts) > 2 or None in parts:
            raise BadUsage(
                f"{VARIABLE}: pair {position}: expected UUID=FOLDER, such as {_EXAMPLE} (pairs are "
                "separated by blanks)"
            )
        name = "/".join(filter(None, parts))
        if name in worlds:
            raise BadUsage(f"{VARIABLE}: pair {position}: the world {name} is there twice")
        worlds[name] = Path(folder).absolute()
    return worlds


# The error codes of this effect, each with the function that makes it (AG-89).

bad_request: Final = partial(EffectFailed, "portal_bad_request")
"""The workflow's params are invalid; nothing was sent."""

rejected: Final = partial(EffectFailed, "portal_rejected")
"""The other world refused the event, and will refuse it again."""


def busy(name: str) -> EffectFailed:
    """The other world takes nothing now; it has not taken the event."""
    return EffectFailed("portal_busy", f"world {name} takes no event now", retryable=True)


def not_running(name: str) -> EffectFailed:
    """No process runs the other world; nothing was sent."""
    return EffectFailed("portal_not_running", f"no process runs world {name}", retryable=True)


def unanswered(name: str) -> EffectFailed:
    """The other world may have taken the event. Another attempt finds out."""
    return EffectFailed(
        "portal_unanswered",
        f"world {name} went away before it answered: it may have taken the event",
        retryable=True,
    )


def not_configured(name: str, variable: str) -> NotConfigured:
    """This process knows no world of this name."""
    return NotConfigured(
        "portal_not_configured",
        f"{variable} has no world {name}",
        f'add "{name}=FOLDER" to {variable} and restart the process',
    )


def world_unusable(name: str, problem: str) -> NotConfigured:
    """The folder of the name has no world that can be used."""
    return NotConfigured(
        "portal_world_unusable",
        f"world {name}: {problem}",
        "correct the folder, or its path, then run `aos effects retry`",
    )
