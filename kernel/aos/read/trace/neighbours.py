"""Continue a trace in the neighbours of a world, which deliveries connect (spec/audit.md, A-49).

one world                               a neighbour
intent sys/world.send@1 ─▶ receipt  ─▶  event, whose submission id names world and intent
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from aos.core.journal.identity import read_delivery_id
from aos.core.journal.records import Event, Receipt
from aos.errors import BadUsage, Pruned
from aos.manifest.names import WORLD_SEND
from aos.read.lens.record_finding import sent_under
from aos.read.trace.render import DRAWN_BYTES_MAX
from aos.read.trace.trace_nodes import Draft, NodeRoom, Nodes
from aos.read.trace.trace_tree import Case
from aos.read.trace.tree_growth import TraceTree
from aos.read.views.view import NeighbourView, View
from aos.values.cbor import decode_record, is_nat
from aos.values.digests import Hash, parse_hash
from aos.values.errors import ValueProblem

WORLDS_MAX: Final = 20
"""Through how many worlds, one after the other, the causes of a record are followed."""


class Neighbourhood:
    """The parts of one trace in the neighbours of ``view``, and what they caused in its world in
    turn. ``nodes`` are those of this world; all take of the same ``room``. Without neighbours that
    can be read, nothing is added."""

    def __init__(self, view: View, nodes: Nodes, room: NodeRoom) -> None:
        self._view = view
        self._room = room
        self._own = NeighbourView(None, view)
        self._nodes = {view.state.world: nodes}
        self._shown: set[tuple[Hash, int]] = set()
        """The events of other worlds that the trace has, by world and record."""

    def go_on(self, roots: Sequence[Draft]) -> None:
        """Add the consequences of each delivery in these trees, in its target and beyond."""
        self._shown |= {
            (self._view.state.world, draft.node.seq)
            for draft in roots
            if draft.node.kind == "event"
        }
        todo = [(self._view, draft) for draft in reversed(roots)]
        while todo:
            view, draft = todo.pop()
            children = [(view, child) for child in draft.children]
            if draft.node.kind == "receipt" and draft.node.subject == WORLD_SEND:
                children += self._delivered(view, draft)
            todo.extend(reversed(children))

    def _delivered(self, view: View, receipt: Draft) -> list[tuple[View, Draft]]:
        """Add the event that a delivery became, under the receipt."""
        record = view.records.at(receipt.node.seq)
        assert isinstance(record, Receipt), "the node of one"
        admitted = _admitted(record)
        target = None if admitted is None else self._world(admitted[0])
        if admitted is None or target is None or admitted in self._shown:
            return []
        event = _event_at(target.view, admitted[1])
        delivery = None if event is None else read_delivery_id(event.submission_id)
        if delivery is None or delivery[0] != view.state.world:
            return []
        self._shown.add(admitted)
        nodes = self._nodes_of(target)
        if not nodes.has_room(receipt):
            return []
        steps, receipt.children = receipt.children, []
        TraceTree(target.view, nodes).below(admitted[1], receipt)
        delivered = [(target.view, child) for child in receipt.children]
        receipt.children += steps  # the receipt came later than the event
        return delivered

    def go_back(self, root: Draft, earlier: int) -> tuple[Draft, int]:
        """Add the causes of the first event of a tree in the worlds that delivered it. Return the
        new root, and ``earlier`` of its world."""
        view = self._view
        for _ in range(WORLDS_MAX):
            if earlier or root.node.kind != "event":
                break
            event = _event_at(view, root.node.seq)
            delivery = None if event is None else read_delivery_id(event.submission_id)
            source = None if delivery is None else self._world(delivery[0])
            if delivery is None or source is None:
                break
            place = sent_under(source.view.journal, source.view.state, delivery[1])
            if place is None:
                break
            tree = TraceTree(source.view, self._nodes_of(source))
            upper, intent, earlier = tree.above(*place)
            intent.children.append(root)
            root, view = upper, source.view
        return root, earlier

    def cases(self) -> tuple[Case, ...]:
        """The unfinished cells in the other worlds. The advice of their reasons is left out: it
        names commands for the world of the trace."""
        return tuple(
            replace(case, reasons=tuple(replace(reason, next=None) for reason in case.reasons))
            for world, nodes in self._nodes.items()
            if world != self._view.state.world
            for case in nodes.cases()
        )

    def _world(self, world: Hash) -> NeighbourView | None:
        if world == self._view.state.world:
            return self._own
        neighbours = self._view.neighbours
        neighbour = None if neighbours is None else neighbours.find(world)
        if neighbour is not None and self._view.lens.is_spelled:
            neighbour.view.spell(bytes_max=DRAWN_BYTES_MAX)
        return neighbour

    def _nodes_of(self, neighbour: NeighbourView) -> Nodes:
        world = neighbour.view.state.world
        if world not in self._nodes:
            self._nodes[world] = Nodes(neighbour.view, self._room, world=neighbour.name)
        return self._nodes[world]


def _admitted(receipt: Receipt) -> tuple[Hash, int] | None:
    """The world and the record of the event that a delivery became; None if it became none."""
    if receipt.status != "ok" or not isinstance(receipt.payload, bytes):
        return None
    try:
        match decode_record(receipt.payload):
            case {"world": str(world), "seq": seq} if is_nat(seq):
                return parse_hash(world), seq
    except ValueProblem:
        pass
    return None


def _event_at(view: View, seq: int) -> Event | None:
    """The event that is this record; None if it is another one, or pruned."""
    try:
        record = view.records.at(seq)
    except (BadUsage, Pruned):
        return None
    return record if isinstance(record, Event) else None
