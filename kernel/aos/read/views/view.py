"""The view of one state of a world and of the process that runs it, and the paging of its lists
(spec/audit.md, A-60); and the documents of this process: its work, and its part of ``aos inspect
world`` (A-61).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from aos.core.journal.records import CellId
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.errors import BadUsage
from aos.read.lens.lens import ALL_BYTES, LISTED_BYTES, Lens, Manifests
from aos.read.lens.ports import Journal, RecordIndex
from aos.read.lens.record_finding import Records
from aos.read.views.record_view import Document
from aos.values.digests import Hash, hash_text

if TYPE_CHECKING:
    from aos.read.where.matching import CellFinder


LIMIT: Final = 100
LIMIT_MAX: Final = 10_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunningTask:
    """An effect that a process carries out: its ``attempt`` is ``running`` since ``since_ns``, or
    in ``backoff`` until then, because of ``problem`` if the journal does not have the reason. An
    attempt may take ``limit_ns``; None if that is not known."""

    phase: str
    attempt: int
    since_ns: int
    problem: str | None = None
    limit_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """The process that runs the world, as far as views show it: the effects that its executors run,
    and the tasks that are running or in backoff there. Of a task that is not listed, only the
    journal is known."""

    effects: frozenset[str]
    tasks: Mapping[bytes, RunningTask]

    @classmethod
    def of_answer(cls, work: Mapping[str, Any]) -> Self:
        """What the process itself answers, as ``work`` on its socket (H-53)."""
        return cls(
            frozenset(work.get("effects", ())),
            {intent: RunningTask(*task) for intent, *task in work.get("tasks", ())},
        )

    def to_json(self) -> dict[str, Any]:
        """The same for a reader process: its work, with intents in hex."""
        return {
            "effects": sorted(self.effects),
            "tasks": [
                [
                    *(intent.hex(), task.phase, task.attempt),
                    *(task.since_ns, task.problem, task.limit_ns),
                ]
                for intent, task in self.tasks.items()
            ],
        }

    @classmethod
    def from_json(cls, work: Mapping[str, Any]) -> Self:
        """Inverse of ``to_json``."""
        tasks = [(bytes.fromhex(intent), *task) for intent, *task in work["tasks"]]
        return cls.of_answer({"effects": work["effects"], "tasks": tasks})


class View:
    """One state and the journal that it was folded from, which may have grown since.

    ``now_ns`` is the time that waiting is measured against, by default the journal's clock.
    ``is_past`` says that the state is that of a record before the end. ``lens`` shows values in
    lists, ``full_lens`` shows them at full length.
    """

    def __init__(
        self,
        state: State,
        journal: Journal,
        *,
        now_ns: int | None = None,
        is_past: bool = False,
    ) -> None:
        self.is_past = is_past
        self.state = state
        self.journal = journal
        self.now_ns = state.clock_ns if now_ns is None else now_ns
        self.manifests = Manifests.of(state, journal)
        self.lens = Lens(self.manifests, journal.blob)
        self.full_lens = Lens(self.manifests, journal.blob, value_bytes_max=ALL_BYTES)
        self.records = Records(journal)
        self.running: Running | None = None
        """The process that runs the world, if it was asked."""
        self.check_time: Callable[[], None] = _no_limit
        """Called for each cell that a list reads. It raises once the list has taken too long."""
        self.finder: CellFinder | None = None
        """An index that lists of cells are read from, if there is one."""
        self.index: RecordIndex | None = None
        """An index of the journal, in the place of a search of all records, if there is one."""
        self.neighbours: NeighbourViews | None = None
        """The neighbours of the world, if they may be read, too."""

    def listed_cells(self, ids: Sequence[CellId]) -> list[Cell]:
        """The cells of a page of a list, which must exist. Those at rest may come from the index,
        without their idempotency keys."""
        cells = self.state.cells
        resting: Mapping[CellId, Cell] = {}
        if self.finder is not None:
            resting = self.finder.at_rest([id for id in ids if not cells.is_above(id)])
        return [resting.get(id) or cells[id] for id in ids]

    def spell(self, *, bytes_max: int = LISTED_BYTES) -> None:
        """Show values for people instead of programs from now on (A-48), in lists up to
        ``bytes_max`` bytes of each."""
        self.lens = Lens(
            self.manifests, self.journal.blob, value_bytes_max=bytes_max, for_people=True
        )
        self.full_lens = Lens(
            self.manifests, self.journal.blob, value_bytes_max=ALL_BYTES, for_people=True
        )


@dataclass(frozen=True, slots=True)
class NeighbourView:
    """The view of a world next to another one. ``name`` is that of its folder; None for the world
    that is read itself."""

    name: str | None
    view: View


class NeighbourViews(Protocol):
    """The worlds next to the one that is read (spec/world-send.md, WS-1)."""

    def find(self, world: Hash) -> NeighbourView | None:
        """The neighbour with this id; None if there is none that can be read."""


def _no_limit() -> None:
    """A list may take as long as it needs."""


def page(
    name: str, rows: Sequence[T], limit: int, offset: int, row: Callable[[T], Document]
) -> Document:
    """Return ``{name: rows, "total", "offset", "next_offset"}``; only the rows of the page are
    made.

    Raises:
        BadUsage: ``limit`` or ``offset`` is out of range.
    """
    end = page_end(limit, offset)
    return paged(name, rows[offset:end], len(rows), offset, row)


def page_end(limit: int, offset: int) -> int:
    """Return the number of rows up to the end of a page.

    Raises:
        BadUsage: ``limit`` or ``offset`` is out of range.
    """
    check_limit(limit)
    if offset < 0:
        raise BadUsage("offset", expected="0 or more", actual=str(offset))
    return offset + limit


def paged(
    name: str, rows: Sequence[T], total: int, offset: int, row: Callable[[T], Document]
) -> Document:
    """Return the document of ``page`` for the ``rows`` of one page out of ``total``."""
    end = offset + len(rows)
    return {
        name: [row(element) for element in rows],
        "total": total,
        "offset": offset,
        "next_offset": end if end < total and rows else None,
    }


def check_limit(limit: int) -> None:
    """Raise ``BadUsage`` for a limit that is out of range."""
    if not 1 <= limit <= LIMIT_MAX:
        raise BadUsage("limit", expected=f"1 to {LIMIT_MAX}", actual=str(limit))


def check_word(noun: str, word: str | None, choices: Collection[str]) -> None:
    """Raise ``BadUsage`` for a word that is not one of ``choices``."""
    if word is not None and word not in choices:
        raise BadUsage(f"no {noun} is {word!r}", expected="one of " + ", ".join(choices))


def work_document(work: Mapping[str, Any]) -> Document:
    """Return the socket's ``work`` (H-53) as a document."""
    running = Running.of_answer(work)
    return {
        "effects": sorted(running.effects),
        "executors": {
            executor: {
                phase: {"number": number, "since_ns": since_ns}
                for phase, (number, since_ns) in phases.items()
            }
            for executor, phases in work.get("executors", {}).items()
        },
        "tasks": [
            {
                "intent": hash_text(Hash(intent)),
                "phase": task.phase,
                "attempt": task.attempt,
                "since_ns": task.since_ns,
            }
            for intent, task in running.tasks.items()
        ],
    }


def process_document(status: Mapping[str, Any], work: Mapping[str, Any] | None) -> Document:
    """Return the process that runs a world, as ``aos inspect world`` shows it, from the answers to
    ``status`` and ``work``; ``work`` is None if it was not answered."""
    return {
        **{name: status[name] for name in ("pid", "steps", "queued", "no_room")},
        "core": status.get("core"),
        "executors": work_document(work or {})["executors"],
    }


def with_process(
    world: Document, process: Document | None, origin: str | None, *, path: str | None
) -> Document:
    """Return the document of a world with the process that runs it, how the world came here, and
    its folder, if the reader may know that."""
    return {"path": path, **world, "process": process, "origin": origin}
