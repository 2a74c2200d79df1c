"""The parts of the page that only some worlds have: flows and linear instances
(spec/page.md, PG-88).

manifest with a flow     ──▶ Flows in the navigation, /flows, /flow/NS/NAME/KEY
manifest without one     ──▶ neither; /flows is 404, with a sentence
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.core.state.state import State
from aos.errors import AosError
from aos.manifest.names import LINEAR, LINEAR_PACKAGE
from aos.node.problems import Problem
from aos.page.page_links import read_id_segment
from aos.page.page_world import PageWorld, if_readable
from aos.read.views.flow_reading import flow_names
from aos.read.views.record_view import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldPart:
    """Pages that a world has if ``is_in`` its state of now; else they are 404 with ``without`` as
    the sentence. ``title`` and ``path`` are those of the list in the navigation."""

    title: str
    path: str
    is_in: Callable[[State], bool]
    without: str


def has_workflow(state: State, name: str) -> bool:
    """Return whether the manifest in force has a workflow."""
    return state.manifest is not None and name in state.manifest.workflows


FLOWS: Final = WorldPart(
    title="Flows", path="/flows", is_in=lambda state: bool(flow_names(state)),
    without="this world has no flow: no workflow of its manifest has a state of aos/Flow@1 (its "
    "other instances: aos inspect cells)",
)  # fmt: skip
LINEAR_PLANS: Final = WorldPart(
    title="Linear", path="/linear", is_in=lambda state: has_workflow(state, LINEAR),
    without="this world has no linear instances: its manifest does not have "
    f'"uses": ["{LINEAR_PACKAGE}"]',
)  # fmt: skip
_PARTS: Final = (FLOWS, LINEAR_PLANS)


def check_part(part: WorldPart, state: State) -> None:
    """Check that a world has a part now. Raises: Problem: It does not (404)."""
    if not part.is_in(state):
        raise Problem(404, "path_is_unknown", part.without)


def part_navigation(state: State | None) -> list[tuple[str, str]]:
    """Return the title and the path of the list of each part that a world has now; none of them if
    its state is not known."""
    return [(part.title, part.path) for part in _PARTS if state is not None and part.is_in(state)]


def known_navigation(world: PageWorld) -> list[tuple[str, str]]:
    """Return the same as far as the world was read: a refusal reads nothing new."""
    try:
        return part_navigation(world.known_state)
    except AosError:
        return []


async def cell_parts(
    world: PageWorld, query: Mapping[str, Any], path: Mapping[str, str]
) -> dict[str, Document | None]:
    """Return the documents ``flow`` and ``linear`` for the page of a cell, each None if it is none
    or cannot be read. ``query`` is that of the cell's document, ``path`` that of its address."""
    workflow, at = query["workflow"], {name: query[name] for name in ("at",) if name in query}
    flow = linear = None
    if workflow == LINEAR:
        part_query = {"instance": read_id_segment(path["key"], "instance"), **at}
        linear = await if_readable(world.document("read_linear_instance", part_query))
    elif await world.read(lambda view: workflow in flow_names(view.state)):
        part_query = {"flow": workflow, "key": query.get("key", ""), **at}
        flow = await if_readable(world.document("read_flow", part_query))
    return {"flow": flow, "linear": linear}
