"""The events that workflows emit, for the outside (spec/node-api.md, N-117), and posted to URLs
(N-117a to N-117d).

    DIR/node/webhooks/NAME.json    0600: the event that comes next; synced after each answer

A webhook posts its events one after another, in the order of the journal, until each is accepted.
After a crash the last event may be posted again, under the same id. Of a replicated world, the
position is in its bucket, too: after a takeover, the next owner's node continues there.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Manifest, Step
from aos.errors import EXCERPT_CHARACTERS_MAX, AosError, BadUsage
from aos.host.folder.folder import WorldFolder
from aos.host.follower import Follower
from aos.manifest.effective import Effective
from aos.manifest.named import is_document
from aos.node.bodies import JSON, write_json
from aos.node.position_file import PositionFile, PositionMovedError, SharedPosition
from aos.read.lens.lens import IS_MANIFEST, Lens
from aos.read.lens.ports import first_kept
from aos.read.views.view import View
from aos.retry_after import retry_after_s
from aos.values.digests import Hash
from aos.worker.redaction import Redactor
from aos.worker.url_secrets import url_secrets
from aos.worker.worker_secrets import SecretValue

if TYPE_CHECKING:
    import httpx


FOLDER: Final = "webhooks"
READER: Final = "webhook"
"""The beginning of a webhook's name among the readers of a world (CL-330)."""

ANSWER_S: Final = 30.0
"""Seconds within which a receiver answers, from the connection to the end of the header."""

BODY_S: Final = 0.5
BODY_BYTES_MAX: Final = 4_096
"""Seconds and bytes of the body of an answer that are read. It counts for nothing."""

PAUSE_S: Final = 1.0
PAUSE_S_MAX: Final = 60.0
"""The first and the longest pause before an event is posted again."""

RETRY_AFTER_S_MAX: Final = 3_600.0

WINDOW: Final = 128
"""Records that are read without a pause for other requests."""

SAVED_RECORDS: Final = 10_000
"""Records without an event after which the position is saved, so that a start reads fewer again."""

WAIT_S: Final = 15.0

_BYTES_MAX: Final = 4_096

EventPosition = tuple[int, int]
"""A step and the place of an event in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A webhook of ``node.toml``. ``secret`` signs its posts; ``first`` is the record at which it
    begins, None for the next one."""

    name: str
    url: str
    schemas: frozenset[str]
    secret: bytes
    first: int | None = None

    def headers(self, id: str, timestamp: int, body: bytes) -> dict[str, str]:
        """The headers of a post, which are those of the Standard Webhooks specification."""
        signed = f"{id}.{timestamp}.".encode() + body
        digest = hmac.new(self.secret, signed, hashlib.sha256).digest()
        return {
            "content-type": JSON,
            "idempotency-key": id,
            "webhook-id": id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
        }


class Position:
    """The event that a webhook posts next, in its file."""

    def __init__(self, folder: WorldFolder, name: str) -> None:
        self._file = PositionFile(folder, FOLDER, name, bytes_max=_BYTES_MAX)
        self._name = name

    def load(self) -> EventPosition | None:
        """Return the position; None if there is none yet.

        Raises:
            BadUsage: The file is not one of ours.
        """
        try:
            document = self._file.load()
        except ValueError:
            document = {}
        if document is None:
            return None
        if not _is_position(document):
            raise BadUsage(
                f"the position of the webhook {self._name} cannot be read",
                location=str(self._file.path),
                hint="remove the file: the webhook begins again, at the next record or at its "
                "`from`",
            )
        return document["seq"], document["index"]

    def save(self, position: EventPosition) -> None:
        """Replace the file. It is durable on return."""
        self._file.save({"seq": position[0], "index": position[1]})


def _is_position(document: dict[str, Any]) -> bool:
    return all(type(document.get(name)) is int and document[name] >= 0 for name in ("seq", "index"))


