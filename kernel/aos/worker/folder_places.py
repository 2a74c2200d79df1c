"""Whether one of two folders contains the other, whatever paths lead to them (AG-60).

A bind mount shows a folder under a second path, so paths do not decide this. Two folders are
compared by device and inode with each folder above the other; on Linux, also by their places on
their file systems, with each mount below them.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

MOUNTS: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def are_apart(one: Path, other: Path) -> bool:
    """Whether neither of two folders contains the other, nor is it, by any path. One that does not
    exist yet is where its path is."""
    first, second = one.resolve(), other.resolve()
    if _is_within(first, second) or _is_within(second, first):
        return False
    mounts = _mounts()
    return not any(
        each.is_related(its) for each in _places(first, mounts) for its in _places(second, mounts)
    )


def _is_within(inner: Path, outer: Path) -> bool:
    """Whether a folder above ``inner``, or itself, has path, or device and inode, of ``outer``."""
    if inner.is_relative_to(outer):
        return True
    wanted = _found(outer)
    above = (_found(each) for each in (inner, *inner.parents))
    return wanted is not None and any(
        each is not None and os.path.samestat(each, wanted) for each in above
    )


def _found(folder: Path) -> os.stat_result | None:
    with contextlib.suppress(OSError):
        return folder.stat()
    return None


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder or file of a file system. Mounts of one file system have the same ``device``."""

    device: str
    path: PurePosixPath

    def is_related(self, other: _Place) -> bool:
        """Whether one of the two is, or contains, the other."""
        return self.device == other.device and (
            self.path.is_relative_to(other.path) or other.path.is_relative_to(self.path)
        )


@dataclass(frozen=True, slots=True)
class _Mount:
    point: Path
    place: _Place


def _mounts() -> Sequence[_Mount]:
    """The mounts that this process sees, in their order; none on systems other than Linux."""
    found = []
    with contextlib.suppress(OSError):
        for line in MOUNTS.read_text("utf-8", "surrogateescape").splitlines():
            _, _, device, root, point = (
                _ESCAPED.sub(lambda code: chr(int(code[1], 8)), each) for each in line.split()[:5]
            )
            found.append(_Mount(Path(point), _Place(device, PurePosixPath(root))))
    return found


def _places(folder: Path, mounts: Sequence[_Mount]) -> Iterator[_Place]:
    """The place of a folder, and of each mount below it."""
    above = [each for each in mounts if folder.is_relative_to(each.point)]
    if above:
        # Of two mounts at one point, the later one hides the other.
        mount = max(enumerate(above), key=lambda each: (len(each[1].point.parts), each[0]))[1]
        yield _Place(mount.place.device, mount.place.path / folder.relative_to(mount.point))
    yield from (each.place for each in mounts if folder in each.point.parents)
