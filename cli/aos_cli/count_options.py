"""``--count`` and ``--group-by`` of lists (spec/cli.md, C-33a)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

import typer

from aos.audit.lens.words import compact, count, short
from aos.errors import BadUsage
from aos_cli.output import line, note, print_json, table

VALUE_WIDTH: Final = 60
_WORD: Final = re.compile(r'[^\s"=<>!^(),]+')
_OTHER_WORDS: Final = ("null", "true", "false")

Count = Annotated[bool, typer.Option("--count", help="Print how many there are instead of a list.")]
GroupBy = Annotated[
    str | None,
    typer.Option(
        metavar="FIELD",
        help="Count by the values of this field, the largest group first: status, a column or path "
        "as in --where.",
    ),
]


def is_counted(context: typer.Context, *options: str, is_count: bool, group_by: str | None) -> bool:
    """Whether a command counts. ``options`` are the parameters for rows, which a count has not.

    Raises:
        BadUsage: One of them is given with a count.
    """
    if not is_count and group_by is None:
        return False
    for name in options:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise BadUsage(f"a count has no rows: leave out --{name}, or --count and --group-by")
    return True


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
