"""(manifest, definitions) -> Effective: everything of a manifest that the core depends on.

It is one canonical document, which is hashed and journaled; ``Effective`` is its typed view. The
document is complete: it includes limits with their defaults, so that later releases read the same
from it (spec/manifest.md, M-40 to M-46).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal, cast

from aos.errors import Damage, sentence
from aos.manifest import builtins, meaning
from aos.manifest.expressions import Expression, closure, form_of, resolved
from aos.manifest.forms import (
    ABI_DEFAULT,
    AGENTOS,
    ATTEMPTS_DEFAULT,
    BASE_MS_DEFAULT,
    CAP_MS_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Misshapen,
    Node,
    canonical,
)
from aos.manifest.governance import GovernanceBlock, governance_of
from aos.manifest.http_params import HttpParams
from aos.manifest.keys import parse_key
from aos.manifest.limits import (
    FRESH_WORLD_LIMITS,
    STEP_RANGES,
    WORLD_RANGES,
    Range,
    StepLimits,
    WorldLimits,
)
from aos.manifest.manifest_secrets import SECRET_REF, Secret, secret_of
from aos.manifest.names import is_system
from aos.manifest.plans import StepPlan, plan_of
from aos.manifest.schedules import ScheduleEntry, schedule_of
from aos.manifest.sealed_places import sealing_schemas
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import Hash, content_hash, digest, hash_text, parse_hash
from aos.values.errors import ValueProblem
from aos.values.schema import Schema, compile_schemas, value_at

SEMANTICS: Final = 1

FLOW_STATE: Final = "aos/Flow@1"
"""The state schema of every flow, and of no other workflow (spec/flow.md, FL-10)."""

ONLY_OWN_STEPS: Final = (
    "is not accepted from outside: only the world's own steps emit it (routing.ingress of the "
    "manifest in force does not list it)"
)
"""The end of a sentence about the schema of an event that is not open at ingress (M-30b)."""

DOCUMENTS_KEPT: Final = 8
"""Number of cached documents. A manifest is read when it is admitted, folded and replayed, and its
immutable typed view is the same each time."""

Definitions = Mapping[tuple[str, str], Node]
"""(kind, name) -> canonical node. Built-in definitions may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One wasm module. ``hash`` is the content hash of its bytes."""

    name: str
    hash: Hash
    abi: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """The entrypoint of a workflow's module that migrates states of another schema."""

    source: str
    entrypoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """One workflow with everything that its steps are checked against.

    Attributes:
        key: The key's schema; None if the workflow is unkeyed.
        arms: Schema -> the arm of ``event`` that refers to it. Empty for a record.
    """

    name: str
    hash: Hash
    state: Schema = field(repr=False)
    event: Schema = field(repr=False)
    context: bool
    annotations: Schema | None = field(repr=False)
    key: Schema | None = field(repr=False)
    effects_emitted: frozenset[str]
    module: Module
    entrypoint: str
    limits: StepLimits
    lifecycle: Literal["quiescent", "explicit"]
    upgrade: Literal["quiesce", "in_place"]
    migrate: Migration | None
    arms: Mapping[str, str]

    @property
    def has_opaque_state(self) -> bool:
        """Whether the kernel stores states of this workflow without checking them against their
        schema. Modules of the AgentOS ABI write them in a form of their own (AG-10)."""
        return self.module.abi == AGENTOS

    @property
    def is_flow(self) -> bool:
        """Whether it is a flow: a workflow whose state is the history of one async function."""
        return self.state.name == FLOW_STATE

    def wrap(self, schema: str, value: Value) -> Value | None:
        """Wrap a value of ``schema`` as this workflow's event; None if it takes no such event.

        ``value`` must be in normal form and is not copied. An event is never null, so None is
        unambiguous.
        """
        if schema == self.event.name:
            return value
        tag = self.arms.get(schema)
        return None if tag is None else {"$tag": tag, "$value": value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One effect. Times are milliseconds.

    ``executor`` is the name of the executor that runs it: ``node`` for built-in effects. The three
    ``executor_…`` fields are set only for ``impl: {module, entrypoint}``, where the executor has
    the module's name. ``takes_secrets``: whether a value of ``params`` can name a secret. ``lane``
    are paths of ``params``: tasks with equal values there run one at a time (M-5a).
    """

    name: str
    hash: Hash
    params: Schema = field(repr=False)
    receipt: Schema = field(repr=False)
    executor: str
    executor_module: str | None
    executor_entrypoint: str | None
    executor_module_hash: Hash | None
    attempts: int
    base_ms: int
    cap_ms: int
    timeout_ms: int
    delivery: Literal["at_least_once", "at_most_once"]
    idempotency_scope: Literal["cell", "world"]
    takes_secrets: bool
    lane: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """An executor and the effects for which it may sign receipts. Keys are 32 raw Ed25519 bytes.

    A retired key still verifies receipts of intents that were opened while it was in force; a
    revoked key verifies nothing.
    """

    name: str
    public_key: bytes
    effects: frozenset[str]
    retired_keys: frozenset[bytes]
    revoked_keys: frozenset[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One subscription: ``event`` goes to ``workflow``, to the cell that ``key_field`` names."""

    event: str
    workflow: str
    key_field: str | None
    key_schema: Schema | None = field(repr=False, compare=False)
    creates: bool = True
    """Whether an event creates the instance if it does not exist (M-30a)."""
    reserved: frozenset[str] = frozenset()
    """Arms of ``event`` itself that only the kernel may make."""

    def key(self, value: Value) -> bytes:
        """The key of the cell that gets an event of ``self.event`` (normal form, not wrapped).

        Returns the canonical CBOR of the key, ``b""`` for an unkeyed workflow.

        Raises:
            ValueProblem: ``key_field`` is missing or not a valid key, or only the kernel may
                deliver the event (M-35).
        """
        tag = value.get("$tag") if self.reserved and isinstance(value, dict) else None
        if isinstance(tag, str) and tag in self.reserved:
            raise ValueProblem(
                f"arm {tag} carries a continuation, which only the kernel delivers", path="$.$tag"
            )
        if self.key_field is None or self.key_schema is None:
            return b""
        try:
            key = value_at(value, self.key_field)
            return self.key_schema.encode(self.key_schema.normalise(key))
        except ValueProblem as problem:
            raise ValueProblem(
                f"{problem} (key_field {self.key_field} of {self.workflow})",
                path=f"$.{self.key_field}",
            ) from problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """A complete, checked manifest. Two are equal if their documents are.

    Attributes:
        document: Canonical CBOR; its layout is in spec/manifest.md, M-44.
        hash: Hash of the document.
        manifest_hash: Hash of the manifest node alone, with every reference's hash filled in.
        executors: None if the manifest has no such list: then the world's key signs for all.
        subscriptions: In the order of the manifest.
        flow_events: The schemas of the events that a subscription sends to a flow.
        ingress: The schemas of the events that the kernel accepts from outside (M-30b); None if it
            accepts all.
        plans: In the order of types and versions.
        schedules: In the order of ids.
        governance: The approvers of the next manifest; None if an operator alone may apply it.
        sealing: The schemas whose values can have sealed places (spec/sealed.md, SL-3).
    """

    document: bytes = field(repr=False)
    hash: Hash = field(compare=False)
    manifest_hash: Hash = field(compare=False)
    schemas: Mapping[str, Schema] = field(compare=False, repr=False)
    workflows: Mapping[str, Workflow] = field(compare=False)
    effects: Mapping[str, Effect] = field(compare=False)
    modules: Mapping[str, Module] = field(compare=False)
    secrets: Mapping[str, Secret] = field(compare=False)
    executors: Mapping[str, Executor] | None = field(compare=False)
    limits: WorldLimits = field(compare=False)
    subscriptions: tuple[Route, ...] = field(compare=False)
    by_event: Mapping[str, tuple[Route, ...]] = field(compare=False, repr=False)
    flow_events: frozenset[str] = field(compare=False, repr=False)
    ingress: frozenset[str] | None = field(compare=False)
    plans: tuple[StepPlan, ...] = field(compare=False)
    schedules: tuple[ScheduleEntry, ...] = field(compare=False)
    governance: GovernanceBlock | None = field(compare=False)
    sealing: frozenset[str] = field(compare=False, repr=False)

    def routes(self, event_schema: str) -> tuple[Route, ...]:
        """The subscriptions for events of this schema, in the order of the manifest."""
        return self.by_event.get(event_schema, ())

    def is_open(self, event_schema: str) -> bool:
        """Whether events of this schema are accepted from outside, and not only from the world's
        own steps (M-30b)."""
        return self.ingress is None or event_schema in self.ingress

    @classmethod
    def from_document(cls, document: bytes) -> Effective:
        """Read a document that ``make`` wrote.

        Nothing in it is trusted except the limits that it fills in, within their ranges.

        Raises:
            Damage: The bytes are not canonical or not complete, break a rule of spec/manifest.md,
                or contain a wrong hash.
        """
        try:
            return _read(document)
        except (ValueProblem, ValueError) as error:
            raise Damage(
                sentence(
                    str(error),
                    location="effective manifest",
                    hint="restore the world from a copy, or use the release that wrote it",
                )
            ) from error


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


def make(manifest: Node, definitions: Definitions) -> Effective:
    """Build the effective manifest from canonical nodes without findings of ``meaning.check``.

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
    return _Maker(manifest, definitions, limits).effective()


def make_like(manifest: Node, definitions: Definitions, like: Effective) -> Effective:
    """As ``make``, but every limit that the nodes leave open is that of ``like``. Later releases,
    with other defaults, make the same document.

    Raises:
        Misshapen: The two do not have the same workflows, or the nodes ask for another limit.
    """
    document: Any = decode_record(like.document)
    limits = _read_limits(document["limits"], manifest, definitions)
    return _Maker(manifest, definitions, limits).effective()


def taking_part(manifest: Node, definitions: Definitions) -> frozenset[tuple[str, str]]:
    """The kind and name of every definition in the document of a manifest, built-in ones
    included."""
    limits = _AllLimits(world=WorldLimits(), workflows={})
    return _Maker(manifest, definitions, limits).taking_part()


@lru_cache(DOCUMENTS_KEPT)
def _read(document: bytes) -> Effective:
    value = _object(decode_record(document), "the document")
    _expect_text_keys(value)
    if set(value) != {"semantics", "manifest", "definitions", "limits"}:
        raise Misshapen(f"expected the four parts of the document, found {sorted(value)}")
    if value["semantics"] != SEMANTICS:
        raise Misshapen(f"semantics: expected {SEMANTICS}, found {value['semantics']!r}")
    manifest = canonical(_object(value["manifest"], "manifest"))
    nodes = [canonical(_object(node, "definition")) for node in _list(value["definitions"])]
    if manifest["$kind"] != "manifest" or any(node["$kind"] == "manifest" for node in nodes):
        raise Misshapen("expected one manifest and definitions")
    for node in nodes:
        if node["$kind"] == "defmodule":
            parse_hash(node["runtime"]["artifact"].get("hash", ""))
    definitions = {(node["$kind"], node["name"]): node for node in nodes}
    own_definitions = {
        key: node for key, node in definitions.items() if not builtins.is_built_in(*key)
    }
    problem = next(iter(meaning.check(manifest, own_definitions)), None)
    if problem is not None:
        raise Misshapen(f"{problem.subject[1]}#{problem.pointer}: {problem.message}")
    effective = _Maker(
        manifest, own_definitions, _read_limits(value["limits"], manifest, own_definitions)
    ).effective()
    if effective.document != document:
        raise Misshapen("a hash, the closure, the order or the spelling of a node is not right")
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
            raise Misshapen(f"limits: {name} is {number}, though {requested[name]} was asked for")


def _requested_limits(manifest: Node, workflow: Node) -> dict[str, int]:
    """The step limits that a workflow or its manifest sets explicitly."""
    return {**manifest.get("limits", {}).get("step", {}), **workflow.get("limits", {})}


class _Maker:
    """Used once: collects the reachable definitions, writes the document, makes its typed view."""

    def __init__(self, manifest: Node, definitions: Definitions, limits: _AllLimits) -> None:
        self.manifest = manifest
        self.limits = limits
        self.nodes: dict[tuple[str, str], Node] = {
            **{("defschema", name): dict(node) for name, node in builtins.SCHEMAS.items()},
            **{("defeffect", name): dict(node) for name, node in builtins.EFFECTS.items()},
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

    def effective(self) -> Effective:
        manifest = self._filled_in()
        definitions = sorted(
            self._taking_part(), key=lambda node: (str(node["$kind"]), str(node["name"]))
        )
        document = encode(
            _value(
                {
                    "semantics": SEMANTICS,
                    "manifest": manifest,
                    "definitions": definitions,
                    "limits": self.limits.to_document(),
                }
            )
        )
        schemas = compile_schemas({name: self.types[name] for name in self.schema_nodes})
        if builtins.HTTP_PARAMS in schemas:
            schemas[builtins.HTTP_PARAMS] = HttpParams(
                schemas[builtins.HTTP_PARAMS], has_secrets=bool(self.secret_nodes)
            )
        modules = {name: _module(node) for name, node in self.module_nodes.items()}
        workflows = {
            name: self._workflow(node, schemas, modules)
            for name, node in self.workflow_nodes.items()
        }
        subscriptions = tuple(
            self._route(entry, workflows) for entry in _subscriptions(self.manifest)
        )
        by_event: dict[str, list[Route]] = {}
        for route in subscriptions:
            by_event.setdefault(route.event, []).append(route)
        return Effective(
            document=document,
            hash=content_hash(document),
            manifest_hash=digest("aos/manifest/1", _value(manifest)),
            schemas=MappingProxyType(schemas),
            workflows=MappingProxyType(workflows),
            effects=MappingProxyType(
                {
                    name: _effect(node, schemas, modules, takes_secrets=self._takes_secrets(node))
                    for name, node in self.effect_nodes.items()
                }
            ),
            modules=MappingProxyType(modules),
            secrets=MappingProxyType(
                {
                    name: secret_of(node, definition_hash(node))
                    for name, node in self.secret_nodes.items()
                }
            ),
            executors=_executors(self.manifest),
            limits=self.limits.world,
            subscriptions=subscriptions,
            by_event=MappingProxyType({event: tuple(routes) for event, routes in by_event.items()}),
            flow_events=frozenset(
                subscription.event
                for subscription in subscriptions
                if workflows[subscription.workflow].is_flow
            ),
            ingress=_ingress(self.manifest),
            plans=tuple(map(plan_of, self.manifest.get("plans", ()))),
            schedules=tuple(map(schedule_of, self.manifest.get("schedules", ()))),
            governance=governance_of(self.manifest.get("governance")),
            sealing=sealing_schemas(self.schema_nodes, self.types),
        )

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

    def _workflow(
        self, node: Node, schemas: Mapping[str, Schema], modules: Mapping[str, Module]
    ) -> Workflow:
        return Workflow(
            name=node["name"],
            hash=definition_hash(node),
            state=schemas[node["state"]],
            event=schemas[node["event"]],
            context="context" in node,
            annotations=_maybe(schemas, node.get("annotations")),
            key=_maybe(schemas, node.get("key_schema")),
            effects_emitted=frozenset(node["effects_emitted"]),
            module=modules[node["impl"]["module"]],
            entrypoint=node["impl"]["entrypoint"],
            limits=self.limits.workflows[node["name"]],
            lifecycle=node.get("lifecycle", "quiescent"),
            upgrade=node.get("upgrade", "quiesce"),
            migrate=_migration(node.get("migrate")),
            arms=MappingProxyType(self._arms(node["event"])),
        )

    def _takes_secrets(self, effect: Node) -> bool:
        return SECRET_REF in closure([effect["params"]], self.types)

    def _arms(self, event: str) -> dict[str, str]:
        form, argument = form_of(resolved(self.types[event], self.types))
        return {arm["ref"]: tag for tag, arm in argument.items()} if form == "variant" else {}

    def _route(self, entry: Node, workflows: Mapping[str, Workflow]) -> Route:
        workflow = workflows[entry["workflow"]]
        # Only a workflow's whole event can hold a continuation: ``check`` refuses a subscription
        # to a continuation itself.
        arms = workflow.arms if entry["event"] == workflow.event.name else {}
        return Route(
            event=entry["event"],
            workflow=workflow.name,
            key_field=entry.get("key_field"),
            key_schema=workflow.key,
            creates=entry.get("creates", True),
            reserved=frozenset(arms[name] for name in arms if name in builtins.CONTINUATIONS),
        )


def _migration(node: Node | None) -> Migration | None:
    if node is None:
        return None
    return Migration(source=node["from"], entrypoint=node["entrypoint"])


def _module(node: Node) -> Module:
    return Module(
        name=node["name"],
        hash=parse_hash(node["runtime"]["artifact"]["hash"]),
        abi=node.get("abi", ABI_DEFAULT),
    )


def _effect(
    node: Node, schemas: Mapping[str, Schema], modules: Mapping[str, Module], *, takes_secrets: bool
) -> Effect:
    impl, retry = node["impl"], node.get("retry", {})
    module = modules[impl["module"]] if "module" in impl else None
    return Effect(
        name=node["name"],
        hash=definition_hash(node),
        params=schemas[node["params"]],
        receipt=schemas[node["receipt"]],
        executor=impl["executor"] if module is None else module.name,
        executor_module=None if module is None else module.name,
        executor_entrypoint=impl.get("entrypoint"),
        executor_module_hash=None if module is None else module.hash,
        attempts=retry.get("attempts", ATTEMPTS_DEFAULT),
        base_ms=retry.get("base_ms", BASE_MS_DEFAULT),
        cap_ms=retry.get("cap_ms", CAP_MS_DEFAULT),
        timeout_ms=node.get("timeout_ms", TIMEOUT_MS_DEFAULT),
        delivery=node.get("delivery", "at_least_once"),
        idempotency_scope=node.get("idempotency_scope", "cell"),
        takes_secrets=takes_secrets,
        lane=tuple(node.get("lane", ())),
    )


def _executors(manifest: Node) -> Mapping[str, Executor] | None:
    if "executors" not in manifest:
        return None
    return MappingProxyType(
        {
            entry["name"]: Executor(
                name=entry["name"],
                public_key=parse_key(entry["public_key"]),
                effects=frozenset(entry["effects"]),
                retired_keys=frozenset(map(parse_key, entry.get("retired_keys", ()))),
                revoked_keys=frozenset(map(parse_key, entry.get("revoked_keys", ()))),
            )
            for entry in manifest["executors"]
        }
    )


def _names(manifest: Node, section: str) -> list[str]:
    return [entry["name"] for entry in manifest.get(section, ())]


def _subscriptions(manifest: Node) -> list[Node]:
    subscriptions: list[Node] = manifest.get("routing", {}).get("subscriptions", [])
    return subscriptions


def _ingress(manifest: Node) -> frozenset[str] | None:
    event_names: list[str] | None = manifest.get("routing", {}).get("ingress")
    return None if event_names is None else frozenset(event_names)


def definition_hash(node: Node) -> Hash:
    """The hash of a canonical node. For a module the hash of its bytes is used instead."""
    return digest("aos/def/1", _value(node))


def _value(node: Node) -> Value:
    """A node is a value: text, whole numbers, booleans, null, lists and maps with text keys."""
    return cast("Value", node)


def _maybe(schemas: Mapping[str, Schema], name: str | None) -> Schema | None:
    return None if name is None else schemas[name]


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
