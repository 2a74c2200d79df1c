"""The one table of the pages of a world (spec/page.md, PG-6): its path, its document, its command.

    /w/ID/cells?status=failed ──▶ read_cells {"status": "failed"} ──▶ cells.html
                                  aos inspect cells --status failed

Flows and linear instances are parts of the page that only some worlds have (PG-88):

    manifest with a flow     ──▶ Flows in the navigation, /flows, /flow/NS/NAME/KEY
    manifest without one     ──▶ neither; /flows is 404, with a sentence
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from aos.core.state.state import State
from aos.errors import AosError, BadUsage
from aos.manifest.names import LINEAR, LINEAR_PACKAGE
from aos.node.problems import Problem
from aos.node.routes import GET, ROUTES, ApiRoute
from aos.page.page_links import read_id_segment, read_key_segment
from aos.page.page_world import PageWorld, if_readable
from aos.read.lens.lookup import find_cell
from aos.read.lens.words import as_json, key_text
from aos.read.operations.operation import SEQ, Parameter
from aos.read.operations.table import BY_NAME
from aos.read.views.flow_reading import flow_names
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos.shell_text import has_hidden

Path: TypeAlias = Mapping[str, str]

TargetQuery: TypeAlias = Mapping[str, Any]
"""The parameters of a document that the path of a page gives."""

_API: Final = {route.operation: route for route in ROUTES if route.method == GET}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page.

    ``template`` is also its name. ``target`` reads the path; ``part`` is the part of a world that
    the page belongs to, if only some worlds have it; ``fixed`` are further parameters of the
    document that a query cannot give, ``needs`` those that it must, ``page_parameters`` those that
    only choose a part of the document. With ``is_lines`` the document is a list of records, which
    the command prints as lines. ``command`` are the words of a document that is no read request.
    """

    template: str
    title: str
    path: str
    operation: str
    command: tuple[str, ...] = ()
    target: Callable[[View, Path], TargetQuery] = lambda _view, _path: {}
    fixed: frozenset[str] = frozenset()
    needs: tuple[str, ...] = ()
    page_parameters: tuple[Parameter, ...] = ()
    is_lines: bool = False
    part: WorldPart | None = None

    @property
    def route(self) -> ApiRoute:
        """The API's route of the document, with the parameters that a query may give."""
        route = _API[self.operation]
        parameters = [
            parameter
            for parameter in route.query
            if parameter.name not in self.fixed
            and not (parameter.is_argument or parameter.is_for_people)
        ]
        return replace(
            route,
            query=(
                *(
                    replace(parameter, required=parameter.name in self.needs)
                    for parameter in parameters
                ),
                *self.page_parameters,
            ),
        )

    def target_of(self, view: View, query: Mapping[str, Any], path: Path) -> TargetQuery:
        """Return what the path of the page names.

        Raises:
            BadUsage: It names nothing.
            Problem: The world does not have this part now. A page of the past shows what was there.
        """
        if self.part is not None and "at" not in query:
            check_part(self.part, view.state)
        return self.target(view, path)

    def of_document(self, query: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of a query that selects the document."""
        page_names = {parameter.name for parameter in self.page_parameters}
        return {name: value for name, value in query.items() if name not in page_names}

    def words(self, query: Mapping[str, Any], world_option: Sequence[str]) -> list[str]:
        """Return the words of the command that prints the same document. ``world_option`` are the
        option and the word that name the world."""
        request = BY_NAME.get(self.operation)
        arguments, options = ([], []) if request is None else request.command_line(query)
        begin = ["aos", *(self.command if request is None else request.command.split())]
        if any(word.startswith("-") for word in arguments):
            return [*begin, *options, *world_option, "--", *arguments]
        return [*begin, *arguments, *options, *world_option]


def _cell(view: View, path: Path) -> TargetQuery:
    workflow, word = cell_words(view, path)
    return {"workflow": workflow} if word is None else {"workflow": workflow, "key": word}


def cell_words(view: View, path: Path) -> tuple[str, str | None]:
    """Return the workflow of a path, and its key as the words of a command have it.

    Raises:
        BadUsage: The world has no such workflow, or the key does not have its form.
    """
    workflow = f"{path['ns']}/{path['name']}"
    data = read_key_segment(path["key"])
    manifest = view.state.manifest
    definition = None if manifest is None else manifest.workflows.get(workflow)
    if definition is None:
        word = data.hex() or None
        find_cell(view.state, workflow, word)
        return workflow, word
    if definition.key is None:
        if data:
            raise BadUsage(f"{workflow} is not keyed: expected - as the key in the address")
        return workflow, None
    key = as_json(definition.key, data)
    # As JSON, a key that no one can type is a word of printable characters.
    for word in (key_text(key), json.dumps(key)):
        if has_hidden(word):
            continue
        try:
            if find_cell(view.state, workflow, word) == (workflow, data):
                return workflow, word
        except BadUsage:
            continue
    raise BadUsage(
        f"the key in the address: expected the canonical CBOR of a key of {workflow}, found "
        f"{data[:40].hex()}"
    )


def one_word(name: str) -> Callable[[View, Path], TargetQuery]:
    """Return what reads the word of a path as this parameter."""

    def read(_view: View, path: Path) -> TargetQuery:
        return {name: path["word"]}

    return read


def _number(name: str) -> Callable[[View, Path], TargetQuery]:
    def read(_view: View, path: Path) -> TargetQuery:
        word = path["word"]
        if not (word.isascii() and word.isdigit() and len(word) < 19) or int(word) < 1:
            raise BadUsage(f"{name} in the address: expected 1 or more, found {word[:40]!r}")
        return {name: int(word)}

    return read


def _definition(_view: View, path: Path) -> TargetQuery:
    name = f"{path['ns']}/{path['name']}"
    return {"name": name}


def _flow(view: View, path: Path) -> TargetQuery:
    flow, word = cell_words(view, path)
    return {"flow": flow, "key": word or ""}


def _linear(_view: View, path: Path) -> TargetQuery:
    instance = read_id_segment(path["key"], "instance")
    return {"instance": instance}


def _trace(view: View, path: Path) -> TargetQuery:
    word = path["word"]
    if (
        word.isascii()
        and word.isdigit()
        and len(word) < 19
        and 1 <= int(word) < view.state.next_seq
    ):
        return {"seq": int(word)}
    return {"intent": word}


CELL_PATH: Final = "{ns}/{name}/{key}"
_STEP: Final = Parameter(name="step", schema=SEQ, help="Which step (default: the last).")

PAGES: Final = (
    Page(
        template="world", title="Overview", path="/", operation="read_world",
    ),
    Page(
        template="cells", title="Cells", path="/cells", operation="read_cells",
    ),
    Page(
        template="cell", title="Cell", path=f"/cell/{CELL_PATH}", operation="read_cell",
        target=_cell,
    ),
    Page(
        template="trace", title="Trace", path="/trace/{word}", operation="read_trace",
        target=_trace,
    ),
    Page(
        template="trace", title="Trace", path=f"/trace/{CELL_PATH}", operation="read_trace",
        target=_cell,
    ),
    Page(
        template="steps", title="Steps", path=f"/steps/{CELL_PATH}", operation="read_trace",
        target=_cell, fixed=frozenset({"follow_events"}), page_parameters=(_STEP,),
    ),
    Page(
        template="flows", title="Flows", path="/flows", operation="read_flows", part=FLOWS,
    ),
    Page(
        template="flow", title="Flow", path=f"/flow/{CELL_PATH}", operation="read_flow",
        target=_flow, part=FLOWS,
    ),
    Page(
        template="linear_list", title="Linear", path="/linear",
        operation="read_linear_instances", part=LINEAR_PLANS,
    ),
    Page(
        template="linear", title="Linear instance", path="/linear/{key}",
        operation="read_linear_instance", target=_linear, part=LINEAR_PLANS,
    ),
    Page(
        template="intents", title="Effects", path="/intents", operation="read_intents",
    ),
    Page(
        template="intent", title="Effect", path="/intent/{word}", operation="read_intent",
        target=one_word("intent"),
    ),
    Page(
        template="journal", title="Journal", path="/journal", operation="read_records",
        is_lines=True,
    ),
    Page(
        template="record", title="Record", path="/record/{word}", operation="read_record",
        target=_number("seq"),
    ),
    Page(
        template="faults", title="Faults", path="/faults", operation="read_faults",
    ),
    Page(
        template="manifest", title="Manifest", path="/manifest", operation="read_manifest",
        fixed=frozenset({"since"}),
    ),
    Page(
        template="difference", title="Manifest", path="/manifest/diff",
        operation="read_manifest", needs=("since",),
    ),
    Page(
        template="definition", title="Definition", path="/manifest/{ns}/{name}",
        operation="read_manifest", target=_definition, fixed=frozenset({"since"}),
    ),
    Page(
        template="proposals", title="Proposals", path="/proposals", operation="read_proposals",
    ),
    Page(
        template="proposal", title="Proposal", path="/proposals/{word}",
        operation="read_proposal", target=_number("proposal"), fixed=frozenset({"report"}),
    ),
    Page(
        template="shadow_report", title="Shadow report", path="/proposals/{word}/report",
        operation="read_proposal", target=_number("proposal"), needs=("report",),
    ),
    Page(
        template="value", title="Value", path="/value/{word}", operation="read_value",
        target=one_word("value"),
    ),
)  # fmt: skip
"""Every page below ``/w/ID`` that is the view of a command's document."""

NOT_LIVE: Final = frozenset(
    {"definition", "difference", "manifest", "record", "shadow_report", "steps", "value"}
)
"""Templates of pages that stay the same when the world changes (PG-124)."""

NAVIGATION: Final = (
    ("Overview", "/"),
    ("Cells", "/cells"),
    ("Effects", "/intents"),
    ("Journal", "/journal"),
    ("Faults", "/faults"),
    ("Manifest", "/manifest"),
    ("Proposals", "/proposals"),
)
