"""The table of leases in ``DIR/node/leases``: LMDB, synced before any answer about a lease (N-54 to
N-56).

The journal does not depend on it. If it is damaged, deleted or copied, it begins empty, and the
attempts of the tasks that were open then are never given out a second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import lmdb

from aos.errors import AosError, Damage
from aos.node.leases.row import Row
from aos.store.compact import home_row
from aos.store.errors import NoRoom
from aos.store.first_look import (
    CLOSED_NAME,
    DATA_NAME,
    LOCK_NAME,
    check_file,
    check_meta_pages,
    check_plain,
    leave_mark,
    look,
    take_mark,
)
from aos.store.lmdb_binding import commit_failed, failure, found_no_room, no_room, unopened
from aos.store.plain_files import PlainFolder
from aos.store.store import Store
from aos.values.digests import HASH_BYTES, Hash, content_hash

NODE_FOLDER: Final = "node"
LEASES_FOLDER: Final = "leases"

MAP_BYTES: Final = 1 << 36
"""Address space to reserve; 1 GiB where a limit of the process forbids that."""

SMALL_MAP_BYTES: Final = 1 << 30

ROW_BYTES: Final = 512
"""Bytes that one changed row may need on the disk, for the message of a full disk."""

_CHECK_BYTES: Final = 8
_ROWS: Final = b"rows"
_FACTS: Final = b"facts"
_SINCE: Final = b"since"
_HOME: Final = b"home"
_LIB_VERSION: Final = 0

_NOTE: Final = "leases"
"""The row in the store of a world that has had a table."""

Changes = Mapping[Hash, Row | None]


class Table:
    """The open table. ``rows`` are those at the start, ``since`` the last record of the journal
    before this table began, ``world`` the folder of the world. One process has it open; only one
    thread at a time may write."""

    def __init__(self, folder: Path, env: lmdb.Environment, *, is_new: int | None) -> None:
        """Use ``open_table``.

        Raises:
            Damage: A row is damaged, or the file is a copy.
        """
        self.world = folder.parent.parent
        self._folder = folder
        self._env = env
        self._rows = env.open_db(_ROWS)
        facts = env.open_db(_FACTS)
        home = home_row(folder / DATA_NAME)
        with env.begin(write=True) as txn:
            if is_new is not None:
                txn.put(_SINCE, is_new.to_bytes(8, "big"), db=facts)
                txn.put(_HOME, home, db=facts)
            since = txn.get(_SINCE, db=facts)
            if since is None or txn.get(_HOME, db=facts) != home:
                raise Damage("the table of leases is a copy, or was never finished")
            with txn.cursor(db=self._rows) as cursor:
                self.rows = dict(_read_row(bytes(key), bytes(value)) for key, value in cursor)
        self.since = int.from_bytes(since, "big")

    def write(self, changes: Mapping[Hash, Row | None]) -> None:
        """Make rows durable, all or none; None removes one.

        Raises:
            NoRoom: The disk is full. Nothing has changed; the same call may pass later.
            CommitFailed: The commit failed for another reason.
        """
        try:
            with self._env.begin(write=True, db=self._rows) as txn:
                for intent, row in changes.items():
                    if row is None:
                        txn.delete(intent)
                    else:
                        txn.put(intent, _row_value(intent, row))
        except lmdb.Error as error:
            room_bytes = ROW_BYTES * len(changes)
            if found_no_room(error, self._folder, room_bytes):
                raise no_room("no room for leases", self._folder, room_bytes) from error
            raise commit_failed(error, self._folder) from error

    def close(self) -> None:
        """Close the table."""
        self._env.close()
        leave_mark(self._folder)


class Syncing:
    """Writes changed rows in a thread of its own, in groups: all changes of one moment share a
    transaction and a sync (N-54). Used from one event loop."""

    def __init__(self, write: Callable[[Changes], None]) -> None:
        self._write = write
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="leases")
        self._pending: dict[Hash, Row | None] = {}
        self._next: asyncio.Future[None] | None = None
        self._now: asyncio.Future[None] | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def has_pending(self) -> bool:
        """Whether there are changes that no group has yet."""
        return bool(self._pending)

    def put(self, changes: Changes) -> None:
        """Take changes, to be written with the next group."""
        self._pending.update(changes)

    async def synced(self) -> None:
        """Return once everything that was put before is durable.

        Raises:
            AosError: It could not be written. The changes are kept, and the next call tries again.
        """
        if self._pending:
            if self._next is None:
                self._next = asyncio.get_running_loop().create_future()
            if self._running is None:
                self._running = asyncio.ensure_future(self._run())
            await asyncio.shield(self._next)
        elif self._now is not None:
            await asyncio.shield(self._now)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._next is not None:
            group, self._pending = self._pending, {}
            self._now, self._next = self._next, None
            try:
                await loop.run_in_executor(self._thread, self._write, group)
            except AosError as problem:
                self._pending = {**group, **self._pending}
                self._now.set_exception(problem)
                self._now.exception()  # each caller has its own; there may be none any more
            else:
                self._now.set_result(None)
            self._now = None
        self._running = None

    async def close(self) -> None:
        """Write what is left, if possible, and end the thread."""
        with contextlib.suppress(AosError):  # a lease that is not on the disk ends by itself
            await self.synced()
        if self._running is not None:
            await self._running
        self._thread.shutdown()


def open_table(path: Path, *, seq: int, report: Callable[[str], None]) -> Table:
    """Open the table of the world in ``path``, whose journal ends at record ``seq``.

    A table that is missing is made; one that is damaged or copied is cleared, and ``report`` gets a
    line about that. Either way the new one begins at ``seq``.

    Raises:
        Unavailable: The folder cannot be written.
    """
    folder = path / NODE_FOLDER / LEASES_FOLDER
    try:
        with (
            PlainFolder.at_user_path(path) as world,
            world.inner(NODE_FOLDER, make=True) as node,
            node.inner(LEASES_FOLDER, make=True) as leases,
        ):
            is_there = leases.find(DATA_NAME) is not None
            if is_there:
                try:
                    _check_folder(folder)
                    return _open_table(folder, is_new=None)
                except (Damage, lmdb.Error) as problem:
                    report(
                        f"{folder}: {problem}; the table of leases begins empty: workers lose the "
                        "tasks that they have, and open tasks are given out with their next attempt"
                    )
            for name in (DATA_NAME, LOCK_NAME, CLOSED_NAME):
                leases.remove(name)
            return _open_table(folder, is_new=seq)
    except OSError as error:
        raise unopened(error, folder) from error
    except lmdb.Error as error:
        raise failure(error, folder) from error


def begin_table(path: Path, store: Store) -> None:
    """Make the first table of the world in ``path``, and note in its store that workers may have
    tasks from now on: a table that is made later does not know which (N-56).

    The caller has the world's lock.

    Raises:
        Unavailable: The folder cannot be written.
    """
    if store.meta_get(_NOTE) is not None:
        return
    try:
        with PlainFolder.at_user_path(path) as world, world.inner(NODE_FOLDER, make=True) as node:
            is_first = node.find(LEASES_FOLDER) is None
    except OSError as error:
        raise unopened(error, path / NODE_FOLDER) from error
    if is_first:
        open_table(path, seq=0, report=lambda _line: None).close()
    with contextlib.suppress(NoRoom):  # it is noted at the next start
        store.meta_put(_NOTE, b"")


def clear_table(path: Path) -> None:
    """Remove the table of the world in ``path``: a copy of a world has none of its leases (``aos
    adopt``). The folder stays, so that the next table is not a first one. No process may have it
    open."""
    with (
        contextlib.suppress(FileNotFoundError),
        PlainFolder.at_user_path(path) as world,
        world.inner(NODE_FOLDER, make=True) as node,
        node.inner(LEASES_FOLDER, make=True) as leases,
    ):
        for name in (DATA_NAME, LOCK_NAME, CLOSED_NAME):
            leases.remove(name)


def leased(path: Path) -> Mapping[Hash, int]:
    """The tasks with a row, and the epochs of the rows; empty if there is no table, or if it cannot
    be read. For a process that runs such a task itself: it begins with a later attempt.

    No process may have the table open.
    """
    folder = path / NODE_FOLDER / LEASES_FOLDER
    try:
        _check_folder(folder)
        table = _open_table(folder, is_new=None)
    except (AosError, OSError, lmdb.Error):
        return {}
    rows = table.rows
    table.close()
    return {intent: row.epoch for intent, row in rows.items()}


def _check_folder(folder: Path) -> None:
    """Raises: Damage, Unavailable, OSError: LMDB must not open the file."""
    check_file(folder)
    check_plain(folder, is_written=True)
    check_meta_pages(folder)
    look(folder)


def _open_table(folder: Path, *, is_new: int | None) -> Table:
    """Raises: Damage, lmdb.Error: The table cannot be used. It is not open then."""
    take_mark(folder)
    try:
        env = _mapped(folder, MAP_BYTES)
    except lmdb.MemoryError:
        env = _mapped(folder, SMALL_MAP_BYTES)
    try:
        return Table(folder, env, is_new=is_new)
    except BaseException:
        env.close()
        raise


def _mapped(folder: Path, size: int) -> lmdb.Environment:
    return lmdb.open(
        os.fsencode(folder),
        map_size=size,
        mode=0o600,
        max_dbs=2,
        max_readers=8,
        lib_version=_LIB_VERSION,
    )


def _row_value(intent: Hash, row: Row) -> bytes:
    data = row.to_bytes()
    return content_hash(intent + data)[:_CHECK_BYTES] + data


def _read_row(key: bytes, value: bytes) -> tuple[Hash, Row]:
    check, data = value[:_CHECK_BYTES], value[_CHECK_BYTES:]
    if len(key) != HASH_BYTES or content_hash(key + data)[:_CHECK_BYTES] != check:
        raise Damage("a row of the table of leases does not have its checksum")
    return Hash(key), Row.from_bytes(data)
