"""Random changes of a program: its nodes get the flags by which the two versions of its code
differ (``later``, ``earlier``)."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from tests.flow.model import Node

CHANGES: Final = ("add", "add", "leave out", "replace", "move", "version", "removed", "branch")
KINDS: Final = ("local", "step", "sleep", "emit", "scope")


def changed(program: dict[str, Any], chance: Random) -> dict[str, Any]:
    """The program, with up to three places in which the later version differs."""
    nodes: list[Node] = program["nodes"]
    before = len(nodes)
    bodies = [program["body"], *(each["nodes"] for each in nodes if each["nodes"])]
    inner = [body for body in bodies if nodes[body[0]]["op"] != "branch"]
    branched = [body for body in bodies if nodes[body[0]]["op"] == "branch"]
    for _ in range(chance.randint(0, 3)):
        change = chance.choice(CHANGES)
        if change == "branch":
            if branched:
                flag(nodes[chance.choice(chance.choice(branched))], chance.choice(FLAGS))
            continue
        body = chance.choice(inner)
        place = chance.randrange(len(body))
        if body[place] < before:
            change_one(nodes, body, place, change, chance)
    return program


FLAGS: Final = ("earlier", "later")


def flag(node: Node, name: str) -> None:
    if not {*FLAGS} & {*node["flags"]}:
        node["flags"] = sorted([*node["flags"], name])


def change_one(nodes: list[Node], body: list[int], place: int, change: str, chance: Random) -> None:
    """Make one change at a place of a body."""
    node = nodes[body[place]]
    match change:
        case "add":
            flag(node, "later")
        case "leave out":
            flag(node, "earlier")
        case "version":
            insert(nodes, body, place, {**node, "op": "version", "name": f"v{len(nodes)}"})
        case _ if {*FLAGS} & {*node["flags"]} or node["op"] == "return":
            pass
        case "replace":
            flag(node, "earlier")
            # Branches are no body of a scope.
            has_branches = bool(node["nodes"]) and nodes[node["nodes"][0]]["op"] == "branch"
            inside = [] if has_branches else node["nodes"]
            insert(nodes, body, place, {**node, "op": chance.choice(KINDS), "nodes": inside})
        case "removed":
            flag(node, "earlier")
            insert(nodes, body, place, {**node, "op": "removed"})
        case "move":
            insert(nodes, body, chance.randint(0, len(body)), node)
            flag(node, "earlier")


def insert(nodes: list[Node], body: list[int], place: int, node: Node) -> None:
    """Put a copy of a node into the later version."""
    flags = [each for each in node["flags"] if each not in FLAGS]
    nodes.append({**node, "flags": sorted([*flags, "later"])})
    body.insert(place, len(nodes) - 1)
