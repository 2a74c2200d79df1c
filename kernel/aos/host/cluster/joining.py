"""``aos join``: make the folder of another node of a replicated world, from its newest base and its
log (spec/cluster.md, CL-150 to CL-156).

    registration ──▶ rows of the base ──▶ fold ──▶ log, up to its tail ──▶ keys ──▶ world.json

A node that cannot continue joins again by itself (``join_again``): its new store takes the place of
the old one in one step.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final

from nacl.signing import SigningKey

from aos.core.journal.frame import Frame, Head
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Fork, Genesis
from aos.core.kernel_protocol import KernelFigures
from aos.errors import BadUsage, Damage, Pruned, Refused
from aos.host.cluster.base import WorldServers
from aos.host.cluster.beat import NODE, read_beat
from aos.host.cluster.following import EntryIntake, NeedsBase, open_world
from aos.host.cluster.known_end import ROW as KNOWN_END_ROW
from aos.host.cluster.registration import WorldRegistration, check_in_servers, registered
from aos.host.folder.folder import KEYS, STORE, WORLD_KEY, WorldFolder, read_key
from aos.host.folder.making import finish, making
from aos.host.folder.replica_file import ReplicaFile
from aos.host.transfer.adopting import copy_keys, executor_keys, keys_to_copy
from aos.store.lmdb_store import LOG_PLACE
from aos.store.log.base_stream import BaseReader
from aos.store.log.log import LogTrimmed
from aos.store.log.logged_store import LogEnd, LoggedStore
from aos.store.log.patience import patiently
from aos.store.plain_files import PlainFolder
from aos.values.digests import Hash, hash_text

NEW_STORE: Final = "store.joining"
"""The store of a node that joins again, until it takes the place of the old one."""

ATTEMPTS: Final = 5
"""How often a join begins again because a newer base took the place of the one that it read."""

LIFE_S: Final = 1.5
"""A node that runs replaces its beat within this time."""

Progress = Callable[[str, int, int], None]
"""Called with the stage, and how much of it is done and is to be done; 0 if that is not known."""


def no_progress(_stage: str, _done: int, _total: int) -> None:
    """For a caller that shows none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedNode:
    """A node's folder after joining: its store has the world to record ``seq`` and the log to
    ``end``. ``is_from_base``: it began with a base, and not with the genesis."""

    folder: WorldFolder
    end: LogEnd
    is_from_base: bool
    keys: tuple[str, ...] = ()


def join_world(
    path: Path,
    servers: WorldServers,
    replica: ReplicaFile,
    *,
    keys: Path,
    progress: Progress = no_progress,
) -> JoinedNode:
    """Make the folder of the node that ``replica`` describes, whose stream is set here, in an empty
    or new folder. ``keys`` is a folder as for ``adopt_world``, with ``world.key`` at least.

    If the process is killed, the same call begins again.

    Raises:
        BadUsage: The name of the node has another form, or there is no ``world.key``.
        Refused: The folder is not empty, a key is not this world's, no such world is registered, or
            another node of this name lives.
        Damage: The base or the log is damaged.
        Unavailable: The servers do not answer, or the folder cannot be written.
    """
    check_node_name(replica.node)
    key = read_key(keys / WORLD_KEY)
    name, world_key = replica.address.name, key.verify_key.encode()
    registration = patiently(lambda: registered(servers.worlds, name, world_key)).registration
    check_in_servers(registration)
    _check_name_free(servers, registration, replica.node, world_key)
    with making(path):
        with PlainFolder.at_user_path(path) as world, world.inner(KEYS, make=True):
            pass
        filled = _fill(path / STORE, servers, name, key, progress)
        folder = _world_folder(path, filled, keys)
        new_keys = keys_to_copy(folder, keys, filled.figures)
        copy_keys(folder, new_keys)
        with folder.open_plain() as world:
            replace(replica, stream=filled.registration.stream).write(world)
        finish(folder, filled.figures.operators)
    return JoinedNode(
        folder=folder,
        end=filled.end,
        is_from_base=filled.registration.base is not None,
        keys=tuple(new_keys),
    )


