"""Authored node -> canonical node, which is hashed: one spelling per meaning (M-20 to M-22).

``canonical`` picks every field by name and checks its shape, so it is also the strict reader of
nodes in an effective document. Authored nodes have passed JSON Schema before and never fail here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any, Final

from aos.errors import excerpt
from aos.manifest.expressions import without_comments
from aos.manifest.limits import FRESH_WORLD_LIMITS, StepLimits
from aos.manifest.plans import PlanInvalid, plan_node, plan_of
from aos.manifest.schedules import ScheduleInvalid, schedule_node, schedule_of

Node = dict[str, Any]
"""A node whose shape is known: JSON Schema or ``canonical`` has seen it."""

KINDS: Final = ("defschema", "defmodule", "defworkflow", "defeffect", "defsecret")

ABI_DEFAULT: Final = "aos/1"
AGENTOS: Final = "agentos"
ABIS: Final = (ABI_DEFAULT, AGENTOS)
ATTEMPTS_DEFAULT: Final = 1
BASE_MS_DEFAULT: Final = 1_000
CAP_MS_DEFAULT: Final = 60_000
TIMEOUT_MS_DEFAULT: Final = 30_000


class Misshapen(ValueError):
    """A node does not have its kind's form. Only a damaged or forged document can cause it."""


def canonical(node: Mapping[str, Any]) -> Node:
    """The node without comments, paths, defaults and absent options; aliases under one name.

    References of a manifest lose their hashes: ``effective`` computes them and fills them in.
    """
    kind = node.get("$kind")
    make = _FORMS.get(kind) if isinstance(kind, str) else None
    if make is None:
        raise Misshapen(f"$kind: expected a definition or manifest, found {_excerpt(kind)}")
    return {"$kind": kind} | make(node)


def _defschema(node: Mapping[str, Any]) -> Node:
    return {"name": _text(node, "name"), "type": without_comments(_object(node, "type"))}


def _defmodule(node: Mapping[str, Any]) -> Node:
    runtime = _object(node, "runtime")
    artifact = _object(runtime, "artifact")
    canonical_node: Node = {
        "name": _text(node, "name"),
        "runtime": {
            "kind": _choice("wasm")(runtime, "kind"),
            "artifact": {"kind": _choice("wasm_module")(artifact, "kind")}
            | _optional(artifact, "hash", _text),
        }
        | _optional(runtime, "build", _object),
    }
    return canonical_node | _unless(_optional(node, "abi", _choice(*ABIS)), abi=ABI_DEFAULT)


def _defworkflow(node: Mapping[str, Any]) -> Node:
    canonical_node: Node = {
        "name": _text(node, "name"),
        "state": _text(node, "state"),
        "event": _text(node, "event"),
        "effects_emitted": _texts(node, "effects_emitted"),
        "impl": _module_implementation(_object(node, "impl")),
    }
    for schema in ("context", "annotations", "key_schema"):
        canonical_node |= _optional(node, schema, _text)
    canonical_node |= _unless(
        _optional(node, "lifecycle", _choice("quiescent", "explicit")), lifecycle="quiescent"
    )
    canonical_node |= _unless(
        _optional(node, "upgrade", _choice("quiesce", "in_place")), upgrade="quiesce"
    )
    canonical_node |= _optional(node, "migrate", _migration)
    # Kept even if they equal the built-in defaults: the manifest may set others for all workflows.
    canonical_node |= _unless(_optional(node, "limits", _step_limits), limits={})
    return canonical_node


def _defeffect(node: Mapping[str, Any]) -> Node:
    canonical_node: Node = {
        "name": _text(node, "name"),
        "params": _text(node, "params"),
        "receipt": _text(node, "receipt"),
        "impl": _implementation(_object(node, "impl")),
    }
    canonical_node |= _unless(_optional(node, "retry", _retry), retry={})
    canonical_node |= _unless(
        _optional(node, "timeout_ms", _whole_number), timeout_ms=TIMEOUT_MS_DEFAULT
    )
    canonical_node |= _unless(
        _optional(node, "delivery", _choice("at_least_once", "at_most_once")),
        delivery="at_least_once",
    )
    canonical_node |= _unless(
        _optional(node, "idempotency_scope", _choice("cell", "world")), idempotency_scope="cell"
    )
    canonical_node |= _optional(node, "lane", _texts)
    return canonical_node


