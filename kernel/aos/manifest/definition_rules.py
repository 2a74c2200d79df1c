"""The rules of each kind of definition that JSON Schema cannot express, (node, catalog) ->
findings, and those of a manifest's plans, schedules and governance block (M-70, M-75, GV-1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from aos.manifest import names
from aos.manifest.catalog import (
    Catalog,
    Findings,
    Node,
    did_you_mean,
    each_once,
    event_arms,
    within,
)
from aos.manifest.expressions import Expression, form_of, found_at, paths_of, type_text
from aos.manifest.forms import BASE_MS_DEFAULT, CAP_MS_DEFAULT
from aos.manifest.governance import APPROVERS_MAX, SHADOW_RECORDS_MAX
from aos.manifest.hosts import read_place
from aos.manifest.keys import parse_key
from aos.manifest.limits import EFFECT_RANGES, STEP_RANGES
from aos.manifest.manifest_secrets import read_binding
from aos.manifest.names import EXECUTOR_NAME, KERNEL, LINEAR, LINEAR_PACKAGE, is_name
from aos.manifest.plans import plan_in_form, plan_problems
from aos.manifest.schedules import SCHEDULE, SCHEDULE_PACKAGE, schedule_in_form, schedule_problems
from aos.values.errors import ValueProblem

WORKFLOW_SCHEMAS: Final = ("state", "event", "context", "annotations", "key_schema")


def _defschema(_node: Node, _catalog: Catalog) -> Findings:
    # The catalog reads all types together, once.
    yield from ()


def _defmodule(_node: Node, _catalog: Catalog) -> Findings:
    # Its JSON Schema checks all of it.
    yield from ()


def _defworkflow(node: Node, catalog: Catalog) -> Findings:
    for use in WORKFLOW_SCHEMAS:
        if use in node:
            yield from catalog.use("defschema", node[use], f"/{use}")
    if node.get("context", names.CONTEXT) != names.CONTEXT:
        yield (
            "/context",
            f"expected {names.CONTEXT}, found {node['context']}",
            "the kernel passes no other context",
        )
    yield from _module_of(node, catalog)
    arms = event_arms(node["event"], catalog)
    if arms is not None:
        yield from _arms_are_distinct_refs(arms)
        carried = {node["event"], *(arm.get("ref") for arm in arms.values())}
        yield from _continuations_have_an_arm(node, carried, catalog)
    elif catalog.is_sound(node["event"]):
        actual = type_text(catalog.types[node["event"]], catalog.types)
        yield "/event", f"expected a record or a variant of refs, found {actual}", None
    yield from _emitted(node, catalog)
    yield from within("/limits", node.get("limits", {}), STEP_RANGES)
    migrate = node.get("migrate")
    if migrate is not None and not is_name(migrate["from"]):
        yield "/migrate/from", f"{migrate['from']} is not the name of a schema", None
    if migrate is not None and not migrate["entrypoint"]:
        yield "/migrate/entrypoint", "the entrypoint is empty", "name the function that is exported"


def _arms_are_distinct_refs(arms: Mapping[str, Expression]) -> Findings:
    tag_by_schema: dict[str, str] = {}
    for tag, arm in arms.items():
        schema = arm.get("ref")
        if schema is None:
            actual = form_of(arm)[0]
            yield (
                "/event",
                f"arm {tag} of the event is not a ref: expected a ref, found {actual}",
                "give the arm's type a name of its own with defschema",
            )
        elif schema in tag_by_schema:
            yield (
                "/event",
                f"arms {tag_by_schema[schema]} and {tag} of the event have one schema, {schema}",
                "an event of that schema could be wrapped in either; give one its own schema",
            )
        else:
            tag_by_schema[schema] = tag


def _continuations_have_an_arm(
    node: Node, carried: AbstractSet[str | None], catalog: Catalog
) -> Findings:
    for index, effect in enumerate(node["effects_emitted"]):
        legacy = names.LEGACY_ARMS.get(effect)
        if names.ENVELOPE in carried or (legacy is not None and legacy in carried):
            continue
        if not catalog.exists("defeffect", effect):
            continue  # reported already
        or_legacy = f" or {legacy}" if legacy else ""
        yield (
            f"/effects_emitted/{index}",
            f"no arm of the event takes the receipts of {effect}",
            f"add an arm with a ref to {names.ENVELOPE}{or_legacy} to {node['event']}",
        )


def _emitted(node: Node, catalog: Catalog) -> Findings:
    for index, effect in each_once(node["effects_emitted"]):
        pointer = f"/effects_emitted/{index}"
        if index is None:
            yield "/effects_emitted", f"{effect} is listed twice", None
        else:
            yield from catalog.use("defeffect", effect, pointer)


def _module_of(node: Node, catalog: Catalog) -> Findings:
    module = node["impl"].get("module")
    if module is None:
        return
    yield from catalog.use("defmodule", module, "/impl/module")
    if not node["impl"].get("entrypoint"):
        yield "/impl/entrypoint", "the entrypoint is empty", "name the function that is exported"


def _defeffect(node: Node, catalog: Catalog) -> Findings:
    for use in ("params", "receipt"):
        yield from catalog.use("defschema", node[use], f"/{use}")
    yield from _module_of(node, catalog)
    executor = node["impl"].get("executor")
    if executor is not None and (executor == KERNEL or not EXECUTOR_NAME.fullmatch(executor)):
        yield "/impl/executor", f"{executor!r} cannot be the name of an executor", None
    retry = node.get("retry", {})
    yield from within("/retry", retry, EFFECT_RANGES)
    if retry.get("cap_ms", CAP_MS_DEFAULT) < retry.get("base_ms", BASE_MS_DEFAULT):
        yield "/retry", "cap_ms is less than base_ms", "the wait grows from base_ms up to cap_ms"
    if "timeout_ms" in node:
        yield from within("", {"timeout_ms": node["timeout_ms"]}, EFFECT_RANGES)
    if node.get("delivery") == "at_most_once" and retry.get("attempts", 1) != 1:
        yield (
            "/retry/attempts",
            f"expected 1 for an effect that may run only once, found {retry['attempts']}",
            'leave it out, or leave delivery "at_most_once" out',
        )
    yield from _lane(node, catalog)


def _lane(node: Node, catalog: Catalog) -> Findings:
    """The paths of a lane must lead to a field of the params (M-5a)."""
    if not catalog.is_sound(node["params"]):
        return
    types = catalog.types
    params = types[node["params"]]
    for index, path in each_once(node.get("lane", [])):
        if index is None:
            yield "/lane", f"{path} is listed twice", None
        elif not found_at(params, path, types):
            yield (
                f"/lane/{index}",
                f"{node['params']} has nothing at {path}",
                did_you_mean(path, paths_of(params, types)),
            )


def _defsecret(node: Node, catalog: Catalog) -> Findings:
    try:
        read_binding(node["binding_id"])
    except ValueProblem as problem:
        yield "/binding_id", problem.message, None
    for field, scope in (("hosts", "every host"), ("workflows", "every workflow")):
        if node.get(field) == []:
            yield (
                f"/{field}",
                f"{field} is empty: nothing could use it",
                f"leave it out for {scope}",
            )
    for index, host in each_once(node.get("hosts", [])):
        if index is None:
            yield "/hosts", f"{host} is listed twice", None
        else:
            yield from _host_findings(host, f"/hosts/{index}")
    for index, workflow in each_once(node.get("workflows", [])):
        if index is None:
            yield "/workflows", f"{workflow} is listed twice", None
        else:
            yield from catalog.use("defworkflow", workflow, f"/workflows/{index}")


def _host_findings(text: str, pointer: str) -> Findings:
    try:
        host_port = read_place(text)
    except ValueProblem as problem:
        yield pointer, problem.message, None
        return
    if str(host_port) != text:
        yield pointer, f"expected {host_port}, found {text}", "a host has one spelling"


DEFINITION_RULES: Final[Mapping[str, Callable[[Node, Catalog], Findings]]] = {
    "defschema": _defschema,
    "defmodule": _defmodule,
    "defworkflow": _defworkflow,
    "defeffect": _defeffect,
    "defsecret": _defsecret,
}


def plan_rules(nodes: Sequence[Mapping[str, Any]], catalog: Catalog) -> Findings:
    """Every broken rule of the plans of a manifest (M-70)."""
    if nodes and not catalog.exists("defworkflow", LINEAR):
        yield (
            "/plans",
            f"plans need the workflow {LINEAR}",
            f'add "uses": ["{LINEAR_PACKAGE}"] to the manifest',
        )
    index_by_plan: dict[tuple[str, int], int] = {}
    for index, node in enumerate(nodes):
        problems = list(plan_problems(node))
        for pointer, message in problems:
            yield f"/plans/{index}{pointer}", message, None
        if problems:
            continue
        plan = plan_in_form(node)
        first = index_by_plan.setdefault((plan.type, plan.version), index)
        if first != index:
            yield (
                f"/plans/{index}",
                f"{plan.type} has version {plan.version} twice",
                "give the newer plan a higher version: instances keep the one they started with",
            )


def schedule_rules(nodes: Sequence[Mapping[str, Any]], catalog: Catalog) -> Findings:
    """Every broken rule of the form of a manifest's schedules (M-75)."""
    if nodes and not catalog.exists("defworkflow", SCHEDULE):
        yield (
            "/schedules",
            f"schedules need the workflow {SCHEDULE}",
            f'add "uses": ["{SCHEDULE_PACKAGE}"] to the manifest',
        )
    index_by_id: dict[str, int] = {}
    for index, node in enumerate(nodes):
        problems = list(schedule_problems(node))
        for pointer, message in problems:
            yield f"/schedules/{index}{pointer}", message, None
        if problems:
            continue
        id = schedule_in_form(node).id
        if index_by_id.setdefault(id, index) != index:
            yield f"/schedules/{index}", f"{id} is there twice", "give each its own id"