def check_node_name(node: str, option: str = "--node NODE") -> None:
    """Check the name of a node, which ``option`` chooses. Raises: BadUsage: It has another form."""
    if not NODE.fullmatch(node):
        raise BadUsage(
            "not a name of a node",
            expected="at most 64 ASCII letters, digits, _ and -",
            actual=repr(node),
            hint=f"choose one with {option}",
        )


def _check_name_free(
    servers: WorldServers, registration: WorldRegistration, node: str, world_key: bytes
) -> None:
    """Raises: Refused: A process of another node with this name lives."""
    keys = (f"{registration.stream}.standby.{node}", f"{registration.stream}.owner")

    def beats() -> list[int]:
        """The revisions of the beats of that node."""
        entries = [servers.beats.get(key) for key in keys]
        return [
            entry.revision
            for entry in entries
            if entry is not None and _is_of_node(entry.value, registration, node, world_key)
        ]

    before = patiently(beats)
    if not before:
        return
    time.sleep(LIFE_S)
    if patiently(beats) != before:
        raise Refused(
            "another node of this world has this name, and runs",
            location=registration.name,
            actual=node,
            hint="choose another name with --node NODE",
        )


def _is_of_node(value: bytes, registration: WorldRegistration, node: str, world_key: bytes) -> bool:
    beat = read_beat(value, registration.world, world_key)
    return beat is not None and beat.node == node


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filled:
    """A new store: the registration that it was filled by, its end, and the world there."""

    registration: WorldRegistration
    end: LogEnd
    figures: KernelFigures
    created: str


def _fill(
    store_path: Path, servers: WorldServers, name: str, key: SigningKey, progress: Progress
) -> _Filled:
    """Make a store from the newest base and the log. A base or a log that was replaced meanwhile is
    no reason to fail: begin again with the newer one."""
    world_key = key.verify_key.encode()
    for attempt in range(ATTEMPTS):
        registration = patiently(lambda: registered(servers.worlds, name, world_key)).registration
        try:
            return _fill_once(store_path, servers, registration, key, progress)
        except Damage:
            now = patiently(lambda: registered(servers.worlds, name, world_key)).registration
            if attempt == ATTEMPTS - 1 or (now.base, now.stream) == (
                registration.base,
                registration.stream,
            ):
                raise
        shutil.rmtree(store_path)
    raise AssertionError("the last attempt returns or raises")


def _fill_once(
    store_path: Path,
    servers: WorldServers,
    registration: WorldRegistration,
    key: SigningKey,
    progress: Progress,
) -> _Filled:
    with LoggedStore.create(store_path) as store:
        if registration.base is None:
            store.begin(registration.stream)
        else:
            _put_base(store, servers, registration, key.verify_key.encode(), progress)
    with LoggedStore.open(store_path, looks=False) as store:
        figures, end = _follow(store, servers, registration, key, progress)
        created = _created(store)
        if figures.world_key != key.verify_key.encode():
            raise Damage(
                "the journal is of another world key than the registration",
                location=registration.name,
            )
        return _Filled(registration=registration, end=end, figures=figures, created=created)


def _put_base(
    store: LoggedStore,
    servers: WorldServers,
    registration: WorldRegistration,
    world_key: bytes,
    progress: Progress,
) -> None:
    base = registration.base
    assert base is not None, "registered"
    log = patiently(lambda: servers.streams.log(base.stream))
    total = patiently(lambda: servers.streams.size_bytes(base.stream))
    reader = BaseReader(log, world_key, lambda done: progress("reading the base", done, total))
    store.put_rows(reader.rows())
    end = reader.end
    assert end is not None, "put_rows reads to the end"
    actual = (end.world, end.place.stream, end.end)
    if actual != (registration.world, registration.stream, base.end):
        raise Damage(
            "the base is not the one that the registration names",
            location=f"stream {base.stream}",
            expected=f"record {base.end.seq} of {hash_text(registration.world)}",
            actual=f"record {end.seq} of {hash_text(end.world)}",
            hint="make a new one on a node: aos cluster base",
        )
    store.meta_put(LOG_PLACE, end.place.to_bytes())


