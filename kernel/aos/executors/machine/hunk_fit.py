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
    shift = start = 0
    for number, hunk in enumerate(hunks, 1):
        at = _first_line(lines, hunk, start, shift, budget)
        if at is None:
            raise Declined(
                ERROR,
                "patch_does_not_apply",
                f"{path}: hunk {number}: its old lines are not in the file"
                + (f" (the first: {hunk.old[0][:80]!r})" if hunk.old else ""),
            )
        lines[at : at + len(hunk.old)] = _new_lines(lines[at : at + len(hunk.old)], hunk)
        start = at + len(hunk.new)
        shift += len(hunk.new) - len(hunk.old)
        if hunk.new_ends_bare is not None and start == len(lines):
            ends_bare = hunk.new_ends_bare
    if not content and (not hunks or hunks[-1].new_ends_bare is None):
        ends_bare = False
    patched_text = feed.join(lines) + ("" if ends_bare or not lines else feed)
    return patched_text.encode("utf-8", "surrogateescape")


def _first_line(
    lines: list[str], hunk: PatchHunk, start: int, shift: int, budget: FitBudget
) -> int | None:
    """The first line of a hunk, at or after the end of the one before."""
    budget.take(len(lines))
    if hunk.line is not None:
        return _nearest(lines, hunk, start, hunk.line + shift, budget)
    for anchor in hunk.anchors:
        anchor_line = _find(lines, [anchor], start, budget)
        if anchor_line is None:
            return None
        start = anchor_line + 1
    if not hunk.old:  # only new lines: after the anchor, or at the end
        return start if hunk.anchors and not hunk.is_at_end else len(lines)
    if hunk.is_at_end:
        last = len(lines) - len(hunk.old)
        is_there = last >= start and _find(lines[last:], hunk.old, 0, budget) == 0
        return last if is_there else None
    return _find(lines, hunk.old, start, budget)


def _find(lines: list[str], old: list[str], start: int, budget: FitBudget) -> int | None:
    for same in _SAME:
        budget.take(len(lines))
        normal_lines = [same(line) for line in lines]
        normal_old = [same(line) for line in old]
        at = next(_match_starts(normal_lines, normal_old, start, budget), None)
        if at is not None:
            return at
    return None


def _nearest(
    lines: list[str], hunk: PatchHunk, start: int, expected: int, budget: FitBudget
) -> int | None:
    """The same lines nearest to the place that the hunk names."""
    if not hunk.old:
        return expected if start <= expected <= len(lines) else None
    candidates = _match_starts(lines, hunk.old, start, budget)
    return min(candidates, key=lambda at: (abs(at - expected), at), default=None)


def _match_starts(lines: list[str], old: list[str], start: int, budget: FitBudget) -> Iterator[int]:
    """Where ``old`` is among the lines."""
    for at in range(start, len(lines) - len(old) + 1):
        if lines[at] == old[0]:
            budget.take(len(old))
            if lines[at : at + len(old)] == old:
                yield at


def _new_lines(file_lines: list[str], hunk: PatchHunk) -> list[str]:
    """The new lines. Those that the hunk does not change keep their own blanks."""
    if file_lines == hunk.old:
        return hunk.new
    file_line_of = dict(zip(hunk.old, file_lines, strict=True))
    unchanged = set(hunk.old) & set(hunk.new)
    return [file_line_of[line] if line in unchanged else line for line in hunk.new]
