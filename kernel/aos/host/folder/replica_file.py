"""The place of a replicated world's log, in the folder of a node (spec/cluster.md, CL-100 to
CL-102).

    DIR/replica.json    format, address, stream, node, monitors, unverified_durability

A folder without this file has an embedded world.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.errors import BadUsage
from aos.host.folder.folder import REPLICA_FILE, JsonFile
from aos.store.log.nats_address import NatsAddress
from aos.store.plain_files import PlainFolder

FORMAT: Final = 1
_PART: Final = f"{REPLICA_FILE}.part"
_FILE: Final = JsonFile(
    name=REPLICA_FILE,
    subject="node",
    format=FORMAT,
    advice="restore it from a backup, or make the node again: aos join",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFile:
    """Where a node finds its log: the ``address`` of the world and the ``stream`` there; the name
    of this ``node``; the ``monitors`` of the servers, which say whether they sync.
    ``unverified_durability``: the world does without them, and accepts the loss of records."""

    address: NatsAddress
    stream: str
    node: str
    monitors: tuple[str, ...] = ()
    unverified_durability: bool = False

    def document(self) -> dict[str, Any]:
        """The content of ``replica.json``."""
        return {
            "format": FORMAT,
            "address": self.address.text,
            "stream": self.stream,
            "node": self.node,
            "monitors": list(self.monitors),
            "unverified_durability": self.unverified_durability,
        }

    def write(self, folder: PlainFolder) -> None:
        """Write the file as a whole, in the place of an earlier one. Raises OSError."""
        text = json.dumps(self.document(), indent=2, ensure_ascii=False) + "\n"
        if folder.find(_PART) is not None:
            folder.remove(_PART)
        folder.put(_PART, text.encode())
        folder.rename(_PART, REPLICA_FILE)
        folder.sync()


def find_replica(path: Path) -> ReplicaFile | None:
    """Read the ``replica.json`` of a world's folder; None if it has none: the world is embedded.

    Raises:
        Refused: A newer release wrote the file.
        Damage: It is not a regular file, is too large, or is invalid.
        Unavailable: It cannot be read.
    """
    value = _FILE.read(path)
    if value is None:
        return None
    match value:
        case {
            "format": 1,
            "address": str(address),
            "stream": str(stream),
            "node": str(node),
            "monitors": list(monitors),
            "unverified_durability": bool(unverified_durability),
        } if all(isinstance(monitor, str) for monitor in monitors):
            pass
        case _:
            raise _FILE.damage(
                path,
                "expected {format, address, stream, node, monitors, unverified_durability}, found "
                "something else",
            )
    try:
        return ReplicaFile(
            address=NatsAddress.parse(address),
            stream=stream,
            node=node,
            monitors=tuple(monitors),
            unverified_durability=unverified_durability,
        )
    except BadUsage as problem:
        raise _FILE.damage(path, str(problem)) from problem


def replica_of(path: Path) -> ReplicaFile:
    """Read the ``replica.json`` of a node's folder. Raises as ``find_replica``, and Damage if there
    is none."""
    replica = find_replica(path)
    if replica is None:
        raise _FILE.damage(path, "the file is missing")
    return replica
