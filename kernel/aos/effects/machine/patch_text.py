"""A patch as text -> the changes of files that it asks for (AG-119, AG-120), and the new content of
each file (AG-121).

Two formats become one form: the patches of coding agents (``*** Begin Patch``, v4a), whose hunks
say what is before and after a change, and unified diffs, whose hunks also have line numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from aos.effects.machine.host_outputs import ERROR, Declined, invalid

FILES_MAX: Final = 1000

LINES_COMPARED_MAX: Final = 20_000_000

BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"
END_OF_FILE: Final = "*** End of File"
NULL: Final = "/dev/null"

_HEADER: Final = re.compile(r"\*\*\* (Add|Delete|Update) File: (.*\S)\s*")
_MOVE: Final = re.compile(r"\*\*\* Move to: (.*\S)\s*")
_RANGE: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_MODE: Final = re.compile(
    r"(?:(?:new|deleted) file|new|old) mode (\d{6})|index [0-9a-f]+\.\.[0-9a-f]+ (\d{6})"
)
_SPECIAL_MODES: Final = {"120000": "a symbolic link", "160000": "a submodule"}
"""The modes of git for what is no file."""

_FORMATS: Final = {"v4a": "v4a", "unified": "unified", "unified_diff": "unified", "diff": "unified"}

_NORMAL_FORMS: Final[tuple[Callable[[str], str], ...]] = (lambda line: line, str.rstrip, str.strip)
"""Hunks without line numbers: first the same lines, then without blanks at the end, then also
without blanks at the beginning."""


@dataclass(slots=True)
class PatchHunk:
    """Lines ``old`` that become ``new``. ``anchors`` are lines that come before it, in this order.
    ``line`` is the place of the first line, from 0, if the patch has one."""

    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)
    line: int | None = None
    is_at_end: bool = False
    new_ends_bare: bool | None = None
    """Whether the last new line has no line feed; None if the patch does not say."""


@dataclass(slots=True)
class FilePatch:
    """``move_to`` is the new path of an updated file. Hunks of a new file have no old lines."""

    kind: Literal["add", "update", "delete"]
    path: str
    move_to: str | None = None
    hunks: list[PatchHunk] = field(default_factory=list)


def parse_patch(text: str, format: str | None) -> Sequence[FilePatch]:
    """
    Raises:
        Declined: ``patch_invalid``, or ``invalid_params`` for an unknown format.
    """
    name = _FORMATS.get(format or "")
    if format is not None and name is None:
        raise invalid(f"patch_format: expected v4a or unified, found {format[:40]!r}")
    lines = text.replace("\r\n", "\n").split("\n")
    if name is None:
        begins = next((line for line in lines if line.strip()), "")
        name = "v4a" if begins.strip() == BEGIN else "unified"
    file_patches = _V4a(lines).files() if name == "v4a" else _Unified(lines).files()
    if not file_patches:
        raise _invalid_patch(0, "expected the change of a file, found none")
    if len(file_patches) > FILES_MAX:
        raise _invalid_patch(0, f"expected at most {FILES_MAX} files, found {len(file_patches)}")
    return file_patches


class _PatchLines:
    """A cursor over the lines of a patch."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0

    @property
    def line(self) -> str | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    def bad(self, problem: str) -> Declined:
        actual = "the end" if self.line is None else repr(self.line[:80])
        return _invalid_patch(self.at, f"{problem}, found {actual}")


