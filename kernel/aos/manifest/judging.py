"""Make the document of a manifest, or judge one that was made elsewhere (M-40 to M-46).

A manifest is judged once, where it enters: when it is applied or proposed, imported or verified, or
read from a file. After that, ``Effective.from_document`` reads it from the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

from aos.manifest import meaning
from aos.manifest.builtin_definitions import EFFECTS, SCHEMAS
from aos.manifest.effective import (
    DOCUMENTS_KEPT,
    SEMANTICS,
    Effective,
    definition_hash,
    node_value,
    shard_in_form,
    typed_view,
    unreadable,
)
from aos.manifest.expressions import Expression, closure
from aos.manifest.forms import Misshapen, Node, canonical
from aos.manifest.limits import (
    FRESH_WORLD_LIMITS,
    STEP_RANGES,
    WORLD_RANGES,
    Range,
    StepLimits,
    WorldLimits,
)
from aos.manifest.names import is_built_in, is_system
from aos.manifest.placement import Shard
from aos.values.cbor import decode_record, encode
from aos.values.digests import hash_text, parse_hash
from aos.values.errors import ValueProblem
from aos.values.show import describe

Definitions: TypeAlias = Mapping[tuple[str, str], Node]
"""(kind, name) -> canonical node. Built-in definitions may be missing."""


def judge(document: bytes) -> Effective:
    """Read a document of anyone. Nothing in it is trusted except the limits that it fills in,
    within their ranges.

    Raises:
        Damage: The bytes are not canonical or not complete, break a rule of spec/manifest.md, or
            contain a wrong hash.
    """
    try:
        return _judged(document)
    except (ValueProblem, ValueError) as error:
        raise unreadable(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _AllLimits:
    """The limits of the world and of each workflow."""

    world: WorldLimits
    workflows: Mapping[str, StepLimits]

    def to_document(self) -> Node:
        return {
            "world": self.world.to_document(),
            "workflows": {name: step.to_document() for name, step in self.workflows.items()},
        }


def make(manifest: Node, definitions: Definitions, shard: Shard | None = None) -> Effective:
    """Build the effective manifest from canonical nodes without findings of ``meaning.check``, for
    a shard of a group or for a world in no group.

    Module nodes must have the hash of their bytes. Definitions that the manifest does not reach are
    left out.
    """
    limits = _AllLimits(
        world=replace(FRESH_WORLD_LIMITS, **manifest.get("limits", {}).get("world", {})),
        workflows={
            name: StepLimits(**_requested_limits(manifest, definitions["defworkflow", name]))
            for name in _names(manifest, "workflows")
        },
    )
    return typed_view(_Maker(manifest, definitions, limits, shard).document())


def make_like(manifest: Node, definitions: Definitions, like: Effective) -> Effective:
    """As ``make``, but every limit that the nodes leave open is that of ``like``, and so is the
    shard. Later releases, with other defaults, make the same document.

    Raises:
        Misshapen: The two do not have the same workflows, or the nodes ask for another limit.
    """
    document: Any = decode_record(like.document)
    limits = _read_limits(document["limits"], manifest, definitions)
    return typed_view(_Maker(manifest, definitions, limits, like.shard).document())


def taking_part(manifest: Node, definitions: Definitions) -> frozenset[tuple[str, str]]:
    """The kind and name of every definition in the document of a manifest, built-in ones
    included."""
    limits = _AllLimits(world=WorldLimits(), workflows={})
    return _Maker(manifest, definitions, limits).taking_part()


@lru_cache(DOCUMENTS_KEPT)
def _judged(document: bytes) -> Effective:
    value = _object(decode_record(document), "the document")
    _expect_text_keys(value)
    if set(value) - {"shard"} != {"semantics", "manifest", "definitions", "limits"}:
        raise Misshapen(
            f"expected the four parts of the document, and shard in a group, found {sorted(value)}"
        )
    if value["semantics"] != SEMANTICS:
        actual = describe(value["semantics"])
        raise Misshapen(f"semantics: expected nat {SEMANTICS}, found {actual}")
    manifest = canonical(_object(value["manifest"], "manifest"))
    nodes = [canonical(_object(node, "definition")) for node in _list(value["definitions"])]
    if manifest["$kind"] != "manifest" or any(node["$kind"] == "manifest" for node in nodes):
        raise Misshapen("expected one manifest and definitions")
    for node in nodes:
        if node["$kind"] == "defmodule":
            parse_hash(node["runtime"]["artifact"].get("hash", ""))
    definitions = {(node["$kind"], node["name"]): node for node in nodes}
    own_definitions = {key: node for key, node in definitions.items() if not is_built_in(*key)}
    problem = next(iter(meaning.check(manifest, own_definitions)), None)
    if problem is not None:
        raise Misshapen(f"{problem.subject[1]}#{problem.pointer}: {problem.message}")
    limits = _read_limits(value["limits"], manifest, own_definitions)
    shard = shard_in_form(value.get("shard"))
    if _Maker(manifest, own_definitions, limits, shard).document() != document:
        raise Misshapen("a hash, the closure, the order or the spelling of a node is invalid")
    effective = typed_view(document)
    if shard is not None:
        # Few worlds are in a group, and small commands start faster without these rules.
        from aos.manifest.group_rules import group_findings  # noqa: PLC0415

        problem = next(iter(group_findings(effective)), None)
        if problem is not None:
            raise Misshapen(f"{problem.subject[1]}#{problem.pointer}: {problem.message}")
    return effective


def _read_limits(value: Any, manifest: Node, definitions: Definitions) -> _AllLimits:
    document = _object(value, "limits")
    steps = _object(document.get("workflows"), "limits.workflows")
    if set(steps) != set(_names(manifest, "workflows")):
        raise Misshapen("limits.workflows: expected one entry for each workflow")
    limits = _AllLimits(
        world=WorldLimits.from_document(_object(document.get("world"), "limits.world")),
        workflows={
            str(name): StepLimits.from_document(_object(step, f"limits.workflows.{name}"))
            for name, step in steps.items()
        },
    )
    _fits(limits.world, manifest.get("limits", {}).get("world", {}), WORLD_RANGES)
    for name, step in limits.workflows.items():
        _fits(step, _requested_limits(manifest, definitions["defworkflow", name]), STEP_RANGES)
    return limits


def _fits(
    limits: StepLimits | WorldLimits, requested: Mapping[str, int], ranges: Mapping[str, Range]
) -> None:
    for name, number in limits.to_document().items():
        if type(number) is not int or number not in ranges[name]:
            raise Misshapen(f"limits: {name} may not be {number!r}")
        if requested.get(name, number) != number:
            raise Misshapen(
                f"limits: {name} is {number}, and the definitions ask for {requested[name]}"
            )


def _requested_limits(manifest: Node, workflow: Node) -> dict[str, int]:
    """The step limits that a workflow or its manifest sets explicitly."""
    return {**manifest.get("limits", {}).get("step", {}), **workflow.get("limits", {})}


class _Maker:
    """Used once: collects the reachable definitions and writes the document."""

    def __init__(
        self,
        manifest: Node,
        definitions: Definitions,
        limits: _AllLimits,
        shard: Shard | None = None,
    ) -> None:
        self.manifest = manifest
        self.limits = limits
        self.shard = shard
        self.nodes: dict[tuple[str, str], Node] = {
            **{("defschema", name): dict(node) for name, node in SCHEMAS.items()},
            **{("defeffect", name): dict(node) for name, node in EFFECTS.items()},
            **definitions,
        }
        self.types: dict[str, Expression] = {
            name: node["type"] for (kind, name), node in self.nodes.items() if kind == "defschema"
        }
        self.workflow_nodes = self._nodes_of("defworkflow", _names(manifest, "workflows"))
        self.module_nodes = self._nodes_of("defmodule", _names(manifest, "modules"))
        self.effect_nodes = self._nodes_of("defeffect", self._effects())
        self.secret_nodes = self._nodes_of("defsecret", _names(manifest, "secrets"))
        self.schema_nodes = self._nodes_of("defschema", closure(self._roots(), self.types))

    def document(self) -> bytes:
        """The canonical bytes of the manifest with everything that it reaches."""
        definitions = sorted(
            self._taking_part(), key=lambda node: (str(node["$kind"]), str(node["name"]))
        )
        parts: Node = {
            "semantics": SEMANTICS,
            "manifest": self._filled_in(),
            "definitions": definitions,
            "limits": self.limits.to_document(),
        }
        if self.shard is not None:
            parts["shard"] = [self.shard.index, self.shard.count]
        return encode(node_value(parts))

    def taking_part(self) -> frozenset[tuple[str, str]]:
        return frozenset((node["$kind"], node["name"]) for node in self._taking_part())

    def _nodes_of(self, kind: str, names: Iterable[str]) -> dict[str, Node]:
        return {name: self.nodes[kind, name] for name in sorted(names)}

    def _effects(self) -> set[str]:
        """The listed effects, and the built-in ones that are emitted or named by an executor."""
        emitted = {
            name for node in self.workflow_nodes.values() for name in node["effects_emitted"]
        }
        emitted |= {
            name for entry in self.manifest.get("executors", ()) for name in entry["effects"]
        }
        return {*_names(self.manifest, "effects"), *filter(is_system, emitted)}

    def _roots(self) -> set[str]:
        nodes = [*self.workflow_nodes.values(), *self.effect_nodes.values()]
        return meaning.schema_roots(self.manifest, nodes)

    def _taking_part(self) -> list[Node]:
        parts = (
            self.schema_nodes,
            self.module_nodes,
            self.workflow_nodes,
            self.effect_nodes,
            self.secret_nodes,
        )
        return [node for part in parts for node in part.values()]

    def _filled_in(self) -> Node:
        """The manifest node that is hashed: every reference with its hash, schemas closed."""
        sections = {
            "schemas": self.schema_nodes,
            "workflows": self.workflow_nodes,
            "effects": self.effect_nodes,
        }
        if self.secret_nodes:
            sections["secrets"] = self.secret_nodes
        filled: Node = {
            section: [
                {"name": name, "hash": hash_text(definition_hash(node))}
                for name, node in part.items()
            ]
            for section, part in sections.items()
        }
        filled["modules"] = [
            {"name": name, "hash": node["runtime"]["artifact"]["hash"]}
            for name, node in self.module_nodes.items()
        ]
        return {**self.manifest, **filled}


def _names(manifest: Node, section: str) -> list[str]:
    return [entry["name"] for entry in manifest.get(section, ())]


def _object(value: Any, subject: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise Misshapen(f"{subject}: expected a map with text keys")
    return value


def _expect_text_keys(value: Any) -> None:
    """Check that all maps have text keys, as in JSON. The record gate bounds the depth."""
    if isinstance(value, dict):
        for element in _object(value, "every map").values():
            _expect_text_keys(element)
    elif isinstance(value, list):
        for element in value:
            _expect_text_keys(element)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Misshapen("definitions: expected a list")
    return value
