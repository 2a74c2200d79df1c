"""The search box: one word for a record, an effect, a value, a name or a key
(spec/page.md, PG-14)."""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from aos.core.journal.records import CellId
from aos.errors import BadUsage
from aos.node.problems import Problem
from aos.node.reading import ListTime
from aos.page.page_links import PageLinks
from aos.read.lens.lookup import find_intent, spells, workflow_names
from aos.read.lens.words import key_text
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos.values.digests import Hash, hash_text

FOUND_MAX: Final = 50
_HASH: Final = re.compile(r"(?:blake3:)?([0-9a-f]{8,64})")

Match: TypeAlias = tuple[str, str, str]
"""The kind of a match, its name and its address."""


def search(
    view: View, text: str, links: PageLinks, cells: Sequence[Document] | None = None
) -> Document:
    """Return ``{q, found: [{what, name, address}], is_whole}`` with at most FOUND_MAX matches.
    ``is_whole`` is false if there may be more: the search takes the time of a list. ``cells`` are
    the rows of the cells whose key begins with the text (A-63), if an index has found them."""
    matches: list[Match] = []
    is_whole = True
    try:
        matches.extend(itertools.islice(_matches(view, text, links, cells), FOUND_MAX + 1))
    except Problem:  # the time is over
        is_whole = False
    return {
        "q": text,
        "found": [
            {"what": kind, "name": name, "address": address}
            for kind, name, address in matches[:FOUND_MAX]
        ],
        "is_whole": is_whole and len(matches) <= FOUND_MAX,
    }


def _matches(
    view: View, text: str, links: PageLinks, cells: Sequence[Document] | None
) -> Iterator[Match]:
    """Yield what a text names, the exact names first.

    Raises:
        Problem: The time of a list is over.
    """
    if not text:
        return
    state = view.state
    if text.isascii() and text.isdigit() and len(text) < 19 and 1 <= int(text) < state.next_seq:
        yield "record", text, links.record(int(text))
    yield from _hashes(view, text, links)
    submission = state.submissions.get(text)
    if submission is not None:
        yield "event submitted as", text, links.record(submission.seq)
    yield from _names(view, text, links)
    if cells is None:
        yield from _cells(view, text, links)
        return
    for row in cells:
        address = links.cell_cbor(row["workflow"], row["key_cbor"])
        if address is not None and row["key_cbor"]:
            yield "cell", f"{row['workflow']} {key_text(row['key'])}", address


def _hashes(view: View, text: str, links: PageLinks) -> Iterator[Match]:
    match = _HASH.fullmatch(text)
    if match is None:
        return
    digits = match[1]
    try:
        intent = find_intent(view.state, view.journal, digits)
    except BadUsage:
        pass
    else:
        name = hash_text(intent.intent)
        yield "effect", name, links.intent(name)
    if len(digits) == 64 and view.journal.has_blob(Hash(bytes.fromhex(digits))):
        yield "value", f"blake3:{digits}", links.value(digits)


def _names(view: View, text: str, links: PageLinks) -> Iterator[Match]:
    """Definitions with this name or a part of it."""
    manifest = view.state.manifest
    for name in workflow_names(view.state):
        if spells(text, name):
            yield "workflow", name, links.to("/cells", workflow=name)
    if manifest is None:
        return
    for kind, names in (
        ("effect of the manifest", manifest.effects),
        ("schema", manifest.schemas),
        ("module", manifest.modules),
    ):
        for name in sorted(names):
            address = links.definition(name) if spells(text, name) else None
            if address is not None:
                yield kind, name, address


def _cells(view: View, text: str, links: PageLinks) -> Iterator[Match]:
    """Cells whose key is the text or begins with it, in the order of a list (A-63), as an index
    finds them."""
    limit = ListTime()
    matches: list[tuple[CellId, Match]] = []
    over: Problem | None = None
    try:
        for cell in view.state.cells.values():
            limit.check()
            if not cell.id[1]:
                continue
            key = view.lens.key(cell.id, hash=cell.workflow_hash)
            if key_text(key).startswith(text):
                address = links.cell_cbor(cell.id[0], cell.id[1].hex())
                if address is not None:
                    matches.append((cell.id, ("cell", f"{cell.id[0]} {key_text(key)}", address)))
    except Problem as problem:
        over = problem
    for _, match in heapq.nsmallest(FOUND_MAX + 1, matches):
        yield match
    if over is not None:
        raise over
