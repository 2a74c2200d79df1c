"""The rules of a manifest's plans, schedules and governance block that JSON Schema cannot express
(M-70, M-75, GV-1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aos.manifest.catalog import Catalog, Findings, each_once
from aos.manifest.governance import APPROVERS_MAX, SHADOW_RECORDS_MAX
from aos.manifest.keys import parse_key
from aos.manifest.linear_names import LINEAR, LINEAR_PACKAGE
from aos.manifest.names import EXECUTOR_NAME
from aos.manifest.plans import plan_in_form, plan_problems
from aos.manifest.schedules import SCHEDULE, SCHEDULE_PACKAGE, schedule_in_form, schedule_problems
from aos.values.errors import ValueProblem


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
