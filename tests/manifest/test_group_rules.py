"""Which manifests a group of worlds can have (spec/groups.md, GR-30 to GR-36)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aos.errors import Damage
from aos.manifest.effective import Effective
from aos.manifest.judging import judge
from aos.manifest.load import ManifestProblems, load
from aos.manifest.shards import group_findings, with_shard
from tests.flow import shop
from tests.manifest.test_shards import BY_CUSTOMER, CUSTOMER, LOG, ORDER, RATES, TEXT
from tests.manifest.test_shards import manifest as shop_manifest
from tests.memory_world import air, effect, route, schema, wasm, workflow

BOTH = "s/Both@1"
NAT: dict[str, Any] = {"nat": {}}
ONE_VALUE = "expected both to be placed by the same value"
ONE_SHARD = "expected all that one event reaches in one shard"
EACH_DAY = {"id": "daily", "every_ms": 86_400_000}


def findings(manifest: Effective) -> list[str]:
    return [f"{found.pointer}: {found.message}" for found in group_findings(manifest)]


def both(
    *shards: dict[str, str],
    first: tuple[str, str | None] = (ORDER, "order"),
    second: tuple[str, str | None] = (CUSTOMER, "customer"),
    customer: dict[str, Any] = TEXT,
) -> Effective:
    """A manifest with one event for two workflows."""
    key = {"record": {"customer": customer, "order": TEXT}}
    nodes = [
        schema("s/Id@1", TEXT),
        schema("s/Customer@1", customer),
        schema("s/Key@1", key),
        schema(BOTH, {"record": {"order": TEXT, "customer": customer, "key": key}}),
        workflow(ORDER, state="s/Id@1", event=BOTH, key_schema="s/Id@1"),
        workflow(CUSTOMER, state="s/Id@1", event=BOTH, key_schema="s/Customer@1"),
        workflow("s/line@1", state="s/Id@1", event=BOTH, key_schema="s/Key@1"),
        workflow(LOG, state="s/Id@1", event=BOTH),
        workflow(RATES, state="s/Id@1", event=BOTH),
    ]
    routes = [route(BOTH, *first), route(BOTH, *second)]
    return air(nodes, routes, routing={"subscriptions": routes, "shards": list(shards)}).effective


def by(workflow: str, shard_by: str = "|") -> dict[str, str]:
    return {"workflow": workflow, "shard_by": shard_by}


def each(workflow: str) -> dict[str, str]:
    return {"workflow": workflow, "shard": "each"}


def test_a_manifest_whose_events_stay_in_one_shard_is_fit() -> None:
    """GR-31."""
    assert findings(shop_manifest()) == []
    assert findings(shop_manifest([])) == []
    assert findings(both(by(ORDER), by(CUSTOMER))) == []
    assert findings(both(second=(ORDER, "customer"))) != []
    assert findings(both(by(ORDER), second=(ORDER, "customer"))) == []
    assert findings(both(first=(ORDER, "customer"))) == []
    assert findings(both(first=(LOG, None), second=(RATES, None))) == []
    assert findings(both(each(LOG), second=(LOG, None))) == []
    assert findings(both(each(LOG), first=(RATES, None), second=(LOG, None))) == []
    assert findings(both(each(CUSTOMER))) == []
    assert findings(both(by("s/line@1", "customer"), by(ORDER), second=("s/line@1", "key"))) == []


def test_an_event_for_two_keys_needs_the_part_that_is_the_same() -> None:
    """GR-31: one of both without shard_by is placed by its whole key."""
    message = (
        f"/routing/subscriptions/1: {BOTH} reaches {ORDER}, which is placed by %s, and {CUSTOMER}, "
        f"which is placed by customer: {ONE_VALUE}"
    )

    assert findings(both()) == [message % "order"]
    assert findings(both(by(ORDER))) == [message % "the text before the first | of order"]


def test_two_parts_of_one_key_or_of_two_types_are_never_the_same() -> None:
    """GR-31."""
    wrong_type = both(
        by("s/line@1", "customer"), by(ORDER), second=("s/line@1", "key"), customer=NAT
    )
    two_parts = both(by(ORDER), second=(CUSTOMER, "order"))
    message = (
        f"/routing/subscriptions/1: {BOTH} reaches {ORDER}, which is placed by the text before the "
        f"first | of order, and %s: {ONE_VALUE}"
    )

    assert findings(wrong_type) == [message % "s/line@1, which is placed by key.customer"]
    assert findings(two_parts) == [message % f"{CUSTOMER}, which is placed by order"]


def test_a_keyed_and_an_unkeyed_workflow_get_no_event_together() -> None:
    """GR-32, in both orders of the subscriptions."""
    message = f"/routing/subscriptions/1: {BOTH} reaches %s, and %s: {ONE_SHARD}"
    keyed, alone = f"{ORDER}, which is placed by order", f"{LOG}, which is in shard 0 alone"

    assert findings(both(second=(LOG, None))) == [message % (keyed, alone)]
    assert findings(both(first=(LOG, None), second=(ORDER, "order"))) == [message % (alone, keyed)]
    hint = next(iter(group_findings(both(second=(LOG, None))))).hint
    assert hint is not None
    assert f'list {LOG} in routing.shards with "shard": "each"' in hint


def test_an_effect_with_one_request_in_the_world_is_refused() -> None:
    """GR-33."""
    nodes = [
        schema("s/Id@1", TEXT),
        schema("s/Pay@1", {"record": {"cents": NAT}}),
        effect("s/pay@1", "s/Pay@1", "s/Pay@1", idempotency_scope="world"),
    ]
    (found,) = group_findings(air(nodes, []).effective)

    assert (found.subject, found.pointer) == (("defeffect", "s/pay@1"), "/idempotency_scope")
    assert found.message.endswith("expected idempotency_scope cell, found world")


def flows(*shards: dict[str, str], child_key: dict[str, Any] = TEXT) -> Effective:
    """The flow ``shop/order@1``, which calls flows, and ``shop/child@1``, which can be called."""
    nodes = json.loads(json.dumps(shop.nodes()))
    nodes += [
        schema("shop/Returned@1", {"record": {"instance": TEXT}}),
        schema("shop/ChildId@1", child_key),
        schema("shop/ChildCall@1", {"record": {"instance": child_key}}),
        schema("shop/ChildStart@1", {"record": {"instance": child_key}}),
    ]
    by_name = {node["name"]: node for node in nodes if "name" in node}
    order_event = by_name["shop/OrderFlowEvent@1"]
    order_event["type"]["variant"]["Return"] = {"ref": "shop/Returned@1"}
    child_event = json.loads(json.dumps(order_event)) | {"name": "shop/ChildFlowEvent@1"}
    arms = child_event["type"]["variant"]
    del arms["Return"]
    arms["Call"], arms["Start"] = {"ref": "shop/ChildCall@1"}, {"ref": "shop/ChildStart@1"}
    child = {
        **by_name[shop.ORDER],
        "name": "shop/child@1",
        "event": "shop/ChildFlowEvent@1",
        "key_schema": "shop/ChildId@1",
    }
    (manifest,) = (node for node in nodes if node["$kind"] == "manifest")
    manifest["workflows"].append({"name": "shop/child@1"})
    manifest["routing"]["subscriptions"].append(
        route("shop/ChildCall@1", "shop/child@1", "instance")
    )
    manifest["routing"]["shards"] = list(shards)
    manifest["schemas"] += [{"name": "shop/Returned@1"}]
    air_file = json.dumps([*nodes, child_event, child]).encode()
    return load({"m.air.json": air_file, "m.wasm": wasm("m@1")}).effective


def test_a_flow_calls_one_that_can_be_in_its_shard() -> None:
    """GR-34."""
    caller, child = shop.ORDER, "shop/child@1"
    message = (
        f"/key_schema: {caller} calls flows, and none of those that can be called ({child}) can be "
        "in its shard"
    )

    assert findings(flows()) == []
    assert findings(flows(by(caller), by(child))) == []
    assert findings(flows(each(child))) == []
    assert findings(flows(each(caller), each(child))) == []
    assert findings(flows(each(caller))) == [message]
    assert findings(flows(child_key=NAT)) == [message]
    assert findings(flows(each(child), child_key=NAT)) == []


def test_plans_are_placed_with_their_business_keys() -> None:
    """GR-35."""
    instances, biz_keys = "aos/linear@1", "aos/linear.bizkey@1"

    def plans(*shards: dict[str, str]) -> list[str]:
        routing = {"subscriptions": [], "shards": list(shards)}
        return findings(air([], [], uses=[instances], routing=routing).effective)

    assert plans(by(instances), by(biz_keys)) == []
    assert plans(each(instances), each(biz_keys)) == []
    for shards in ([], [by(instances)], [by(biz_keys)], [each(instances)]):
        (line,) = plans(*shards)
        assert line.startswith(f"/routing/shards: {instances} and {biz_keys} send each other")


def scheduled(
    *shards: dict[str, str], target: str = LOG, value: dict[str, str] | None = None, **entry: Any
) -> list[str]:
    """The findings of a manifest with one schedule, whose event reaches ``target``."""
    nodes = [
        schema("s/Id@1", TEXT),
        schema("s/Ring@1", {"record": {"key": TEXT}}),
        workflow(LOG, state="s/Id@1", event="s/Ring@1"),
        workflow(ORDER, state="s/Id@1", event="s/Ring@1", key_schema="s/Id@1"),
    ]
    routes = [route("s/Ring@1", target, None if target == LOG else "key")]
    return findings(
        air(
            nodes,
            routes,
            uses=["aos/schedule@1"],
            routing={"subscriptions": routes, "shards": list(shards)},
            schedules=[
                {**EACH_DAY, "event": "s/Ring@1", "value": value or {"key": "c-1"}, **entry}
            ],
        ).effective
    )


def test_a_schedule_emits_events_for_its_own_shard() -> None:
    """GR-36."""
    schedule = "aos/schedule@1"
    by_bar = (by(schedule), by(ORDER))
    near: dict[str, Any] = {"target": ORDER, "id": "c-1|daily"}

    assert scheduled() == []
    assert scheduled(each(schedule), each(LOG)) == []
    assert scheduled(*by_bar, **near) == []
    assert scheduled(*by_bar, **near, value={"key": "c-1|o-7"}) == []
    for lines, where, reached in (
        (scheduled(each(LOG)), "in shard 0", f"{LOG}, which is in each shard"),
        (scheduled(each(schedule)), "in each shard", f"{LOG}, which is in shard 0 alone"),
        (scheduled(by(schedule)), "in the shard of its id", f"{LOG}, which is in shard 0"),
        (scheduled(target=ORDER), "in shard 0", f"{ORDER}, which is placed by key"),
        (scheduled(*by_bar, target=ORDER), "in the shard of its id", f"{ORDER}, which is"),
    ):
        (line,) = lines
        assert line.startswith(f"/schedules: schedule daily is {where}, "), line
        assert f"its event s/Ring@1 reaches {reached}" in line


def test_a_schedule_of_a_plan_begins_its_instances_with_its_id() -> None:
    """GR-36: an instance is ``ID@TIME``, so its text before the bar is that of the id."""
    packages = ("aos/schedule@1", "aos/linear@1", "aos/linear.bizkey@1")
    plan = {"type": "report", "version": 1, "steps": [{"type": "print"}]}

    def of_plan(id: str) -> list[str]:
        return findings(
            air(
                [],
                [],
                uses=["aos/linear@1", "aos/schedule@1"],
                routing={"subscriptions": [], "shards": [by(name) for name in packages]},
                plans=[plan],
                schedules=[{**EACH_DAY, "id": id, "plan": "report"}],
            ).effective
        )

    assert of_plan("c-1|daily") == []
    assert len(of_plan("daily")) == 1


def test_the_document_of_a_shard_is_judged_by_the_rules_of_a_group() -> None:
    """GR-11, GR-30: and that of a world in no group is not."""
    fit, unfit = both(by(ORDER), by(CUSTOMER)), both()

    assert judge(unfit.document) == unfit
    assert judge(with_shard(fit, 1, 2).document).shard is not None
    with pytest.raises(Damage, match=f"subscriptions/1: {BOTH} reaches {ORDER}"):
        judge(with_shard(unfit, 1, 2).document)


def test_an_author_reads_the_place_in_the_file() -> None:
    """GR-30: ``load`` with ``in_group`` reports the findings as those of any other rule."""
    manifest = {
        "$kind": "manifest", "air_version": "2", "schemas": [], "modules": [{"name": "s/m@1"}],
        "workflows": [{"name": ORDER}, {"name": LOG}], "effects": [],
        "routing": {"subscriptions": [route(BOTH, ORDER, "order"), route(BOTH, LOG)]},
    }  # fmt: skip
    module = {
        "$kind": "defmodule", "name": "s/m@1",
        "runtime": {"kind": "wasm", "artifact": {"kind": "wasm_module", "path": "m.wasm"}},
    }  # fmt: skip
    nodes = [
        schema("s/Id@1", TEXT), schema(BOTH, {"record": {"order": TEXT}}), module,
        *(
            {**node, "impl": {"module": "s/m@1", "entrypoint": "step"}}
            for node in (
                workflow(ORDER, state="s/Id@1", event=BOTH, key_schema="s/Id@1"),
                workflow(LOG, state="s/Id@1", event=BOTH),
            )
        ),
        manifest,
    ]  # fmt: skip
    files = {"shop.air.json": json.dumps(nodes).encode(), "m.wasm": wasm("m@1")}

    assert load(files).effective.shard is None
    with pytest.raises(ManifestProblems) as refused:
        load(files, in_group=True)
    assert str(refused.value) == (
        f"shop.air.json#/5/routing/subscriptions/1: {BOTH} reaches {ORDER}, which is placed by "
        f"order, and {LOG}, which is in shard 0 alone: {ONE_SHARD} (list {LOG} in routing.shards "
        'with "shard": "each", so that each shard has one, or remove one of the two subscriptions)'
    )


def test_the_placements_of_a_manifest_do_nothing_in_a_world_without_a_group() -> None:
    """GR-10."""
    assert shop_manifest(BY_CUSTOMER).shard is None


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (by("s/line@1", "custmer"), "the key of s/line@1, has no field custmer"),
        (by("s/line@1"), "the key of s/line@1, has no field |"),
        (by(CUSTOMER), f"the key of {CUSTOMER} is nat: expected no shard_by, found |"),
    ],
)
def test_a_placement_names_a_part_that_the_key_has(entry: dict[str, str], problem: str) -> None:
    """M-30d."""
    with pytest.raises(ManifestProblems) as refused:
        both(entry, second=(CUSTOMER, "customer"), customer=NAT)

    assert problem in str(refused.value)


def test_the_order_of_the_placements_changes_no_byte() -> None:
    """M-22, M-46."""
    assert shop_manifest(BY_CUSTOMER) == shop_manifest(BY_CUSTOMER[::-1])
    assert b"shards" in shop_manifest(BY_CUSTOMER).document
    assert b"shards" not in shop_manifest([]).document
