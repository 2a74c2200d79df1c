"""A group of worlds does the work of one world (spec/groups.md): drawn manifests and workloads."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.manifest.load import Loaded
from aos.manifest.shards import EVERY, group_findings
from aos.values.cbor import Value, encode
from tests.core.group_shop import (
    LOG,
    MODULES,
    NOTED,
    ORDER,
    PLACED,
    RATES,
    MemoryGroup,
    shop,
    states,
)
from tests.memory_world import Envelope, MemoryWorld, air, route, schema, workflow
from tests.run_seed import examples

TEXT: dict[str, Any] = {"text": {}}
NAT: dict[str, Any] = {"nat": {}}
PAIR: dict[str, Any] = {"record": {"customer": TEXT, "number": NAT}}
KEYS: dict[str, dict[str, Any]] = {"name": TEXT, "other": TEXT, "count": NAT, "pair": PAIR}
"""Fields of the one event, each of which can be a key."""

texts = st.sampled_from(["a", "b", "c-1", "c-1|x", "c-2|x", "c-2|y|z", "", "|", "é|1"])
event_values = st.builds(
    lambda name, other, count, customer, number: {
        "name": name,
        "other": other,
        "count": count,
        "pair": {"customer": customer, "number": number},
    },
    texts, texts, st.integers(0, 20), texts, st.integers(0, 3),
)  # fmt: skip


def keeps(envelope: Envelope) -> Envelope:
    """A module that keeps nothing but that it ran."""
    return {"state": encode("ran")}


@st.composite
def targets(draw: st.DrawFn) -> list[tuple[str | None, dict[str, str]]]:
    """Key fields, None for an unkeyed workflow, and how each workflow is placed. Few fields, so
    that many of these manifests are fit for a group."""
    placements: dict[str | None, dict[str, str]] = {}
    for key_field in draw(st.lists(st.sampled_from([None, *KEYS]), min_size=1, max_size=2)):
        parts = {None: [], "count": [], "pair": ["customer", "number"]}.get(key_field, ["|"])
        shard_by = draw(st.sampled_from([None, *parts]))
        placements[key_field] = {} if shard_by is None else {"shard_by": shard_by}
    chosen_fields = draw(st.lists(st.sampled_from(list(placements)), min_size=1, max_size=4))
    return [
        (field, {"shard": "each"} if draw(st.integers(0, 2)) == 0 else placements[field])
        for field in chosen_fields
    ]


def manifest_of(targets: list[tuple[str | None, dict[str, str]]]) -> Loaded:
    """A manifest whose one event reaches a workflow of its own for each target."""
    nodes = [
        schema("d/State@1", TEXT),
        *(schema(f"d/Key-{field}@1", type_) for field, type_ in KEYS.items()),
        schema("d/Event@1", {"record": KEYS}),
    ]
    routes, shards = [], []
    for number, (key_field, placement) in enumerate(targets):
        name = f"d/w-{number}@1"
        key = {} if key_field is None else {"key_schema": f"d/Key-{key_field}@1"}
        nodes.append(workflow(name, state="d/State@1", event="d/Event@1", **key))
        routes.append(route("d/Event@1", name, key_field))
        if placement:
            shards.append({"workflow": name, **placement})
    return air(nodes, routes, routing={"subscriptions": routes, "shards": shards})


@settings(max_examples=examples(20))
@given(
    targets(),
    st.lists(event_values, min_size=1, max_size=6),
    st.integers(2, 5),
)
def test_one_shard_admits_each_event_and_it_is_the_one_of_the_sender(
    drawn: list[tuple[str | None, dict[str, str]]], values: list[Any], shards: int
) -> None:
    """K-40a, GR-20 to GR-22, GR-31, GR-32: for each manifest that a group can have."""
    loaded = manifest_of(drawn)
    declared = len({key_field for key_field, placement in drawn if "shard" not in placement}) > 1
    if any(group_findings(loaded.effective)):
        return
    modules = dict.fromkeys(loaded.effective.workflows, keeps)
    group = MemoryGroup(loaded, shards, modules)

    for value in values:
        shard = group.shard_of("d/Event@1", value)
        admitting = group.admitting("d/Event@1", value)
        if shard == EVERY:
            assert admitting == list(range(shards))
        elif declared:  # by an author who may be wrong about this event
            assert admitting in ([shard], [])
        else:
            assert admitting == [shard]
    group.run()


customers = st.sampled_from([f"c-{number}" for number in range(5)])
orders = st.builds(lambda customer, number: f"{customer}|o-{number}", customers, st.integers(0, 2))


@st.composite
def placed(draw: st.DrawFn) -> tuple[str, Any]:
    """An event of the shop whose step stays with its customer."""
    order = draw(orders)
    customer = order.partition("|")[0]
    note = draw(st.sampled_from(["x", "ship", "rate", f"tell:{customer}|o-1", f"look:{order}"]))
    return PLACED, {"order": order, "note": note}


inputs = st.one_of(
    placed(),
    st.just(("run", None)),
    st.builds(lambda note: (NOTED, {"key": "", "note": note}), st.sampled_from("ab")),
)


@settings(max_examples=examples(20))
@given(st.lists(inputs, max_size=25), st.integers(2, 5))
def test_the_shards_have_together_the_cells_of_one_world(
    drawn: list[tuple[str, Value]], shards: int
) -> None:
    """For a workload in which no step leaves its shard, whatever runs between the events. The
    workflow in each shard has a part of the one world's lines in each of them."""
    one, group = MemoryWorld(shop(), MODULES), MemoryGroup(shop(), shards)

    for schema_name, value in [*drawn, ("run", None)]:
        if schema_name == "run":
            one.run()
            group.run()
            continue
        assert isinstance(one.send(schema_name, value), Admitted)
        (answer,) = group.send(schema_name, value)
        assert isinstance(answer, Admitted)

    whole = states(one)
    parts = [states(world) for world in group.worlds]
    rates: list[Any] = [part.pop((RATES, b""), []) for part in parts]
    lines: Any = whole.pop((RATES, b""), [])
    assert sorted(line for part in rates for line in part) == sorted(lines)
    assert sum(map(len, parts)) == len(whole)
    assert {id: state for part in parts for id, state in part.items()} == whole
    assert all((LOG, b"") not in part for part in parts[1:])


@given(orders, st.integers(2, 5))
@settings(max_examples=examples(12))
def test_every_other_shard_names_the_shard_of_an_order(order: str, shards: int) -> None:
    """K-40a: so a sender with the wrong number of shards learns it."""
    group = MemoryGroup(shop(), shards)
    value: Any = {"order": order, "note": "x"}
    shard = group.shard_of(PLACED, value)

    for index, world in enumerate(group.worlds):
        answer = world.send(PLACED, value)
        if index != shard:
            assert isinstance(answer, Refusal)
            assert answer.rule is Rule.KEY_OF_ANOTHER_SHARD
            assert f'{ORDER} "{order}" is in shard {shard} of {shards}' in answer.message
