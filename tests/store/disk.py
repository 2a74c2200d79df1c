"""A file system of a few megabytes, that is really full when a test has filled it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

from tests.tools import missing

_MOUNT: Final = {
    "tmpfs": 'mount -t tmpfs -o size="$2" tmpfs "$1"',
    "ext4": 'truncate -s "$2" "$3" && mkfs.ext4 -q -F "$3" && mount -o loop "$3" "$1"',
}
_HOLD: Final = " && echo ready && exec cat"
PIECE: Final = bytes(4096)


class SmallDisk:
    """A small file system, mounted in its own mount namespace, which a helper process holds.

    When that process ends, the file system is gone, however the test ends; no other process can see
    it by accident. ``path`` leads into it from outside. If it ``is_visible``, it is mounted for all
    processes until the helper ends: SQLite resolves links, and none leads into another namespace.
    """

    def __init__(
        self, folder: Path, *, megabytes: int, kind: str = "tmpfs", is_visible: bool = False
    ) -> None:
        self._is_visible = is_visible
        self._point = folder / f"disk-{kind}"
        self._image = folder / f"disk-{kind}.image"
        self._arguments = (str(self._point), f"{megabytes}M", str(self._image))
        self._kind = kind
        self.path = Path()

    def __enter__(self) -> Self:
        self._point.mkdir()
        if self._is_visible:
            script = f'{_MOUNT[self._kind]} && echo ready && cat; umount -l "$1"'
            command = ["sh", "-c", script, "sh"]
        else:
            script = _MOUNT[self._kind] + _HOLD
            command = ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh"]
        try:
            self._holder = subprocess.Popen(
                [*command, *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except FileNotFoundError:
            missing("there is no unshare program: a disk that is really full is not tested")
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            _, said = self._holder.communicate()
            what = f"{self._kind} cannot be mounted: a disk that is really full is not tested"
            if self._kind == "tmpfs":
                missing(f"{what}: {said!r}")
            pytest.skip(f"{what} with it: {said!r}")
        root = "" if self._is_visible else f"/proc/{self._holder.pid}/root"
        self.path = Path(f"{root}{self._point}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._holder.communicate()
        self._point.rmdir()
        self._image.unlink(missing_ok=True)

    @property
    def _ballast(self) -> Path:
        return self.path / "ballast"

    def fill(self, *, leave: int = 0) -> None:
        """Take all room but about ``leave`` bytes."""
        with self._ballast.open("ab", buffering=0) as ballast:
            try:
                while ballast.write(PIECE) == len(PIECE):
                    pass
            except OSError:
                pass
            ballast.truncate(max(0, ballast.tell() - leave))
            os.fsync(ballast.fileno())

    def make_room(self) -> None:
        self._ballast.unlink()
