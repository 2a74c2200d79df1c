"""Write the definitions of the sources to ``air/generated.air.json`` (AU-50 to AU-54).

They come from the ``aos.air`` sections of the modules. If no manifest is written by hand, one is
generated from all definitions and the routes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aos.author.errors import BuildFailed
from aos.author.project import GENERATED_AIR, Project
from aos.manifest.expressions import COMMENT, references, without_comments
from aos.manifest.forms import ABI_DEFAULT
from aos.manifest.names import is_system
from aos.manifest.sealed_places import SEALED, SEALED_PACKAGE
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json

Node = Mapping[str, Any]

SUBSCRIPTION: Final = "subscription"
MANIFEST: Final = "manifest"
SECTIONS: Final[Mapping[str, str]] = {
    "defschema": "schemas",
    "defmodule": "modules",
    "defworkflow": "workflows",
    "defeffect": "effects",
    "defsecret": "secrets",
}
KINDS: Final = (*SECTIONS, SUBSCRIPTION)
WRITTEN_BY: Final = "Written by aos build. Change the sources, air/ or aos.toml instead."

WIDTH: Final = 96
SECTION_BYTES_MAX: Final = 4 * 1024 * 1024
SECTION_ITEMS_MAX: Final = 1 << 18


@dataclass(slots=True, kw_only=True)
class Definitions:
    """Nodes of the sources by kind and name, the origin of each, and the routes."""

    nodes: dict[tuple[str, str], Node] = field(default_factory=dict)
    origins: dict[tuple[str, str], str] = field(default_factory=dict)
    routes: list[Node] = field(default_factory=list)

    def take(self, node: Node, origin: str) -> None:
        """Add a node. Raises BuildFailed if a different node has that kind and name."""
        kind, name = str(node.get("$kind")), node.get("name")
        if kind == SUBSCRIPTION:
            route = {key: value for key, value in node.items() if key != "$kind"}
            if route not in self.routes:
                self.routes.append(route)
            return
        if kind not in SECTIONS or not isinstance(name, str):
            raise BuildFailed(
                f"{origin}: a node of the sources",
                expected=f"$kind one of {', '.join(KINDS)}, and a name",
                actual=repr(node)[:80],
                hint="is sdk/ of the same release as this aos?",
            )
        first = self.nodes.setdefault((kind, name), node)
        self.origins.setdefault((kind, name), origin)
        if first is not node and not equal(first, node):
            first_origin = self.origins[kind, name]
            raise BuildFailed(
                f"{name} has two different definitions in {origin}"
                if first_origin == origin
                else f"{name} is defined differently in {origin} and in {first_origin}",
                hint="definitions of one name must be equal; give one a new name or version",
            )


def read_section(data: bytes, module: str) -> Iterator[Node]:
    """The nodes of one ``aos.air`` section, which has one JSON object per line.

    Raises:
        BuildFailed: The section is invalid.
    """
    location = f"module {module}, section aos.air"
    if len(data) > SECTION_BYTES_MAX:
        raise BuildFailed(f"{location}: expected at most {SECTION_BYTES_MAX:,} bytes")
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise BuildFailed(f"{location}: expected UTF-8, found byte {error.start}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            node = parse_json(line, max_bytes=SECTION_BYTES_MAX, max_items=SECTION_ITEMS_MAX)
        except ValueProblem as problem:
            raise BuildFailed(f"{location}, line {number}: {problem}") from problem
        if not isinstance(node, dict):
            raise BuildFailed(f"{location}, line {number}: expected an object")
        yield node


def written_nodes(files: Mapping[str, bytes]) -> list[tuple[str, Node]]:
    """The nodes of the handwritten AIR files, each with its file. Unreadable files are skipped:
    loading the manifest reports them."""
    file_nodes: list[tuple[str, Node]] = []
    for file, data in sorted(files.items()):
        if not file.endswith(".json") or file == GENERATED_AIR:
            continue
        try:
            value = parse_json(data.decode(), max_bytes=len(data) + 1, max_items=1 << 20)
        except (UnicodeDecodeError, ValueProblem):
            continue
        nodes = value if isinstance(value, list) else [value]
        file_nodes += [(file, node) for node in nodes if isinstance(node, dict)]
    return file_nodes


def generated(
    project: Project, definitions: Definitions, written: Sequence[tuple[str, Node]]
) -> bytes | None:
    """The bytes of ``air/generated.air.json``; None if it would be empty.

    Raises:
        BuildFailed: A handwritten definition differs from that of the sources, or the handwritten
            manifest lacks definitions of the sources.
    """
    for file, node in written:
        _check_collision(definitions, node, file)
    nodes = [definitions.nodes[subject] for subject in sorted(definitions.nodes, key=_sort_key)]
    if project.abi is not None:
        # The project's ABI is that of modules that were built elsewhere.
        nodes = [
            {**node, "abi": ABI_DEFAULT} if _kind(node) == "defmodule" else node for node in nodes
        ]
    manifest = next(((file, node) for file, node in written if _kind(node) == MANIFEST), None)
    if manifest is None:
        nodes = [*nodes, _manifest(project, definitions, [node for _, node in written])]
    else:
        _check_manifest(project, definitions, *manifest)
    return air_json(nodes) if nodes else None


def equal(node: Node, other_node: Node) -> bool:
    """Whether two nodes are equal, apart from comments."""
    return _bare(node) == _bare(other_node)


def _bare(node: Node) -> dict[str, Any]:
    return {
        key: without_comments(value) if key == "type" else value
        for key, value in node.items()
        if key != COMMENT
    }


def _kind(node: Node) -> str:
    return str(node.get("$kind"))


def _sort_key(subject: tuple[str, str]) -> tuple[int, str]:
    kind, name = subject
    return list(SECTIONS).index(kind), name


def _check_collision(definitions: Definitions, node: Node, file: str) -> None:
    subject = (_kind(node), str(node.get("name")))
    source_node = definitions.nodes.get(subject)
    if source_node is None or equal(source_node, node):
        return
    raise BuildFailed(
        f"the definition of {subject[1]} in {file} differs from that of the sources "
        f"({definitions.origins[subject]})",
        hint=f"remove it from {file}; aos build writes it to {GENERATED_AIR}",
    )


def _manifest(project: Project, definitions: Definitions, written: Iterable[Node]) -> Node:
    """A manifest of all definitions, with the fields that ``aos.toml`` adds."""
    subjects = {(_kind(node), str(node.get("name"))) for node in written} | set(definitions.nodes)
    emitted = {
        effect
        for node in (*definitions.nodes.values(), *written)
        if _kind(node) == "defworkflow"
        for effect in node.get("effects_emitted", ())
        if isinstance(effect, str) and is_system(effect)
    }
    subjects |= {("defeffect", effect) for effect in emitted}
    manifest: dict[str, Any] = {"$kind": MANIFEST, "$comment": WRITTEN_BY, "air_version": "2"}
    for kind, section in SECTIONS.items():
        names = sorted(name for subject_kind, name in subjects if subject_kind == kind)
        if names or kind != "defsecret":
            manifest[section] = [{"name": name} for name in names]
    extra = dict(project.manifest)
    uses = extra.get("uses", [])
    if _has_sealed(definitions, written) and isinstance(uses, list) and SEALED_PACKAGE not in uses:
        extra["uses"] = [*uses, SEALED_PACKAGE]
    manifest["routing"] = _routing(definitions, extra.pop("routing", {}))
    return manifest | extra


def _routing(definitions: Definitions, extra: Any) -> Node:
    """The subscriptions of the sources, with the routing of ``aos.toml`` (or its list of
    subscriptions alone)."""
    extra_routes = extra.get("subscriptions", []) if isinstance(extra, dict) else extra
    by_workflow = sorted(definitions.routes, key=lambda route: str(route.get("workflow")))
    routing = {"subscriptions": [*by_workflow, *extra_routes]}
    if isinstance(extra, dict):
        routing |= {key: extra[key] for key in extra if key != "subscriptions"}
    return routing


def _has_sealed(definitions: Definitions, written: Iterable[Node]) -> bool:
    """Whether a schema has a sealed place that no node of the sources defines."""
    nodes = [*definitions.nodes.values(), *written]
    if any(node.get("name") == SEALED for node in nodes):
        return False
    return any(
        ref == SEALED
        for node in nodes
        if _kind(node) == "defschema" and isinstance(node.get("type"), dict)
        for _, ref in references(node["type"])
    )


def _check_manifest(project: Project, definitions: Definitions, file: str, manifest: Node) -> None:
    """Raise BuildFailed unless a handwritten manifest names all definitions of the sources."""
    if project.manifest:
        raise BuildFailed(
            f"there is a manifest in {file} and a table [manifest] in {project.file.name}",
            expected="one of the two",
            hint="move the table's fields into that node",
        )
    lacks = []
    for kind, name in sorted(definitions.nodes, key=_sort_key):
        entries = manifest.get(SECTIONS[kind], [])
        if kind != "defschema" and {"name": name} not in [_name_entry(entry) for entry in entries]:
            lacks.append(f"{SECTIONS[kind]}: {json.dumps({'name': name})}")
    routing = manifest.get("routing", {})
    routes = routing.get("subscriptions", []) if isinstance(routing, dict) else []
    lacks += [
        f"routing.subscriptions: {json.dumps(route)}"
        for route in definitions.routes
        if route not in routes
    ]
    if lacks:
        raise BuildFailed(
            f"{file}: the manifest lacks definitions of the sources: " + "; ".join(lacks),
            hint="add them, or remove the manifest node and aos build writes one",
        )


def _name_entry(entry: object) -> dict[str, object]:
    return {"name": entry.get("name")} if isinstance(entry, dict) else {}


def air_json(nodes: Sequence[Node]) -> bytes:
    """The bytes of an AIR file, folded for readers."""
    return ("\n".join(_folded(nodes, 0)) + "\n").encode()


def _folded(value: Any, columns_before: int) -> list[str]:
    """Lines of JSON; a value that fits on one line gets one. ``columns_before``: columns before the
    first line."""
    json_text = json.dumps(value, ensure_ascii=False)
    if (
        columns_before + len(json_text) <= WIDTH
        or not isinstance(value, dict | list | tuple)
        or not value
    ):
        return [json_text]
    is_object = isinstance(value, dict)
    pairs = list(value.items()) if isinstance(value, dict) else [("", element) for element in value]
    folded_lines = ["{" if is_object else "["]
    for number, (name, element) in enumerate(pairs, 1):
        head = f"{json.dumps(name, ensure_ascii=False)}: " if is_object else ""
        lines = _folded(element, len(head) + len("  ,"))
        lines[-1] += "," if number < len(pairs) else ""
        folded_lines += [f"  {head}{lines[0]}", *(f"  {line}" for line in lines[1:])]
    return [*folded_lines, "}" if is_object else "]"]
