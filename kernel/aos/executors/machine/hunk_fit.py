"""The hunks of a patch -> the new content of a file (AG-121)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from aos.executors.machine.declined import ERROR, Declined
from aos.executors.machine.patch_text import PatchHunk

LINES_COMPARED_MAX: Final = 20_000_000

_SAME: Final[tuple[Callable[[str], str], ...]] = (lambda line: line, str.rstrip, str.strip)
"""Hunks without line numbers: first the same lines, then without blanks at the end, then also
without blanks at the beginning."""


@dataclass(slots=True)
class FitBudget:
    """How many lines may be compared for one patch. Without it, a hostile patch takes hours."""

    lines: int = LINES_COMPARED_MAX

    def take(self, lines: int) -> None:
        """
        Raises:
            Declined: ``too_large``.
        """
        self.lines -= lines
        if self.lines < 0:
            raise Declined(
                ERROR,
                "too_large",
                f"the patch needs more than {LINES_COMPARED_MAX} comparisons of lines",
            )


def patched(content: bytes, hunks: Sequence[PatchHunk], path: str, budget: FitBudget) -> bytes:
    """The content after all hunks. Bytes that no hunk touches stay as they are.

    Raises:
        Declined: ``patch_does_not_apply``, with the number of the hunk; or as ``budget``.
    """
    text = content.decode("utf-8", "surrogateescape")
    feed = "\r\n" if "\r\n" in text and text.count("\n") == text.count("\r\n") else "\n"
    lines = text.split(feed)
    ends_bare = lines[-1] != ""
    if not ends_bare:
        lines.pop()
    shift = after = 0
    for number, hunk in enumerate(hunks, 1):
        at = _place(lines, hunk, after, shift, budget)
        if at is None:
            raise Declined(
                ERROR,
                "patch_does_not_apply",
                f"{path}: hunk {number}: its old lines are not in the file"
                + (f" (the first: {hunk.old[0][:80]!r})" if hunk.old else ""),
            )
        lines[at : at + len(hunk.old)] = _kept(lines[at : at + len(hunk.old)], hunk)
        after = at + len(hunk.new)
        shift += len(hunk.new) - len(hunk.old)
        if hunk.new_ends_bare is not None and after == len(lines):
            ends_bare = hunk.new_ends_bare
    if not content and (not hunks or hunks[-1].new_ends_bare is None):
        ends_bare = False
    whole = feed.join(lines) + ("" if ends_bare or not lines else feed)
    return whole.encode("utf-8", "surrogateescape")


def _place(
    lines: list[str], hunk: PatchHunk, after: int, shift: int, budget: FitBudget
) -> int | None:
    """The first line of a hunk, at or after the end of the one before."""
    budget.take(len(lines))
    if hunk.line is not None:
        return _nearest(lines, hunk, after, hunk.line + shift, budget)
    for anchor in hunk.anchors:
        found = _find(lines, [anchor], after, budget)
        if found is None:
            return None
        after = found + 1
    if not hunk.old:  # only new lines: after the anchor, or at the end
        return after if hunk.anchors and not hunk.is_at_end else len(lines)
    if hunk.is_at_end:
        last = len(lines) - len(hunk.old)
        is_there = last >= after and _find(lines[last:], hunk.old, 0, budget) == 0
        return last if is_there else None
    return _find(lines, hunk.old, after, budget)


def _find(lines: list[str], old: list[str], after: int, budget: FitBudget) -> int | None:
    for same in _SAME:
        budget.take(len(lines))
        found = [same(line) for line in lines]
        wanted = [same(line) for line in old]
        at = next(_places(found, wanted, after, budget), None)
        if at is not None:
            return at
    return None


def _nearest(
    lines: list[str], hunk: PatchHunk, after: int, expected: int, budget: FitBudget
) -> int | None:
    """The same lines nearest to the place that the hunk names."""
    if not hunk.old:
        return expected if after <= expected <= len(lines) else None
    places = _places(lines, hunk.old, after, budget)
    return min(places, key=lambda at: (abs(at - expected), at), default=None)


def _places(lines: list[str], old: list[str], after: int, budget: FitBudget) -> Iterator[int]:
    """Where ``old`` is among the lines."""
    for at in range(after, len(lines) - len(old) + 1):
        if lines[at] == old[0]:
            budget.take(len(old))
            if lines[at : at + len(old)] == old:
                yield at


def _kept(found: list[str], hunk: PatchHunk) -> list[str]:
    """The new lines. Those that the hunk does not change keep their own blanks."""
    if found == hunk.old:
        return hunk.new
    own = dict(zip(hunk.old, found, strict=True))
    unchanged = set(hunk.old) & set(hunk.new)
    return [own[line] if line in unchanged else line for line in hunk.new]
