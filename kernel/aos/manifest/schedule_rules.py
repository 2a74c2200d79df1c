"""The rules of the schedules of a manifest (M-75)."""

from __future__ import annotations

from aos.manifest.catalog import Catalog, Findings
from aos.manifest.schedule_names import SCHEDULE, SCHEDULE_PACKAGE
from aos.manifest.schedules import schedule_of, schedule_problems


def schedule_rules(nodes: list[object], catalog: Catalog) -> Findings:
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
        id = schedule_of(node).id
        if index_by_id.setdefault(id, index) != index:
            yield f"/schedules/{index}", f"{id} is there twice", "give each its own id"
