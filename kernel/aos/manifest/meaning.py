"""(manifest, definitions) -> findings: the rules that JSON Schema cannot express (M-10 to M-39).

The nodes are authored ones or those of an effective document; their shape has been checked before.
No rule stops the others, so one run finds everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final

from aos.manifest.catalog import (
    Catalog,
    Findings,
    Node,
    RuleFinding,
    Subject,
    did_you_mean,
    each_once,
    event_arms,
    within,
)
from aos.manifest.definition_rules import (
    DEFINITION_RULES,
    WORKFLOW_SCHEMAS,
    governance_rules,
    plan_rules,
    schedule_rules,
)
from aos.manifest.expressions import (
    Expression,
    closure,
    form_of,
    found_at,
    paths_of,
    resolved,
    same,
    type_text,
)
from aos.manifest.keys import parse_key
from aos.manifest.limits import STEP_RANGES, WORLD_RANGES
from aos.manifest.names import (
    CONTINUATIONS,
    ERROR,
    EXECUTOR_NAME,
    KERNEL,
    KERNEL_EFFECTS,
    LINEAR,
    ONLY_DELIVERED,
    SENT_TO_LINEAR,
    is_name,
)
from aos.manifest.placement_rules import placement_rules
from aos.manifest.schedules import SCHEDULE, SENT_TO_SCHEDULES
from aos.values.errors import ValueProblem

MANIFEST: Final[Subject] = ("manifest", "manifest")
SECTIONS: Final[Mapping[str, str]] = {
    "schemas": "defschema",
    "modules": "defmodule",
    "workflows": "defworkflow",
    "effects": "defeffect",
    "secrets": "defsecret",
}
"""Lists of a manifest. All but the last are mandatory."""

SENT_TO_PACKAGES: Final[Mapping[str, frozenset[str]]] = {
    LINEAR: SENT_TO_LINEAR,
    SCHEDULE: SENT_TO_SCHEDULES,
}
"""The events through which senders and processes of AOS drive the instances of a package, by the
name of the package, which is that of its workflow (M-30c)."""


def check(
    manifest: Node | None,
    definitions: Mapping[Subject, Node],
    broken: AbstractSet[Subject] = frozenset(),
    *,
    incomplete: bool = False,
    extra_rule: Callable[[Node, Catalog], Findings] | None = None,
) -> Iterator[RuleFinding]:
    """Return every broken rule.

    Args:
        manifest: None if there is no manifest with a valid shape; then its rules are skipped.
        definitions: The user's definitions, none of them ``sys/``.
        broken: Definitions that exist but have an invalid shape. A reference to one is valid.
        incomplete: Some definitions could not be read. An unknown name is then a finding only if
            it is similar to a known one.
        extra_rule: Another rule of the manifest.
    """
    catalog = Catalog(manifest, definitions, broken, incomplete=incomplete)
    has_findings = False
    for finding in chain(_findings(catalog), _extra_findings(manifest, catalog, extra_rule)):
        has_findings = True
        yield finding
    # Other findings can make a schema appear unused, so this rule is checked only without them.
    if not (has_findings or broken or incomplete):
        yield from _schemas_are_used(catalog)


def _extra_findings(
    manifest: Node | None, catalog: Catalog, rule: Callable[[Node, Catalog], Findings] | None
) -> Iterator[RuleFinding]:
    if manifest is not None and rule is not None:
        for pointer, message, hint in rule(manifest, catalog):
            yield RuleFinding(subject=MANIFEST, pointer=pointer, message=message, hint=hint)


def _findings(catalog: Catalog) -> Iterator[RuleFinding]:
    definitions, manifest = catalog.definitions, catalog.manifest
    for subject in sorted(definitions):
        node = definitions[subject]
        if not is_name(subject[1]):
            yield RuleFinding(
                subject=subject,
                pointer="/name",
                message=f"{subject[1]} is not a name",
                hint="expected namespace/name@version, for example acme/order.step@1",
            )
        for pointer, message, hint in DEFINITION_RULES[subject[0]](node, catalog):
            yield RuleFinding(subject=subject, pointer=pointer, message=message, hint=hint)
    yield from catalog.schema_findings
    yield from _takes_part(catalog)
    if manifest is not None:
        for pointer, message, hint in _manifest_findings(manifest, catalog):
            yield RuleFinding(subject=MANIFEST, pointer=pointer, message=message, hint=hint)


def _manifest_findings(manifest: Node, catalog: Catalog) -> Findings:
    for section, kind in SECTIONS.items():
        names = [entry["name"] for entry in manifest.get(section, ())]
        for index, name in each_once(names):
            if index is None:
                yield f"/{section}", f"{name} is listed twice", None
            else:
                yield from catalog.use(kind, name, f"/{section}/{index}/name")
    routes = manifest.get("routing", {})
    yield from routing(routes.get("subscriptions", []), catalog)
    if "ingress" in routes:
        yield from ingress(routes["ingress"], catalog)
    yield from placement_rules(routes.get("shards", []), catalog)
    if "executors" in manifest:
        yield from executors(manifest["executors"], catalog)
    limits = manifest.get("limits", {})
    yield from within("/limits/step", limits.get("step", {}), STEP_RANGES)
    yield from within("/limits/world", limits.get("world", {}), WORLD_RANGES)
    yield from plan_rules(manifest.get("plans", []), catalog)
    yield from schedule_rules(manifest.get("schedules", []), catalog)
    if "governance" in manifest:
        yield from governance_rules(manifest["governance"], manifest.get("executors", []))


def _takes_part(catalog: Catalog) -> Iterator[RuleFinding]:
    """Every definition must be listed: leaving one out is usually a mistake (M-12)."""
    if catalog.manifest is None:
        return
    for section, kind in SECTIONS.items():
        listed_names = {entry["name"] for entry in catalog.manifest.get(section, ())}
        for subject in sorted(catalog.definitions):
            if subject[0] == kind != "defschema" and subject[1] not in listed_names:
                yield _unlisted(subject, section, "")


def _schemas_are_used(catalog: Catalog) -> Iterator[RuleFinding]:
    """Every schema must be listed or reached by the manifest."""
    if catalog.manifest is None:
        return
    roots = schema_roots(catalog.manifest, catalog.definitions.values())
    reached = closure(roots, catalog.types)
    for subject in sorted(catalog.definitions):
        if subject[0] == "defschema" and subject[1] not in reached:
            yield _unlisted(subject, "schemas", ", and nothing in it refers to it")


def _unlisted(subject: Subject, section: str, addition: str) -> RuleFinding:
    return RuleFinding(
        subject=subject,
        pointer="/name",
        message=f"{subject[1]} is defined but not listed in the manifest{addition}",
        hint=f"add it to {section} of the manifest, or remove the definition",
    )


def schema_roots(manifest: Node, definitions: Iterable[Node]) -> set[str]:
    """The schemas that a manifest names directly, and those of these workflows and effects."""
    roots = {entry["name"] for entry in manifest["schemas"]}
    routes = manifest.get("routing", {})
    roots |= {entry["event"] for entry in routes.get("subscriptions", [])}
    roots |= set(routes.get("ingress", []))
    for node in definitions:
        if node["$kind"] == "defworkflow":
            roots |= {node[use] for use in WORKFLOW_SCHEMAS if use in node}
        elif node["$kind"] == "defeffect":
            roots |= {node["params"], node["receipt"], ERROR}
    return roots


def routing(subscriptions: list[Node], catalog: Catalog) -> Findings:
    """Every broken rule of the subscriptions (M-30 to M-35)."""
    for index, entry in enumerate(subscriptions):
        yield from _subscription(entry, f"/routing/subscriptions/{index}", catalog)
    yield from _subscriptions_differ(subscriptions)


def _subscription(entry: Node, pointer: str, catalog: Catalog) -> Findings:
    target = "workflow" if "workflow" in entry else "op"
    event, workflow = entry["event"], entry[target]
    yield from catalog.use("defschema", event, f"{pointer}/event")
    yield from catalog.use("defworkflow", workflow, f"{pointer}/{target}")
    if event in CONTINUATIONS:
        yield (
            f"{pointer}/event",
            f"{event} {ONLY_DELIVERED}",
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
        form: {tag: arm for tag, arm in argument.items() if arm.get("ref") not in CONTINUATIONS}
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


def ingress(event_names: Sequence[str], catalog: Catalog) -> Findings:
    """Every broken rule of the list of events that are accepted from outside (M-30b, M-30c)."""
    for index, name in each_once(list(event_names)):
        if index is None:
            yield "/routing/ingress", f"{name} is listed twice", None
        else:
            yield from _ingress_event(name, f"/routing/ingress/{index}", catalog)
    for package, sent in SENT_TO_PACKAGES.items():
        missing = sorted(sent - set(event_names))
        if missing and catalog.node("defworkflow", package) is not None:
            yield (
                "/routing/ingress",
                f"{', '.join(missing)} must be listed: {package} is driven by these events",
                f'add them, or "uses": ["{package}"], which adds them to the list',
            )


def _ingress_event(name: str, pointer: str, catalog: Catalog) -> Findings:
    yield from catalog.use("defschema", name, pointer)
    if name in CONTINUATIONS:
        yield (
            pointer,
            f"{name} {ONLY_DELIVERED}",
            "remove it from the list: receipts find the instance that asked for the effect",
        )


def executors(entries: list[Node], catalog: Catalog) -> Findings:
    """Every broken rule of the list of executors (M-37)."""
    for index, name in each_once([entry["name"] for entry in entries]):
        if index is None:
            yield "/executors", f"{name} is listed twice", None
        elif name == KERNEL or not EXECUTOR_NAME.fullmatch(name):
            yield f"/executors/{index}/name", f"{name!r} cannot be the name of an executor", None
    for index, entry in enumerate(entries):
        for effect_index, effect in each_once(entry["effects"]):
            pointer = f"/executors/{index}/effects"
            if effect_index is None:
                yield pointer, f"{effect} is listed twice", None
            elif effect in KERNEL_EFFECTS:
                yield (
                    f"{pointer}/{effect_index}",
                    f"the kernel itself answers {effect}: no executor signs for it",
                    "leave it out",
                )
            else:
                yield from catalog.use("defeffect", effect, f"{pointer}/{effect_index}")
    yield from _executor_keys(entries)
    yield from _effects_have_a_signer(entries, catalog)


def _executor_keys(entries: list[Node]) -> Findings:
    owners: dict[str, str] = {}
    for index, entry in enumerate(entries):
        at = f"/executors/{index}"
        placed = [(f"{at}/public_key", entry["public_key"])]
        for field in ("retired_keys", "revoked_keys"):
            keys = entry.get(field, [])
            placed += [(f"{at}/{field}/{key_index}", key) for key_index, key in enumerate(keys)]
        for pointer, key in placed:
            try:
                parse_key(key)
            except ValueProblem as problem:
                yield pointer, problem.message, None
                continue
            if key in owners:
                yield (
                    pointer,
                    f"this key is already used at {owners[key]}",
                    "a key has one owner and is in force, retired or revoked",
                )
            owners.setdefault(key, pointer)


def _effects_have_a_signer(entries: list[Node], catalog: Catalog) -> Findings:
    """If the list is present, some executor must be allowed to sign for each emitted effect."""
    may_sign = {(entry["name"], effect) for entry in entries for effect in entry["effects"]}
    signed = {effect for _, effect in may_sign}
    emitted = {
        effect
        for (kind, _), node in catalog.definitions.items()
        if kind == "defworkflow"
        for effect in node["effects_emitted"]
        if catalog.exists("defeffect", effect) and effect not in KERNEL_EFFECTS
    }
    for effect in sorted(emitted):
        # Any executor may be named for built-in effects and those of a module.
        executor = (
            catalog.definitions.get(("defeffect", effect), {}).get("impl", {}).get("executor")
        )
        if executor is not None and (executor, effect) not in may_sign:
            yield (
                "/executors",
                f"{effect} is run by {executor}, which may not sign for it",
                f"add {effect} to the effects of an executor named {executor}",
            )
        elif executor is None and effect not in signed:
            yield "/executors", f"no executor may sign for {effect}", None
