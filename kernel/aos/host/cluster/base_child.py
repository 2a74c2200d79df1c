"""The process that makes a base of a running node: it reads the store of the node's folder and
writes to the servers (spec/cluster.md, CL-136).

    python -m aos.host.cluster.base_child DIR NICE [FILE]

FILE has the credentials for the servers. It prints one line: the base, or the problem.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from aos.errors import AosError, Damage
from aos.host.cluster.base import MadeBase, make_base
from aos.host.cluster.connecting import connected_servers
from aos.host.folder.folder import STORE, open_folder
from aos.host.folder.replica_file import find_replica
from aos.private_memory import keep_memory_private
from aos.store.lmdb_store import LmdbStore
from aos.store.log.nats_address import NatsAccess


def make(path: Path, credentials: Path | None) -> MadeBase:
    """Make a base of the node in the folder ``path``. Raises as ``make_base``."""
    folder, replica = open_folder(path), find_replica(path)
    if replica is None:
        raise Damage("replica.json is missing from the folder of a node", location=str(path))
    with (
        connected_servers(replica.address, NatsAccess.read(credentials)) as servers,
        LmdbStore.open(path / STORE, readonly=True) as store,
    ):
        return make_base(servers, replica.address.name, store, folder.world_key())


def main(words: list[str]) -> int:
    """Run the process; return its exit code."""
    os.nice(int(words[1]))
    try:
        made_base = make(Path(words[0]), Path(words[2]) if len(words) > 2 else None)
    except AosError as problem:
        sys.stdout.write(f"no base of the world was made: {problem}\n")
        return problem.exit_code
    sys.stdout.write(
        f"a base has the world to record {made_base.base.end.seq}, and the log is trimmed to it\n"
    )
    return 0


if __name__ == "__main__":
    keep_memory_private()
    sys.exit(main(sys.argv[1:]))