def _defsecret(node: Mapping[str, Any]) -> Node:
    canonical_node: Node = {"name": _text(node, "name"), "binding_id": _text(node, "binding_id")}
    canonical_node |= _optional(node, "expected_digest", _text)
    for limited in ("hosts", "workflows"):
        if limited in node:
            canonical_node[limited] = sorted(_texts(node, limited))
    return canonical_node


def _manifest(node: Mapping[str, Any]) -> Node:
    canonical_node: Node = {"air_version": _choice("2")(node, "air_version")}
    for section in ("schemas", "modules", "workflows", "effects"):
        names = {_text(entry, "name") for entry in _objects(node, section)}
        canonical_node[section] = [{"name": name} for name in sorted(names)]
    if node.get("secrets"):
        names = {_text(entry, "name") for entry in _objects(node, "secrets")}
        canonical_node["secrets"] = [{"name": name} for name in sorted(names)]
    if "executors" in node:
        entries = [_executor(entry) for entry in _objects(node, "executors")]
        canonical_node["executors"] = sorted(entries, key=lambda entry: entry["name"])
    canonical_node |= _unless(_optional(node, "routing", _routing), routing={})
    canonical_node |= _optional(node, "governance", _governance)
    canonical_node |= _unless(_optional(node, "limits", _manifest_limits), limits={})
    canonical_node |= _unless(_optional(node, "plans", _plans), plans=[])
    return canonical_node | _unless(_optional(node, "schedules", _schedules), schedules=[])


def _plans(node: Mapping[str, Any], field: str) -> list[Node]:
    try:
        plans = [plan_of(plan) for plan in _objects(node, field)]
    except PlanInvalid as problem:
        raise Misshapen(f"{field}: {problem}") from problem
    return [plan_node(plan) for plan in sorted(plans, key=lambda plan: (plan.type, plan.version))]


def _schedules(node: Mapping[str, Any], field: str) -> list[Node]:
    try:
        entries = [schedule_of(entry) for entry in _objects(node, field)]
    except ScheduleInvalid as problem:
        raise Misshapen(f"{field}: {problem}") from problem
    return [schedule_node(entry) for entry in sorted(entries, key=lambda entry: entry.id)]


def _routing(node: Mapping[str, Any], field: str) -> Node:
    routing = _object(node, field)
    canonical_node: Node = {}
    if routing.get("subscriptions"):
        canonical_node["subscriptions"] = [
            _subscription(s) for s in _objects(routing, "subscriptions")
        ]
    if "ingress" in routing:  # an empty list accepts nothing, an absent one everything
        canonical_node["ingress"] = sorted(_texts(routing, "ingress"))
    if routing.get("shards"):
        entries = [_placement(entry) for entry in _objects(routing, "shards")]
        canonical_node["shards"] = sorted(entries, key=lambda entry: str(entry["workflow"]))
    return canonical_node


def _placement(entry: Mapping[str, Any]) -> Node:
    workflow: Node = {"workflow": _text(entry, "workflow")}
    if "shard_by" in entry:
        return workflow | {"shard_by": _text(entry, "shard_by")}
    return workflow | {"shard": _choice("each")(entry, "shard")}


def _subscription(entry: Mapping[str, Any]) -> Node:
    target = "workflow" if "workflow" in entry else "op"
    canonical_node: Node = {
        "event": _text(entry, "event"),
        "workflow": _text(entry, target),
    } | _optional(entry, "key_field", _text)
    return canonical_node | _unless(_optional(entry, "creates", _flag), creates=True)


def _executor(entry: Mapping[str, Any]) -> Node:
    canonical_node: Node = {
        "name": _text(entry, "name"),
        "public_key": _text(entry, "public_key"),
        "effects": sorted(_texts(entry, "effects")),
    }
    for keys in ("retired_keys", "revoked_keys"):
        if entry.get(keys):
            canonical_node[keys] = sorted(_texts(entry, keys))
    return canonical_node


def _governance(node: Mapping[str, Any], field: str) -> Node:
    block = _object(node, field)
    approvers: list[Node] = [
        {"name": _text(entry, "name"), "public_key": _text(entry, "public_key")}
        for entry in _objects(block, "approvers")
    ]
    canonical_node: Node = {
        "approvers": sorted(approvers, key=lambda entry: str(entry["name"])),
        "quorum": _whole_number(block, "quorum"),
    }
    return canonical_node | _unless(
        _optional(block, "shadow_records", _whole_number), shadow_records=0
    )


