"""The filters of a list of failed cells as one condition, with which a batch selects the same cells
(spec/page.md, PG-67; search.md SE-1).

fault=trap&key_prefix=o-&where=total > 9 order by total
    ──▶ fault = trap and key ^= "o-" and total > 9 order by total
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aos.read.where.condition import parse

CELLS_ONLY: Final = ("waits_for", "older_than")
"""Filters of a list of cells that no condition has."""

MESSAGE_BYTES_MAX: Final = 300
"""The beginning of a longer message must do: a condition has at most 1,024 bytes."""


def joined(where_text: str | None, terms: Sequence[str]) -> str:
    """Return a condition with more terms before its own, so that its order stays last.

    Raises:
        WhereInvalid: ``where_text`` is not a condition.
    """
    stripped_text = (where_text or "").strip()
    if not stripped_text:
        return " and ".join(terms)
    if not terms:
        return stripped_text
    parsed = parse(stripped_text)
    condition, order = parsed.condition, stripped_text[len(parsed.condition) :].strip()
    if condition:
        terms = [*terms, f"({condition})" if parsed.is_choice else condition]
    return " ".join([" and ".join(terms), *([order] if order else [])])


def of_list(list_query: Mapping[str, Any]) -> str:
    """Return the filters of a list of cells, but its workflow and its status; empty without any."""
    terms = []
    if list_query.get("fault"):
        terms.append(f"fault = {list_query['fault']}")
    if list_query.get("key_prefix"):
        terms.append(f"key ^= {_quoted(list_query['key_prefix'])}")
    if list_query.get("pinned"):
        terms.append("pinned = true")
    return joined(list_query.get("where"), terms)


def of_group(list_query: Mapping[str, Any], kind: str, message: str) -> str:
    """Return the filters of a list of faults, but its workflow, for one kind and message."""
    begin = message.encode()[:MESSAGE_BYTES_MAX].decode(errors="ignore")
    operator = "=" if begin == message else "^="
    terms = [f"fault = {kind}", f"fault_message {operator} {_quoted(begin)}"]
    return joined(list_query.get("where"), terms)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
