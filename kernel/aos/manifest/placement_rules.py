"""The rules of ``routing.shards``, which says how workflows are placed in a group (M-30d)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aos.manifest.catalog import Catalog, Findings, Node, did_you_mean
from aos.manifest.expressions import form_of, resolved
from aos.manifest.placement import BEFORE_BAR


def placement_rules(entries: Sequence[Node], catalog: Catalog) -> Findings:
    """Every broken rule of the list."""
    index_by_workflow: dict[str, int] = {}
    for index, entry in enumerate(entries):
        pointer = f"/routing/shards/{index}"
        workflow = entry["workflow"]
        yield from catalog.use("defworkflow", workflow, f"{pointer}/workflow")
        if index_by_workflow.setdefault(workflow, index) != index:
            yield pointer, f"{workflow} is listed twice", "a workflow is placed in one way"
        if "shard_by" in entry:
            yield from _shard_by(entry["shard_by"], workflow, f"{pointer}/shard_by", catalog)


def _shard_by(shard_by: str, workflow: str, pointer: str, catalog: Catalog) -> Findings:
    node = catalog.node("defworkflow", workflow)
    if node is None:
        return
    key_schema = node.get("key_schema")
    if key_schema is None:
        yield (
            pointer,
            f"{workflow} has no key_schema, so nothing can be placed by {shard_by}",
            'an unkeyed workflow is in shard 0, or with "shard": "each" in each shard',
        )
        return
    if not catalog.is_sound(key_schema):
        return
    form, argument = form_of(resolved(catalog.types[key_schema], catalog.types))
    if form == "record":
        if shard_by not in argument:
            yield (
                pointer,
                f"{key_schema}, the key of {workflow}, has no field {shard_by}",
                did_you_mean(shard_by, argument) or f"its fields are {', '.join(argument)}",
            )
    elif form != "text" or shard_by != BEFORE_BAR:
        expected = f'"{BEFORE_BAR}"' if form == "text" else "no shard_by"
        yield (
            pointer,
            f"the key of {workflow} is {form}: expected {expected}, found {shard_by}",
            _MEANING,
        )


_MEANING: Final = (
    f'"{BEFORE_BAR}" is the text before the first {BEFORE_BAR} of a text key, and a name is a '
    "field of a key that is a record"
)
