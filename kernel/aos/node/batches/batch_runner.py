"""Carry out batches, one group of items after another (spec/batch.md, BA-4 to BA-6).

    list once ─▶ items, batch.json ─▶ group ─▶ batch.json ─▶ group ─▶ … ─▶ done

After a crash, only the group in progress is uncertain. Events have submission ids, so they can be
sent again. Commands have none: the journal says which of the group are in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from aos.core.decide.answers import Answer, Refusal, Rule
from aos.core.journal.inputs import CANCEL
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Control
from aos.errors import AosError, Damage, Unavailable
from aos.host.door.writer import Item
from aos.node.batches.batch import (
    COMMANDS,
    DONE,
    FAILED,
    REFUSALS_KEPT,
    RUNNING,
    SEND_EVENTS,
    STOPPED,
    BatchItem,
    BatchJob,
)
from aos.node.batches.shared_batches import BatchStore
from aos.node.events import sent_events
from aos.node.position_file import PositionMovedError
from aos.node.problems import Problem, text_for_clients
from aos.node.rates import interval_of
from aos.read.lens.ports import first_kept
from aos.read.lens.words import as_json
from aos.values.cbor import encode
from aos.values.digests import HASH_BYTES, Hash, content_hash, hash_text

if TYPE_CHECKING:
    from aos.node.services import Services

GROUP_ITEMS: Final = 64
"""Items that are sent together."""

PAUSE_S: Final = 0.5
PAUSE_S_MAX: Final = 30.0
"""The first and the longest pause before a group is repeated that the world could not take."""

RUNNING_MAX: Final = 16
"""Batches in progress at the same time."""

PLACEHOLDER: Final = "$cell"
_NOT_SIGNED: Final = "this node signs no commands (start it with --operator-key FILE)"


class Batches:
    """The batches of a node. Used from one event loop."""

    def __init__(
        self, services: Services, report: Callable[[str], None], store: BatchStore
    ) -> None:
        self._services = services
        self._report = report
        self._store = store
        self._batches: dict[str, BatchJob] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stops: dict[str, asyncio.Event] = {}
        self._waits: dict[str, str] = {}
        self._commanding = asyncio.Lock()
        self.has_loaded = asyncio.Event()

    async def run(self) -> None:
        """Load the batches, continue those in progress, and run until cancelled."""
        jobs, damaged = await self._loaded()
        for name in damaged:
            self._report(f"batch {name}: its file is damaged; it does not continue")
        self._batches = {job.id: job for job in jobs}
        await self._services.follower.advance_to()
        for batch in jobs:
            if not batch.is_over:
                self._start(batch, is_new=False)
        self.has_loaded.set()
        try:
            await asyncio.Event().wait()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _loaded(self) -> tuple[list[BatchJob], list[str]]:
        """The batches that are kept. Servers that do not answer are asked again."""
        is_reported = False
        while True:
            try:
                return await self._store.load()
            except Unavailable as problem:
                if not is_reported:
                    self._report(f"batches: they cannot be read: {problem}")
                is_reported = True
                await asyncio.sleep(PAUSE_S)

    def check(self, batch: BatchJob) -> None:
        """Check that a batch can be kept. Raises: Problem: It is too large (413)."""
        self._store.check(batch)

    @property
    def in_progress(self) -> int:
        """Batches that are running."""
        return len(self._tasks)

    def all(self) -> list[BatchJob]:
        """All batches, the newest first."""
        return list(reversed(self._batches.values()))

    def get(self, id: str) -> BatchJob | None:
        """A batch; None if there is none."""
        return self._batches.get(id)

    async def begin(self, batch: BatchJob, lines: Sequence[str]) -> None:
        """Keep a new batch, and run it. Raises OSError or AosError; then there is no batch, but one
        that the servers of a replicated world may have."""
        over = [job for job in self._batches.values() if job.is_over]
        surplus = over[: max(0, len(self._batches) + 1 - self._store.kept_max)]
        self._batches[batch.id] = batch
        try:
            await self._store.begin(batch, lines, surplus)
        except (OSError, AosError):
            del self._batches[batch.id]
            raise
        for job in surplus:
            self._batches.pop(job.id, None)
        self._start(batch, is_new=True)

    async def stop(self, id: str) -> BatchJob:
        """End a batch after its group in progress. One that is over stays as it is."""
        task = self._tasks.get(id)
        if task is not None:
            self._stops[id].set()
            await asyncio.wait([task])
        return self._batches[id]

    def _start(self, batch: BatchJob, *, is_new: bool) -> None:
        self._stops[batch.id] = asyncio.Event()
        task = asyncio.ensure_future(self._run_one(batch.id, is_new=is_new))
        self._tasks[batch.id] = task
        task.add_done_callback(lambda _: self._forget(batch.id))

    def _forget(self, id: str) -> None:
        self._tasks.pop(id, None)
        self._stops.pop(id, None)

    async def _save(self, batch: BatchJob) -> None:
        """Replace the state of a batch. A disk without room, or servers that do not answer, are
        waited for: until it is saved, no further item begins. Raises PositionMovedError."""
        pause_s = PAUSE_S
        while True:
            try:
                await self._store.save(batch)
            except PositionMovedError:
                raise
            except (OSError, AosError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                self._note(batch.id, f"its state cannot be kept: {reason}")
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
            else:
                self._batches[batch.id] = batch
                self._waits.pop(batch.id, None)
                return

    def _note(self, id: str, problem: str) -> None:
        """Show why a batch waits."""
        if self._waits.get(id) != problem:
            self._waits[id] = problem
            self._batches[id] = replace(self._batches[id], problem=problem)
            self._report(f"batch {id}: {problem}; it is repeated")

    async def _run_one(self, id: str, *, is_new: bool) -> None:
        batch = self._batches[id]
        try:
            items = await self._store.items(batch)
            await self._run_groups(batch, items, is_new=is_new)
        except PositionMovedError as problem:
            self._report(f"batch {id}: {problem}; this node leaves it")
        except Damage as problem:
            self._report(f"batch {id}: {problem}")
            text = text_for_clients(problem, self._services.folder.path)
            await self._save(self._batches[id].ended(FAILED, time.time_ns(), text))

    async def _settled(self, batch: BatchJob, group: Sequence[BatchItem]) -> set[BatchItem]:
        """The items of a group whose command is in the journal already."""
        if batch.seq > self._services.follower.head_seq():
            raise Damage(
                f"batch {batch.id} had come to record {batch.seq:,}, and the journal ends before "
                "it (an older backup?)"
            )
        # The answer to this command, which the world refuses, comes after all commands that an
        # earlier front has submitted.
        await self._services.link.operate(CANCEL, intent=Hash(bytes(HASH_BYTES)))
        last = await self._services.follower.advance_to()
        store, action = self._services.follower.store, COMMANDS[batch.order.action]
        settled = set()
        for frame in store.frames(max(batch.seq + 1, first_kept(store)), last):
            for data in frame.records:
                if b"control" not in data:
                    continue
                record = from_bytes(data)
                if not isinstance(record, Control) or record.action != action:
                    continue
                settled |= {
                    item
                    for item in group
                    if record.intent == item.intent
                    and (item.intent is not None or record.cell == item.cell)
                }
        return settled

    async def _run_groups(
        self, batch: BatchJob, items: Sequence[BatchItem], *, is_new: bool
    ) -> None:
        interval_s = (interval_of(batch.order.rate) or 0) / 1e9
        items_max = (
            GROUP_ITEMS if not interval_s else max(1, min(GROUP_ITEMS, int(0.25 / interval_s)))
        )
        due_s = time.monotonic()
        while batch.next < batch.total and not self._stops[batch.id].is_set():
            due_s = max(due_s, time.monotonic())
            group = list(islice(items, batch.next, batch.next + items_max))
            answers = await self._send_group(batch, group, is_new=is_new)
            if answers is None:
                break
            is_new = True
            batch = self._counted(batch, group, answers)
            await self._save(batch)
            due_s += interval_s * len(group)
            await self._pause(batch.id, due_s)
        over = batch.next == batch.total
        await self._save(batch.ended(DONE if over else STOPPED, time.time_ns()))

    async def _send_group(
        self, batch: BatchJob, group: Sequence[BatchItem], *, is_new: bool
    ) -> Sequence[Answer | None] | None:
        """Send a group until the world has taken it; None if the batch is stopped before.

        ``is_new``: none of it was sent before. The answer is None for an item whose command is in
        the journal already.
        """
        pause_s = PAUSE_S
        while True:
            try:
                return await self._sent(batch, group, is_new=is_new)
            except Damage:
                raise
            except Problem as problem:
                self._note(batch.id, problem.detail)
            except AosError as problem:
                self._note(batch.id, text_for_clients(problem, self._services.folder.path))
            is_new = False
            await self._pause(batch.id, time.monotonic() + pause_s)
            if self._stops[batch.id].is_set():
                return None
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def _sent(
        self, batch: BatchJob, group: Sequence[BatchItem], *, is_new: bool
    ) -> Sequence[Answer | None]:
        services, action = self._services, batch.order.action
        if action == SEND_EVENTS:
            items = [
                event_item(batch, batch_item, self._key(batch_item.cell)) for batch_item in group
            ]
            return await sent_events(services, items)
        if not services.has_operator_key:
            raise Problem(403, "command_is_not_signed", _NOT_SIGNED)
        answers: list[Answer | None] = []
        # Each command is signed with the number of those before it, so they go one by one.
        async with self._commanding:
            settled = set() if is_new else await self._settled(batch, group)
            for item in group:
                if item in settled:
                    answers.append(None)
                    continue
                cell = item.cell if item.intent is None else None
                answer = await services.link.operate(
                    COMMANDS[action], cell=cell, intent=item.intent
                )
                if isinstance(answer, Refusal) and answer.rule is Rule.CONTROL_SERIAL_IS_WRONG:
                    raise Unavailable("other operators' commands came first, many times")
                answers.append(answer)
        return answers

    async def _pause(self, id: str, until_s: float) -> None:
        """Wait until this time, or until the batch is to stop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until_s - time.monotonic())):
                await self._stops[id].wait()

    def _counted(
        self, batch: BatchJob, group: Sequence[BatchItem], answers: Sequence[Answer | None]
    ) -> BatchJob:
        refusals = [
            self._refusal(item, answer)
            for item, answer in zip(group, answers, strict=True)
            if isinstance(answer, Refusal)
        ]
        return replace(
            batch,
            status=RUNNING,
            next=batch.next + len(group),
            seq=self._services.follower.head_seq(),
            refused=batch.refused + len(refusals),
            refusals=(*batch.refusals, *refusals)[:REFUSALS_KEPT],
            problem=None,
        )

    def _refusal(self, item: BatchItem, answer: Refusal) -> Mapping[str, Any]:
        return {
            "workflow": item.cell[0],
            "key": self._key(item.cell),
            "intent": None if item.intent is None else hash_text(item.intent),
            "rule": answer.rule.value,
            "detail": answer.message,
        }

    def _key(self, cell: CellId) -> object:
        manifest = self._services.follower.state.manifest
        workflow = manifest.workflows.get(cell[0]) if manifest else None
        return as_json(workflow.key if workflow else None, cell[1]) if cell[1] else None


def event_item(batch: BatchJob, item: BatchItem, key: object) -> Item:
    """The event of a batch for a cell, with a submission id of its own (BA-3)."""
    order = batch.order
    assert order.event is not None
    return Item(
        schema=order.event,
        value=with_key(order.value, key),
        submission_id=f"batch:{batch.id}:{cell_digest(item.cell)}",
    )


def cell_digest(cell: CellId) -> str:
    """A text for a cell that is short, and of no other cell."""
    return content_hash(encode([cell[0], cell[1]])).hex()[:32]


def with_key(value: Any, key: object) -> Any:
    """The value with the key of a cell at each place that has ``{"$cell": "key"}``."""
    if isinstance(value, dict):
        if value == {PLACEHOLDER: "key"}:
            return key
        return {name: with_key(member, key) for name, member in value.items()}
    if isinstance(value, list):
        return [with_key(element, key) for element in value]
    return value
