"""The document of ``aos cluster status``, for the command and for the process of a node
(spec/cluster.md, CL-170 to CL-173, CL-240, CL-320)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from aos.errors import Damage
from aos.host.cluster.cluster_documents import (
    folder_document,
    group_document,
    unreadable_document,
    world_document,
)
from aos.host.cluster.group_registration import GroupRegistration
from aos.host.cluster.member_overview import (
    member_document,
    placement_document,
    read_members,
)
from aos.host.cluster.overview import ClusterReader, FolderOverview, WorldOverview
from aos.host.cluster.registration import WorldRegistration
from aos.store.log.nats_address import NatsAddress
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection

WORLDS_MAX: Final = 500
"""So many worlds are in the document, and so many groups."""


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
    """Return the document: ``address``, ``here``, ``members``, ``groups`` and ``worlds``. It has
    the world of the address, or the group with its shards; or, without a name, the groups and the
    first 500 worlds of its servers: then ``worlds_cut`` is whether there are more.

    Raises:
        BadUsage, Damage: As ``ClusterReader.registration``, also of a group.
        Unavailable, Refused: As ``NatsConnection``.
    """
    keys = {} if own_node is None else {own_node.folder.world: own_node.folder.world_key}
    reader = ClusterReader(connection, keys)
    groups = list(islice(reader.groups(address.name), WORLDS_MAX))
    worlds: list[WorldOverview] = []
    documents: list[dict[str, Any]] = []
    is_cut = False
    for name, registration in _registrations(reader, address.name, groups):
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
        "groups": [
            unreadable_document(name, group)
            if isinstance(group, Exception)
            else group_document(group, reader.group_signature(group))
            for name, group in groups
        ],
        "worlds": documents,
        "worlds_cut": is_cut,
    }


def _registrations(
    reader: ClusterReader, name: str, groups: Sequence[tuple[str, GroupRegistration | Damage]]
) -> Iterable[tuple[str, WorldRegistration | Damage]]:
    """The registrations of the world, of the shards of the group, or of all worlds. Raises as
    ``cluster_status``."""
    if not name:
        return reader.registrations()
    if not groups:
        return [(name, reader.registration(name))]
    [(_, group)] = groups
    if isinstance(group, Damage):
        raise group
    return reader.shards(group)


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
