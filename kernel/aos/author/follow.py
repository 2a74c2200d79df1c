"""Follow a running world: return traces of new records as they become durable (AU-86).

New records are returned once no more arrive for a moment, as part of their causal tree: an event
with its consequences, a receipt below the effect that it settles.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from aos.closable import Closable
from aos.core.journal.record_codec import from_bytes
from aos.host.folder.reader import open_reader
from aos.host.stamps import now_ns
from aos.read.trace.render import Branch, lines
from aos.read.trace.trace import trace
from aos.read.trace.trace_tree import Node
from aos.read.views.view import View

LINE_COLUMNS: Final = 120
"""Columns of a line of a trace, if its values can be cut to fit."""

REST_S: Final = 0.25
"""Time without new records after which they are returned."""

LONGEST_S: Final = 2.0
"""Time after which they are returned in any case."""

TRACES_MAX: Final = 10
"""Maximum number of trees returned together."""

ABOVE_MAX: Final = 2
"""How many causes above a new record are shown: the root, and the effect that it answers."""

NODES_MAX: Final = 60
"""Maximum number of branches of a tree."""

TOLD: Final = frozenset(
    {"event", "receipt", "kernel_receipt", "stream", "control", "step", "fault"}
)
"""Kinds of records that begin a tree, unless they belong to an earlier one."""


class TraceFollower(Closable):
    """Reads the journal of a world while another process runs it."""

    def __init__(self, world: Path, *, after_seq: int | None = None) -> None:
        self._reader = open_reader(world)
        self._reported_seq = self._reader.seq if after_seq is None else after_seq
        self._head_seq = self._reported_seq
        self._seen_at = self._began_at = time.monotonic()

    @property
    def reported_seq(self) -> int:
        """The last record that was returned."""
        return self._reported_seq

    def news(self, *, at_once: bool = False) -> Iterator[tuple[Branch, ...] | str]:
        """Traces of new records, and a line if some are left out; nothing while records arrive.

        ``at_once``: do not wait for a pause.
        """
        now = time.monotonic()
        head = self._reader.store.head()
        last = 0 if head is None else head.seq
        if last > self._head_seq:
            self._began_at = now if self._head_seq == self._reported_seq else self._began_at
            self._head_seq, self._seen_at = last, now
        if self._head_seq == self._reported_seq:
            return
        is_time = now - self._seen_at >= REST_S or now - self._began_at >= LONGEST_S
        if is_time or at_once:
            yield from self._tell()

    def _tell(self) -> Iterator[tuple[Branch, ...] | str]:
        first, self._reported_seq = self._reported_seq + 1, self._head_seq
        self._reader.refresh()
        view = View(self._reader.state, self._reader.store, now_ns=now_ns())
        view.spell()
        covered: set[int] = set()
        left_out = number = 0
        for seq in self._first(first, self._reported_seq):
            if seq in covered:
                continue
            if number == TRACES_MAX:
                left_out += 1
                continue
            number += 1
            tree = trace(view, [str(seq)], nodes_max=NODES_MAX)
            covered |= _sequences(tree.roots)
            yield tuple(map(shortened, lines(tree, width=LINE_COLUMNS)))
        if left_out:
            yield f"… and {left_out} more (see aos inspect journal)"

    def _first(self, first: int, last: int) -> Iterator[int]:
        for frame in self._reader.store.frames(first, last):
            for seq, data in enumerate(frame.records, frame.header.first):
                if first <= seq <= last and from_bytes(data).KIND in TOLD:
                    yield seq

    def close(self) -> None:
        self._reader.close()


def shortened(root: Branch) -> Branch:
    """A tree without the middle of the path from its root to the new records, shown before."""
    path = _way_to_target(root)
    if len(path) <= ABOVE_MAX + 1:
        return root
    number = len(path) - ABOVE_MAX - 1
    gap = Branch(kind="left_out", text=f"… {number} more on the way", children=(path[-2],))
    return replace(root, children=(gap,))


def _way_to_target(root: Branch) -> list[Branch]:
    """The path from the root to the marked branch; empty without one. It does not recurse, because
    a trace may be deeper than Python's stack."""
    came_from: dict[int, Branch] = {}
    todo = [root]
    while todo:
        branch = todo.pop()
        if branch.is_target:
            path = [branch]
            while (above := came_from.get(id(path[-1]))) is not None:
                path.append(above)
            return path[::-1]
        for child in branch.children:
            came_from[id(child)] = branch
            todo.append(child)
    return []


def _sequences(roots: Iterable[Node]) -> set[int]:
    seqs, todo = set(), list(roots)
    while todo:
        node = todo.pop()
        seqs.add(node.seq)
        todo.extend(node.children)
    return seqs
