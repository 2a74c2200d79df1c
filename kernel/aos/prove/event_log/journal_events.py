"""Records -> events of a log, and what they do to its objects (spec/exports.md, EX-20 to EX-29).

No module runs and no state is folded: a record names everything that an event needs. Only for an
operator's command about an intent, the record that requested it is looked up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from aos.core.journal.frame import Frame
from aos.core.journal.inputs import STRICT
from aos.core.journal.journal_clock import clock_after
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import (
    CellId,
    Control,
    Emitted,
    Event,
    Faulted,
    Fork,
    Intent,
    KernelReceipt,
    Manifest,
    Receipt,
    Step,
)
from aos.core.state.state import State
from aos.prove.event_log.log_event import (
    CELL,
    INTENT,
    WORLD,
    WORLD_TYPE,
    LogEvent,
    LogLink,
    Move,
    Scalar,
    ScalarValues,
)
from aos.read.lens.ports import Journal
from aos.read.lens.words import compact
from aos.values.cbor import decode_record
from aos.values.digests import Hash, hash_text
from aos.values.errors import ValueProblem
from aos.values.schema import untyped_to_json

NAMES_KEPT: Final = 8_192
"""How many names of cells are remembered."""

Attributes = tuple[tuple[str, Scalar], ...]


class JournalEvents:
    """Reads frames in their order. ``events`` and ``moves`` are those of the last one.

    ``workflow`` selects the cells of one workflow and their effects; other objects are left out,
    and with them the events that name no selected one (EX-28). ``cut_state`` is the state that a
    pruned journal continues from.
    """

    def __init__(
        self,
        journal: Journal,
        world: Hash,
        *,
        workflow: str | None = None,
        values: ScalarValues | None = None,
        cut_state: State | None = None,
    ) -> None:
        self.events: list[LogEvent] = []
        self.moves: list[Move] = []
        self._journal = journal
        self._world = LogLink(WORLD, WORLD_TYPE, world, hash_text(world), "")
        self._workflow = workflow
        self._values = values
        self._cut_state = cut_state
        self._names: dict[CellId, str] = {}
        self._clock_ns = 0
        self._seq = 0
        self._index = 0
        self._takers: Mapping[type, Callable[[Any], None]] = {
            Event: self._event,
            Step: self._step,
            Faulted: self._fault,
            Receipt: self._receipt,
            KernelReceipt: self._receipt,
            Control: self._control,
            Manifest: self._manifest,
            Fork: self._fork,
        }
        if cut_state is not None:
            self._clock_ns = cut_state.clock_ns
            self._open_before(cut_state)

    def take(self, frame: Frame) -> None:
        """Read the next frame.

        Raises:
            Damage: A record, or the document of a manifest, cannot be read.
        """
        if self._seq:  # before the first frame, the moves are those of the open work
            self.moves.clear()
        self.events.clear()
        for data in frame.records:
            record = from_bytes(data)
            self._seq, self._index = record.seq, 0
            self._clock_ns = clock_after(self._clock_ns, record)
            taker = self._takers.get(type(record))
            if taker is not None:
                taker(record)
            elif record.KIND == "governance":
                self._governance(record)

    # One method for each kind of record

    def _event(self, record: Event) -> None:
        values = () if self._values is None else self._values.event(record, record.seq)
        self._domain_event(record, values, ())

    def _domain_event(
        self, event: Event | Emitted, values: Attributes, first: tuple[LogLink, ...]
    ) -> None:
        links = [*first]
        for cell in event.to:
            if self._is_selected(cell):
                links.append(self._cell(cell, "received"))
                self._move(cell, "touch")
        for cell in event.overloaded:
            if self._is_selected(cell):
                links.append(self._cell(cell, "overloaded"))
                self._move(cell, "fault")
        self._add(event.schema, tuple(links), values)

    def _step(self, record: Step) -> None:
        is_selected = self._is_selected(record.cell)
        emitter: tuple[LogLink, ...] = ()
        if is_selected:
            op = "step" if record.state is not None else "gone"
            self._move(record.cell, op, record.status, len(record.intents))
            emitter = (self._cell(record.cell, "emitted"),)
            for intent in record.intents:
                self._ask(record, intent)
            self._abandon(record.abandoned)
        for event in record.events:
            values = () if self._values is None else self._values.event(event, record.seq)
            self._domain_event(event, values, emitter)

    def _ask(self, record: Step, intent: Intent) -> None:
        cell = self._cell(record.cell, "asked")
        self.moves.append(
            Move(INTENT, "", intent.intent, self._clock_ns, "open", intent.effect, cell.id)
        )
        values = () if self._values is None else self._values.params(intent, record.seq)
        links = cell, _intent(intent.intent, intent.effect, "asked")
        self._add(f"ask {intent.effect}", links, values)

    def _receipt(self, record: Receipt | KernelReceipt) -> None:
        if not self._is_selected(record.cell):
            return
        links = [_intent(record.intent, record.effect, "answered")]
        # No cell waits for an abandoned intent, and its cell may be gone.
        if record.outcome != "abandoned":
            links.insert(0, self._cell(record.cell, "answered"))
            is_fault = record.outcome in ("faulted", "overloaded")
            self._move(record.cell, "answered", None, -1)
            if is_fault:
                self._move(record.cell, "fault", extra=len(record.abandoned))
        self.moves.append(
            Move(INTENT, "", record.intent, self._clock_ns, record.status, record.effect)
        )
        self._abandon(record.abandoned)
        values = () if self._values is None else self._values.payload(record)
        self._add(f"{record.effect} {record.status}", tuple(links), (*_answer(record), *values))

    def _fault(self, record: Faulted) -> None:
        if self._is_selected(record.cell):
            self._move(record.cell, "fault")
            links = (self._cell(record.cell, "failed"),)
            self._add(f"fault {record.fault.kind.value}", links)

    def _control(self, record: Control) -> None:
        links: list[LogLink] = []
        if record.cell is not None and self._is_selected(record.cell):
            links.append(self._cell(record.cell, "commanded"))
            self._commanded(record, record.cell)
        elif record.intent is not None:
            request = self._request_of(record.intent)
            if request is not None and self._is_selected(request[0]):
                links.append(self._cell(request[0], "commanded"))
                links.append(_intent(record.intent, request[1], "commanded"))
        self._add(f"operator {record.action}", tuple(links), (("principal", record.principal),))

    def _commanded(self, record: Control, cell: CellId) -> None:
        match record.action:
            case "retry" | "skip":
                self._move(cell, "cleared")
            case "end":
                self._move(cell, "ended", record.status)
            case "remove":
                self._move(cell, "gone", "running")
            case _:
                pass
        self._abandon(record.abandoned)

    def _manifest(self, record: Manifest) -> None:
        if self._values is not None:
            self._values.put_in_force(record)
        attributes: Attributes = (
            ("principal", record.principal),
            ("mode", record.mode or STRICT),
            ("hash", hash_text(record.document.hash)),
        )
        self._add("manifest", (), attributes)

    def _fork(self, record: Fork) -> None:
        self._add("fork", (), (("parent", hash_text(record.parent)), ("at", record.at)))

    def _governance(self, record: Any) -> None:
        principal = getattr(record, "principal", None)
        attributes = () if principal is None else (("principal", str(principal)),)
        self._add(f"governance {record.action}", (), attributes)

    # Shared by the methods above

    def _add(self, activity: str, links: tuple[LogLink, ...], attributes: Attributes = ()) -> None:
        if not links:
            if self._workflow is not None:
                return
            links = (self._world._replace(qualifier="concerned"),)
            self.moves.append(Move(WORLD, "", self._world.key, self._clock_ns, "touch"))
        self.events.append(
            LogEvent(self._seq, self._index, self._clock_ns, activity, links, attributes)
        )
        self._index += 1

    def _is_selected(self, cell: CellId) -> bool:
        return self._workflow is None or cell[0] == self._workflow

    def _move(
        self, cell: CellId, op: str, word: str | None = None, extra: int | None = None
    ) -> None:
        self.moves.append(Move(CELL, cell[0], cell[1], self._clock_ns, op, word, extra))

    def _abandon(self, intents: Iterable[Hash]) -> None:
        for intent in intents:
            self.moves.append(Move(INTENT, "", intent, self._clock_ns, "abandoned"))

    def _cell(self, cell: CellId, qualifier: str) -> LogLink:
        name = self._names.get(cell)
        if name is None:
            if len(self._names) >= NAMES_KEPT:
                self._names.clear()
            name = self._names[cell] = cell_name(*cell)
        return LogLink(CELL, cell[0], cell[1], name, qualifier)

    def _request_of(self, intent: Hash) -> tuple[CellId, str] | None:
        """The cell and the effect of an intent that an operator names; None if the record that
        requested it was pruned and it is not open."""
        if self._cut_state is not None:
            open_intent = self._cut_state.intents.get(intent)
            if open_intent is not None:
                return open_intent.cell, open_intent.effect.name
        row = self._journal.intent(intent)
        frame = None if row is None else self._frame_of(row.opened_seq)
        if row is None or frame is None:
            return None
        step = from_bytes(frame.records[row.opened_seq - frame.header.first])
        return (step.cell, step.intents[row.index].effect) if isinstance(step, Step) else None

    def _frame_of(self, seq: int) -> Frame | None:
        if self._cut_state is not None and seq < self._cut_state.next_seq:
            return None
        return self._journal.frame_at(seq)

    def _open_before(self, cut_state: State) -> None:
        """Begin with the intents of the snapshot that a pruned journal continues from."""
        for word, intents in (("open", cut_state.intents), ("abandoned", cut_state.abandoned)):
            for intent in intents.values():
                if self._is_selected(intent.cell):
                    owner = cell_name(*intent.cell)
                    move = Move(
                        INTENT,
                        "",
                        intent.intent,
                        intent.opened_ns,
                        "open",
                        intent.effect.name,
                        owner,
                    )
                    self.moves.append(move)
                    self._move(intent.cell, "touch")
                    if word == "abandoned":
                        self._abandon([intent.intent])


def cell_name(workflow: str, key: bytes) -> str:
    """Return the name of a cell in a log: its workflow, and its key as commands take it (A-6).

    The key is read without its schema, so that a cell keeps its name under every manifest."""
    if not key:
        return workflow
    try:
        value = untyped_to_json(decode_record(key))
    except ValueProblem:
        value = untyped_to_json(key)
    if isinstance(value, str) and not _is_json(value):
        return f"{workflow} {value}"
    return f"{workflow} {compact(value)}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _intent(intent: Hash, effect: str, qualifier: str) -> LogLink:
    return LogLink(INTENT, effect, intent, hash_text(intent), qualifier)


def _answer(record: Receipt | KernelReceipt) -> Attributes:
    attributes: list[tuple[str, Scalar]] = [("outcome", record.outcome)]
    if isinstance(record, Receipt):
        attributes += [("executor", record.executor), ("attempt", record.attempt)]
        if record.cost_cents is not None:
            attributes.append(("cost_cents", record.cost_cents))
    return tuple(attributes)