def _implementation(impl: Mapping[str, Any]) -> Node:
    if "executor" in impl:
        return {"executor": _text(impl, "executor")}
    return _module_implementation(impl)


def _module_implementation(impl: Mapping[str, Any]) -> Node:
    return {"module": _text(impl, "module"), "entrypoint": _text(impl, "entrypoint")}


def _migration(node: Mapping[str, Any], field: str) -> Node:
    migration = _object(node, field)
    return {"from": _text(migration, "from"), "entrypoint": _text(migration, "entrypoint")}


def _retry(node: Mapping[str, Any], field: str) -> Node:
    retry = _object(node, field)
    canonical_node: Node = {}
    canonical_node |= _unless(
        _optional(retry, "attempts", _whole_number), attempts=ATTEMPTS_DEFAULT
    )
    canonical_node |= _unless(_optional(retry, "base_ms", _whole_number), base_ms=BASE_MS_DEFAULT)
    canonical_node |= _unless(_optional(retry, "cap_ms", _whole_number), cap_ms=CAP_MS_DEFAULT)
    return canonical_node


def _step_limits(node: Mapping[str, Any], field: str) -> Node:
    limits = _object(node, field)
    return _whole_fields(limits, (limit_field.name for limit_field in fields(StepLimits)))


def _manifest_limits(node: Mapping[str, Any], field: str) -> Node:
    limits = _object(node, field)
    canonical_node: Node = {}
    for part, defaults in (("step", StepLimits()), ("world", FRESH_WORLD_LIMITS)):
        if part in limits:
            complete = asdict(defaults)
            limit_values = _whole_fields(_object(limits, part), complete)
            different = {
                name: value for name, value in limit_values.items() if value != complete[name]
            }
            canonical_node |= _unless({part: different}, **{part: {}})
    return canonical_node


def _whole_fields(limits: Mapping[str, Any], names: Any) -> Node:
    return {name: _whole_number(limits, name) for name in names if name in limits}


def _optional(
    node: Mapping[str, Any], field: str, read: Callable[[Mapping[str, Any], str], Any]
) -> Node:
    return {field: read(node, field)} if field in node else {}


def _unless(canonical_node: Node, **defaults: Any) -> Node:
    """``canonical_node`` without the fields that have their default."""
    return {
        field: value
        for field, value in canonical_node.items()
        if field not in defaults or value != defaults[field]
    }


def _excerpt(value: object) -> str:
    return excerpt(repr(value))


def _text(node: Mapping[str, Any], field: str) -> str:
    value = node.get(field)
    if not isinstance(value, str):
        raise Misshapen(f"{field}: expected text, found {_excerpt(value)}")
    return value


def _choice(*allowed: str) -> Callable[[Mapping[str, Any], str], str]:
    def read(node: Mapping[str, Any], field: str) -> str:
        value = _text(node, field)
        if value not in allowed:
            raise Misshapen(f"{field}: expected {' or '.join(allowed)}, found {_excerpt(value)}")
        return value

    return read


def _whole_number(node: Mapping[str, Any], field: str) -> int:
    value = node.get(field)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Misshapen(f"{field}: expected a whole number, found {_excerpt(value)}")
    return value


def _flag(node: Mapping[str, Any], field: str) -> bool:
    value = node.get(field)
    if not isinstance(value, bool):
        raise Misshapen(f"{field}: expected true or false, found {_excerpt(value)}")
    return value


def _object(node: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = node.get(field)
    if not isinstance(value, Mapping):
        raise Misshapen(f"{field}: expected an object, found {_excerpt(value)}")
    return value


def _objects(node: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    value = node.get(field)
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        raise Misshapen(f"{field}: expected a list of objects, found {_excerpt(value)}")
    return value


def _texts(node: Mapping[str, Any], field: str) -> list[str]:
    value = node.get(field)
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise Misshapen(f"{field}: expected a list of texts, found {_excerpt(value)}")
    return value


_FORMS: Final[Mapping[str, Callable[[Mapping[str, Any]], Node]]] = {
    "defschema": _defschema,
    "defmodule": _defmodule,
    "defworkflow": _defworkflow,
    "defeffect": _defeffect,
    "defsecret": _defsecret,
    "manifest": _manifest,
}
