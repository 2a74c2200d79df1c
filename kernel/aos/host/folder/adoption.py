"""Whether a world's folder is where it was adopted (spec/bundle.md, B-60 to B-66).

The store has a row that is not part of the journal and not hashed. It says how the world came here
and, for an adopted world, identifies its ``world.json`` by inode and change time, which no tool can
set. The store itself identifies its data file (ST-70). A copy of the folder has other files.

    place = canonical array [2, how, inode of world.json, its change time in ns, its time of
        modification in ns, inode of keys, its change time in ns]

A second hard link to ``world.json`` changes its change time, too, and is no copy. So another change
time is accepted if the content was not written, and the folder ``keys``, which nothing links, is as
it was (B-63). Earlier releases wrote the first four fields, with 1.
"""

from __future__ import annotations

import contextlib
import enum
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.errors import Damage, Refused, Unavailable
from aos.host.folder.folder import KEYS
from aos.shell_text import shell_word
from aos.store.errors import NoRoom
from aos.store.lmdb_store import LOG_PLACE, LmdbStore
from aos.store.plain_files import PlainFolder
from aos.values.cbor import decode_record, encode
from aos.values.errors import ValueProblem

ROW: Final = "place"
FORMAT: Final = 2


class Origin(enum.Enum):
    """How a world came to its folder, if it is not adopted there."""

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
class _AdoptionRow:
    """How a folder became a world, and the folder that it was then."""

    kind: str
    inode: int = 0
    changed_ns: int = 0
    linked: tuple[int, int, int] | None = None
    """What a hard link leaves as it is; None in a row of an earlier release."""

    def to_bytes(self) -> bytes:
        return encode([FORMAT, self.kind, self.inode, self.changed_ns, *(self.linked or (0, 0, 0))])

    def is_same(self, now: _AdoptionRow) -> bool:
        """Whether the folder is still the one that was adopted."""
        if (self.kind, self.inode) != (now.kind, now.inode):
            return False
        is_linked = self.linked is not None and self.linked == now.linked
        return self.changed_ns == now.changed_ns or is_linked


def settle(world_file: Path, store: LmdbStore) -> None:
    """Adopt the world in its present folder. It takes two transactions, and is adopted after both.

    Raises:
        NoRoom, CommitFailed: As ``append``. The world is not adopted.
    """
    store.meta_put(ROW, _now(world_file).to_bytes())
    store.settle()


def set_origin(origin: Origin, store: LmdbStore) -> None:
    """Mark a new world as not adopted, with its origin. Raises as ``append``."""
    store.meta_put(ROW, _AdoptionRow(origin.value).to_bytes())


def origin_of(world_file: Path, store: LmdbStore) -> Origin | None:
    """How the world came here; None if it is adopted, an earlier release wrote it, or it is
    replicated: then its log decides which node writes it (CL-158).

    Raises:
        Damage: The row is invalid.
    """
    if store.meta_get(LOG_PLACE) is not None:
        return None
    row = _read(store)
    if row is None:
        return None
    if row.kind != _ADOPTED:
        return Origin(row.kind)
    return None if row.is_same(_now(world_file)) and store.is_home() else Origin.COPIED


def check_place(world_file: Path, store: LmdbStore) -> None:
    """Check that a world is adopted here; every writer calls it first. It adopts a world of an
    earlier release.

    Raises:
        Refused: The world is not adopted here. Nothing has changed.
    """
    origin = origin_of(world_file, store)
    if origin is not None:
        folder = shell_word(world_file.parent)
        raise Refused(
            f"{WORDS[origin]}: nothing runs in it and nothing is written",
            location=str(world_file.parent),
            hint=f"make sure that it runs nowhere else, then: aos adopt --world {folder}",
        )
    if _read(store) != _now(world_file):
        # An earlier release wrote it, or a link changed the time. Without disk space, next time.
        with contextlib.suppress(NoRoom):
            settle(world_file, store)


def _now(world_file: Path) -> _AdoptionRow:
    try:
        with PlainFolder.at_user_path(world_file.parent) as folder:
            status = folder.check_file(world_file.name)
            keys = folder.find(KEYS)
    except OSError as error:
        raise Unavailable(f"{world_file}: cannot be read: {error.strerror}") from error
    if status is None:
        raise Unavailable(f"{world_file}: cannot be read: it no longer exists")
    linked = None
    if keys is not None and stat.S_ISDIR(keys.st_mode):
        linked = (status.st_mtime_ns, keys.st_ino, keys.st_ctime_ns)
    return _AdoptionRow(_ADOPTED, status.st_ino, status.st_ctime_ns, linked)


def _read(store: LmdbStore) -> _AdoptionRow | None:
    data = store.meta_get(ROW)
    if data is None:
        return None
    try:
        value = decode_record(data)
    except ValueProblem as problem:
        raise Damage(f"{store.location}: the row of its adoption: {problem}") from problem
    hows = (_ADOPTED, Origin.IMPORTED.value, Origin.FORKED.value)
    match value:
        case [1, str(how), int(inode), int(changed_ns)] if how in hows:
            return _AdoptionRow(how, inode, changed_ns)
        case [
            2,
            str(how),
            int(inode),
            int(changed_ns),
            int(written_ns),
            int(keys),
            int(moved_ns),
        ] if how in hows:
            linked = (written_ns, keys, moved_ns) if keys else None
            return _AdoptionRow(how, inode, changed_ns, linked)
    raise Damage(f"{store.location}: the row of its adoption is invalid")
