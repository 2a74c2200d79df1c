"""Shared by the formats of an event log: text output, the attributes of each type, and the objects
with their status over time, in memory that does not grow (spec/exports.md, EX-25, EX-29).

A journal is in the order of time; a log lists the changes of one object together. So the changes go
to an unnamed file, and SQLite sorts them there.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final, Protocol, TypeVar

from aos.closable import Closable
from aos.core.journal.records import CellId
from aos.core.journal.vocabulary import TERMINAL, TerminalStatus, word_of
from aos.core.state.state import State
from aos.errors import Unavailable
from aos.prove.event_log.journal_events import cell_name
from aos.prove.event_log.log_event import CELL, INTENT, WORLD_TYPE, LogEvent, Move, Scalar
from aos.store.part_file import PartFile
from aos.values.digests import Hash, hash_text

BUFFER_BYTES: Final = 1 << 20

RECORD: Final = "record"
"""The attribute of every event with the sequence of its record."""

ROWS_AT_ONCE: Final = 4096

T = TypeVar("T")


class LogWriter(Protocol):
    """Writes a log in one format: all events in their order, then the objects."""

    def events(self, events: Sequence[LogEvent]) -> None:
        """Write the next events. Raises ``Unavailable``."""

    def finish(self, objects: Iterable[LogObject]) -> int:
        """Write the objects and the end, and return the number of objects. Raises
        ``Unavailable``."""

    def close(self) -> None:
        """Release what the writer holds, whether or not it finished."""


class TextFile:
    """Writes text into a part file, ``BUFFER_BYTES`` or more at a time."""

    def __init__(self, part: PartFile) -> None:
        self._part = part
        self._buffered: list[bytes] = []
        self._bytes = 0

    def write(self, text: str) -> None:
        """Raises: Unavailable: The file cannot be written."""
        data = text.encode()
        self._buffered.append(data)
        self._bytes += len(data)
        if self._bytes >= BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered. Raises: Unavailable: The file cannot be written."""
        view = memoryview(b"".join(self._buffered))
        self._buffered.clear()
        self._bytes = 0
        try:
            while view:
                view = view[os.write(self._part.fd, view) :]
        except OSError as error:
            raise self._part.failed(error) from error