def follow_log(
    store: LoggedStore,
    servers: WorldServers,
    registration: WorldRegistration,
    key: SigningKey,
    progress: Progress = no_progress,
) -> LogEnd:
    """Fold the journal of a store that no process uses, and take what the log has behind it; return
    its end then.

    Raises:
        Damage: The journal is damaged, or the log does not continue it.
        Unavailable: The servers do not answer, or the disk is full.
    """
    return _follow(store, servers, registration, key, progress)[1]


def _follow(
    store: LoggedStore,
    servers: WorldServers,
    registration: WorldRegistration,
    key: SigningKey,
    progress: Progress,
) -> tuple[KernelFigures, LogEnd]:
    log = patiently(lambda: servers.streams.log(registration.stream))

    def folded(done: int, total: int) -> None:
        progress("reading the journal", done, total)

    world = open_world(store, registration.world, progress=folded)
    try:
        tail = patiently(log.tail)
        patiently(lambda: store.connect(log, stream=registration.stream, tip=world.tip, key=key))
        intake = EntryIntake(
            world,
            store,
            on_taken=lambda: progress("following the log", store.end.position, tail),
        )
        patiently(intake.advance)
        return intake.current().figures, store.end
    finally:
        world.thread.close()


def _created(store: LoggedStore) -> str:
    """When the world began, by its first record.

    Raises:
        Refused: The log has none yet.
    """
    if store.head() is None:
        raise Refused(
            "the world has no record yet: its making was interrupted",
            location=store.location,
            hint="run the command that makes it again: aos init",
        )
    cut = store.cut()
    frame = store.frame_at(1) if cut is None else None
    first = from_bytes(cut.genesis if cut is not None else _first_record(frame))
    assert isinstance(first, Genesis | Fork), "the first record of a world"
    at = datetime.fromtimestamp(first.stamp.ns // 10**9, UTC)
    return at.isoformat().replace("+00:00", "Z")


def _first_record(frame: Frame | None) -> bytes:
    assert frame is not None, "a journal that was folded has its first frame"
    return frame.records[0]


def _world_folder(path: Path, filled: _Filled, keys: Path) -> WorldFolder:
    """The folder of the new node, with the executors whose keys come with it: a world without a
    manifest names none. If the manifest names one, its key decides."""
    manifest = filled.figures.manifest
    of_manifest = (manifest.executors if manifest else None) or {}
    named = {executor.name for executor in of_manifest.values()}
    executors = {name: key for name, key in executor_keys(keys).items() if name not in named}
    return WorldFolder(
        path=path,
        world=filled.registration.world,
        created=filled.created,
        executors=MappingProxyType(executors),
    )


def ready_node(
    folder: WorldFolder,
    servers: WorldServers,
    replica: ReplicaFile,
    *,
    progress: Progress = no_progress,
) -> ReplicaFile:
    """Bring a node's folder to the log that the registration names, before the node starts; return
    its ``replica.json``, which is changed if need be. The caller has the lock of the world, and the
    store is closed.

    A folder of an earlier log (CL-160) joins again. So does one that a join again has left half
    way.

    Raises:
        Refused, Damage, Unavailable: As ``join_again``.
    """
    key = folder.world_key()
    name, world_key = replica.address.name, key.verify_key.encode()
    registration = patiently(lambda: registered(servers.worlds, name, world_key)).registration
    check_in_servers(registration)
    with folder.open_plain() as world:
        world.mend_exchange(STORE)
    if _stream_of(folder.path / STORE) != registration.stream:
        return join_again(folder, servers, replica, progress=progress)
    _remove_store(folder)
    return _with_stream(folder, replica, registration.stream)


def needs_join(problem: BaseException) -> bool:
    """Whether a node that was stopped by ``problem`` joins again by itself (CL-154)."""
    return isinstance(problem, LogTrimmed | NeedsBase)


def join_again(
    folder: WorldFolder,
    servers: WorldServers,
    replica: ReplicaFile,
    *,
    progress: Progress = no_progress,
) -> ReplicaFile:
    """Make the store of a node again, after ``LogTrimmed`` or ``NeedsBase``: it keeps its keys and
    its name. Return its ``replica.json``. The caller has the lock of the world, and the store is
    closed. Readers of the folder see the old store until the new one is whole.

    Raises:
        Damage: The new store does not have the journal of the old one, or the base or the log is
            damaged. The old store is there as before.
        Refused, Unavailable: As ``join_world``.
    """
    key = folder.world_key()
    with folder.open_plain() as world:
        world.mend_exchange(STORE)
    _remove_store(folder)
    new_path, old_path = folder.path / NEW_STORE, folder.path / STORE
    try:
        filled = _fill(new_path, servers, replica.address.name, key, progress)
        _keep_history(old_path, new_path, filled)
        with folder.open_plain() as world:
            with world.inner(NEW_STORE) as store:
                store.sync()
            world.exchange(STORE, NEW_STORE)
            world.sync()
    finally:
        _remove_store(folder)
    return _with_stream(folder, replica, filled.registration.stream)


def _stream_of(store_path: Path) -> str | None:
    with LoggedStore.open(store_path, readonly=True) as store:
        place = store.place
        return None if place is None else place.stream


def _with_stream(folder: WorldFolder, replica: ReplicaFile, stream: str) -> ReplicaFile:
    changed = replace(replica, stream=stream)
    if changed != replica:
        with folder.open_plain() as world:
            changed.write(world)
    return changed


def _remove_store(folder: WorldFolder) -> None:
    """Remove a store that does not take the place of another one, or did until now."""
    with folder.open_plain() as world:
        world.check_folder(NEW_STORE)
    shutil.rmtree(folder.path / NEW_STORE, ignore_errors=True)


def _keep_history(old_path: Path, new_path: Path, filled: _Filled) -> None:
    """Check that a new store continues the journal of the old one, and keep what its node knows of
    the end of the log (CL-85).

    Raises:
        Damage: It does not. The old store may have what the servers have lost.
    """
    with (
        LoggedStore.open(old_path, readonly=True) as old,
        LoggedStore.open(new_path) as new,
    ):
        head, new_head = old.head(), new.head()
        if head is not None and new_head is not None:
            check_continues(new, head, new_head)
        row = f"{KNOWN_END_ROW}.{filled.registration.stream}"
        known_end = old.meta_get(row)
        if known_end is not None:
            new.meta_put(row, known_end)


def check_continues(new: LoggedStore, head: Head, new_head: Head) -> None:
    """Check that the journal of ``new``, whose end is ``new_head``, has the frame that ``head`` is
    over. Raises: Damage: It does not."""
    frame: Hash | None = None
    if head.seq <= new_head.seq:
        try:
            stored = new.frame_at(head.seq)
        except Pruned:
            return
        frame = None if stored is None else stored.hash
    if frame != head.frame:
        raise Damage(
            "the servers have another journal than this folder",
            location=new.location,
            expected=f"record {head.seq} in frame {head.frame.hex()[:16]}",
            actual=f"record {new_head.seq} as the last one"
            if frame is None
            else f"frame {frame.hex()[:16]}",
            hint="if the servers have lost records: aos cluster restore NAME --from DIR, with the "
            "folder that has most of them",
        )
