"""The graphs of a trace and of a manifest, from their documents (spec/page.md, PG-42)."""

from __future__ import annotations

from collections.abc import Sequence

from aos.audit.lens.words import key_text
from aos.audit.views.record_view import Document
from aos.page.layered_graph import GraphNode, GraphPicture, graph_picture
from aos.page.page_links import PageLinks

_RECEIPTS = frozenset({"receipt", "kernel_receipt"})


def trace_graph(roots: Sequence[Document], links: PageLinks) -> GraphPicture | None:
    """Return the graph of a trace; None if it is too large. A receipt is the box of its intent, an
    attempt or stream frame is in the tree alone."""
    nodes: list[GraphNode] = []
    edges: list[tuple[str, str]] = []
    todo: list[tuple[Document, str | None]] = [(root, None) for root in reversed(roots)]
    while todo:
        node, parent = todo.pop()
        kind = node["kind"]
        if kind in ("attempt", "stream"):
            continue
        id = parent
        if kind not in _RECEIPTS or parent is None:
            id = f"{kind} {node['seq']} {node['index']} {len(nodes)}"
            nodes.append(_box(id, node, links))
            if parent is not None:
                edges.append((parent, id))
        todo.extend((child, id) for child in reversed(node["children"]))
    return graph_picture(nodes, edges)


def _box(id: str, node: Document, links: PageLinks) -> GraphNode:
    label, note = node["subject"] or node["kind"], f"{node['kind']} {node['seq']}"
    address = links.record(node["seq"])
    if node["kind"] in ("step", "fault") and node["cell"] is not None:
        label = key_text(node["cell"]["key"] or node["cell"]["workflow"])
        note = f"{note} of {node['cell']['workflow']}"
    if node["kind"] == "intent":
        address = links.intent(node["intent"])
    return GraphNode(
        id=id,
        label=label,
        note=note,
        kind=node["kind"],
        status=node["status"],
        address=address,
        is_target=node["is_target"],
    )


def manifest_graph(manifest: Document, links: PageLinks) -> GraphPicture | None:
    """Return the graph from events to workflows, effects and executors; None if it is too large."""
    nodes: dict[str, GraphNode] = {}
    edges: list[tuple[str, str]] = []

    def add(kind: str, name: str, note: str, address: str | None) -> str:
        id = f"{kind} {name}"
        if id not in nodes:
            nodes[id] = GraphNode(id=id, label=name, note=note, kind=kind, address=address)
        return id

    executors = {definition["name"]: definition["executor"] for definition in manifest["effects"]}
    for route in manifest["routes"]:
        event = add("event", route["event"], "event", links.definition(route["event"]))
        to = add("workflow", route["workflow"], "workflow", links.definition(route["workflow"]))
        edges.append((event, to))
    for workflow in manifest["workflows"]:
        name = workflow["name"]
        asks = add("workflow", name, "workflow", links.definition(name))
        for effect in workflow["effects_emitted"]:
            effect_id = add("effect", effect, "effect", links.definition(effect))
            edges.append((asks, effect_id))
            executor = executors.get(effect)
            if executor is not None:
                edges.append((effect_id, add("executor", executor, "executor", None)))
    return graph_picture(list(nodes.values()), edges)
