"""The rules of the plans of a manifest (M-70)."""

from __future__ import annotations

from aos.manifest.catalog import Catalog, Findings
from aos.manifest.linear_names import LINEAR, LINEAR_PACKAGE
from aos.manifest.plans import plan_of, plan_problems


def plan_rules(nodes: list[object], catalog: Catalog) -> Findings:
    """Every broken rule of the plans of a manifest (M-70)."""
    if nodes and not catalog.exists("defworkflow", LINEAR):
        yield (
            "/plans",
            f"plans need the workflow {LINEAR}",
            f'add "uses": ["{LINEAR_PACKAGE}"] to the manifest',
        )
    index_by_plan: dict[tuple[str, int], int] = {}
    for index, node in enumerate(nodes):
        broken = False
        for pointer, message in plan_problems(node):
            broken = True
            yield f"/plans/{index}{pointer}", message, None
        if broken:
            continue
        plan = plan_of(node)
        first = index_by_plan.setdefault((plan.type, plan.version), index)
        if first != index:
            yield (
                f"/plans/{index}",
                f"{plan.type} has version {plan.version} twice",
                "give the newer plan a higher version: instances keep the one they started with",
            )
