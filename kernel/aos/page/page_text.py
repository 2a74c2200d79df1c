"""Text in the templates of the page (spec/page.md, PG-12, PG-21): visible, escaped, cut if it is
long, and trees as lines.

Everything in a journal may be hostile. Jinja escapes all that a template prints; before that,
``finalize`` makes every character visible.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.runtime import Undefined

from aos.document_text import CONTROLS, document_text
from aos.node.bodies import KIB
from aos.page.cell_timeline import timeline_picture
from aos.read.lens.words import compact, count, key_text, short, span_text, time_text
from aos.read.views.clock_view import ahead_text
from aos.read.views.record_view import Document
from aos.shell_text import shell_text

TEXT_MAX: Final = 64 * KIB
"""The most characters of one text; a longer one is cut, with a link to all of it."""

COLOURED_MAX: Final = 8 * KIB
"""The most characters of a value whose parts have colours."""

_TOKEN: Final = re.compile(
    r'(?P<name>"(?:[^"\\]|\\.)*")(?=:)|(?P<text>"(?:[^"\\]|\\.)*")|(?P<rest>[-\w.+]+)'
)

TIME_NS: Final = 10**17
"""From here on, a number of nanoseconds is a time; below it is a span."""

_PACES: Final = (("a second", 10**9), ("a minute", 60 * 10**9), ("an hour", 3600 * 10**9))


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLine:
    """One node of a tree. ``depth`` counts from 0; ``has_children`` says that deeper lines follow;
    ``closes`` is the number of lists that end after this line."""

    node: Document
    depth: int
    has_children: bool
    closes: int


def visible(text: str) -> str:
    """Return text of at most ``TEXT_MAX`` characters, with control characters and marks that
    change the direction of writing as escapes."""
    if len(text) > TEXT_MAX:
        text = text[: TEXT_MAX - 1] + "…"
    # None of these is printable. A page of 100 cells prints 2,000 texts, nearly all as they are,
    # and to look is a tenth of the work of translating.
    return text if text.isprintable() else text.translate(CONTROLS)


def pretty(value: object) -> str:
    """Return indented JSON; text as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def tokens(value: object) -> list[tuple[str, str]]:
    """Return the text of a value in parts, each with its kind: ``name``, ``text``, ``rest`` (a
    number or a word of JSON), or nothing. Long values and texts are one part."""
    text = pretty(value)
    if isinstance(value, str) or len(text) > COLOURED_MAX:
        return [("", text)]
    pieces: list[tuple[str, str]] = []
    end = 0
    for match in _TOKEN.finditer(text):
        pieces.append(("", text[end : match.start()]))
        pieces.append((match.lastgroup or "", match.group()))
        end = match.end()
    return [*((kind, part) for kind, part in pieces if part), ("", text[end:])]


def is_cut(value: object) -> bool:
    """Return whether a value is longer than what is shown of it."""
    return len(pretty(value)) > TEXT_MAX


def is_time(ns: object) -> bool:
    """Return whether nanoseconds are a time, and not a span."""
    return isinstance(ns, int) and ns >= TIME_NS


def number(value: int) -> str:
    """Return a number with separators of thousands."""
    return f"{value:,}"


def digits(hash: str, count: int = 12) -> str:
    """Return the first digits of a hash or key, without its prefix."""
    return hash.partition(":")[2][:count] or hash[:count]


def fields_of(document: Mapping[str, Any], *shown_names: str) -> list[tuple[str, Any]]:
    """Return the fields that a template has not ``shown_names`` otherwise."""
    return [(name, value) for name, value in document.items() if name not in shown_names]


def alike(rows: Iterable[Mapping[str, Any]], *names: str) -> list[list[Mapping[str, Any]]]:
    """Return rows in groups that have the same values under ``names``, in the order in which the
    first row of each group comes."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(compact(row[name]) for name in names), []).append(row)
    return list(groups.values())


def named_cells(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the cells that the document of a record is about, or that its event reached."""
    cell = record.get("cell")
    return [cell] if cell else [*record.get("to", ()), *record.get("overloaded", ())]


def is_small(value: object) -> bool:
    """Return whether a value fits on the line of its name."""
    return not isinstance(value, dict | list) and len(str(value)) <= 160


def last_part(path: str) -> str:
    """Return the last part of the path of an operation."""
    return path.rpartition("/")[2]


def label(name: str) -> str:
    """Return the name of a field as words."""
    return name.removesuffix("_ns").replace("_", " ")


def pace(count: int, ns: int) -> str:
    """Return how many things were done in a time, on average, in the smallest unit that shows it.

    >>> pace(90, 60 * 10**9)
    '1.5 a second'
    """
    if count <= 0 or ns <= 0:
        return "none yet"
    paces = [(count * unit_ns / ns, unit) for unit, unit_ns in _PACES]
    rate, unit = next((candidate for candidate in paces if candidate[0] >= 1), paces[-1])
    return f"{rate:,.1f} {unit}"


def tree_lines(roots: Sequence[Document], name: str = "children") -> list[TreeLine]:
    """Return a trace, the operations of a flow or the causes of a failure as lines that a template
    can print in a loop, however deep they are (PG-12).

    The lines are the nodes of the trees in order; ``name`` is the field with the children of a
    node. No recursion: a trace may be deeper than Python's stack.
    """
    order: list[tuple[Document, int]] = []
    todo: list[tuple[Document, int]] = [(root, 0) for root in reversed(roots)]
    while todo:
        node, depth = todo.pop()
        order.append((node, depth))
        children: list[Any] = node[name]
        todo.extend((child, depth + 1) for child in reversed(children))
    following = [depth for _, depth in order[1:]] + [0]
    return [
        TreeLine(
            node=node,
            depth=depth,
            has_children=bool(node[name]),
            closes=0 if node[name] else depth - next_depth,
        )
        for (node, depth), next_depth in zip(order, following, strict=True)
    ]


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "alike": alike,
    "clock_ahead": ahead_text,
    "count": count,
    "digits": digits,
    "fields_of": fields_of,
    "key_text": key_text,
    "label": label,
    "named_cells": named_cells,
    "last_part": last_part,
    "number": number,
    "pace": pace,
    "pretty": pretty,
    "shell": shell_text,
    "short": short,
    "span": span_text,
    "time": time_text,
    "timeline_picture": timeline_picture,
    "tokens": tokens,
    "tree_lines": tree_lines,
}


def _finalize(value: object) -> object:
    """Make one printed value visible. The results of macros and blocks are printed unchanged."""
    if isinstance(value, Undefined) or hasattr(value, "__html__"):
        return value
    if value is None:
        return ""
    return visible(value if isinstance(value, str) else str(value))


@cache
def environment() -> Environment:
    """Return the templates. A name that is not defined is an error, and all output is escaped."""
    jinja_environment = Environment(
        loader=PackageLoader("aos.page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja_environment.filters.update(FILTERS)
    jinja_environment.globals["root"] = ""
    jinja_environment.tests.update({"cut": is_cut, "small": is_small, "time_ns": is_time})
    return jinja_environment


def render(template: str, values: Mapping[str, object]) -> bytes:
    """Return a page as UTF-8."""
    text = environment().get_template(f"{template}.html").render(values)
    # A lone surrogate can only be in the words of a request.
    return text.encode(errors="backslashreplace")


def json_bytes(document: object) -> bytes:
    """Return a document as ``--json`` prints it where stdout is no terminal (PG-3)."""
    return document_text(document).encode(errors="backslashreplace")
