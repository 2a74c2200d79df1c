"""Find the causes and consequences of an event, a cell or an intent (spec/audit.md, A-40 to A-49).

event ─▶ step ─▶ emitted event ─▶ step …
             └─▶ intent ─▶ attempts, stream frames, receipt ─▶ step …
                                                └─▶ event in a neighbour ─▶ step …
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aos.core.journal.records import CellId
from aos.read.lens.lookup import CellTarget, IntentTarget, RecordTarget, find_target
from aos.read.trace.neighbours import Neighbourhood
from aos.read.trace.timeline import timeline
from aos.read.trace.trace_nodes import NodeRoom, Nodes, frozen
from aos.read.trace.trace_tree import Trace
from aos.read.trace.tree_growth import TraceTree
from aos.read.views.view import View
from aos.values.digests import hash_text

NODES_MAX: Final = 1_000
"""Most nodes of a trace; further consequences are left out."""

INPUTS_MAX: Final = 100
"""How many inputs of one cell a trace shows, counted from the latest."""


def trace(
    view: View,
    words: Sequence[str],
    *,
    nodes_max: int = NODES_MAX,
    follow_events: bool = False,
) -> Trace:
    """Trace ``SEQ``, ``INTENT`` or ``WORKFLOW [KEY]``. With ``follow_events`` a cell's trace also
    shows what its events caused in other cells (A-45a); a trace of a record always does.

    Raises:
        BadUsage: The words name nothing in this world.
        Damage: The journal cannot be read.
    """
    target = find_target(view.state, view.journal, words)
    room = NodeRoom(nodes_max)
    nodes = Nodes(view, room)
    match target:
        case CellTarget(cell):
            return _of_cell(view, nodes, room, cell, follow_events=follow_events)
        case IntentTarget(intent, seq, index):
            name = f"intent {hash_text(intent)}"
            root, earlier = TraceTree(view, nodes).of_record(seq, index)
        case RecordTarget(seq):
            name = f"record {seq}"
            root, earlier = TraceTree(view, nodes).of_record(seq, None)
    neighbourhood = Neighbourhood(view, nodes, room)
    neighbourhood.go_on([root])
    root, earlier = neighbourhood.go_back(root, earlier)
    return Trace(
        target=name,
        roots=(frozen(root),),
        earlier=earlier,
        cases=(*nodes.cases(), *neighbourhood.cases()),
    )


def _of_cell(
    view: View, nodes: Nodes, room: NodeRoom, cell: CellId, *, follow_events: bool
) -> Trace:
    cell_timeline = timeline(view, nodes, cell, inputs_max=INPUTS_MAX)
    neighbourhood = Neighbourhood(view, nodes, room)
    if follow_events:
        TraceTree(view, nodes, shown_cell=cell).follow(cell_timeline.emitted)
        neighbourhood.go_on(cell_timeline.roots)
    return Trace(
        target=cell_timeline.name,
        roots=tuple(map(frozen, cell_timeline.roots)),
        earlier=cell_timeline.earlier,
        cases=(
            *nodes.cases(always=(cell,), ended=cell_timeline.ended),
            *neighbourhood.cases(),
        ),
    )
