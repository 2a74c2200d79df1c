"""``aos cluster status``: the worlds of servers with their nodes (C-117a; spec/cluster.md, CL-170
to CL-173)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from aos.host.cluster.overview import ClusterReader, WorldOverview
from aos.read.lens.words import count, span_text
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos_cli.cluster_target import ClusterAddress, Credentials, cluster_target
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import fields, line, note, print_json, table
from aos_cli.replica_reading import open_erasures_document, open_erasures_text

WORLDS_MAX = 500


def status(
    address: ClusterAddress = None,
    *,
    creds: Credentials = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    target = cluster_target(address, world, creds)
    folder = target.folder
    keys = {} if folder is None else {folder.world: folder.world_key}
    worlds: list[WorldOverview] = []
    documents: list[dict[str, Any]] = []
    with NatsConnection(target.address, target.access) as connection:
        reader = ClusterReader(connection, keys)
        if target.address.name:
            worlds.append(reader.world(reader.registration(target.address.name)))
            documents.append(world_document(worlds[0]))
        else:
            for name, registration in reader.registrations():
                if len(documents) == WORLDS_MAX:
                    note(f"more than {WORLDS_MAX} worlds are registered; the others are left out")
                    break
                if isinstance(registration, Exception):
                    documents.append(unreadable_document(name, registration))
                else:
                    worlds.append(reader.world(registration))
                    documents.append(world_document(worlds[-1]))
        members = _members(reader, connection, worlds, documents)
    here = None if folder is None else folder_document(folder, worlds)
    if folder is not None and here is not None:
        here["open_erasures"] = open_erasures_document(folder.path, creds)
    if json:
        print_json(
            {
                "address": target.address.text,
                "here": here,
                "members": members,
                "worlds": documents,
            }
        )
        return
    if target.address.name:
        _show_world(documents[0])
    else:
        _show_worlds(documents)
    _show_members(members)
    if here is not None:
        _show_here(here)


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


def _show_members(members: list[dict[str, Any]]) -> None:
    if not members:
        return
    line()
    columns = ["member", "state", "beat", "keys of worlds", "standbys"]
    table(columns, map(_member_row, members), right_aligned=("keys of worlds", "standbys"))


def _member_row(member: dict[str, Any]) -> list[str]:
    state = "draining" if member["draining"] else "takes its share"
    return [
        member["name"],
        "silent" if member["is_silent"] else state,
        f"{span_text(member['beat_age_ns'])} ago",
        str(len(member["worlds"])),
        str(member["standbys"]),
    ]


def _show_world(document: dict[str, Any]) -> None:
    base, log, embedded_at = document["base"], document["log"], document["embedded_at"]
    rows = [
        ("world", document["name"]),
        ("id", document["world"]),
        ("stream", document["stream"]),
        ("registration", _signature(document["signature"])),
        ("base", "none" if base is None else f"{base['stream']}, to record {base['seq']:,}"),
    ]
    if embedded_at is not None:
        rows.append(("embedded", f"in the folder of node {embedded_at}; no node uses the servers"))
    if document.get("placed_at"):
        rows.append(("placed", ", ".join(document["placed_at"])))
    if document.get("kept_at") is not None:
        rows.append(("kept", f"at node {document['kept_at']}, to which an operator has moved it"))
    if document.get("moving_to") is not None:
        rows.append(("moves", f"to node {document['moving_to']}"))
    if log is not None:
        rows += [
            ("log", f"positions {log['first']:,} to {log['last']:,}, {log['bytes']:,} bytes"),
            ("leader", log["leader"]),
            ("replicas", ", ".join(map(_replica, log["replicas"])) or "none"),
        ]
    if document["problem"] is not None:
        rows.append(("problem", document["problem"]))
    fields(rows)
    line()
    if not document["nodes"] and embedded_at is None:
        line("no node of this world has a beat: start one with aos run --world DIR")
    columns = ["node", "role", "beat", "position", "record", "behind", "process", "inbox"]
    table(columns, map(_node_row, document["nodes"]), right_aligned=("position", "record"))
    if document["other_beats"]:
        note(f"{count(document['other_beats'], 'value')} of the bucket of beats: no beat of it")


def _node_row(node: dict[str, Any]) -> list[str]:
    behind = (
        f"{count(node['behind_records'], 'record')}, {count(node['behind_messages'], 'message')}"
        if node["behind_messages"]
        else "-"
    )
    signature = "" if node["signature"] == "valid" else f" ({_signature(node['signature'])})"
    return [
        node["node"],
        node["role"] + signature,
        f"{span_text(node['beat_age_ns'])} ago" + (", silent" if node["is_silent"] else ""),
        f"{node['position']:,}",
        f"{node['seq']:,}",
        behind,
        node["instance"][:8],
        node["inbox"],
    ]


def _show_worlds(documents: list[dict[str, Any]]) -> None:
    columns = ["world", "owner", "beat", "standbys", "log ends", "bytes", "problem"]
    table(columns, map(_world_row, documents), right_aligned=("log ends", "bytes"))
    note(count(len(documents), "world"))


def _world_row(document: dict[str, Any]) -> list[str]:
    if "nodes" not in document:
        return [document["name"], "-", "-", "-", "-", "-", document["problem"]]
    owners = [node for node in document["nodes"] if node["role"] != "standby"]
    standbys = [node for node in document["nodes"] if node["role"] == "standby"]
    log, owner = document["log"], owners[0] if owners else None
    problem = document["problem"]
    if problem is None and document["signature"] == "invalid":
        problem = "the key of the world has not signed the registration"
    if document["embedded_at"] is not None:
        return [
            document["name"],
            f"{document['embedded_at']} (embedded)",
            *["-"] * 4,
            problem or "-",
        ]
    return [
        document["name"],
        "-" if owner is None else f"{owner['node']}{_state(owner)}{_moving(document)}",
        "-" if owner is None else f"{span_text(owner['beat_age_ns'])} ago",
        ", ".join(f"{node['node']}{_state(node)}" for node in standbys) or "-",
        "-" if log is None else f"{log['last']:,}",
        "-" if log is None else f"{log['bytes']:,}",
        problem or "-",
    ]


def _moving(document: dict[str, Any]) -> str:
    to = document.get("moving_to")
    return "" if to is None else f", moves to {to}"


def _state(node: dict[str, Any]) -> str:
    words = [word for word in (node["role"],) if word == "released"]
    words += ["silent"] if node["is_silent"] else []
    return f" ({', '.join(words)})" if words else ""


def _signature(signature: str) -> str:
    return {
        "valid": "signed by the key of the world",
        "invalid": "not signed by the key of the world",
        "unchecked": "signature not checked: name the folder of a node with --world",
    }[signature]


def _replica(peer: dict[str, Any]) -> str:
    words = ["offline"] if peer["is_offline"] else []
    if peer["behind_operations"]:
        words.append(f"{count(peer['behind_operations'], 'operation')} behind")
    return f"{peer['name']} ({', '.join(words)})" if words else peer["name"]


def _show_here(here: dict[str, Any]) -> None:
    dead = f"{here['dead_messages']:,}"
    if here["dead_reason"] is not None:
        dead += f", the last one: {here['dead_reason']}"
    line()
    fields(
        [
            ("folder", here["folder"]),
            ("node", f"{here['node']}, {here['role']}"),
            ("has", f"record {here['seq']:,}, position {here['position']:,} of {here['stream']}"),
            ("dead messages", dead),
            ("open erasures", open_erasures_text(here["open_erasures"]) or "none"),
        ]
    )
