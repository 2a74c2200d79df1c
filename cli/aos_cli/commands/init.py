"""``aos init DIR``: create a world folder with its keys, or a group of them (spec/cli.md, C-20)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from aos.errors import BadUsage
from aos.host.folder.folder import WorldFolder
from aos.host.folder.making import init_world
from aos.manifest.keys import key_text
from aos.shell_text import shell_word
from aos.values.digests import hash_text
from aos_cli.options import Credentials, Json, NewWorld, flag, number, option
from aos_cli.output import line, print_json

if TYPE_CHECKING:
    from aos.host.folder.group import GroupFolder

Store = Annotated[
    str | None,
    option(
        "URL",
        "Replicate the world: keep its journal in a log of these NATS servers, "
        "nats://HOST,HOST,HOST/NAME, for several nodes.",
    ),
]
Replicas = Annotated[
    int | None, option("N", "Servers that have the log, 1 or 3 (default 3).", parser=number)
]
Monitors = Annotated[
    list[str] | None,
    option(
        "URL",
        "Monitoring address of a server, such as http://10.0.0.1:8222, which says whether the "
        "server syncs before it acknowledges. Give one for each server.",
    ),
]
UnverifiedDurability = Annotated[
    bool,
    flag(
        "--unverified-durability",
        "Do not check that the servers sync, and accept that acknowledged records can be lost.",
    ),
]
NodeName = Annotated[
    str | None, option("NODE", "Name of this node of the world (default: the name of the machine).")
]


def init(
    directory: NewWorld,
    *,
    operator: Annotated[
        str, option("NAME", "Name of the operator, who signs manifests and commands.")
    ] = "operator",
    executor: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Create a key for an executor of this name, to list in a manifest. "
            "May be given several times.",
        ),
    ] = None,
    shards: Annotated[
        int | None,
        option(
            "N",
            "Create a group of this number of worlds, 2 to 32, which share one keyed workload "
            "and run on all cores. It never changes.",
            parser=number,
        ),
    ] = None,
    store: Store = None,
    replicas: Replicas = None,
    creds: Credentials = None,
    monitor: Monitors = None,
    unverified_durability: UnverifiedDurability = False,
    node: NodeName = None,
    json: Json = False,
) -> None:
    if store is not None:
        _make_replicated(
            directory, _Replicated(
                store=store, replicas=3 if replicas is None else replicas, credentials=creds,
                monitors=tuple(monitor or ()), is_unverified=unverified_durability, node=node,
                operator=operator, executors=tuple(executor or ()), shards=shards,
            ), as_json=json,
        )  # fmt: skip
        return
    if unverified_durability or any(
        value is not None for value in (replicas, creds, monitor, node)
    ):
        raise BadUsage(
            "--replicas, --creds, --monitor, --unverified-durability, --node: expected --store URL "
            "with them"
        )
    if shards is not None:
        _make_group(directory, operator, executor or [], shards, as_json=json)
        return
    folder = init_world(directory, operator=operator, executors=executor or [])
    if json:
        print_json(_document(folder, operator))
    else:
        _show(folder, operator)
        line(f"next: aos apply PATH --world {shell_word(folder.path)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replicated:
    """The options of a replicated world, or of a group of them."""

    store: str
    replicas: int
    credentials: Path | None
    monitors: tuple[str, ...]
    is_unverified: bool
    node: str | None
    operator: str
    executors: tuple[str, ...]
    shards: int | None


def _make_replicated(directory: Path, words: _Replicated, *, as_json: bool) -> None:
    # Few worlds are replicated.
    from aos.host.cluster.replica_making import (  # noqa: PLC0415
        ReplicaPlan,
        default_node,
        init_replica,
    )
    from aos.host.folder.replica_file import replica_of  # noqa: PLC0415
    from aos.store.log.nats_address import NatsAccess, NatsAddress  # noqa: PLC0415

    plan = ReplicaPlan(
        address=NatsAddress.parse(words.store),
        replicas=words.replicas,
        node=words.node or default_node(),
        monitors=words.monitors,
        unverified_durability=words.is_unverified,
        operator=words.operator,
        executors=words.executors,
    )
    access = NatsAccess.read(words.credentials)
    if words.shards is not None:
        from aos.host.cluster.replicated_group import init_replicated_group  # noqa: PLC0415

        group = init_replicated_group(directory, words.shards, plan, access)
        _show_group(group, words.operator, as_json=as_json, store=plan.address.text)
        return
    folder = init_replica(directory, plan, access)
    if as_json:
        replica = replica_of(directory).document()
        print_json({**_document(folder, words.operator), "replica": replica})
        return
    _show(folder, words.operator)
    line(f"  log   {plan.address.text}")
    line(f"  node  {plan.node}")
    if plan.unverified_durability:
        line("  durability not verified: acknowledged records can be lost", style="yellow")
    word = shell_word(folder.path)
    line(f"next: aos run --world {word}, and then aos apply PATH --world {word}")


def _make_group(
    directory: Path, operator: str, executors: Sequence[str], shards: int, *, as_json: bool
) -> None:
    # Few worlds are groups.
    from aos.host.folder.group_making import GroupPlan, init_group  # noqa: PLC0415

    plan = GroupPlan(shards=shards, operator=operator, executors=tuple(executors))
    _show_group(init_group(directory, plan), operator, as_json=as_json)


def _show_group(
    group: GroupFolder, operator: str, *, as_json: bool, store: str | None = None
) -> None:
    first, *_ = folders = group.folders()
    if as_json:
        print_json(
            {
                "path": str(group.path),
                "created": group.created,
                "operator": operator,
                "executors": _executors(first),
                **({} if store is None else {"store": store}),
                "shards": [
                    {"shard": name, "world": hash_text(folder.world), "path": str(folder.path)}
                    for name, folder in zip(group.names, folders, strict=True)
                ],
            }
        )
        return
    line(f"new group of {group.shards} worlds in {group.path}", style="bold")
    for name, folder in zip(group.names, folders, strict=True):
        line(f"  {name}  {hash_text(folder.world)}")
    line(
        f"  {first.path}/keys/  the keys of all shards; each shard's folder has them. Keep them "
        "safe: they can write every shard"
    )
    word = shell_word(group.path)
    if store is not None:
        line(f"  log   {store}")
        line(f"next: aos run --world {word}, and then aos apply PATH --world {word}")
        return
    line(f"next: aos apply PATH --world {word}")


def _document(folder: WorldFolder, operator: str) -> dict[str, object]:
    return {
        "world": hash_text(folder.world),
        "path": str(folder.path),
        "created": folder.created,
        "operator": operator,
        "executors": _executors(folder),
    }


def _executors(folder: WorldFolder) -> list[dict[str, str]]:
    return [{"name": name, "public_key": key_text(key)} for name, key in folder.executors.items()]


def _show(folder: WorldFolder, operator: str) -> None:
    keys = folder.path / "keys"
    line(f"new world in {folder.path}", style="bold")
    line(f"  {hash_text(folder.world)}")
    line(f"  {keys}/world.key     signs the journal's heads and the receipts of this node")
    line(f"  {keys}/operator.key  signs manifests as {operator}; keep both safe")
    for name, key in folder.executors.items():
        line(f"  {keys}/executors/{name}.key  executor {name}, {key_text(key)}")
