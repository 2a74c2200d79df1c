"""``aos cluster forget``: remove the folder of a node (spec/cluster.md, CL-165)."""

from __future__ import annotations

import shutil
from pathlib import Path

from aos.errors import Damage, Refused, Unavailable
from aos.host.cluster.base import WorldServers, check_stream
from aos.host.cluster.registration import WorldRegistration, check_in_servers, registered
from aos.host.folder.folder import REPLICA_FILE, STORE, WORLD_FILE, WorldFolder
from aos.host.folder.replica_file import ReplicaFile
from aos.store.lock import LOCK_NAME, world_locked
from aos.store.log.log import LogTrimmed
from aos.store.log.logged_store import LoggedStore, check_place
from aos.store.log.patience import patiently

_LAST: tuple[str, ...] = (LOCK_NAME, REPLICA_FILE, WORLD_FILE)


def forget_node(folder: WorldFolder, servers: WorldServers, replica: ReplicaFile) -> None:
    """Remove a node: its beat at the servers, and its folder with everything in it, the keys too.
    If the process is killed, the same call finishes it.

    Raises:
        Refused: The servers do not have everything that this folder has. Nothing has changed.
        Unavailable: A process runs the node, the servers do not answer, or a file cannot be
            removed.
    """
    path = folder.path
    with world_locked(path):
        name = replica.address.name
        if (path / STORE).is_dir():
            world_key = folder.world_key().verify_key.encode()
            registration = patiently(
                lambda: registered(servers.worlds, name, world_key)
            ).registration
            _check_servers_have(path / STORE, servers, registration)
        patiently(lambda: servers.beats.remove(f"{replica.stream}.standby.{replica.node}"))
        try:
            _remove(path)
        except OSError as error:
            raise Unavailable(f"{path}: cannot be removed: {error.strerror}") from error


def _check_servers_have(
    store_path: Path, servers: WorldServers, registration: WorldRegistration
) -> None:
    """Raises: Refused: The log lacks records of a store, or is another one."""
    check_in_servers(registration)
    with LoggedStore.open(store_path, readonly=True) as store:
        place = check_stream(store, registration)
        try:
            log = patiently(lambda: servers.streams.log(registration.stream))
            patiently(lambda: check_place(log, place, location=store.location))
        except LogTrimmed:
            pass  # a base has what came before
        except Damage as problem:
            raise Refused(
                f"this folder may have records that the servers have lost: {problem}",
                location=store.location,
                hint="keep it: aos cluster restore NAME --from DIR needs the folder with the most "
                "records",
            ) from problem


def _remove(path: Path) -> None:
    """Remove a folder. ``world.json`` is last, so that the command can be repeated."""
    for name in [entry.name for entry in path.iterdir() if entry.name not in _LAST]:
        entry = path / name
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
    for name in _LAST:
        (path / name).unlink(missing_ok=True)
    path.rmdir()
