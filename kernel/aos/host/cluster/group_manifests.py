"""Find groups whose shards have different manifests (spec/cluster.md, CL-315).

    each shard with an owner ──bus──▶ its manifest in force ──▶ one finding for the group

While the manifests differ, a group refuses nothing for good (``groups.md`` GR-69), so its senders
wait. It takes moments while ``aos apply`` works, and lasts if that was interrupted.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from aos.errors import Refused, Unavailable, excerpt
from aos.host.cluster.bus_way import BusWay, address_client
from aos.host.cluster.findings import ClusterFindingKind, ClusterReport
from aos.host.cluster.group_registration import GroupRegistration
from aos.host.cluster.overview import OWNER, WorldOverview
from aos.host.door.way import WaitPatience
from aos.host.folder.group import shard_name
from aos.store.log.nats_connection import NatsConnection
from aos.values.digests import Hash, hash_text

ANSWER_S: Final = 2.0
"""Seconds for which the owner of a shard is asked."""

APPLIED_S: Final = 5.0
"""Seconds that an ``aos apply`` in progress may take between two shards."""

ShardManifests = Mapping[str, Hash | None]
"""The manifests of shards by their names, as far as their owners answer; None if a shard has
none."""


def add_manifests_finding(
    report: ClusterReport,
    connection: NatsConnection,
    group: GroupRegistration,
    worlds: Sequence[WorldOverview],
) -> None:
    """Find out whether the shards of a group have one manifest. ``worlds`` are those of its shards,
    by index. Shards that differ are asked again for ``APPLIED_S`` seconds."""
    until = time.monotonic() + APPLIED_S
    while _differ(manifests := _read_manifests(connection, worlds)):
        if time.monotonic() >= until:
            problem = Refused(
                "the shards of a group have different manifests, so its senders wait",
                location=f"group {group.name}",
                expected="one manifest",
                actual=excerpt(_text(manifests)),
                hint="aos apply was interrupted: run it again for the group, with the manifest "
                "that all shards are to have",
            )
            report.add(ClusterFindingKind.MANIFESTS_DIFFER, problem)
            return
        time.sleep(0.25)


def _differ(manifests: ShardManifests) -> bool:
    return len(set(manifests.values())) > 1


def _read_manifests(connection: NatsConnection, worlds: Sequence[WorldOverview]) -> ShardManifests:
    """Ask the owners. One that does not answer has findings of its own."""
    manifests: dict[str, Hash | None] = {}
    for index, world in enumerate(worlds):
        owner, registration = world.owner, world.registration
        if owner is None or owner.role != OWNER or owner.is_silent:
            continue
        client = address_client(
            connection, stream=registration.stream, world=registration.world,
            patience=WaitPatience(ANSWER_S),
        )  # fmt: skip
        way = BusWay(
            connection, client, registration.world,
            address=replace(connection.address, name=registration.name), is_shared=True,
            busy_s=ANSWER_S,
        )  # fmt: skip
        with contextlib.suppress(Unavailable, Refused):
            manifest = way.signed_state().manifest
            manifests[shard_name(index)] = None if manifest is None else manifest.manifest_hash
    return manifests


def _text(manifests: ShardManifests) -> str:
    """Which shards have which manifest."""
    shards: dict[Hash | None, list[str]] = {}
    for name, manifest in manifests.items():
        shards.setdefault(manifest, []).append(name)
    return "; ".join(
        f"{', '.join(names)}: {'none' if manifest is None else hash_text(manifest)}"
        for manifest, names in shards.items()
    )
