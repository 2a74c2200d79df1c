"""Whether a world's folder is where it was adopted (spec/bundle.md, B-60 to B-66).

Beside the journal, hashed by nothing, the store keeps a row that says how the world came here, and
of the adopted one which file ``world.json`` was then: its inode, and when that was last changed,
which no tool can set. The store itself knows its data file (ST-70). A copy has other files.

    place = canonical array [1, how, inode of world.json, its change time in ns]
"""

from __future__ import annotations

import contextlib
import enum
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Final

from aos.errors import Damage, Refused, Unavailable, sentence
from aos.store.errors import NoRoom
from aos.store.lmdb_store import LmdbStore
from aos.store.plain_files import PlainFolder
from aos.values.cbor import decode_record, encode
from aos.values.errors import ValueProblem

ROW: Final = "place"
FORMAT: Final = 1


class Origin(enum.Enum):
    """How a world that is not adopted came to be where it is."""

    IMPORTED = "imported"
    FORKED = "forked"
    COPIED = "copied"


WORDS: Final = {
    Origin.IMPORTED: "this world was imported and not adopted yet",
    Origin.FORKED: "this world was forked and not adopted yet",
    Origin.COPIED: "this folder is a copy of a world's folder, or came back from a backup",
}
_ADOPTED: Final = "adopted"


@dataclass(frozen=True, slots=True)
class _Place:
    how: str
    inode: int = 0
    changed_ns: int = 0

    def to_bytes(self) -> bytes:
        return encode([FORMAT, self.how, self.inode, self.changed_ns])


def settle(world_file: Path, store: LmdbStore) -> None:
    """Adopt the world where it lies: in two transactions, and it is adopted after both.

    Raises:
        NoRoom, CommitFailed: As ``append``. It is not adopted then.
    """
    store.meta_put(ROW, _now(world_file).to_bytes())
    store.settle()


def set_origin(origin: Origin, store: LmdbStore) -> None:
    """Say of a world that is being made that it is to be adopted. Raises as ``append``."""
    store.meta_put(ROW, _Place(origin.value).to_bytes())


def origin_of(world_file: Path, store: LmdbStore) -> Origin | None:
    """How the world came here; None where it is adopted, or an earlier release left it.

    Raises:
        Damage: The row is none that is written.
    """
    place = _read(store)
    if place is None:
        return None
    if place.how != _ADOPTED:
        return Origin(place.how)
    return None if place == _now(world_file) and store.is_home() else Origin.COPIED


def check_place(world_file: Path, store: LmdbStore) -> None:
    """Whoever is about to write asks here first. A world of an earlier release is adopted by that.

    Raises:
        Refused: The world is not adopted here. Nothing has changed.
    """
    origin = origin_of(world_file, store)
    if origin is not None:
        folder = quote(str(world_file.parent))
        raise Refused(
            sentence(
                f"{WORDS[origin]}: nothing runs in it and nothing is written",
                where=str(world_file.parent),
                hint=f"make sure that it runs nowhere else, then: aos adopt --world {folder}",
            )
        )
    if _read(store) is None:
        # Without room it stays as it is until the next time.
        with contextlib.suppress(NoRoom):
            settle(world_file, store)


def _now(world_file: Path) -> _Place:
    try:
        with PlainFolder.named(world_file.parent) as folder:
            found = folder.check_file(world_file.name)
    except OSError as error:
        raise Unavailable(f"{world_file}: cannot be looked at: {error.strerror}") from error
    if found is None:
        raise Unavailable(f"{world_file}: cannot be looked at: it is gone")
    return _Place(_ADOPTED, found.st_ino, found.st_ctime_ns)


def _read(store: LmdbStore) -> _Place | None:
    data = store.meta_get(ROW)
    if data is None:
        return None
    try:
        value = decode_record(data)
    except ValueProblem as problem:
        raise Damage(f"{store.where}: the row of its place: {problem}") from problem
    hows = (_ADOPTED, Origin.IMPORTED.value, Origin.FORKED.value)
    match value:
        case [1, str(how), int(inode), int(changed_ns)] if how in hows:
            return _Place(how, inode, changed_ns)
    raise Damage(f"{store.where}: the row of its place is none that is written")
