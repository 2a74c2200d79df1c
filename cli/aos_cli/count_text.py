"""Print counts and their groups (spec/cli.md, C-33a)."""

from __future__ import annotations

from typing import Any, Final

from aos.read.lens.words import compact, count, short
from aos.read.where.attributes import is_text_word
from aos_cli.output import line, note, print_json, table

VALUE_WIDTH: Final = 60


def show_counts(counts: dict[str, Any], noun: str, *, json: bool) -> None:
    """Print a document of counts: the number, or a table of groups. ``noun`` is the singular of the
    things counted."""
    if json:
        print_json(counts)
        return
    if counts["group_by"] is None:
        line(str(counts["count"]))
        return
    rows = [(_value(group["value"]), str(group["count"])) for group in counts["groups"]]
    if counts["other_groups"]:
        rows.append(
            (f"({count(counts['other_groups'], 'other value')})", str(counts["other_count"]))
        )
    table([counts["group_by"], f"{noun}s"], rows, right_aligned=(f"{noun}s",))
    note(count(counts["count"], noun))


def _value(value: object) -> str:
    """A value as a condition has it: a text is in quotes if the word would not be the same text."""
    is_bare = isinstance(value, str) and is_text_word(value)
    return short(value if is_bare else compact(value), VALUE_WIDTH)
