"""Send events to a group, each to its shard or to every shard (spec/groups.md, GR-65 to GR-67).

items ──▶ parts by shard ──▶ the writers of the shards, in parallel ──▶ answers, in order
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from itertools import islice
from typing import Final

from aos.closable import Closable
from aos.core.decide.answers import Answer, Refusal, Rule
from aos.core.journal.inputs import EventInput
from aos.host.door.writer import BATCH_ITEMS, Item, Writer, spell
from aos.host.folder.group import shard_name
from aos.manifest.effective import Effective
from aos.manifest.shards import EVERY, shard_of_event, without_shard

DIFFERENT: Final = "the manifests of this group's shards differ: a manifest is being applied"


class GroupWriter(Closable):
    """Sends events to the shards of a group. Used by one thread.

    ``open_shard`` opens the writer of the shard with an index. A shard is opened once an event goes
    to it; shard 0, whose manifest decides where events go, is always opened.
    """

    def __init__(
        self, shards: int, open_shard: Callable[[int], AbstractContextManager[Writer]]
    ) -> None:
        self.shards = shards
        self._open_shard = open_shard
        self._stack = ExitStack()
        self._writers: dict[int, Writer] = {}
        self._agrees: dict[int, bool] = {}
        """Whether a shard had the manifest by which the current batch was routed, if known."""

    def manifest(self) -> Effective | None:
        """Return the manifest in force in shard 0, which is the first to get a new one.

        Raises:
            AosError: As ``open_shard`` and ``Writer.signed_state``.
        """
        return self._writer(0).signed_state().manifest

    def send(
        self, items: Iterable[Item], *, batch_items: int = BATCH_ITEMS
    ) -> Iterator[dict[str, Answer]]:
        """Send events and yield the answers to each by the shard's name, in order, as they become
        durable: that of its shard, or those of all shards.

        While the manifests of the shards differ, a shard's refusal is ``world_is_busy``: the event
        may have another shard, or be valid, once all have the new manifest.

        Raises:
            AosError: As ``manifest`` and ``Writer.send``. It is unknown which events of the current
                batch were admitted: those with submission ids may be sent again.
        """
        with ThreadPoolExecutor(self.shards) as pool:
            left = iter(items)
            while batch := list(islice(left, batch_items * self.shards)):
                yield from self._send(pool, batch, batch_items)

    def _send(
        self, pool: ThreadPoolExecutor, batch: Sequence[Item], batch_items: int
    ) -> Iterator[dict[str, Answer]]:
        manifest = self.manifest()
        self._agrees = {}
        routed = [self._routed(item, manifest) for item in batch]
        parts: dict[int, list[Item]] = {}
        for item, shards in routed:
            for shard in shards:
                parts.setdefault(shard, []).append(item)
        # Opened here: a writer that finds no process opens the store, and shows its progress.
        writers = {shard: self._writer(shard) for shard in sorted(parts)}
        sending = {
            shard: pool.submit(_answers, writers[shard], part, batch_items)
            for shard, part in parts.items()
        }
        answers = {shard: iter(future.result()) for shard, future in sending.items()}
        for _, shards in routed:
            yield {
                shard_name(shard): self._judged(shard, next(answers[shard]), manifest)
                for shard in shards
            }

    def _routed(self, item: Item, manifest: Effective | None) -> tuple[Item, Sequence[int]]:
        """The event as CBOR, if it can be encoded, and its shards. An event that is not valid goes
        to shard 0, whose kernel names the broken rule (GR-23)."""
        spelt = spell(item, manifest)
        if manifest is None or not isinstance(spelt, EventInput):
            return item, (0,)
        encoded = Item(schema=item.schema, value=spelt.value, submission_id=item.submission_id)
        shard = shard_of_event(manifest, item.schema, spelt.value, self.shards)
        return encoded, range(self.shards) if shard == EVERY else (shard,)

    def _judged(self, shard: int, answer: Answer, manifest: Effective | None) -> Answer:
        if not isinstance(answer, Refusal) or answer.rule is Rule.WORLD_IS_BUSY:
            return answer
        if shard not in self._agrees:
            in_force = self._writers[shard].signed_state().manifest
            self._agrees[shard] = _hash(in_force) == _hash(manifest) == _hash(self.manifest())
        if self._agrees[shard]:
            return answer
        return Refusal(rule=Rule.WORLD_IS_BUSY, message=f"{DIFFERENT} ({answer.message})")

    def _writer(self, shard: int) -> Writer:
        if shard not in self._writers:
            self._writers[shard] = self._stack.enter_context(self._open_shard(shard))
        return self._writers[shard]

    def close(self) -> None:
        """Release all shards. Raises the problem that stopped one of them, if any."""
        self._stack.close()


def _hash(manifest: Effective | None) -> bytes | None:
    return None if manifest is None else without_shard(manifest).hash


def _answers(writer: Writer, items: Sequence[Item], batch_items: int) -> list[Answer]:
    return list(writer.send(items, batch_items=batch_items))
