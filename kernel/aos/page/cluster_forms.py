"""The forms of the page of a cluster: move the world to a node, and drain a member
(spec/cluster.md, CL-323, CL-324).

/cluster/move/b     POST ──▶ the process of this node ──▶ the owner hands over ──303──▶ /cluster

They make no record. A form names the owner, or the state of the member, that a person has seen; if
it has changed since, the form is stale (spec/page.md, PG-62).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from aos.node.access import check_scope
from aos.node.problems import Problem
from aos.node.routes import BY_PATH, GET
from aos.node.services import Services
from aos.node.tokens import OPERATE
from aos.page.command_forms import STALE
from aos.page.page_forms import FORM_BYTES_MAX, FormCall, FormView, Visit

CLUSTER: Final = "/cluster"
_OPERATING: Final = replace(BY_PATH["/v1/cluster"][GET], scope=OPERATE)
_OWNER: Final = "owner"
_DRAINS: Final = "drains"
_HANDS_OVER: Final = (
    "Node {owner} finishes its records and hands the world over to node {node}, within about a "
    "second."
)


class _ClusterForm:
    """A form of the page of a cluster."""

    bytes_max = FORM_BYTES_MAX

    def __init__(self, services: Services) -> None:
        self._services = services

    def check(self, visit: Visit) -> None:
        """Raises: Problem: Without the scope (403)."""
        check_scope(visit.caller, _OPERATING)

    async def _document(self, call: FormCall) -> Mapping[str, Any]:
        document = await call.world.document("read_cluster", {})
        if document["address"] is None:
            raise Problem(409, "world_is_embedded", "this world is embedded: it has no other nodes")
        return document

    async def _world(self, call: FormCall) -> Mapping[str, Any]:
        document = await self._document(call)
        world: Mapping[str, Any] = document["worlds"][0]
        return world

    def _command(self, document: Mapping[str, Any], *words: str) -> list[str]:
        servers = document["address"].rpartition("/")[0]
        return ["aos", "cluster", *words, "--store", servers]


class MoveForm(_ClusterForm):
    """Move the world to a node: ``/cluster/move/NODE``."""

    path = f"{CLUSTER}/move/{{word}}"

    async def view(self, call: FormCall) -> FormView:
        """As ``PageForm``."""
        document = await self._document(call)
        world = document["worlds"][0]
        node, owner = _node(world, call.path["word"]), _owner(world)
        if owner is None:
            raise Problem(
                503, "world_has_no_owner",
                "no node owns the world, so there is none to hand it over (start one: aos run)",
                retry_after_s=1,
            )  # fmt: skip
        if owner == node["node"]:
            raise Problem(409, STALE, f"node {owner} owns the world already")
        effects = [
            _HANDS_OVER.format(owner=owner, node=node["node"]),
            "Requests that come meanwhile wait for the next owner.",
            "Leases of workers end; their tasks are given out again under the next attempt.",
        ]
        if document["members"]:
            effects.append("The members leave the world there until an operator ends that.")
        return FormView(
            title="Move the world",
            document={
                "action": "move", "world": world["name"], "to": node["node"], "seen": owner,
                "effects": effects,
            },
            command=self._command(document, "move", world["name"], "--to", node["node"]),
            submit=f"Move it to {node['node']}",
            effects=effects,
            facts=[
                ("world_name", world["name"]),
                ("owner", owner),
                *((name, node[name]) for name in ("node", "release", "beat_age_ns")),
                *((name, node[name]) for name in ("behind_records", "behind_messages")),
            ],
            fields={_OWNER: owner},
            back=call.base + CLUSTER,
        )  # fmt: skip

    async def take(self, call: FormCall) -> str:
        """As ``PageForm``."""
        world = await self._world(call)
        node, owner = _node(world, call.path["word"])["node"], _owner(world)
        if owner != node:
            if call.fields.get(_OWNER, "") != (owner or ""):
                raise Problem(
                    409, STALE,
                    f"node {owner or 'none'} owns the world now (open the form again)",
                )  # fmt: skip
            await self._services.link.cluster("cluster_move", to=node)
        return call.base + CLUSTER


class UndoMoveForm(_ClusterForm):
    """Let the members place the world again, after an earlier move: ``/cluster/undo``."""

    path = f"{CLUSTER}/undo"

    async def view(self, call: FormCall) -> FormView:
        """As ``PageForm``."""
        document = await self._document(call)
        world = document["worlds"][0]
        kept_at = _kept_at(world)
        effects = [
            f"The members do not leave the world at node {kept_at} any more.",
            "They place it again: it moves if another member should own it.",
        ]
        return FormView(
            title="Let the members place the world again",
            document={
                "action": "undo",
                "world": world["name"],
                "kept_at": kept_at,
                "effects": effects,
            },
            command=self._command(document, "move", world["name"], "--undo"),
            submit="Let them place it",
            effects=effects,
            facts=[("world_name", world["name"]), ("kept_at", kept_at)],
            back=call.base + CLUSTER,
        )

    async def take(self, call: FormCall) -> str:
        """As ``PageForm``."""
        _kept_at(await self._world(call))
        await self._services.link.cluster("cluster_move", to=None)
        return call.base + CLUSTER


class DrainForm(_ClusterForm):
    """Have a member drain, or let one that drains take its share again:
    ``/cluster/drain/MEMBER``."""

    path = f"{CLUSTER}/drain/{{word}}"

    async def view(self, call: FormCall) -> FormView:
        """As ``PageForm``."""
        document = await self._document(call)
        member = _member(document, call.path["word"])
        name, drains = member["name"], member["draining"]
        effects = [
            f"No world is placed on member {name}.",
            "All worlds that it owns, not only this one, move to other members, one at a time.",
            "If all members drain, every world stays where it is.",
        ]
        if drains:
            effects = [
                f"Member {name} takes its share of all worlds again.",
                "Worlds that it should own move to it, one at a time.",
            ]
        return FormView(
            title="End a drain" if drains else "Drain a member",
            document={
                "action": "undrain" if drains else "drain", "member": name, "seen": drains,
                "effects": effects,
            },
            command=self._command(document, "drain", name, *(["--undo"] if drains else [])),
            submit="End the drain" if drains else f"Drain {name}",
            effects=effects,
            facts=[
                ("member", name),
                ("standbys", member["standbys"]),
                ("beat_age_ns", member["beat_age_ns"]),
            ],
            fields={_DRAINS: int(drains)},
            back=call.base + CLUSTER,
        )  # fmt: skip

    async def take(self, call: FormCall) -> str:
        """As ``PageForm``."""
        member = _member(await self._document(call), call.path["word"])
        drains = member["draining"]
        if call.fields.get(_DRAINS) != str(int(drains)):
            state = "drains" if drains else "does not drain"
            raise Problem(409, STALE, f"member {member['name']} {state} now (open the form again)")
        await self._services.link.cluster("cluster_drain", member=member["name"], drains=not drains)
        return call.base + CLUSTER


def _node(world: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    for node in world["nodes"]:
        if node["node"] == name:
            return dict(node)
    raise Problem(404, "node_is_unknown", f"no node of the world has the name {name[:64]}")


def _owner(world: Mapping[str, Any]) -> str | None:
    """The node that owns the world now, by its beat."""
    for node in world["nodes"]:
        if node["role"] == _OWNER:
            return str(node["node"])
    return None


def _kept_at(world: Mapping[str, Any]) -> str:
    if world["kept_at"] is None:
        raise Problem(409, STALE, "no operator has moved the world, or that was ended already")
    return str(world["kept_at"])


def _member(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    for member in document["members"]:
        if member["name"] == name:
            return dict(member)
    raise Problem(404, "member_is_unknown", f"no member has the name {name[:64]}")