class AttributeTypes:
    """The attributes that the events of each type have had, with their types (EX-26)."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, str]] = {}

    def note(self, event: LogEvent) -> dict[str, str]:
        """Add the attributes of an event; return those of its type."""
        types = self.of.get(event.activity)
        if types is None:
            types = self.of[event.activity] = {RECORD: "integer"}
        for name, value in event.attributes:
            attribute_type = types.get(name)
            if attribute_type is None:
                types[name] = type_of(value)
            elif attribute_type != "string" and attribute_type != type_of(value):
                types[name] = "string"
        return types


def type_of(value: Scalar) -> str:
    """Return the name that OCEL has for the type of an attribute."""
    if isinstance(value, bool):
        return "boolean"
    return "integer" if isinstance(value, int) else "string"


def text_of(value: Scalar) -> str:
    """Return an attribute as text: the value of an attribute in OCEL JSON is always text."""
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class LogObject:
    """An object of a log. ``statuses`` are its changes as (time, status), to be read before the
    next object is. ``asked_by`` is the cell that requested an intent."""

    kind: int
    id: str
    type: str
    asked_by: str | None
    statuses: Iterator[tuple[int, str]]


class ObjectMoves(Closable):
    """Takes the moves of all objects, and returns them by object. ``cut_state`` is the state that a
    pruned journal continues from."""

    def __init__(self, cut_state: State | None = None) -> None:
        """Raises: Unavailable: The file cannot be made."""
        self._cut_state = cut_state
        self._rows = temporary_database()
        self._rows.execute("CREATE TABLE moves (kind, grp, key, time_ns, op, word, extra)")
        self._rows.execute("BEGIN")

    def close(self) -> None:
        self._rows.close()

    def add(self, moves: Iterable[Move]) -> None:
        """Raises: Unavailable: There is no room for them."""
        in_temporary_file(
            lambda: self._rows.executemany("INSERT INTO moves VALUES (?,?,?,?,?,?,?)", moves)
        )

    def objects(self) -> Iterator[LogObject]:
        """Yield the cells by workflow and key, then the intents by hash, then the world.

        Raises:
            Unavailable: There is no room to sort them.
        """
        cursor = in_temporary_file(
            lambda: self._rows.execute("SELECT * FROM moves ORDER BY kind, grp, key, rowid")
        )
        for (kind, group, key), rows in groupby(batched_rows(cursor), key=itemgetter(0, 1, 2)):
            moves = map(Move._make, rows)
            if kind == CELL:
                statuses = CellStatuses(self._cell_at_cut((group, key)))
                yield LogObject(kind, cell_name(group, key), group, None, statuses.changes(moves))
            elif kind == INTENT:
                first = next(moves)
                asked_by = first.extra if isinstance(first.extra, str) else None
                changes = intent_statuses(first, moves)
                yield LogObject(kind, hash_text(Hash(key)), first.word or "", asked_by, changes)
            else:
                yield LogObject(kind, hash_text(Hash(key)), WORLD_TYPE, None, iter(()))

    def _cell_at_cut(self, cell: CellId) -> tuple[TerminalStatus | None, bool, int] | None:
        """The cell in the snapshot of a pruned journal: the status that its module declared,
        whether a fault failed it, and the number of its open intents."""
        cell_state = None if self._cut_state is None else self._cut_state.cells.get(cell)
        if cell_state is None:
            return None
        return cell_state.declared, cell_state.fault is not None, len(cell_state.inflight)


class CellStatuses:
    """The status of a cell after each of its moves, as ``Cell.status`` has it (EX-25).

    ``step``: it ran, declared ``word``, and requested ``extra`` effects; ``gone``: it was deleted;
    ``answered``: an effect was settled; ``ended``: an operator gave it the status ``word``;
    ``cleared``: its fault was; ``fault``; ``touch``: an event reached it.
    """

    def __init__(self, cell_at_cut: tuple[TerminalStatus | None, bool, int] | None) -> None:
        self._declared, self._has_fault, self._open = cell_at_cut or (None, False, 0)

    def changes(self, moves: Iterable[Move]) -> Iterator[tuple[int, str]]:
        """Yield the time and the status of each change."""
        last = None
        for move in moves:
            status = self._status_after(move)
            if status != last:
                last = status
                yield move.time_ns, status

    def _status_after(self, move: Move) -> str:
        number = move.extra if isinstance(move.extra, int) else 0
        match move.op:
            case "step":
                self._declared = word_of(TERMINAL, move.word)
                self._open += number
            case "gone":
                self._declared, self._has_fault, self._open = None, False, 0
                return "deleted"
            case "answered":
                self._open -= 1
            case "ended":
                self._declared, self._has_fault, self._open = word_of(TERMINAL, move.word), False, 0
            case "cleared":
                self._has_fault = False
            case "fault":
                self._has_fault = True
                self._open -= number
            case _:
                pass
        if self._has_fault:
            return "failed"
        return self._declared or ("waiting" if self._open else "running")


def intent_statuses(first: Move, later_moves: Iterable[Move]) -> Iterator[tuple[int, str]]:
    """Yield the time and the status of each change of an intent: ``open``, ``abandoned``, or the
    status of its receipt."""
    last = None
    for move in (first, *later_moves):
        if move.op != last:
            last = move.op
            yield move.time_ns, move.op


def temporary_database() -> sqlite3.Connection:
    """Open a database in a file without a name, in the folder for temporary files.

    Raises:
        Unavailable: It cannot be made.
    """

    def make() -> sqlite3.Connection:
        connection = sqlite3.connect("", isolation_level=None)
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -4096")
        return connection

    return in_temporary_file(make)


def in_temporary_file(work: Callable[[], T]) -> T:
    """Return what ``work`` does. Raises ``Unavailable`` where the disk does not let it."""
    try:
        return work()
    except sqlite3.OperationalError as error:
        raise Unavailable(
            f"the folder for temporary files cannot be written: {error}",
            hint="make room there, or name another with TMPDIR",
        ) from error


def batched_rows(cursor: sqlite3.Cursor) -> Iterator[tuple[object, ...]]:
    """Yield the rows of a query. Raises ``Unavailable`` where there is no room to sort them."""
    while some := in_temporary_file(lambda: cursor.fetchmany(ROWS_AT_ONCE)):
        yield from some
