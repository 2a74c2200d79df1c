"""The graphs of a trace and of a manifest, from their documents, laid out in layers from left to
right, always in the same way (spec/page.md, PG-42).

layer    the longest path from a node without a cause
order    two sweeps: each node goes to the mean place of its neighbours in the layer before
edges    curves from the right side of a box to the left side of another
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aos.page.page_links import PageLinks
from aos.read.lens.words import key_text
from aos.read.views.record_view import Document

NODES_MAX: Final = 200
"""A larger graph is shown as a tree or table alone."""

BOX_WIDTH: Final = 196
BOX_HEIGHT: Final = 42
GAP_X: Final = 46
GAP_Y: Final = 12

_SWEEPS: Final = 2

_RECEIPTS = frozenset({"receipt", "kernel_receipt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A box. ``note`` is its second line, ``kind`` and ``status`` are classes, ``address`` its
    link."""

    id: str
    label: str
    note: str = ""
    kind: str = ""
    status: str = ""
    address: str | None = None
    is_target: bool = False


@dataclass(frozen=True, slots=True)
class GraphBox:
    """A node at its place: the upper left corner."""

    node: GraphNode
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class GraphPicture:
    """Boxes, and the curves of the edges as paths of SVG."""

    width: int
    height: int
    boxes: tuple[GraphBox, ...]
    curves: tuple[str, ...]


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
            nodes.append(_trace_node(id, node, links))
            if parent is not None:
                edges.append((parent, id))
        todo.extend((child, id) for child in reversed(node["children"]))
    return graph_picture(nodes, edges)


def _trace_node(id: str, node: Document, links: PageLinks) -> GraphNode:
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


def graph_picture(
    nodes: Sequence[GraphNode], edges: Sequence[tuple[str, str]]
) -> GraphPicture | None:
    """Lay a graph out; None if it has no node or more than NODES_MAX. An edge that would close a
    circle, or that names no node, is left out."""
    if not 0 < len(nodes) <= NODES_MAX:
        return None
    node_ids = {node.id for node in nodes}
    drawn_edges = [
        edge for edge in dict.fromkeys(edges) if set(edge) <= node_ids and edge[0] != edge[1]
    ]
    layers, forward = _layers([node.id for node in nodes], drawn_edges)
    columns = _ordered(layers, forward)
    by_id = {node.id: node for node in nodes}
    tallest = max(map(len, columns))
    height = tallest * (BOX_HEIGHT + GAP_Y) - GAP_Y
    boxes: dict[str, GraphBox] = {}
    for number, column in enumerate(columns):
        top = (height - (len(column) * (BOX_HEIGHT + GAP_Y) - GAP_Y)) // 2
        for index, id in enumerate(column):
            x = number * (BOX_WIDTH + GAP_X)
            boxes[id] = GraphBox(by_id[id], x, top + index * (BOX_HEIGHT + GAP_Y))
    return GraphPicture(
        width=len(columns) * (BOX_WIDTH + GAP_X) - GAP_X,
        height=height,
        boxes=tuple(boxes.values()),
        curves=tuple(_curve(boxes[a], boxes[b]) for a, b in forward),
    )


def _layers(
    ids: Sequence[str], edges: Sequence[tuple[str, str]]
) -> tuple[Mapping[str, int], list[tuple[str, str]]]:
    """Return the layer of each node, and the edges that go forward. Nodes of a circle begin with
    the first of them."""
    successors: dict[str, list[str]] = defaultdict(list)
    missing = dict.fromkeys(ids, 0)
    for a, b in edges:
        successors[a].append(b)
        missing[b] += 1
    layer: dict[str, int] = {}
    todo = deque(id for id in ids if not missing[id])
    unplaced = dict.fromkeys(ids)
    least = dict.fromkeys(ids, 0)
    while unplaced:
        if not todo:
            todo.append(next(iter(unplaced)))
        id = todo.popleft()
        if id not in unplaced:
            continue
        del unplaced[id]
        layer[id] = least[id]
        for successor in successors[id]:
            if successor in unplaced:
                least[successor] = max(least[successor], layer[id] + 1)
                missing[successor] -= 1
                if not missing[successor]:
                    todo.append(successor)
    return layer, [(a, b) for a, b in edges if layer[a] < layer[b]]


def _ordered(layers: Mapping[str, int], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    columns: list[list[str]] = [[] for _ in range(max(layers.values()) + 1)]
    for id, layer in layers.items():
        columns[layer].append(id)
    predecessors: dict[str, list[str]] = defaultdict(list)
    behind: dict[str, list[str]] = defaultdict(list)
    for a, b in edges:
        predecessors[b].append(a)
        behind[a].append(b)
    for _ in range(_SWEEPS):
        for column, neighbours in (
            *((ids, predecessors) for ids in columns[1:]),
            *((ids, behind) for ids in reversed(columns[:-1])),
        ):
            # The relative place in a column, because columns differ in length.
            position = {id: (i + 0.5) / len(ids) for ids in columns for i, id in enumerate(ids)}

            def mean(
                id: str,
                position: Mapping[str, float] = position,
                neighbours: Mapping[str, Sequence[str]] = neighbours,
            ) -> float:
                near = neighbours.get(id, ())
                return (
                    sum(position[neighbour] for neighbour in near) / len(near)
                    if near
                    else position[id]
                )

            column.sort(key=mean)
    return columns


def _curve(a: GraphBox, b: GraphBox) -> str:
    x0, y0 = a.x + BOX_WIDTH, a.y + BOX_HEIGHT // 2
    x1, y1 = b.x, b.y + BOX_HEIGHT // 2
    bend = max(GAP_X // 2, (x1 - x0) // 2)
    return f"M{x0} {y0}C{x0 + bend} {y0} {x1 - bend} {y1} {x1} {y1}"
