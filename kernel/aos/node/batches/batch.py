"""A batch as it is kept and shown: its order, its status, its counts, and the items that it acts on
(spec/batch.md, BA-2, BA-4). Its files are in ``DIR/node/batches/ID/``, 0600:

    items         a line for each item, written once, before the batch begins
    batch.json    order, status and counts; replaced after each group of items, and synced

Of a replicated world, its bucket has the order, the status and the counts instead.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from aos.core.journal.inputs import CANCEL, RETRY, SKIP, UNPIN
from aos.core.journal.records import CellId
from aos.core.state.cell import Cell
from aos.errors import BadUsage, Damage
from aos.host.folder.folder import WorldFolder
from aos.node.tokens import NODE
from aos.read.lens.lookup import find_effect
from aos.read.views.cell_selection import CellSelection
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos.store.plain_files import PlainFolder
from aos.values.digests import Hash, content_hash

CANCEL_EFFECTS: Final = "cancel-effects"
SEND_EVENTS: Final = "send"
BATCH_ACTIONS: Final = (RETRY, SKIP, UNPIN, CANCEL_EFFECTS, SEND_EVENTS)

COMMANDS: Final[Mapping[str, str]] = {
    RETRY: RETRY, SKIP: SKIP, UNPIN: UNPIN, CANCEL_EFFECTS: CANCEL,
}  # fmt: skip
"""The operator's command that an action submits for each item."""

RUNNING, DONE, STOPPED, FAILED = "running", "done", "stopped", "failed"
REFUSALS_KEPT: Final = 100

FOLDER: Final = "batches"
KEPT_MAX: Final = 1_000
"""Batches whose files stay; the oldest ones that are over go first."""

ITEMS_MAX: Final = 100_000
"""Items of one batch."""

