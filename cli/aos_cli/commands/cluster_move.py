"""``aos cluster move`` and ``aos cluster drain``: which node owns a world (spec/cli.md, C-175,
C-176)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from aos.errors import BadUsage
from aos.host.cluster.moving import WorldMover, set_drained
from aos.host.cluster.overview import ClusterReader
from aos.read.lens.words import SECOND
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos_cli.cluster_target import Credentials, cluster_target
from aos_cli.options import DEFAULT_WORLD, Json, World, argument, flag, option, span
from aos_cli.output import line, note, print_json

Store = Annotated[
    str | None,
    option(
        "ADDRESS",
        "Servers: nats://HOST,HOST,HOST, without the name of a world (default: those of the "
        "folder).",
    ),
]


def move(
    name: Annotated[str, argument("NAME", "Name of the world.")],
    *,
    to: Annotated[str | None, option("NODE", "Node that is to own the world.")] = None,
    undo: Annotated[
        bool, flag("--undo", "Let the members place the world again, after an earlier move.")
    ] = False,
    timeout: Annotated[
        int | None,
        option("SPAN", "Longest wait for the node, such as 90s (default 60s).", parser=span),
    ] = None,
    store: Store = None,
    creds: Credentials = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if (to is None) is not undo:
        raise BadUsage("expected one of --to NODE and --undo")
    target = cluster_target(store, world, creds)
    folder = target.folder
    with NatsConnection(replace(target.address, name=""), target.access) as connection:
        keys = {} if folder is None else {folder.world: folder.world_key}
        registration = ClusterReader(connection).registration(name)
        mover = WorldMover(
            connection,
            NatsBucket(connection, WORLDS, replicas=None),
            NatsBucket(connection, BEATS, replicas=None),
            registration,
            world_key=keys.get(registration.world),
        )
        if to is None:
            former = mover.undo()
            if json:
                print_json({"name": name, "undone": former})
            elif former is None:
                line(f"nothing to undo: no operator has moved {name}")
            else:
                line(f"undone: the members place {name} again, which was kept at node {former}")
            return
        seconds = {} if timeout is None else {"timeout_s": timeout / SECOND}
        moved = mover.move(to, report=note, **seconds)
    if json:
        print_json(
            {
                "name": name, "node": moved.node, "from": moved.former, "moved": moved.is_moved,
                "kept": moved.is_kept,
            }
        )  # fmt: skip
    elif moved.is_moved:
        line(f"moved: node {moved.node} owns {name}, which node {moved.former} had", style="bold")
    else:
        line(f"node {moved.node} owns {name} already")
    if moved.is_kept and not json:
        note(f"the members leave it there (aos cluster move {name} --undo ends that)")


def drain(
    member: Annotated[str, argument("MEMBER", "Name of the member.")],
    *,
    undo: Annotated[bool, flag("--undo", "Let the member take its share again.")] = False,
    store: Store = None,
    creds: Credentials = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    target = cluster_target(store, world, creds)
    with NatsConnection(replace(target.address, name=""), target.access) as connection:
        is_changed = set_drained(
            NatsBucket(connection, WORLDS, replicas=None),
            NatsBucket(connection, BEATS, replicas=None),
            member,
            is_draining=not undo,
        )
    if json:
        print_json({"member": member, "draining": not undo, "changed": is_changed})
    elif undo:
        line(f"{member} takes its share of the worlds" + ("" if is_changed else " already"))
    elif is_changed:
        line(f"{member} drains: its worlds move to other members, one at a time", style="bold")
    else:
        line(f"{member} drains already")
