"""The blocks that a report's page consists of, whatever it is written in (spec/exports.md, EX-74).

Text in a block is not escaped: it may come from outside. Each page escapes all of it (EX-76).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from aos.read.lens.words import time_text

TEXT_MAX: Final = 600
"""The longest text of one place, in characters; more is cut."""

_UNPRINTABLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001"
    "\U000e0020-\U000e007f]"
)
"""Control characters, marks that change the direction of writing, and other characters that are
not seen. They are shown as escapes."""

Entry: TypeAlias = Mapping[str, Any]
"""An entry of a list in the report's document."""

Tone: TypeAlias = Literal["good", "bad", "plain"]


class Code(str):
    """Text in a fixed-width font: a hash, a key."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """The result of a check, in one sentence."""

    tone: Tone
    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Plain text of this report's own."""

    text: str


@dataclass(frozen=True, slots=True)
class FactList:
    """Names and values."""

    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class TextList:
    """Lines under a caption. One that is not important may be folded up if it is long."""

    caption: str
    lines: Sequence[str]
    is_important: bool = False


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table. ``numbers`` are the places of the columns that are aligned right. ``left_out`` says
    how many rows are missing, and how to see them."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[int] = frozenset()
    left_out: str | None = None


PageBlock: TypeAlias = CheckVerdict | Paragraph | FactList | TextList | TableBlock
Blocks: TypeAlias = Sequence[PageBlock]


@dataclass(frozen=True, slots=True)
class Chapter:
    """One part of the page. ``name`` is its anchor."""

    name: str
    title: str
    blocks: Sequence[PageBlock] = field(default_factory=tuple)


def visible(text: str) -> str:
    """Return text in which every character can be seen: others are escapes, such as ``\\u001b``.
    Text over ``TEXT_MAX`` characters loses its end."""
    if len(text) > TEXT_MAX:
        text = f"{text[: TEXT_MAX - 1]}…"
    return _UNPRINTABLE.sub(lambda match: _escape(ord(match[0])), text)


def _escape(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of entries: its title, and the field or the function that gives its
    cells. Columns of numbers are aligned right."""

    title: str
    value: str | Callable[[Entry], object]
    is_number: bool = False

    def cell(self, entry: Entry) -> str:
        """Return the text of a cell: numbers with separators, nothing for None."""
        value = self.value
        return _cell(entry[value] if isinstance(value, str) else value(entry))


def number(title: str, field: str) -> Column:
    """Return a column of numbers."""
    return Column(title, field, is_number=True)


def code(title: str, field: str) -> Column:
    """Return a column of hashes or keys."""
    return Column(title, lambda entry: Code(entry[field]))


RECORD: Final = number("Record", "record")
TIME: Final = Column("Time", lambda entry: time_text(entry["at_ns"]))


def table(
    columns: Sequence[Column], entries: Iterable[Entry], left_out: str | None = None
) -> TableBlock:
    """Return a table with a row for each entry."""
    return TableBlock(
        [column.title for column in columns],
        [[column.cell(entry) for column in columns] for entry in entries],
        frozenset(place for place, column in enumerate(columns) if column.is_number),
        left_out,
    )


def table_if_any(
    columns: Sequence[Column], entries: Sequence[Entry], left_out: str | None = None
) -> list[TableBlock]:
    """Return a table as ``table``, or none without entries."""
    return [table(columns, entries, left_out)] if entries else []


def counted(title: str, counted_title: str, counts: Mapping[str, int]) -> TableBlock:
    """Return a table of names and numbers."""
    rows = [[name, _cell(total)] for name, total in counts.items()]
    return TableBlock([title, counted_title], rows, frozenset({1}))


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else str(value)


def left_out_of(part: Mapping[str, Any], command: str) -> str | None:
    """Return the note below a list of the report, as ``NewestEntries`` makes them."""
    return left_out(part["left_out"], command)


def left_out(number: int, command: str) -> str | None:
    """Return the note about entries that a list leaves out; None if there are none."""
    return f"{number:,} earlier entries are left out ({command} lists them)." if number else None
