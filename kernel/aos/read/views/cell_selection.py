"""Which cells a list has, what each of them waits for, and their order (spec/audit.md, A-63)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from aos.core.journal.records import CellId
from aos.core.journal.vocabulary import CELL_STATUSES
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.core.state.version import is_pinned
from aos.errors import BadUsage
from aos.manifest.names import TIMER
from aos.read.lens.lookup import find_effect, find_workflow
from aos.read.views.diagnosis import ADVICE
from aos.read.views.reason import EVENT, MAIL, TIMER_WORD, WAITS
from aos.read.views.view import View, check_word

if TYPE_CHECKING:
    from aos.read.where.attributes import Names, Subject
    from aos.read.where.matching import CellQuery, Search

BY_KEY: Final = "key"
BY_AGE: Final = "age"
BY_ACTIVITY: Final = "activity"
BY_MAIL: Final = "mail"
_PLACE: Final = re.compile(r"(-?\d{1,20}) (\S{1,256}) ((?:[0-9a-f]{2}){0,1024})", re.ASCII)

ORDERS: Final = (BY_KEY, BY_AGE, BY_ACTIVITY, BY_MAIL)


def waits_for(state: State, cell: Cell) -> list[str]:
    """Return what a cell waits for: names of effects, ``timer``, ``mail``, ``event``. A cell that
    failed by a fault, or that is done, waits for no event."""
    waits = {intent.effect.name for intent in state.intents.of(cell)}
    if TIMER in waits:
        waits = {*waits - {TIMER}, TIMER_WORD}
    if cell.mailbox and cell.fault is None:
        waits.add(MAIL)
    if not waits and cell.fault is None and cell.declared is None:
        waits.add(EVENT)
    return sorted(waits)


def reasons_of(state: State, cell: Cell) -> Iterator[str]:
    """Yield the reasons that ``by_reason`` counts a cell under: how it ended, and what it waits
    for."""
    if cell.fault is not None:
        yield f"fault {cell.fault.kind.value}"
    elif cell.declared is not None:
        yield cell.declared
    yield from waits_for(state, cell)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSelection:
    """The filters of a list of cells; a filter that is None or False selects all.

    ``waits_for`` is the name of an effect, or one of ``WAITS``; ``older_than_ns`` is the time since
    the last step of the cell, in ns; ``fault`` the kind of its fault; ``condition`` a condition
    (spec/search.md), of which ``search`` is the meaning once the selection is resolved;
    ``aliases`` are, by workflow, names of paths in it.
    """

    workflow: str | None = None
    status: str | None = None
    key_prefix: str | None = None
    waits_for: str | None = None
    older_than_ns: int | None = None
    pinned: bool = False
    fault: str | None = None
    condition: str | None = None
    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    search: Search | None = None

    def resolved(self, state: State) -> CellSelection:
        """Return the same selection with the full names of its workflow and effect.

        Raises:
            BadUsage: A filter names nothing that is known.
        """
        check_word("cell status", self.status, CELL_STATUSES)
        check_word("fault kind", self.fault, [kind.value for kind in ADVICE])
        if self.older_than_ns is not None and self.older_than_ns < 0:
            raise BadUsage("older than", expected="0 or more", actual=f"{self.older_than_ns} ns")
        workflow = None if self.workflow is None else find_workflow(state, self.workflow)
        return replace(
            self,
            workflow=workflow,
            search=None if self.condition is None else _searched(self.condition, self.names(state)),
            waits_for=None if self.waits_for is None else _waited_for(state, self.waits_for),
        )

    def names(self, state: State) -> Names:
        """The names that a condition on these cells may have. Raises BadUsage for a workflow that
        is not known."""
        # Few lists have a condition, and only they need all this.
        from aos.read.where.attributes import Names  # noqa: PLC0415

        workflow = None if self.workflow is None else find_workflow(state, self.workflow)
        aliases = {} if workflow is None else self.aliases.get(workflow)
        return Names(state.manifest, workflow, aliases)

    def query(
        self, now_ns: int, order: str = BY_KEY, start: tuple[int, CellId] | None = None
    ) -> CellQuery | None:
        """The same for an index; None if an index cannot answer it."""
        if self.waits_for is not None or order == BY_MAIL:
            return None
        from aos.read.where.attributes import OF_EVERY_CELL  # noqa: PLC0415
        from aos.read.where.matching import (  # noqa: PLC0415
            CellQuery,
            Condition,
            Selector,
        )

        conditions: list[Selector] = []
        for name, operator, value in (
            ("status", "=", self.status),
            ("fault", "=", self.fault),
            ("pinned", "=", self.pinned or None),
            ("key", "^=", self.key_prefix),
            ("last_active", "<=", self._latest_ns(now_ns)),
        ):
            if value is not None:
                conditions.append(Condition(OF_EVERY_CELL[name], operator, (value,)))
        search = self.search
        if search is not None:
            conditions += search.conditions
        by = None if order == BY_KEY else OF_EVERY_CELL["last_active"]
        is_descending = order == BY_ACTIVITY
        if search is not None and search.order is not None:
            by, is_descending = search.order, search.is_descending
        return CellQuery(
            workflow=self.workflow, conditions=conditions, order=by, is_descending=is_descending,
            after_position=start,
        )  # fmt: skip

    def _latest_ns(self, now_ns: int) -> int | None:
        return None if self.older_than_ns is None else now_ns - self.older_than_ns

    def candidates(self, state: State) -> Iterator[Cell]:
        """Yield the cells that must be looked at. An idle cell has no mail, fault or open effect,
        so a filter for one of these needs only the others."""
        if self._is_of_active():
            if self.workflow is not None:
                yield from state.cells.unrested_of(self.workflow)
            else:
                yield from state.cells.unrested()
        elif self.workflow is not None:
            yield from state.cells.of(self.workflow)
        else:
            yield from state.cells.values()

    def candidates_count(self, state: State) -> int:
        """Return the number of ``candidates``, without reading them."""
        if self._is_of_active():
            return state.cells.unrested_count(self.workflow)
        if self.workflow is None:
            return len(state.cells)
        shelf = state.cells.shelves.get(self.workflow)
        return 0 if shelf is None else shelf.count

    def _is_of_active(self) -> bool:
        return (
            self.status == "waiting"
            or self.fault is not None
            or self.waits_for not in (None, EVENT)
        )

    def has(self, view: View, cell: Cell) -> bool:
        """Return whether a cell passes every filter but ``workflow``; the cheap ones come first."""
        return (
            self.status in (None, cell.status)
            and (
                self.fault is None
                or (cell.fault is not None and cell.fault.kind.value == self.fault)
            )
            and (self.waits_for is None or self.waits_for in waits_for(view.state, cell))
            and (
                self.older_than_ns is None
                or view.now_ns - cell.last_active_ns >= self.older_than_ns
            )
            and (not self.pinned or is_pinned(view.state, cell))
            and (
                self.key_prefix is None
                or view.lens.key_text(cell.id, hash=cell.workflow_hash).startswith(self.key_prefix)
            )
            and (self.search is None or self.search.has(subject(view, cell)))
        )


def _searched(condition: str, names: Names) -> Search:
    from aos.read.where.matching import Search  # noqa: PLC0415  # as above

    return Search(condition, names)


def subject(view: View, cell: Cell) -> Subject:
    """A cell, for a condition."""
    from aos.read.where.attributes import subject_of  # noqa: PLC0415

    def key() -> str:
        return view.lens.key_text(cell.id, hash=cell.workflow_hash)

    return subject_of(view.state, cell, view.journal.blob, key)


def _waited_for(state: State, word: str) -> str:
    if word in WAITS:
        return word
    names = set(+state.intents.counts)
    try:
        name = find_effect(state, word, names)
    except BadUsage as problem:
        raise BadUsage(f"{problem}; or one of {', '.join(WAITS)}") from None
    return TIMER_WORD if name == TIMER else name


def rank_of(cell: Cell, order: str) -> int:
    """Return the place of a cell in a list, before its workflow and key: the least comes first.
    ``age`` begins with the cell that did nothing for the longest time, ``activity`` with the one
    that was active last, ``mail`` with the fullest mailbox."""
    match order:
        case "age":
            return cell.last_active_ns
        case "activity":
            return -cell.last_active_ns
        case "mail":
            return -len(cell.mailbox)
    return 0


def place_text(number: int, id: CellId) -> str:
    """Return the text that a list continues after: a place, and the cell that has it."""
    return f"{number} {id[0]} {id[1].hex()}"


def read_place(text: str) -> tuple[int, CellId]:
    """Read the text of a place.

    Raises:
        BadUsage: It is no such text.
    """
    match = _PLACE.fullmatch(text)
    if match is None:
        raise BadUsage(
            "after",
            expected="the next_after of the page before, such as '0 shop/order@1 636f2d31'",
            actual=repr(text[:80]),
        )
    return int(match[1]), (match[2], bytes.fromhex(match[3]))
