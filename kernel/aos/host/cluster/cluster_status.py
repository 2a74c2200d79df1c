"""The document of ``aos cluster status``, for the command and for the process of a node
(spec/cluster.md, CL-170 to CL-173, CL-240, CL-320)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aos.host.cluster.cluster_documents import (
    folder_document,
    unreadable_document,
    world_document,
)
from aos.host.cluster.member_overview import (
    member_document,
    placement_document,
    read_members,
)
from aos.host.cluster.overview import ClusterReader, FolderOverview, WorldOverview
from aos.store.log.nats_address import NatsAddress
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection

WORLDS_MAX: Final = 500
"""So many worlds are in the document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnNode:
    """The part of the document that only the node itself knows: its ``folder``, the erasures that
    are open at its servers (CL-283), and how far the reference has come (CL-288); None without
    it."""

    folder: FolderOverview
    open_erasures: Mapping[str, object]
    reference: Mapping[str, object] | None


def cluster_status(
    connection: NatsConnection, address: NatsAddress, own_node: OwnNode | None
) -> dict[str, Any]:
    """Return the document: ``address``, ``here``, ``members`` and ``worlds``. It has the world of
    the address, or, without a name, the first 500 worlds of its servers; then ``worlds_cut`` is
    whether there are more.

    Raises:
        BadUsage, NameOfGroup, Damage: As ``ClusterReader.registration``.
        Unavailable, Refused: As ``NatsConnection``.
    """
    keys = {} if own_node is None else {own_node.folder.world: own_node.folder.world_key}
    reader = ClusterReader(connection, keys)
    worlds: list[WorldOverview] = []
    documents: list[dict[str, Any]] = []
    is_cut = False
    if address.name:
        worlds.append(reader.world(reader.registration(address.name)))
        documents.append(world_document(worlds[0]))
    else:
        for name, registration in reader.registrations():
            if len(documents) == WORLDS_MAX:
                is_cut = True
                break
            if isinstance(registration, Exception):
                documents.append(unreadable_document(name, registration))
            else:
                worlds.append(reader.world(registration))
                documents.append(world_document(worlds[-1]))
    members = _members(reader, connection, worlds, documents)
    return {
        "address": address.text,
        "here": None if own_node is None else _own_node_document(own_node, worlds),
        "members": members,
        "worlds": documents,
        "worlds_cut": is_cut,
    }


def _own_node_document(own_node: OwnNode, worlds: Sequence[WorldOverview]) -> dict[str, Any]:
    return {
        **folder_document(own_node.folder, worlds),
        "open_erasures": dict(own_node.open_erasures),
        "reference": own_node.reference,
    }


def _members(
    reader: ClusterReader,
    connection: NatsConnection,
    worlds: Sequence[WorldOverview],
    documents: Sequence[dict[str, Any]],
) -> list[dict[str, Any]]:
    """The documents of the members. Those of the worlds get their placement."""
    overview = read_members(
        reader,
        NatsBucket(connection, WORLDS, replicas=None),
        NatsBucket(connection, BEATS, replicas=None),
    )
    by_name = {world.registration.name: world for world in worlds}
    for document in documents:
        if document["name"] in by_name:
            document.update(placement_document(by_name[document["name"]], overview))
    names = {world.registration.world: world.registration.name for world in worlds}
    return [member_document(member, names) for member in overview.members]