class WebhookPoster:
    """Posts the events of one webhook. Used from one event loop.

    ``posted`` counts events that were accepted, ``failed`` posts that were not; ``position`` is the
    record that is looked at next.
    """

    answer_s = ANSWER_S

    def __init__(
        self,
        webhook: Webhook,
        folder: WorldFolder,
        follower: Follower,
        report: Callable[[str], None],
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.webhook = webhook
        self.posted = 0
        self.failed = 0
        self.position = 0
        self._follower = follower
        self._file = Position(folder, webhook.name)
        self._redactor = _redactor(webhook)
        self._report = self._redactor.redacting(report)
        self._transport = transport
        self._reported_problem: str | None = None
        self._view: View | None = None
        self._shared: SharedPosition | None = None

    @property
    def reader(self) -> str:
        """Its name among the readers of a world."""
        return f"{READER}/{self.webhook.name}"

    async def run(self, shared: SharedPosition | None = None) -> None:
        """Post events until cancelled. ``shared`` is the position of a replicated world.

        Raises:
            PositionMovedError: Another node has posted further.
            AosError: The position or the world cannot be read.
        """
        self._shared = shared
        # Only a node with webhooks needs it.
        import httpx  # noqa: PLC0415

        await self._follower.advance_to()
        position = await self._begun()
        async with httpx.AsyncClient(
            timeout=ANSWER_S, trust_env=False, transport=self._transport
        ) as client:
            saved = self.position = position[0]
            while True:
                await self._follower.advance_to()
                last = self._follower.seq
                while position[0] <= last:
                    until = min(last, position[0] + WINDOW - 1)
                    for event in list(self._events(position, until)):
                        await self._accepted(client, event)
                        saved, position = event["seq"], (event["seq"], event["index"] + 1)
                        await self._save(position)
                    self.position, position = until + 1, (until + 1, 0)
                    if self.position - saved >= SAVED_RECORDS:
                        await self._save(position)
                        saved = self.position
                    await asyncio.sleep(0)
                is_news = await self._follower.wait_past(position[0] - 1, WAIT_S)
                if not is_news and self.position > saved:
                    # So the file shows that every event was posted (WD-17).
                    await self._save(position)
                    saved = self.position

    async def _save(self, position: EventPosition) -> None:
        """Keep a position: in the bucket first, so that the file is never ahead of it."""
        if self._shared is not None:
            await self._shared.save(*position)
        await asyncio.to_thread(self._file.save, position)

    async def _loaded(self) -> tuple[EventPosition | None, bool]:
        """The later one of the positions that are kept, and whether all of them are equal."""
        position = await asyncio.to_thread(self._file.load)
        if self._shared is None:
            return position, True
        kept = await self._shared.load()
        kept_position = None if kept is None else kept[:2]
        positions = [place for place in (position, kept_position) if place is not None]
        return max(positions, default=None), position == kept_position

    async def _begun(self) -> EventPosition:
        """The position that is kept, or the first one, which is saved."""
        follower, name = self._follower, self.webhook.name
        unknown = unknown_schemas(self._now(), self.webhook.schemas)
        if unknown:
            self._report(
                f"webhook {name}: no manifest of this world has {', '.join(sorted(unknown))} yet"
            )
        saved, are_equal = await self._loaded()
        position = saved or (self.webhook.first or follower.seq + 1, 0)
        if position[0] > follower.seq + 1:
            self._report(
                f"webhook {name}: it had posted up to record {position[0] - 1}, and the journal "
                f"ends at {follower.seq} (an older backup?): it continues with the next record"
            )
            position = (follower.seq + 1, 0)
        oldest_seq = first_kept(follower.store)
        if position[0] < oldest_seq:
            self._report(
                f"webhook {name}: records {position[0]} to {oldest_seq - 1} were moved to an "
                "archive and are not posted"
            )
            position = (oldest_seq, 0)
        if position != saved or not are_equal:
            await self._save(position)
        return position

    def _now(self) -> View:
        follower = self._follower
        if self._view is None or self._view.state is not follower.state:
            self._view = View(follower.state, follower.store)
        return self._view

    def _events(self, position: EventPosition, last: int) -> list[dict[str, Any]]:
        events = emitted(self._now(), self.webhook.schemas, position[0], last)
        return [event for seq, index, event in events if (seq, index) >= position]

    async def _accepted(self, client: httpx.AsyncClient, event: dict[str, Any]) -> None:
        """Post an event until the receiver has accepted it."""
        world = self._follower.state.world
        id = event_id(world, event["seq"], event["index"])
        body, pause_s = write_json(event), PAUSE_S
        while True:
            problem, wait_s = await self._post(client, id, body)
            if problem is None:
                self.posted += 1
                if self._reported_problem is not None:
                    self._report(f"webhook {self.webhook.name}: posts again")
                    self._reported_problem = None
                return
            self.failed += 1
            if problem != self._reported_problem:
                self._reported_problem = problem
                self._report(f"webhook {self.webhook.name}: event {id}: {problem}; it is repeated")
            await asyncio.sleep(min(max(wait_s, pause_s), RETRY_AFTER_S_MAX))
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    async def _post(
        self, client: httpx.AsyncClient, id: str, body: bytes
    ) -> tuple[str | None, float]:
        """Post once: the problem, and the seconds for which the receiver asks."""
        import httpx  # noqa: PLC0415  # it is imported already

        headers = self.webhook.headers(id, int(time.time()), body)
        try:
            async with (
                asyncio.timeout(self.answer_s),
                client.stream("POST", self.webhook.url, content=body, headers=headers) as answer,
            ):
                await _skim(answer)
        except TimeoutError:
            return f"no answer within {self.answer_s:g} s", 0.0
        except httpx.HTTPError as error:
            words = str(error) or type(error).__name__
            return (
                f"no answer ({self._redactor.line(words, characters_max=EXCERPT_CHARACTERS_MAX)})",
                0.0,
            )
        if answer.is_success:
            return None, 0.0
        return f"answered {answer.status_code}", retry_after_s(
            answer.headers.get("retry-after", "")
        )


async def _skim(answer: httpx.Response) -> None:
    """Read a short body to its end, so that the connection can be used again. A late or long rest
    stays unread; nothing is unpacked."""
    import httpx  # noqa: PLC0415  # it is imported already

    size = 0
    with contextlib.suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(BODY_S):
            async for part in answer.aiter_raw(BODY_BYTES_MAX):
                size += len(part)
                if size >= BODY_BYTES_MAX:
                    return


def _redactor(webhook: Webhook) -> Redactor:
    """Finds the secrets of a webhook in texts for the log (X-69b)."""
    name = f"webhook {webhook.name}"
    signing_secret = SecretValue(name=name, value=webhook.secret, hosts=None)
    return Redactor([signing_secret, *url_secrets(webhook.url, name)])


def event_id(world: Hash, seq: int, index: int) -> str:
    """The id of an event: the same in each post of it, and of no other event of any world."""
    return f"{world.hex()[:16]}.{seq}.{index}"


async def keep_posting(
    poster: WebhookPoster, report: Callable[[str], None], shared: SharedPosition | None = None
) -> None:
    """Run a poster for ever; a problem with the world's files is reported, and tried again. One
    whose position another node has moved continues there."""
    while True:
        try:
            await poster.run(shared)
        except PositionMovedError:
            await asyncio.sleep(PAUSE_S)
            continue
        except (AosError, OSError) as problem:
            report(f"webhook {poster.webhook.name}: {problem}")
        await asyncio.sleep(PAUSE_S_MAX)


def unknown_schemas(view: View, schemas: Collection[str]) -> set[str]:
    """Return the schemas that no manifest of the world has: neither the one in force nor an earlier
    one, whose events are in the journal."""
    state, unknown = view.state, set(schemas)
    if state.manifest is not None:
        unknown -= set(state.manifest.schemas)
    for hash in sorted(state.pinned) if unknown else ():
        data = view.journal.blob(hash)
        if is_document(data):
            unknown -= set(Effective.from_document(data).schemas)
    return unknown


def emitted(
    view: View, schemas: Collection[str], first: int, last: int
) -> Iterator[tuple[int, int, dict[str, object]]]:
    """Yield (record, place in it, document) of each event of these schemas that a step emitted."""
    lens: Lens = view.full_lens
    names = [schema.encode() for schema in schemas]
    for frame in view.journal.frames(first, last):
        for seq, data in enumerate(frame.records, frame.header.first):
            if not first <= seq <= last:
                continue
            record = from_bytes(data) if _may_matter(data, names) else None
            if isinstance(record, Manifest):
                manifest = Effective.from_document(view.journal.blob(record.document.hash))
                view.manifests.add(seq, manifest)
            if not isinstance(record, Step):
                continue
            for index, event in enumerate(record.events):
                if event.schema in schemas:
                    yield (
                        seq,
                        index,
                        {
                            "seq": seq,
                            "index": index,
                            "schema": event.schema,
                            "value": lens.event(event.schema, event.value, seq=seq),
                            "workflow": record.cell[0],
                            "key": lens.key(record.cell, seq=seq),
                        },
                    )


def _may_matter(data: bytes, names: list[bytes]) -> bool:
    return IS_MANIFEST in data or any(name in data for name in names)
