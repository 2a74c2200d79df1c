"""Read the files of a header log: tiles, the checkpoint, and the last one that was kept outside
(spec/proofs.md, PF-20 to PF-29b).

    DIR/log/tile/…            tiles (``tiles.py``)
    DIR/log/checkpoint        the newest checkpoint; the tiles up to it are durable before it is
    DIR/log/checkpoint.tsr    the time-stamp over it, if there is one
    DIR/log/.outside          the last checkpoint that was kept outside of the folder

Any static file server may publish the folder. It holds headers and no records.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, Self

from aos.errors import Damage, Unavailable, excerpt
from aos.prove.headerlog.checkpoint import Checkpoint, open_checkpoint
from aos.prove.headerlog.header_tree import HASH_BYTES
from aos.prove.headerlog.signed_note import NOTE_BYTES_MAX, Note, NoteKey
from aos.prove.headerlog.tiles import BUNDLE_BYTES_MAX, WIDTH, DamagedTile, Tile
from aos.store.plain_files import PlainFolder
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json

LOG: Final = "log"
CHECKPOINT: Final = "checkpoint"
TIMESTAMP: Final = "checkpoint.tsr"
OUTSIDE: Final = ".outside"
TIMESTAMP_BYTES_MAX: Final = 256 * 1024
OUTSIDE_BYTES_MAX: Final = 512 * 1024

_OUTSIDE_FIELDS: Final = {"checkpoint", "seq", "file", "time"}


class StoredLog:
    """An open folder of a header log."""

    def __init__(self, folder: PlainFolder) -> None:
        """Take over ``folder``."""
        self._folder = folder
        self._inner: dict[tuple[str, ...], PlainFolder] = {}

    @property
    def path(self) -> Path:
        return self._folder.path

    def close(self) -> None:
        """Close all folders."""
        for folder in self._inner.values():
            folder.close()
        self._inner.clear()
        self._folder.close()

    def read_tile(self, tile: Tile) -> bytes:
        """The bytes of a tile: see ``tiles.ReadTile``."""
        bytes_max = BUNDLE_BYTES_MAX if tile.level < 0 else WIDTH * HASH_BYTES
        data = self._read(tile.path, bytes_max)
        if data is None:
            raise DamagedTile(
                "a tile of the header log is missing",
                location=str(self.path.joinpath(*tile.path)),
                hint="aos checkpoint --rebuild writes the log again from the journal",
            )
        return data

    def checkpoint(self) -> bytes | None:
        """The newest checkpoint, or None."""
        return self._read((CHECKPOINT,), NOTE_BYTES_MAX)

    def timestamp(self) -> bytes | None:
        """The time-stamp next to it, or None."""
        return self._read((TIMESTAMP,), TIMESTAMP_BYTES_MAX)

    def outside(self) -> bytes | None:
        """The note about the last checkpoint that was kept outside of the folder, or None."""
        return self._read((OUTSIDE,), OUTSIDE_BYTES_MAX)

    def file(self, path: tuple[str, ...]) -> bytes | None:
        """A file of the log by the parts of its path below the folder, or None.

        Raises:
            Damage: It is no plain file, or too long.
        """
        return self._read(path, BUNDLE_BYTES_MAX)

    def _read(self, path: tuple[str, ...], bytes_max: int) -> bytes | None:
        *folders, name = path
        try:
            folder = self._open(tuple(folders))
            return None if folder is None else folder.read(name, bytes_max)
        except FileNotFoundError:
            return None
        except OSError as problem:
            file = self.path.joinpath(*path)
            raise Unavailable(f"{file}: it cannot be read: {problem.strerror}") from problem

    def _open(self, path: tuple[str, ...], *, make: bool = False) -> PlainFolder | None:
        """The folder at ``path``; None if it is missing, and is not made."""
        if not path:
            return self._folder
        folder = self._inner.get(path)
        if folder is None:
            above = self._open(path[:-1], make=make)
            if above is None:
                return None
            try:
                folder = self._inner[path] = above.inner(path[-1], make=make)
            except FileNotFoundError:
                return None
        return folder

    @classmethod
    @contextlib.contextmanager
    def of_world(cls, world: Path, *, make: bool = False) -> Iterator[Self | None]:
        """The header log of the world in this folder; None if there is none, and it is not made.

        Raises:
            Damage: Something else has its name.
            Unavailable: It cannot be opened.
        """
        try:
            with PlainFolder.at_user_path(world) as folder:
                inner = folder.inner(LOG, make=make)
        except FileNotFoundError:
            yield None
            return
        except OSError as problem:
            raise Unavailable(
                f"{world / LOG}: it cannot be opened: {problem.strerror}"
            ) from problem
        log = cls(inner)
        try:
            yield log
        finally:
            log.close()

    @classmethod
    @contextlib.contextmanager
    def at_user_path(cls, path: Path) -> Iterator[Self]:
        """A header log that the user names: the folder that holds ``checkpoint`` and ``tile``.

        Raises:
            Unavailable: It cannot be opened.
        """
        try:
            log = cls(PlainFolder.at_user_path(path))
        except OSError as problem:
            raise Unavailable(f"{path}: it cannot be opened: {problem.strerror}") from problem
        try:
            yield log
        finally:
            log.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideCheckpoint:
    """The last checkpoint of a world that was kept outside of its folder (PF-29b).

        DIR/log/.outside    a JSON object: checkpoint (the note), seq, file, time

    Only a checkpoint that someone else holds shows later that the journal was rolled back or
    rewritten. This file says which one that is; it proves nothing by itself.

    ``seq`` is the last record that the checkpoint covers. ``file`` is the file that it was written
    to; None if only the witnesses under ``note`` hold it. ``time`` is when it was made, in seconds
    since 1970.
    """

    note: Note
    checkpoint: Checkpoint
    seq: int
    file: str | None
    time: int

    @property
    def cosigned(self) -> tuple[tuple[str, int], ...]:
        return cosigners(self.note)

    def to_bytes(self) -> bytes:
        """The content of the file."""
        document = {
            "checkpoint": self.note.full_text, "seq": self.seq, "file": self.file,
            "time": self.time,
        }  # fmt: skip
        return (json.dumps(document, indent=1) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes, key: NoteKey) -> OutsideCheckpoint:
        """Read the file. ``key`` is the key of the log.

        Raises:
            Damage: It has another form, or the log's key did not sign the checkpoint.
        """
        try:
            document = parse_json(data.decode(), max_bytes=OUTSIDE_BYTES_MAX, max_depth=4)
        except (UnicodeDecodeError, ValueProblem) as problem:
            raise Damage(_outside_problem(excerpt(str(problem)))) from None
        if not isinstance(document, dict) or document.keys() != _OUTSIDE_FIELDS:
            _refuse_outside("other fields")
        note, seq, file, time = (document[name] for name in ("checkpoint", "seq", "file", "time"))
        if not isinstance(note, str) or not (file is None or isinstance(file, str)):
            _refuse_outside("a field of another type")
        if type(seq) is not int or type(time) is not int or seq < 1 or time < 0:
            _refuse_outside("a field of another type")
        checkpoint, signed_note = open_checkpoint(note.encode(), key)
        return cls(note=signed_note, checkpoint=checkpoint, seq=seq, file=file, time=time)


def cosigners(note: Note) -> tuple[tuple[str, int], ...]:
    """The names and times of the cosignatures under a note, which are not checked by a key."""
    return tuple(
        (signature.name, signature.time)
        for signature in note.signatures
        if signature.time is not None
    )


def _outside_problem(reason: str) -> str:
    return (
        f"log/.outside is not {{checkpoint, seq, file, time}}: {reason} (remove the file; the next "
        "aos checkpoint that is kept outside of the folder writes it again)"
    )


def _refuse_outside(reason: str) -> NoReturn:
    raise Damage(_outside_problem(reason))
