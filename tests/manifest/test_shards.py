"""Which shard of a group has a cell, and the manifests of shards (GR-1 to GR-23 of groups.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from aos.errors import BadUsage, Damage
from aos.manifest.effective import Effective
from aos.manifest.judging import judge
from aos.manifest.patch import PatchInvalid
from aos.manifest.patching import apply_patch, check_patch, patch_between
from aos.manifest.placement import BY_KEY, IN_EACH, IN_FIRST, Placement, Shard
from aos.manifest.shards import (
    EVERY,
    shard_of_cell,
    shard_of_event,
    shard_of_key,
    with_shard,
    without_shard,
)
from aos.values.cbor import decode_record, encode
from aos.values.schema import compile_schemas
from tests.memory_world import air, route, schema, workflow

VECTORS = Path(__file__).parents[2] / "spec" / "vectors" / "shards.json"
TEXT: dict[str, Any] = {"text": {}}
ORDER, CUSTOMER, LOG, RATES = "s/order@1", "s/customer@1", "s/log@1", "s/rates@1"
PLACED, SHIPPED, NOTED, RATED = "s/Placed@1", "s/Shipped@1", "s/Noted@1", "s/Rated@1"
BY_CUSTOMER = [
    {"workflow": ORDER, "shard_by": "|"},
    {"workflow": CUSTOMER, "shard_by": "|"},
    {"workflow": RATES, "shard": "each"},
]


def manifest(shards: list[dict[str, str]] | None = None) -> Effective:
    """A shop: orders and customers by key, one log, and rates."""
    nodes = [
        schema("s/Id@1", TEXT),
        schema("s/State@1", TEXT),
        schema("s/Unused@1", {"record": {"note": TEXT}}),
        *(
            schema(event, {"record": {"order": TEXT, "customer": TEXT}})
            for event in (PLACED, SHIPPED, NOTED, RATED)
        ),
        workflow(ORDER, state="s/State@1", event=PLACED, key_schema="s/Id@1"),
        workflow(CUSTOMER, state="s/State@1", event=SHIPPED, key_schema="s/Id@1"),
        workflow(LOG, state="s/State@1", event=NOTED),
        workflow(RATES, state="s/State@1", event=RATED),
    ]
    routes = [
        route(PLACED, ORDER, "order"),
        route(SHIPPED, CUSTOMER, "customer"),
        route(NOTED, LOG),
        route(RATED, RATES),
    ]
    routing = {"subscriptions": routes, "shards": BY_CUSTOMER if shards is None else shards}
    return air(nodes, routes, routing=routing).effective


def event(order: str = "c-1|o-7", customer: str = "c-1") -> bytes:
    return encode({"order": order, "customer": customer})


@pytest.mark.parametrize(
    "vector", json.loads(VECTORS.read_text("utf-8")), ids=lambda vector: str(vector["name"])
)
def test_the_shard_of_a_key_is_that_of_the_vectors(vector: dict[str, Any]) -> None:
    """GR-2, GR-4."""
    key_schema = compile_schemas({"v/Key@1": vector["type"]})["v/Key@1"]
    key = key_schema.encode(key_schema.normalise(vector["json"]))
    placement = Placement(kind="key", shard_by=vector.get("shard_by"))

    assert key.hex() == vector["key_cbor_hex"]
    assert placement.part(key).hex() == vector["part_cbor_hex"]
    for shards, shard in vector["shards"].items():
        assert placement.shard(key, int(shards)) == shard


@given(st.binary(max_size=64), st.integers(2, 1024))
def test_the_shard_of_a_key_is_its_hash_modulo_the_number_of_shards(
    key: bytes, shards: int
) -> None:
    """GR-2, computed in another way."""
    digits = blake3(key).hexdigest()[:16]

    assert shard_of_key(key, shards) == int(digits, 16) % shards


@given(st.text(max_size=8), st.text(max_size=8), st.integers(2, 32))
def test_keys_with_the_same_part_are_in_one_shard(part: str, rest: str, shards: int) -> None:
    """GR-4."""
    text = part.replace("|", "")
    by_bar, by_field = (Placement(kind="key", shard_by=by) for by in ("|", "customer"))

    shard = BY_KEY.shard(encode(text), shards)

    assert by_bar.shard(encode(f"{text}|{rest}"), shards) == shard
    assert by_bar.shard(encode(text), shards) == shard
    assert by_field.shard(encode({"customer": text, "rest": rest}), shards) == shard


def test_a_thousand_keys_are_spread_evenly() -> None:
    """GR-2. With 4 shards each expects 250; the deviation of a fair choice is 14."""
    counts = [0, 0, 0, 0]
    for number in range(1000):
        counts[shard_of_key(encode(f"c-{number}"), 4)] += 1

    assert all(180 < count < 320 for count in counts), counts


def test_a_workflow_is_placed_by_its_key_and_an_unkeyed_one_in_the_first_shard() -> None:
    """GR-3, GR-5."""
    plain, placed = manifest([]), manifest()

    assert [plain.workflows[name].placement for name in (ORDER, CUSTOMER, LOG, RATES)] == [
        BY_KEY, BY_KEY, IN_FIRST, IN_FIRST,
    ]  # fmt: skip
    assert [placed.workflows[name].placement for name in (ORDER, LOG, RATES)] == [
        Placement(kind="key", shard_by="|"), IN_FIRST, IN_EACH,
    ]  # fmt: skip
    assert shard_of_cell(placed, LOG, b"", 8) == 0
    assert shard_of_cell(placed, RATES, b"", 8) is None
    assert shard_of_cell(placed, ORDER, encode("c-1|o-7"), 8) == shard_of_key(encode("c-1"), 8)


def test_schedules_are_in_the_first_shard_unless_the_manifest_says_otherwise() -> None:
    """GR-3, GR-4."""

    def of_schedules(**routing: object) -> Placement:
        loaded = air([], [], uses=["aos/schedule@1"], routing={"subscriptions": [], **routing})
        return loaded.effective.workflows["aos/schedule@1"].placement

    by_bar = [{"workflow": "aos/schedule@1", "shard_by": "|"}]

    assert of_schedules() == IN_FIRST
    assert of_schedules(shards=by_bar) == Placement(kind="key", shard_by="|")


def test_the_manifest_of_a_shard_differs_in_its_shard_alone() -> None:
    """GR-10, M-44."""
    whole = manifest()
    first, second = with_shard(whole, 0, 4), with_shard(whole, 1, 4)
    parts: Any = decode_record(second.document)

    assert (whole.shard, second.shard) == (None, Shard(1, 4))
    assert parts.pop("shard") == [1, 4]
    assert encode(parts) == whole.document
    assert first.manifest_hash == second.manifest_hash == whole.manifest_hash
    assert len({whole.hash, first.hash, second.hash}) == 3
    assert without_shard(first) == without_shard(second) == without_shard(whole) == whole
    assert with_shard(second, 0, 4) == first
    assert judge(second.document) == second


@pytest.mark.parametrize(("index", "shards"), [(0, 1), (-1, 2), (2, 2), (0, 1025)])
def test_a_shard_that_no_group_has_is_refused(index: int, shards: int) -> None:
    """GR-1."""
    with pytest.raises(BadUsage, match=f"found shard {index} of {shards}"):
        with_shard(manifest(), index, shards)


@pytest.mark.parametrize(
    "shard", [[0, 1], [2, 2], [-1, 2], [0, 1025], [True, 2], [0, 2, 3], [0], "0/2", 7, {}]
)
def test_a_document_with_another_shard_is_damage(shard: Any) -> None:
    """GR-1, GR-10."""
    parts: Any = decode_record(manifest().document)
    document = encode({**parts, "shard": shard})

    for read in (judge, Effective.from_document):
        with pytest.raises(Damage, match=r"shard: expected \[index, count\]"):
            read(document)


def test_a_document_spells_no_shard_in_one_way() -> None:
    """GR-10."""
    parts: Any = decode_record(manifest().document)

    with pytest.raises(Damage, match="the spelling of a node is invalid"):
        judge(encode({**parts, "shard": None}))
    with pytest.raises(Damage, match="expected the four parts of the document"):
        judge(encode({**parts, "sharp": [0, 2]}))


def test_a_sender_gives_an_event_to_the_shard_of_its_first_keyed_route() -> None:
    """GR-20 to GR-23."""
    whole = manifest()

    for shards in (2, 3, 16):
        shard = shard_of_key(encode("c-1"), shards)
        assert shard_of_event(whole, PLACED, event(), shards) == shard
        assert shard_of_event(whole, SHIPPED, event(), shards) == shard
        assert shard_of_event(with_shard(whole, 1, shards), PLACED, event(), shards) == shard
        assert shard_of_event(whole, NOTED, event(), shards) == 0
        assert shard_of_event(whole, RATED, event(), shards) == EVERY
        assert shard_of_event(whole, "s/Unused@1", encode({"note": "x"}), shards) == 0


def test_an_event_that_no_kernel_takes_goes_to_the_first_shard() -> None:
    """GR-23: the kernel there names the broken rule."""
    whole = manifest()

    assert shard_of_event(whole, "s/Nothing@1", event(), 4) == 0
    assert shard_of_event(whole, PLACED, encode({"order": 7}), 4) == 0
    assert shard_of_event(whole, PLACED, b"\xff", 4) == 0


def test_a_patch_leads_to_the_manifest_of_the_same_shard() -> None:
    """GR-10; governance.md GV-10 to GV-13."""
    old, new = (with_shard(manifest(shards), 1, 4) for shards in ([], BY_CUSTOMER))

    patch = patch_between(old, new)

    assert apply_patch(old, patch) == new
    check_patch(old, patch, new)
    with pytest.raises(PatchInvalid):
        check_patch(old, patch, with_shard(old, 1, 4))