_FORMAT: Final = 1
_BATCH: Final = "batch.json"
_ITEMS: Final = "items"
_BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
_ITEMS_BYTES_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOrder:
    """The action of a batch, and the cells that it is for.

    ``event`` and ``value`` belong to ``send``, ``effect`` to ``cancel-effects``. ``rate`` is the
    most items in a given time, such as ``50/s``.
    """

    action: str
    workflow: str | None = None
    where: str | None = None
    effect: str | None = None
    event: str | None = None
    value: Any = None
    rate: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """One batch.

    ``next`` is the index of the first item that is not finished, ``seq`` the last record before the
    items that may be in progress. ``refused`` counts the items that the world refused; the first
    are in ``refusals``. ``problem`` says why the batch waits or has failed. Of a replicated world,
    its items were listed as of the record ``listed``, and have the digest ``items_digest``.
    """

    id: str
    order: BatchOrder
    created_ns: int
    token: str
    total: int
    seq: int
    status: str = RUNNING
    next: int = 0
    refused: int = 0
    refusals: tuple[Mapping[str, Any], ...] = ()
    problem: str | None = None
    ended_ns: int | None = None
    listed: int = 0
    items_digest: str = ""

    @property
    def is_over(self) -> bool:
        return self.status != RUNNING

    def ended(self, status: str, now_ns: int, problem: str | None = None) -> BatchJob:
        """The batch with its last status."""
        return replace(self, status=status, ended_ns=now_ns, problem=problem)

    def to_document(self, *, is_long: bool = True) -> dict[str, Any]:
        """The document of ``aos batch show --json``; a row of the list without refusals."""
        document: dict[str, Any] = {
            "id": self.id,
            "status": self.status,
            **{name: value for name, value in asdict(self.order).items() if value is not None},
            "total": self.total,
            "done": self.next - self.refused,
            "refused": self.refused,
            "left": self.total - self.next,
            "created_ns": self.created_ns,
            "ended_ns": self.ended_ns,
            "token": self.token,
            "problem": self.problem,
        }
        if is_long:
            document["refusals"] = [dict(refusal) for refusal in self.refusals]
        return document

    def to_row(self) -> dict[str, Any]:
        """The content of its file."""
        return asdict(self)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Raises: KeyError, TypeError, ValueError: The row is not that of a batch."""
        fields = {name: value for name, value in row.items() if name != "version"}
        batch = cls(
            **{
                **fields,
                "order": BatchOrder(**fields["order"]),
                "refusals": tuple(fields["refusals"]),
            }
        )
        numbers = (batch.total, batch.seq, batch.next, batch.refused, batch.created_ns)
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("a count is no whole number")
        if not batch.refused <= batch.next <= batch.total:
            raise ValueError("the counts contradict each other")
        return batch


@dataclass(frozen=True, slots=True)
class BatchItem:
    """An item of a batch: a cell; or with ``intent``, an open effect of it."""

    cell: CellId
    intent: Hash | None = None

    def to_line(self) -> str:
        """Its line in the file of items."""
        key = base64.b64encode(self.cell[1]).decode()
        intent = [] if self.intent is None else [self.intent.hex()]
        return json.dumps([self.cell[0], key, *intent], separators=(",", ":"))

    @classmethod
    def from_line(cls, line: str) -> Self:
        """Raises: ValueError: It is not such a line."""
        try:
            workflow, key, *intent = json.loads(line)
            cell = (workflow, base64.b64decode(key, validate=True))
            return cls(cell, Hash(bytes.fromhex(intent[0])) if intent else None)
        except (TypeError, IndexError, AttributeError) as error:
            raise ValueError("not an item") from error


class BatchFiles:
    """The batches of a world's folder. Every method raises OSError as the system reports it."""

    def __init__(self, folder: WorldFolder) -> None:
        self._folder = folder

    def begin(self, batch: BatchJob, lines: Sequence[str]) -> None:
        """Keep a new batch with the lines of its items. It is durable on return."""
        with self._open_batches(make=True) as batches, batches.inner(batch.id, make=True) as folder:
            for name in (_BATCH, _ITEMS):
                folder.remove(name)
            folder.put(_ITEMS, _text_of(lines))
            _put_state(folder, batch)
            batches.sync()

    def save(self, batch: BatchJob) -> None:
        """Replace the state of a batch. It is durable on return."""
        with self._open_batches() as batches, batches.inner(batch.id) as folder:
            _put_state(folder, batch)

    def keep_state(self, batch: BatchJob) -> None:
        """Keep the state of a batch that may have no items here. It is durable on return."""
        with self._open_batches(make=True) as batches, batches.inner(batch.id, make=True) as folder:
            _put_state(folder, batch)
            batches.sync()

    def keep_items(self, id: str, lines: Sequence[str]) -> None:
        """Write the lines of the items of a batch. They are durable on return."""
        with self._open_batches(make=True) as batches, batches.inner(id, make=True) as folder:
            folder.remove(_ITEMS)
            folder.put(_ITEMS, _text_of(lines))
            batches.sync()

    def lines(self, id: str) -> list[str]:
        """The lines of the items of a batch. Raises UnicodeDecodeError, too."""
        with self._open_batches() as batches, batches.inner(id) as folder:
            return folder.read(_ITEMS, _ITEMS_BYTES_MAX).decode().splitlines()

    def remove_state(self, id: str) -> None:
        """Remove the state of a batch, and leave its items."""
        with self._open_batches() as batches, batches.inner(id) as folder:
            folder.remove(_BATCH)

    def remove_items(self, ids: Iterable[str]) -> None:
        """Remove the items of batches, where there are some."""
        with contextlib.suppress(FileNotFoundError), self._open_batches() as root:
            for id in ids:
                with contextlib.suppress(FileNotFoundError), root.inner(id) as folder:
                    folder.remove(_ITEMS)

    def load(self) -> tuple[list[BatchJob], list[str]]:
        """All batches by time, and the names of those that are damaged."""
        jobs, damaged = [], []
        try:
            batches = self._open_batches()
        except FileNotFoundError:
            return [], []
        with batches:
            for name in batches.names():
                try:
                    with batches.inner(name) as folder:
                        row = json.loads(folder.read(_BATCH, _BATCH_BYTES_MAX))
                    if row.get("version") != _FORMAT or row["id"] != name:
                        raise ValueError("another format")
                    jobs.append(BatchJob.from_row(row))
                except FileNotFoundError:
                    continue  # it had not begun
                except (ValueError, KeyError, TypeError, AttributeError, Damage):
                    damaged.append(name)
        return sorted(jobs, key=lambda job: (job.created_ns, job.id)), sorted(damaged)

    def items(self, batch: BatchJob) -> list[BatchItem]:
        """The items of a batch.

        Raises:
            Damage: The file is not as it was written.
        """
        try:
            items = [BatchItem.from_line(line) for line in self.lines(batch.id)]
        except (ValueError, FileNotFoundError) as error:
            raise Damage(f"the items of batch {batch.id} are damaged") from error
        if len(items) != batch.total:
            raise Damage(
                f"the items of batch {batch.id} are damaged: expected {batch.total:,}, found "
                f"{len(items):,}"
            )
        return items

    def remove(self, batches: Iterable[BatchJob]) -> None:
        """Remove the files of batches. Their empty folders stay; they are no batches."""
        with self._open_batches() as root:
            for batch in batches:
                with root.inner(batch.id) as folder:
                    for name in (_BATCH, _ITEMS):
                        folder.remove(name)

    def _open_batches(self, *, make: bool = False) -> PlainFolder:
        with self._folder.open_plain() as world, world.inner(NODE, make=make) as node:
            return node.inner(FOLDER, make=make)