def governance_rules(block: Mapping[str, Any], executors: Sequence[Mapping[str, Any]]) -> Findings:
    """Yield the problems of a block that JSON Schema cannot express, and of a forged one."""
    approvers, quorum = block["approvers"], block["quorum"]
    if not 0 < len(approvers) <= APPROVERS_MAX:
        yield (
            "/governance/approvers",
            f"expected 1 to {APPROVERS_MAX} approvers, found {len(approvers)}",
            None,
        )
    for index, name in each_once([approver["name"] for approver in approvers]):
        if index is None:
            yield "/governance/approvers", f"{name} is listed twice", None
        elif not EXECUTOR_NAME.fullmatch(name):
            yield (
                f"/governance/approvers/{index}/name",
                f"{name!r} cannot be the name of an approver",
                None,
            )
    yield from _keys(approvers, executors)
    if not 1 <= quorum <= max(len(approvers), 1):
        yield (
            "/governance/quorum",
            f"expected 1 to {len(approvers)}, the number of approvers, found {quorum}",
            "every manifest would wait for votes that no one can cast",
        )
    if not 0 <= block.get("shadow_records", 0) <= SHADOW_RECORDS_MAX:
        yield "/governance/shadow_records", f"expected 0 to {SHADOW_RECORDS_MAX}", None


def _keys(
    approvers: Sequence[Mapping[str, Any]], executors: Sequence[Mapping[str, Any]]
) -> Findings:
    """The key of an approver has no other owner: an executor must not approve its own manifest."""
    owners = {
        key: f"executor {executor['name']}" for executor in executors for key in _keys_of(executor)
    }
    for index, approver in enumerate(approvers):
        pointer, key = f"/governance/approvers/{index}/public_key", approver["public_key"]
        try:
            parse_key(key)
        except ValueProblem as problem:
            yield pointer, problem.message, None
            continue
        if key in owners:
            yield (
                pointer,
                f"this key is already that of {owners[key]}",
                "make a key that only the approver has: aos key new FILE",
            )
        owners.setdefault(key, f"approver {approver['name']}")


def _keys_of(executor: Mapping[str, Any]) -> list[str]:
    return [
        executor["public_key"],
        *executor.get("retired_keys", []),
        *executor.get("revoked_keys", []),
    ]
