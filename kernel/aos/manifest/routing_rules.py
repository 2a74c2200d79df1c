"""The rules of subscriptions: (subscriptions, catalog) -> findings (M-30 to M-35)."""

from __future__ import annotations

from collections.abc import Mapping

from aos.manifest import builtins
from aos.manifest.catalog import Catalog, Findings, Node, did_you_mean, event_arms
from aos.manifest.expressions import (
    Expression,
    form_of,
    found_at,
    paths_of,
    resolved,
    same,
    type_text,
)


def routing(subscriptions: list[Node], catalog: Catalog) -> Findings:
    for index, entry in enumerate(subscriptions):
        yield from _subscription(entry, f"/routing/subscriptions/{index}", catalog)
    yield from _subscriptions_differ(subscriptions)


def _subscription(entry: Node, pointer: str, catalog: Catalog) -> Findings:
    target = "workflow" if "workflow" in entry else "op"
    event, workflow = entry["event"], entry[target]
    yield from catalog.use("defschema", event, f"{pointer}/event")
    yield from catalog.use("defworkflow", workflow, f"{pointer}/{target}")
    if event in builtins.CONTINUATIONS:
        yield (
            f"{pointer}/event",
            f"{event} {builtins.ONLY_DELIVERED}",
            "remove the subscription: receipts find the instance that asked for the effect",
        )
        return
    node = catalog.node("defworkflow", workflow)
    if node is None:
        return
    arms = event_arms(node["event"], catalog)
    if arms is not None and event in catalog.types:
        event_names = [node["event"], *(arm["ref"] for arm in arms.values() if "ref" in arm)]
        if event not in event_names:
            yield (
                f"{pointer}/event",
                f"{workflow} takes no {event}: that is no arm of its event {node['event']}",
                did_you_mean(event, event_names),
            )
            return
    yield from _key_field(entry, node, pointer, catalog)


def _key_field(entry: Node, node: Node, pointer: str, catalog: Catalog) -> Findings:
    path, key_schema = entry.get("key_field"), node.get("key_schema")
    if path is None and key_schema is None:
        return
    if path is None:
        yield (
            pointer,
            f"key_field is missing: {node['name']} is keyed by {key_schema}",
            f"name the field of {entry['event']} that holds the key",
        )
        return
    if key_schema is None:
        yield (
            f"{pointer}/key_field",
            f"{node['name']} has no key_schema, so nothing can be keyed by {path}",
            "remove key_field, or give the workflow a key_schema",
        )
        return
    if not (catalog.is_sound(entry["event"]) and catalog.is_sound(key_schema)):
        return
    yield from _key_type(entry["event"], path, key_schema, f"{pointer}/key_field", catalog)


def _key_type(event: str, path: str, key_schema: str, pointer: str, catalog: Catalog) -> Findings:
    types = catalog.types
    deliverable = _without_continuations(types[event], types)
    matches = found_at(deliverable, path, types)
    if not matches:
        yield (
            pointer,
            f"{event} has nothing at {path}",
            did_you_mean(path, paths_of(deliverable, types)),
        )
    for match_path, expression in matches:
        if not same(expression, types[key_schema], types):
            expected, actual = type_text(types[key_schema], types), type_text(expression, types)
            yield (
                pointer,
                f"{match_path} of {event} is no {key_schema}: expected {expected}, found {actual}",
                None,
            )


def _without_continuations(expression: Expression, types: Mapping[str, Expression]) -> Expression:
    """The event without the arms that only the kernel fills: as a subscription delivers it."""
    form, argument = form_of(resolved(expression, types))
    if form != "variant":
        return expression
    return {
        form: {
            tag: arm
            for tag, arm in argument.items()
            if arm.get("ref") not in builtins.CONTINUATIONS
        }
    }


def _subscriptions_differ(subscriptions: list[Node]) -> Findings:
    first: dict[tuple[str, str, str | None], int] = {}
    for index, entry in enumerate(subscriptions):
        workflow = entry["workflow"] if "workflow" in entry else entry["op"]
        first_index = first.setdefault((entry["event"], workflow, entry.get("key_field")), index)
        if first_index != index:
            yield (
                f"/routing/subscriptions/{index}",
                f"{first_index} has the same subscription",
                "an event would be delivered twice; remove one",
            )
