"""Print counts and their groups (spec/cli.md, C-33a)."""

from __future__ import annotations

import re
from typing import Any, Final

from aos.audit.lens.words import compact, count, short
from aos_cli.output import line, note, print_json, table

VALUE_WIDTH: Final = 60
_WORD: Final = re.compile(r'[^\s"=<>!^(),]+')
_OTHER_WORDS: Final = ("null", "true", "false")


def show_counts(found: dict[str, Any], what: str, *, json: bool) -> None:
    """Print a document of counts, of ``what``: the number, or a table of groups."""
    if json:
        print_json(found)
        return
    if found["group_by"] is None:
        line(str(found["count"]))
        return
    rows = [(_value(each["value"]), str(each["count"])) for each in found["groups"]]
    if found["other_groups"]:
        rows.append((f"({count(found['other_groups'], 'other value')})", str(found["other_count"])))
    table([found["group_by"], f"{what}s"], rows, right=(f"{what}s",))
    note(count(found["count"], what))


def _value(value: object) -> str:
    """A value as a condition has it."""
    is_word = isinstance(value, str) and _WORD.fullmatch(value) and value not in _OTHER_WORDS
    return short(value if is_word else compact(value), VALUE_WIDTH)