def stop_batches(folder: WorldFolder, now_ns: int) -> None:
    """Stop the batches of a copy of a world: they are those of another folder (``aos adopt``)."""
    files = BatchFiles(folder)
    for batch in files.load()[0]:
        if not batch.is_over:
            files.save(batch.ended("stopped", now_ns, "the world was adopted as a copy"))


def _text_of(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def digest_of_items(lines: Sequence[str]) -> str:
    """The digest of the items of a batch: two lists have the same one if they are equal."""
    return content_hash(_text_of(lines)).hex()


def order_query(order: BatchOrder) -> dict[str, Any]:
    """The query of ``batch_items`` for an order, without ``aliases``."""
    fields = {
        "action": order.action, "workflow": order.workflow, "where": order.where,
        "effect": order.effect,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


def _put_state(folder: PlainFolder, batch: BatchJob) -> None:
    folder.put(_BATCH, json.dumps({"version": _FORMAT, **batch.to_row()}).encode())


def batch_items(view: View, query: Mapping[str, Any]) -> Document:
    """The items of an order, each as its line: ``{"items": [...]}`` (BA-2). Failed cells come in
    the order of their faults, all others by workflow and key.

    They are listed in a reader process, once.

    Raises:
        BadUsage: The order names something that the world does not have, or has too many items.
    """
    action = query["action"]
    selection = CellSelection(
        workflow=query.get("workflow"),
        condition=query.get("where"),
        pinned=action == UNPIN,
        aliases=query["aliases"],
    ).resolved(view.state)
    cells = _candidates(view, selection, action)
    selected_cells = sorted((cell for cell in cells if selection.has(view, cell)), key=_by_id)
    if action in (RETRY, SKIP):
        selected_cells.sort(key=lambda cell: cell.fault_seq or 0)
    lines = []
    for item in _items_of(view, selected_cells, action, query.get("effect")):
        lines.append(item.to_line())
        if len(lines) > ITEMS_MAX:
            raise BadUsage(
                f"a batch has at most {ITEMS_MAX:,} items: select fewer cells with where"
            )
    return {"items": lines}


def _by_id(cell: Cell) -> CellId:
    return cell.id


def _candidates(view: View, selection: CellSelection, action: str) -> Iterator[Cell]:
    """The cells that can be in a batch of this kind. Idle ones have no fault and no effect."""
    if action not in (RETRY, SKIP, CANCEL_EFFECTS):
        yield from selection.candidates(view.state)
        return
    cells = view.state.cells
    unrested = cells.unrested() if action == CANCEL_EFFECTS else cells.active.values()
    for cell in unrested:
        if selection.workflow in (None, cell.id[0]) and (
            bool(cell.inflight) if action == CANCEL_EFFECTS else cell.fault is not None
        ):
            yield cell


def _items_of(
    view: View, cells: Iterable[Cell], action: str, effect: str | None
) -> Iterator[BatchItem]:
    if action != CANCEL_EFFECTS:
        yield from (BatchItem(cell.id) for cell in cells)
        return
    intents = view.state.intents
    name = effect
    if effect is not None:
        name = find_effect(view.state, effect, set(+intents.counts))
    for cell in cells:
        for intent in sorted(intents.of(cell), key=lambda intent: intent.intent):
            if name in (None, intent.effect.name):
                yield BatchItem(cell.id, intent.intent)
