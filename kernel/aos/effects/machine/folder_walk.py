"""The files below a folder, in one order, and the patterns that choose them (AG-115, AG-116)."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from typing import Any, Final

from aos.effects.machine.contained_paths import (
    DEPTH_MAX,
    ITSELF,
    ContainedFolder,
    Parts,
)
from aos.effects.machine.file_access import UNFINISHED
from aos.effects.machine.host_outputs import (
    ERROR,
    OK,
    Declined,
    HostOutput,
    invalid,
    mode_of,
    output,
    shown_name,
)

RESULTS_DEFAULT: Final = 100
RESULTS_MAX: Final = 10_000
ENTRIES_MAX: Final = 200_000
WALK_S: Final = 20.0
PATTERN_CHARS_MAX: Final = 1000
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedFile:
    """A name that a walk found. ``folder`` is an open descriptor until the next one."""

    folder: int
    parts: Parts
    stat_result: os.stat_result

    @property
    def is_folder(self) -> bool:
        """A link is no folder: a walk does not follow links."""
        return stat.S_ISDIR(self.stat_result.st_mode)


@dataclass(slots=True)
class WalkBudget:
    """How many names a walk may look at, and until when. If ``is_spent``, it has stopped early."""

    entries: int = ENTRIES_MAX
    deadline: float = field(default_factory=lambda: time.monotonic() + WALK_S)
    is_spent: bool = False

    def take(self) -> bool:
        """Whether one more name may be looked at."""
        self.entries -= 1
        if self.entries < 0:
            self.is_spent = True
        return self.has_time() and not self.is_spent

    def has_time(self) -> bool:
        """Whether the walk may continue."""
        if time.monotonic() > self.deadline:
            self.is_spent = True
        return not self.is_spent


def walk_below(
    folder: int, budget: WalkBudget, *, deepest: int = DEPTH_MAX
) -> Iterator[WalkedFile]:
    """Everything below an open folder, by name in byte order; a folder before its contents."""
    yield from _walk(folder, (), budget, deepest)


def _walk(folder: int, above: Parts, budget: WalkBudget, deepest: int) -> Iterator[WalkedFile]:
    for name in _names(folder, budget):
        try:
            stat_result = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            continue  # removed meanwhile
        parts = (*above, name)
        yield WalkedFile(folder=folder, parts=parts, stat_result=stat_result)
        if not budget.has_time():  # matching takes time too
            return
        if not stat.S_ISDIR(stat_result.st_mode) or len(parts) >= deepest:
            continue
        try:
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
        except OSError:
            continue  # not readable, or no folder any more
        try:
            yield from _walk(inner, parts, budget, deepest)
        finally:
            os.close(inner)


def _names(folder: int, budget: WalkBudget) -> list[str]:
    """The names in a folder, as many as the budget allows, in byte order."""
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not budget.take():
                    break
                if not entry.name.startswith(UNFINISHED):
                    names.append(entry.name)
    except OSError:
        return []
    return sorted(names, key=os.fsencode)


class NamePattern:
    """A glob pattern: ``*``, ``?`` and ``[…]`` within a name, ``**`` for any number of folders.

    Raises:
        Declined: ``invalid_pattern``.
    """

    def __init__(self, pattern: str) -> None:
        names = [name for name in pattern.split("/") if name not in ("", ITSELF)]
        if not names or ".." in names or len(pattern) > PATTERN_CHARS_MAX or "\0" in pattern:
            raise Declined(
                ERROR,
                "invalid_pattern",
                f"expected 1 to {PATTERN_CHARS_MAX} characters, without .., such as src/**/*.py, "
                f"found {pattern[:80]!r}",
            )
        self._names = tuple(names)
        self.deepest = DEPTH_MAX if "**" in names else len(names)

    def matches(self, parts: Parts) -> bool:
        """Whether it matches a whole path."""
        reached = self._reach({0})
        for part in parts:
            next_indexes = {
                at if self._names[at] == "**" else at + 1
                for at in reached
                if at < len(self._names)
                and (self._names[at] == "**" or _name_pattern(self._names[at]).match(part))
            }
            reached = self._reach(next_indexes)
        return len(self._names) in reached

    def _reach(self, indexes: set[int]) -> set[int]:
        """Also the places after each ``**``, which matches no folder as well."""
        reached = set(indexes)
        for at in indexes:
            index = at
            while index < len(self._names) and self._names[index] == "**":
                index += 1
                reached.add(index)
        return reached


@lru_cache(maxsize=256)
def _name_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))


def find_files(
    root: ContainedFolder, workdir: Parts, params: dict[str, Any]
) -> tuple[dict[str, Any], HostOutput]:
    """``sys/host.fs.glob@1``: the receipt without its paths, and the paths, from ``path``."""
    mode, results_max = mode_of(params), most_of(params)
    pattern = NamePattern(params["pattern"])
    budget = WalkBudget()
    lines: list[str] = []
    count = 0
    with opened_folder(root, workdir, params.get("path")) as folder:
        for file in walk_below(folder, budget, deepest=pattern.deepest):
            if not pattern.matches(file.parts):
                continue
            count += 1
            if len(lines) < results_max:
                lines.append(_line(file.parts, is_folder=file.is_folder))
    value = _list_receipt(count, len(lines), budget, "path", "paths")
    return value, output("\n".join(lines).encode(), mode)


def list_folder(
    root: ContainedFolder, workdir: Parts, params: dict[str, Any]
) -> tuple[dict[str, Any], HostOutput]:
    """``sys/host.fs.list_dir@1``: the receipt without its entries, and the entries."""
    mode, results_max = mode_of(params), most_of(params)
    budget = WalkBudget()
    with opened_folder(root, workdir, params.get("path")) as folder:
        files = list(walk_below(folder, budget, deepest=1))
    lines = [_line(file.parts, is_folder=file.is_folder) for file in files[:results_max]]
    value = _list_receipt(len(files), len(lines), budget, "entry", "entries")
    return value, output("\n".join(lines).encode(), mode)


def most_of(params: dict[str, Any]) -> int:
    """``max_results``, at least 1.

    Raises:
        Declined: ``invalid_params``.
    """
    results_max = params.get("max_results")
    if results_max is None:
        return RESULTS_DEFAULT
    if not 1 <= results_max <= RESULTS_MAX:
        raise invalid(f"max_results: expected 1 to {RESULTS_MAX}, found {results_max}")
    return int(results_max)


@contextmanager
def opened_folder(root: ContainedFolder, workdir: Parts, path: str | None) -> Iterator[int]:
    """The descriptor of a folder of the root. Raises ``Declined``."""
    with root.resolve(workdir, path or ITSELF) as file_place:
        descriptor = os.open(file_place.name, _FOLDER_FLAGS, dir_fd=file_place.folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _line(parts: Sequence[str], *, is_folder: bool) -> str:
    return "/".join(map(shown_name, parts)) + ("/" if is_folder else "")


def _list_receipt(
    count: int, shown_count: int, budget: WalkBudget, singular: str, plural: str
) -> dict[str, Any]:
    summary = f"{count} {singular if count == 1 else plural}"
    if budget.is_spent:
        summary += f" (stopped after {ENTRIES_MAX} names or {WALK_S:g} s)"
    return {
        "status": OK,
        "count": count,
        "truncated": shown_count < count or budget.is_spent,
        "summary_text": summary,
    }
