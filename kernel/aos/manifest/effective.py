"""Effective: the typed view of everything in a manifest that the core depends on.

It is one canonical document, which is hashed and journaled. The document is complete: it includes
limits with their defaults, so that later releases read the same from it (spec/manifest.md, M-40 to
M-46). ``judging`` makes documents, and judges those of others; this module only reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal, cast

from aos.errors import Damage, Refused
from aos.manifest import names
from aos.manifest.expressions import closure, form_of, resolved
from aos.manifest.forms import (
    ABI_DEFAULT,
    AGENTOS,
    ATTEMPTS_DEFAULT,
    BASE_MS_DEFAULT,
    CAP_MS_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    Misshapen,
    Node,
)
from aos.manifest.governance import GovernanceBlock, governance_of
from aos.manifest.http_params import HttpParams
from aos.manifest.keys import parse_key
from aos.manifest.limits import StepLimits, WorldLimits
from aos.manifest.manifest_secrets import SECRET_REF, Secret, secret_of
from aos.manifest.placement import (
    SHARDS,
    Placement,
    Shard,
    default_placement,
    placement_in_form,
)
from aos.manifest.plans import StepPlan, plan_in_form
from aos.manifest.schedules import ScheduleEntry, schedule_in_form
from aos.manifest.sealed_places import sealing_schemas
from aos.values.cbor import Value, decode_record
from aos.values.digests import Hash, content_hash, digest, parse_hash
from aos.values.errors import ValueProblem
from aos.values.schema import Schema, compile_schemas, value_at
from aos.values.show import describe

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
        placement: The shards of a group that have its cells.
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
    placement: Placement
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
        shard: The shard of a group that the world is; None if it is in no group (GR-10).
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
    shard: Shard | None = field(compare=False)

    def routes(self, event_schema: str) -> tuple[Route, ...]:
        """The subscriptions for events of this schema, in the order of the manifest."""
        return self.by_event.get(event_schema, ())

    def is_open(self, event_schema: str) -> bool:
        """Whether events of this schema are accepted from outside, and not only from the world's
        own steps (M-30b)."""
        return self.ingress is None or event_schema in self.ingress

    @classmethod
    def from_document(cls, document: bytes) -> Effective:
        """Read a document that was judged before: that of a manifest in the journal of this world.

        A document from anywhere else needs ``judging.judge``: one that was never judged may break
        any rule of spec/manifest.md.

        Raises:
            Damage: The bytes are not a document.
        """
        try:
            return _read(document)
        except _UNREADABLE as error:
            raise unreadable(_problem(error)) from error


_UNREADABLE: Final = (Refused, ValueError, TypeError, LookupError, AttributeError)
"""Exceptions that bytes can raise which are not a document."""


def _problem(error: Exception) -> str:
    """The words of a rule, or one sentence for all that Python raises by itself: the text of damage
    is the same in each implementation of the core."""
    is_rule = isinstance(error, (Refused, ValueError))
    return str(error) if is_rule else "not the document of a manifest"


def unreadable(problem: str) -> Damage:
    return Damage(
        problem,
        location="effective manifest",
        hint="restore the world from a copy, or use the release that wrote it",
    )


@lru_cache(DOCUMENTS_KEPT)
def _read(document: bytes) -> Effective:
    parts = cast("Any", decode_record(document))
    if parts["semantics"] != SEMANTICS:
        actual = describe(parts["semantics"])
        raise Misshapen(f"semantics: expected nat {SEMANTICS}, found {actual}")
    return _View(document, parts).effective()


def typed_view(document: bytes) -> Effective:
    """The typed view of a document that ``judging`` has just made or judged.

    Raises: Anything, if it is not one.
    """
    return _read(document)


class _View:
    """Used once: reads the parts of a document, whose nodes are canonical and complete."""

    def __init__(self, document: bytes, parts: Node) -> None:
        self.document = document
        self.manifest: Node = parts["manifest"]
        self.limits: Node = parts["limits"]
        self.shard = shard_in_form(parts.get("shard"))
        self.nodes: list[Node] = parts["definitions"]
        self.types = {name: node["type"] for name, node in self._nodes_of("defschema").items()}
        self.schemas = self._schemas()
        self.modules = {name: _module(node) for name, node in self._nodes_of("defmodule").items()}
        self.workflows = self._workflows()

    def effective(self) -> Effective:
        manifest = self.manifest
        subscriptions = tuple(
            map(self._route, manifest.get("routing", {}).get("subscriptions", ()))
        )
        by_event: dict[str, list[Route]] = {}
        for route in subscriptions:
            by_event.setdefault(route.event, []).append(route)
        return Effective(
            document=self.document,
            hash=content_hash(self.document),
            manifest_hash=digest("aos/manifest/1", node_value(manifest)),
            schemas=MappingProxyType(self.schemas),
            workflows=MappingProxyType(self.workflows),
            effects=MappingProxyType(self._effects()),
            modules=MappingProxyType(self.modules),
            secrets=MappingProxyType(self._secrets()),
            executors=_executors(manifest),
            limits=WorldLimits.from_document(self.limits["world"]),
            subscriptions=subscriptions,
            by_event=MappingProxyType({event: tuple(routes) for event, routes in by_event.items()}),
            flow_events=frozenset(
                subscription.event
                for subscription in subscriptions
                if self.workflows[subscription.workflow].is_flow
            ),
            ingress=_ingress(manifest),
            plans=tuple(map(plan_in_form, manifest.get("plans", ()))),
            schedules=tuple(map(schedule_in_form, manifest.get("schedules", ()))),
            governance=governance_of(manifest.get("governance")),
            sealing=sealing_schemas(self.types, self.types),
            shard=self.shard,
        )

    def _nodes_of(self, kind: str) -> dict[str, Node]:
        return {node["name"]: node for node in self.nodes if node["$kind"] == kind}

    def _hashes(self, section: str) -> dict[str, Hash]:
        """The hashes of definitions, which the manifest has with their names."""
        return {
            entry["name"]: parse_hash(entry["hash"]) for entry in self.manifest.get(section, ())
        }

    def _schemas(self) -> dict[str, Schema]:
        schemas = compile_schemas(self.types)
        if names.HTTP_PARAMS in schemas:
            schemas[names.HTTP_PARAMS] = HttpParams(
                schemas[names.HTTP_PARAMS], has_secrets=bool(self._nodes_of("defsecret"))
            )
        return schemas

    def _workflows(self) -> dict[str, Workflow]:
        hashes = self._hashes("workflows")
        placements = {
            entry["workflow"]: placement_in_form(entry)
            for entry in self.manifest.get("routing", {}).get("shards", ())
        }
        return {
            name: self._workflow(node, hashes[name], placements.get(name))
            for name, node in self._nodes_of("defworkflow").items()
        }

    def _workflow(self, node: Node, hash: Hash, placement: Placement | None) -> Workflow:
        return Workflow(
            name=node["name"],
            hash=hash,
            state=self.schemas[node["state"]],
            event=self.schemas[node["event"]],
            context="context" in node,
            annotations=self._schema_in(node, "annotations"),
            key=self._schema_in(node, "key_schema"),
            effects_emitted=frozenset(node["effects_emitted"]),
            module=self.modules[node["impl"]["module"]],
            entrypoint=node["impl"]["entrypoint"],
            limits=StepLimits.from_document(self.limits["workflows"][node["name"]]),
            lifecycle=node.get("lifecycle", "quiescent"),
            upgrade=node.get("upgrade", "quiesce"),
            migrate=_migration(node.get("migrate")),
            placement=placement or default_placement(node["name"], is_keyed="key_schema" in node),
            arms=MappingProxyType(self._arms(node["event"])),
        )

    def _schema_in(self, node: Node, use: str) -> Schema | None:
        return self.schemas[node[use]] if use in node else None

    def _arms(self, event: str) -> dict[str, str]:
        form, argument = form_of(resolved(self.types[event], self.types))
        return {arm["ref"]: tag for tag, arm in argument.items()} if form == "variant" else {}

    def _effects(self) -> dict[str, Effect]:
        hashes = self._hashes("effects")
        return {
            name: self._effect(node, hashes[name])
            for name, node in self._nodes_of("defeffect").items()
        }

    def _effect(self, node: Node, hash: Hash) -> Effect:
        impl, retry = node["impl"], node.get("retry", {})
        module = self.modules[impl["module"]] if "module" in impl else None
        return Effect(
            name=node["name"],
            hash=hash,
            params=self.schemas[node["params"]],
            receipt=self.schemas[node["receipt"]],
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
            takes_secrets=SECRET_REF in closure([node["params"]], self.types),
            lane=tuple(node.get("lane", ())),
        )

    def _secrets(self) -> dict[str, Secret]:
        hashes = self._hashes("secrets")
        return {
            name: secret_of(node, hashes[name])
            for name, node in self._nodes_of("defsecret").items()
        }

    def _route(self, entry: Node) -> Route:
        workflow = self.workflows[entry["workflow"]]
        # Only a workflow's whole event can hold a continuation: ``meaning.check`` refuses a
        # subscription to a continuation itself.
        arms = workflow.arms if entry["event"] == workflow.event.name else {}
        return Route(
            event=entry["event"],
            workflow=workflow.name,
            key_field=entry.get("key_field"),
            key_schema=workflow.key,
            creates=entry.get("creates", True),
            reserved=frozenset(arms[name] for name in arms if name in names.CONTINUATIONS),
        )


def shard_in_form(value: Any) -> Shard | None:
    """The ``shard`` of a document; None for a world in no group.

    Raises:
        Misshapen: It is not ``[index, count]`` with 2 to 1,024 shards.
    """
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or [type(number) for number in value] != [int, int]
        or value[1] not in SHARDS
        or not 0 <= value[0] < value[1]
    ):
        raise Misshapen(
            f"shard: expected [index, count] with {SHARDS.low} to {SHARDS.high} shards and an "
            f"index from 0, found {describe(value)}"
        )
    return Shard(value[0], value[1])


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


def _ingress(manifest: Node) -> frozenset[str] | None:
    event_names: list[str] | None = manifest.get("routing", {}).get("ingress")
    return None if event_names is None else frozenset(event_names)


def definition_hash(node: Node) -> Hash:
    """The hash of a canonical node. For a module the hash of its bytes is used instead."""
    return digest("aos/def/1", node_value(node))


def node_value(node: Node) -> Value:
    """A node is a value: text, whole numbers, booleans, null, lists and maps with text keys."""
    return cast("Value", node)
