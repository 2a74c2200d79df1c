"""(manifest, definitions) -> findings: the rules that JSON Schema cannot express (M-10 to M-39).

The nodes are authored ones or those of an effective document; their shape has been checked before.
No rule stops the others, so one run finds everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final

from aos.manifest import builtins
from aos.manifest.catalog import (
    Catalog,
    Findings,
    Node,
    RuleFinding,
    Subject,
    each_once,
    within,
)
from aos.manifest.definition_rules import DEFINITION_RULES, WORKFLOW_SCHEMAS
from aos.manifest.executor_rules import executors
from aos.manifest.expressions import closure
from aos.manifest.governance import governance
from aos.manifest.ingress_rules import ingress
from aos.manifest.limits import STEP_RANGES, WORLD_RANGES
from aos.manifest.names import is_name
from aos.manifest.plan_rules import plan_rules
from aos.manifest.routing_rules import routing
from aos.manifest.schedule_rules import schedule_rules

MANIFEST: Final[Subject] = ("manifest", "manifest")
SECTIONS: Final[Mapping[str, str]] = {
    "schemas": "defschema",
    "modules": "defmodule",
    "workflows": "defworkflow",
    "effects": "defeffect",
    "secrets": "defsecret",
}
"""Lists of a manifest. All but the last are mandatory."""


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
        for pointer, message, hint in _manifest(manifest, catalog):
            yield RuleFinding(subject=MANIFEST, pointer=pointer, message=message, hint=hint)


def _manifest(manifest: Node, catalog: Catalog) -> Findings:
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
    if "executors" in manifest:
        yield from executors(manifest["executors"], catalog)
    limits = manifest.get("limits", {})
    yield from within("/limits/step", limits.get("step", {}), STEP_RANGES)
    yield from within("/limits/world", limits.get("world", {}), WORLD_RANGES)
    yield from plan_rules(manifest.get("plans", []), catalog)
    yield from schedule_rules(manifest.get("schedules", []), catalog)
    if "governance" in manifest:
        yield from governance(manifest["governance"], manifest.get("executors", []))


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
            roots |= {node["params"], node["receipt"], builtins.ERROR}
    return roots
