"""The folder of ``--host-root``, apart from the world's own, and how it reaches a process (AG-60).

The executor ``aos.effects.machine`` reads both variables. Only ``aos run``, ``aos dev`` and ``aos
node`` set them; for ``aos worker``, its user does.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from aos.errors import BadUsage
from aos.worker.shipped import SHIPPED

ROOT_VARIABLE: Final = "AOS_HOST_ROOT"
STATE_VARIABLE: Final = "AOS_HOST_STATE"
STATE_FOLDER: Final = "machine"
"""In the world's folder: the sessions of this machine (AG-69)."""

MACHINE: Final = SHIPPED["sys/host."]
_MACHINE_SPECS: Final = frozenset({MACHINE, "aos.effects.machine:machine"})

_WORLD_FILE: Final = "world.json"
"""Each world's folder has it (spec/host.md, H-1)."""

MOUNTS: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def with_machine(specs: Sequence[str], root: Path | None) -> list[str]:
    """The ``--executors`` of a process: with ``--host-root``, the machine's too."""
    return [*specs, *([MACHINE] if root is not None and _MACHINE_SPECS.isdisjoint(specs) else ())]


def host_environment(root: Path | None, world: Path) -> Mapping[str, str] | None:
    """The environment of the process that runs effects; None if there is no ``--host-root``.

    Raises:
        BadUsage: As ``check_host_root``.
    """
    if root is None:
        return None
    check_host_root(root, world)
    return {
        **os.environ,
        ROOT_VARIABLE: str(root.resolve()),
        STATE_VARIABLE: str(world.resolve() / STATE_FOLDER),
    }


def check_host_root(root: Path | None, folder: Path) -> None:
    """Check a root against the folder of a world, of a group or of several worlds.

    Raises:
        BadUsage: ``root`` is no folder, is in the folder of any world, or one of ``root`` and
            ``folder`` contains the other.
    """
    if root is None:
        return
    root_folder = root.resolve()
    if not root_folder.is_dir():
        raise BadUsage(f"--host-root {root}: expected a folder, found none")
    above = (root_folder, *root_folder.parents)
    world = next((path for path in above if (path / _WORLD_FILE).is_file()), None)
    if world is None and not are_apart(root_folder, folder):
        world = folder
    if world is not None:
        raise BadUsage(
            f"--host-root {root}: expected a folder apart from the world {world}, whose keys and "
            "journal effects must not read (keep one of the two elsewhere)"
        )


def are_apart(folder: Path, other_folder: Path) -> bool:
    """Whether neither of two folders contains the other, nor is it, by any path. One that does not
    exist yet is where its path is.

    A bind mount shows a folder under a second path, so paths do not decide this. Two folders are
    compared by device and inode with each folder above the other; on Linux, also by their places on
    their file systems, with each mount below them.
    """
    first, second = folder.resolve(), other_folder.resolve()
    if _is_within(first, second) or _is_within(second, first):
        return False
    mounts = _mounts()
    return not any(
        path.is_related(other_path)
        for path in _mounted_paths(first, mounts)
        for other_path in _mounted_paths(second, mounts)
    )


def _is_within(inner: Path, outer: Path) -> bool:
    """Whether a folder above ``inner``, or itself, has path, or device and inode, of ``outer``."""
    if inner.is_relative_to(outer):
        return True
    outer_stat = _stat_of(outer)
    above = (_stat_of(folder) for folder in (inner, *inner.parents))
    return outer_stat is not None and any(
        folder_stat is not None and os.path.samestat(folder_stat, outer_stat)
        for folder_stat in above
    )


def _stat_of(folder: Path) -> os.stat_result | None:
    with contextlib.suppress(OSError):
        return folder.stat()
    return None


@dataclass(frozen=True, slots=True)
class _MountedPath:
    """A folder or file of a file system. Mounts of one file system have the same ``device``."""

    device: str
    path: PurePosixPath

    def is_related(self, other_path: _MountedPath) -> bool:
        """Whether one of the two is, or contains, the other."""
        return self.device == other_path.device and (
            self.path.is_relative_to(other_path.path) or other_path.path.is_relative_to(self.path)
        )


@dataclass(frozen=True, slots=True)
class _Mount:
    point: Path
    root: _MountedPath


def _mounts() -> Sequence[_Mount]:
    """The mounts that this process sees, in their order; none on systems other than Linux."""
    mounts = []
    with contextlib.suppress(OSError):
        for line in MOUNTS.read_text("utf-8", "surrogateescape").splitlines():
            _, _, device, root, point = (
                _ESCAPED.sub(lambda code: chr(int(code[1], 8)), field) for field in line.split()[:5]
            )
            mounts.append(_Mount(Path(point), _MountedPath(device, PurePosixPath(root))))
    return mounts


def _mounted_paths(folder: Path, mounts: Sequence[_Mount]) -> Iterator[_MountedPath]:
    """The place of a folder, and of each mount below it."""
    above = [outer_mount for outer_mount in mounts if folder.is_relative_to(outer_mount.point)]
    if above:
        # Of two mounts at one point, the later one hides the other.
        mount = max(
            enumerate(above), key=lambda numbered: (len(numbered[1].point.parts), numbered[0])
        )[1]
        yield _MountedPath(mount.root.device, mount.root.path / folder.relative_to(mount.point))
    yield from (inner_mount.root for inner_mount in mounts if folder in inner_mount.point.parents)
