"""``aos cluster status``: the worlds of servers with their nodes (C-117a; spec/cluster.md, CL-170
to CL-173)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from aos.errors import AosError, BadUsage
from aos.host.cluster.cluster_status import WORLDS_MAX, OwnNode, cluster_status
from aos.host.door.remote import ask_running
from aos.read.lens.words import count, span_text
from aos.read.operations.cluster_reads import READ_CLUSTER
from aos.store.log.nats_connection import NatsConnection
from aos_cli.cluster_target import (
    ClusterAddress,
    ClusterTarget,
    Credentials,
    check_one_source,
    cluster_target,
)
from aos_cli.options import DEFAULT_WORLD, Json, NodeUrl, World, flag
from aos_cli.output import fields, line, note, print_json, table
from aos_cli.replica_reading import open_erasures_document, open_erasures_text, reference_text
from aos_cli.world_reading import NodeReading


def status(
    address: ClusterAddress = None,
    *,
    all_worlds: Annotated[
        bool, flag("--all", "Show all worlds of the servers, not only that of the folder or node.")
    ] = False,
    creds: Credentials = None,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if node is not None:
        check_one_source(address, node, creds)
        document = NodeReading(node).document(READ_CLUSTER, {"all": all_worlds})
    else:
        document = _of_servers(address, world, creds, all_worlds=all_worlds)
    if json:
        print_json(document)
        return
    if document["address"] is None:
        raise BadUsage(
            "the world of this node is embedded: it is on one machine, and has no servers",
            location=node,
            hint="replicate it: aos adopt DIR --store nats://HOST,HOST,HOST/NAME",
        )
    is_list = all_worlds or document["address"].count("/") == SLASHES
    _show(document, is_list=is_list or bool(document["groups"]))


SLASHES = 2
"""In an address without the name of a world."""


def _of_servers(
    address: str | None, world: Path, creds: Path | None, *, all_worlds: bool
) -> dict[str, Any]:
    target = cluster_target(address, world, creds)
    whole_address = replace(target.address, name="") if all_worlds else target.address
    own_node = _own_node(target, creds)
    with NatsConnection(target.address, target.access) as connection:
        return cluster_status(connection, whole_address, own_node)


def _own_node(target: ClusterTarget, creds: Path | None) -> OwnNode | None:
    folder = target.folder
    if folder is None:
        return None
    try:
        process: Mapping[str, Any] = ask_running(folder.path, "status").get("replica", {})
    except AosError:
        process = {}
    return OwnNode(
        folder=folder,
        open_erasures=open_erasures_document(folder.path, creds),
        reference=process.get("reference"),
    )


def _show(document: dict[str, Any], *, is_list: bool) -> None:
    if is_list:
        _show_groups(document["groups"])
        _show_worlds(document["worlds"])
        if document["worlds_cut"]:
            note(f"more than {WORLDS_MAX} worlds are registered; the others are left out")
    else:
        _show_world(document["worlds"][0])
    _show_members(document["members"])
    if document["here"] is not None:
        _show_here(document["here"])


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


def _show_groups(documents: list[dict[str, Any]]) -> None:
    if not documents:
        return
    table(["group", "shards", "registration"], map(_group_row, documents))
    line()


def _group_row(document: dict[str, Any]) -> list[str]:
    if document["problem"] is not None:
        return [document["name"], "-", document["problem"]]
    shards = document["shards"]
    signature = _signature(document["signature"], "group")
    return [document["name"], f"{shards[0]} to {shards[-1]}", signature]


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


def _signature(signature: str, signer: str = "world") -> str:
    return {
        "valid": f"signed by the key of the {signer}",
        "invalid": f"not signed by the key of the {signer}",
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
    rows = [] if here["folder"] is None else [("folder", here["folder"])]
    rows += [
        ("node", f"{here['node']}, {here['role']}"),
        ("has", f"record {here['seq']:,}, position {here['position']:,} of {here['stream']}"),
        ("dead messages", dead),
        ("open erasures", open_erasures_text(here["open_erasures"]) or "none"),
    ]
    if here["reference"] is not None:
        rows.append(("reference", reference_text(here["reference"])))
    line()
    fields(rows)
