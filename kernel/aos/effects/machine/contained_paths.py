"""Paths that cannot leave one folder, whatever its links and other processes do (AG-63 to AG-65).

Rule 1: the kernel never resolves a path of more than one name. Each name is opened in the folder
before it, without following a link; a link is read, and its target is walked in the same way.

Rule 2: ``..`` returns to a folder that was opened on the way, and never asks the kernel for a
parent. So a folder or a link that is renamed meanwhile cannot lead out.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from aos.effects.machine.host_outputs import ERROR, FORBIDDEN, NOT_FOUND, Declined, declined_of
from aos.errors import BadUsage

PATH_BYTES_MAX: Final = 4096
DEPTH_MAX: Final = 128
"""Folders below one another. Each is open while a path is walked."""

LINKS_MAX: Final = 40
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ITSELF: Final = "."
"""The name of a place that is the open folder itself."""

Parts: TypeAlias = tuple[str, ...]
"""Names below the root, without links; none for the root itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlace:
    """A name in an open folder, of a file, a folder or nothing. It was no link when it was looked
    at, so open it with ``O_NOFOLLOW``. ``folder`` is valid inside the ``with`` only."""

    folder: int
    name: str
    parts: Parts
    stat_result: os.stat_result | None

    @property
    def path_in_root(self) -> str:
        """The path from the root, without a slash before it; ``.`` for the root.

        Raises:
            Declined: A link leads to a name that is no UTF-8, so that no text can have it.
        """
        path = "/".join(self.parts) or ITSELF
        try:
            path.encode()
        except UnicodeEncodeError:
            raise Declined(ERROR, "invalid_path", "it leads to a name that is no UTF-8") from None
        return path


class ContainedFolder:
    """A folder and everything below it. All paths of effects are resolved here.

    Raises:
        BadUsage: ``path`` is no folder, or cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        try:
            self.path = path.resolve(strict=True)
            self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise BadUsage(
                f"--host-root {path}: expected a folder that this process can open, found: "
                f"{error.strerror}"
            ) from error
        self._spellings = {self.path.parts, path.absolute().parts}

    def close(self) -> None:
        os.close(self._fd)

    @contextmanager
    def resolve(self, base: Parts, path: str, *, creates: bool = False) -> Iterator[FilePlace]:
        """The place that ``path`` names: from ``base``, or from the root if it begins with a slash.

        With ``creates``, absent folders on the way are made.

        Raises:
            Declined: The path leaves the root (``path_outside``), is malformed, or leads through
                something that is no folder.
        """
        walk = _Walk(self._fd, self._spellings, path_text=path, creates=creates)
        try:
            yield walk.to(self._steps(base, path))
        except OSError as error:
            raise declined_of(error, path) from error
        finally:
            walk.close()

    def _steps(self, base: Parts, path: str) -> list[str]:
        check_path(path)
        steps = steps_of(path, self._spellings)
        if steps is not None:
            return steps
        return [*(() if path.startswith("/") else base), *_names(path)]


def check_path(path: str) -> None:
    """
    Raises:
        Declined: ``invalid_path``: no path of any system.
    """
    size = len(path.encode("utf-8", "surrogateescape"))
    if not path or "\0" in path or size > PATH_BYTES_MAX:
        raise Declined(
            ERROR,
            "invalid_path",
            f"expected a path of 1 to {PATH_BYTES_MAX} bytes without NUL, found {path[:80]!r}",
        )


def steps_of(path: str, spellings: set[tuple[str, ...]]) -> list[str] | None:
    """The names of an absolute path below the root's own path, as a command of the machine spells
    it; None for any other path."""
    if not path.startswith("/"):
        return None
    names = ["/", *_names(path)]
    for root in spellings:
        if tuple(names[: len(root)]) == root:
            return names[len(root) :]
    return None


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ITSELF)]


class _Walk:
    """One walk. It holds a descriptor of each folder from the root to the place."""

    def __init__(
        self, root: int, spellings: set[tuple[str, ...]], *, path_text: str, creates: bool
    ) -> None:
        self._root = root
        self._spellings = spellings
        self._path_text = path_text
        self._creates = creates
        self._open_folders: list[tuple[str, int]] = []
        self._links = 0

    def to(self, steps: Sequence[str]) -> FilePlace:
        todo = deque(steps)
        while todo:
            name = todo.popleft()
            if name == "..":
                self._leave()
                continue
            stat_result = self._look(name)
            if stat_result is not None and stat.S_ISLNK(stat_result.st_mode):
                todo.extendleft(reversed(self._target(name)))
            elif todo:
                self._enter(name, stat_result)
            else:
                return self._make_place(name, stat_result)
        return self._make_place(ITSELF, os.fstat(self._folder))

    @property
    def _folder(self) -> int:
        return self._open_folders[-1][1] if self._open_folders else self._root

    def _make_place(self, name: str, stat_result: os.stat_result | None) -> FilePlace:
        parts = tuple(folder_name for folder_name, _ in self._open_folders)
        if name != ITSELF:
            parts += (name,)
        return FilePlace(folder=self._folder, name=name, parts=parts, stat_result=stat_result)

    def _look(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _enter(self, name: str, stat_result: os.stat_result | None) -> None:
        if len(self._open_folders) == DEPTH_MAX:
            raise Declined(
                ERROR, "invalid_path", f"{self._path_text}: more than {DEPTH_MAX} folders deep"
            )
        if stat_result is None:
            if not self._creates:
                raise Declined(
                    NOT_FOUND, "not_found", f"{self._path_text}: there is no folder {name}"
                )
            # If someone else makes it: whatever it is, it is opened as a folder or not at all.
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._folder)
        self._open_folders.append((name, os.open(name, _FOLDER_FLAGS, dir_fd=self._folder)))

    def _leave(self) -> None:
        if not self._open_folders:
            raise self._outside()
        os.close(self._open_folders.pop()[1])

    def _target(self, name: str) -> list[str]:
        """The steps of a link. An absolute target that is not below the root's own path is another
        file for every command, so it is not read from the root."""
        self._links += 1
        if self._links > LINKS_MAX:
            raise Declined(
                ERROR, "too_many_links", f"{self._path_text}: more than {LINKS_MAX} links"
            )
        try:
            target = os.readlink(name, dir_fd=self._folder)
        except OSError:
            raise Declined(
                ERROR, "path_changed", f"{self._path_text}: it changed meanwhile"
            ) from None
        if not target.startswith("/"):
            return _names(target)
        steps = steps_of(target, self._spellings)
        if steps is None:
            raise self._outside()
        self.close()
        return steps

    def _outside(self) -> Declined:
        return Declined(FORBIDDEN, "path_outside", f"{self._path_text}: it leads out of the root")

    def close(self) -> None:
        while self._open_folders:
            os.close(self._open_folders.pop()[1])