class _V4a(_PatchLines):
    def files(self) -> list[FilePatch]:
        while self.line is not None and not self.line.strip():
            self.at += 1
        first = self.line
        if first is None or first.strip() != BEGIN:
            raise self.bad(f"expected {BEGIN}")
        self.at += 1
        file_patches: list[FilePatch] = []
        while (line := self.line) is not None and line.strip() != END:
            file_patches.append(self._file())
        if line is None:
            raise self.bad(f"expected {END}")
        return file_patches

    def _file(self) -> FilePatch:
        header = _HEADER.fullmatch(self.line or "")
        if header is None:
            raise self.bad("expected *** Add File: PATH, *** Delete File: … or *** Update File: …")
        self.at += 1
        if header[1] == "Add":
            return FilePatch("add", header[2], hunks=[self._added()])
        if header[1] == "Delete":
            return FilePatch("delete", header[2])
        file = FilePatch("update", header[2])
        move = _MOVE.fullmatch(self.line or "")
        if move is not None:
            file.move_to = move[1]
            self.at += 1
        while self.line is not None and not self._is_next_file():
            file.hunks.append(self._hunk())
        if not file.hunks and file.move_to is None:
            raise self.bad(f"expected a hunk of {file.path}")
        return file

    def _is_next_file(self) -> bool:
        assert self.line is not None
        return self.line.startswith("*** ") and self.line.strip() != END_OF_FILE

    def _added(self) -> PatchHunk:
        hunk = PatchHunk()
        while self.line is not None and self.line.startswith("+"):
            hunk.new.append(self.line[1:])
            self.at += 1
        return hunk

    def _hunk(self) -> PatchHunk:
        hunk = PatchHunk()
        begin = self.at
        while self.line is not None and self.line.startswith("@@"):
            anchor = self.line[2:].strip()
            if anchor:
                hunk.anchors.append(anchor)
            self.at += 1
        while self.line is not None:
            line = self.line
            if line.startswith("@@") or self._is_next_file():
                break
            self.at += 1
            if line.strip() == END_OF_FILE:
                hunk.is_at_end = True
                break
            _add_line(hunk, line, self)
        if self.at == begin or not (hunk.old or hunk.new):
            raise self.bad("expected lines that begin with a blank, + or -")
        return hunk


class _Unified(_PatchLines):
    def files(self) -> list[FilePatch]:
        file_patches: list[FilePatch] = []
        empty: FilePatch | None = None
        while self.line is not None:
            self._check_header(self.line)
            if self.line.startswith("diff --git "):
                file_patches += [] if empty is None else [empty]
                empty, path = None, _same_path(self.line)
                self.at += 1
                if path is not None:
                    empty = self._empty(path)
            elif self.line.startswith("--- ") and self._peek().startswith("+++ "):
                empty = None
                file_patches.append(self._file())
            elif self.line.startswith("rename from "):
                self._rename(file_patches)
            elif self.line.startswith(("Binary files ", "GIT binary patch")):
                raise self.bad("expected a change of text")
            elif self.line.startswith("@@ "):
                raise self.bad("expected --- PATH and +++ PATH before a hunk")
            else:
                self.at += 1
        return file_patches if empty is None else [*file_patches, empty]

    def _check_header(self, line: str) -> None:
        """Refuse what git writes about anything but a file of text (AG-120)."""
        mode = _MODE.fullmatch(line)
        special = None if mode is None else _SPECIAL_MODES.get(mode[1] or mode[2])
        if special is not None:
            raise self.bad(f"expected the change of a file, not of {special}")
        if line.startswith("copy from "):
            raise self.bad("expected a new, changed, renamed or deleted file, not a copy")

    def _empty(self, path: str) -> FilePatch | None:
        """The file that git makes or deletes here, if no lines of it follow."""
        line = self.line or ""
        if line.startswith("new file mode "):
            return FilePatch("add", path, hunks=[PatchHunk()])
        return FilePatch("delete", path) if line.startswith("deleted file mode ") else None

    def _peek(self) -> str:
        return self.lines[self.at + 1] if self.at + 1 < len(self.lines) else ""

    def _rename(self, file_patches: list[FilePatch]) -> None:
        source, target = (self.lines[self.at], self._peek())
        if not target.startswith("rename to "):
            raise self.bad("expected rename to PATH after it")
        self.at += 2
        move = FilePatch("update", source[len("rename from ") :], target[len("rename to ") :])
        while self.line is not None and self.line.startswith("index "):
            self._check_header(self.line)
            self.at += 1
        if self.line is not None and self.line.startswith("--- "):
            move.hunks = self._file().hunks
        file_patches.append(move)

    def _file(self) -> FilePatch:
        old, new = _header_path(self.lines[self.at][4:]), _header_path(self._peek()[4:])
        self.at += 2
        if old.startswith("a/") or new.startswith("b/"):
            old, new = old.removeprefix("a/"), new.removeprefix("b/")
        hunks = []
        while self.line is not None and self.line.startswith("@@ "):
            hunks.append(self._hunk())
        if old == NULL and new == NULL:
            raise self.bad("expected a path before it")
        if old == NULL:
            return FilePatch("add", new, hunks=hunks)
        if new == NULL:
            return FilePatch("delete", old, hunks=hunks)
        if not hunks:
            raise self.bad(f"expected a hunk of {new}")
        return FilePatch("update", old, None if old == new else new, hunks)

    def _hunk(self) -> PatchHunk:
        match = _RANGE.match(self.line or "")
        if match is None:
            raise self.bad("expected @@ -LINE,NUMBER +LINE,NUMBER @@")
        self.at += 1
        old_size, new_size = (1 if match[group] is None else int(match[group]) for group in (2, 4))
        hunk = PatchHunk(line=max(0, int(match[1]) - (1 if old_size else 0)))
        while len(hunk.old) < old_size or len(hunk.new) < new_size:
            if self.line is None:
                raise self.bad("expected more lines of the hunk")
            line = self.line
            self.at += 1
            if line.startswith("\\"):
                hunk.new_ends_bare = True
            else:
                _add_line(hunk, line, self)
        if len(hunk.old) != old_size or len(hunk.new) != new_size:
            raise self.bad(f"expected {old_size} old and {new_size} new lines before it")
        self._take_bare(hunk)
        return hunk

    def _take_bare(self, hunk: PatchHunk) -> None:
        """``\\ No newline at end of file``, after the last line."""
        if self.line is not None and self.line.startswith("\\"):
            last = self.lines[self.at - 1]
            hunk.new_ends_bare = not last.startswith("-")
            self.at += 1
        elif hunk.new_ends_bare:
            hunk.new_ends_bare = False  # it was the old file that ended so


def _add_line(hunk: PatchHunk, line: str, source: _PatchLines) -> None:
    sign, text = line[:1], line[1:]
    if sign not in ("", " ", "+", "-"):
        source.at -= 1
        raise source.bad("expected a line that begins with a blank, + or -")
    if sign != "+":
        hunk.old.append(text)
    if sign != "-":
        hunk.new.append(text)


def _same_path(line: str) -> str | None:
    """The path of ``diff --git a/PATH b/PATH``; None if the two differ."""
    names = line.removeprefix("diff --git ").rstrip()
    half = len(names) // 2
    old, new = names[:half], names[half + 1 :]
    is_same = old.startswith("a/") and new.startswith("b/") and old[2:] == new[2:]
    return old[2:] if is_same else None


def _header_path(text: str) -> str:
    """Without the time after a tab."""
    return text.split("\t", 1)[0].rstrip()


def _invalid_patch(at: int, problem: str) -> Declined:
    return Declined(ERROR, "patch_invalid", f"line {at + 1} of the patch: {problem}")


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
    """The content after all hunks (AG-121). Bytes that no hunk touches stay as they are.

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
        return _nearest_start(lines, hunk, start, hunk.line + shift, budget)
    for anchor in hunk.anchors:
        anchor_line = _find_lines(lines, [anchor], start, budget)
        if anchor_line is None:
            return None
        start = anchor_line + 1
    if not hunk.old:  # only new lines: after the anchor, or at the end
        return start if hunk.anchors and not hunk.is_at_end else len(lines)
    if hunk.is_at_end:
        last = len(lines) - len(hunk.old)
        is_there = last >= start and _find_lines(lines[last:], hunk.old, 0, budget) == 0
        return last if is_there else None
    return _find_lines(lines, hunk.old, start, budget)


def _find_lines(lines: list[str], old: list[str], start: int, budget: FitBudget) -> int | None:
    for same in _NORMAL_FORMS:
        budget.take(len(lines))
        normal_lines = [same(line) for line in lines]
        normal_old = [same(line) for line in old]
        at = next(_match_starts(normal_lines, normal_old, start, budget), None)
        if at is not None:
            return at
    return None


def _nearest_start(
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
