"""Schedules of a group are in their own shards (spec/groups.md, GR-3, GR-37)."""

from __future__ import annotations

from typing import Any

from aos.core.decide.answers import Rule
from aos.host.schedules import refused_manifest, refused_schedule, schedule_events
from aos.manifest.effective import Effective
from aos.manifest.schedule_setting import set_value
from aos.manifest.schedules import SCHEDULE, SET, ScheduleEntry
from aos.manifest.shards import shard_of_cell, with_shard
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash
from tests.memory_world import air, route, schema, workflow

TEXT: dict[str, Any] = {"text": {}}
RING, BELL = "s/Ring@1", "s/bell@1"
SHARDS = 4
IDS = [f"c-{number}|daily" for number in range(12)]


def no_blob(hash: Hash) -> bytes:
    raise AssertionError(f"no schedule has a state: {hash.hex()}")


def bells(*, by_bar: bool) -> Effective:
    """Twelve schedules: by their ids with a keyed bell, or in shard 0 with one bell."""
    key = {"key_schema": "s/Id@1"} if by_bar else {}
    nodes = [
        schema("s/Id@1", TEXT),
        schema(RING, {"record": {"key": TEXT}}),
        workflow(BELL, state="s/Id@1", event=RING, **key),
    ]
    routes = [route(RING, BELL, "key" if by_bar else None)]
    shards = [{"workflow": name, "shard_by": "|"} for name in (SCHEDULE, BELL)]
    return air(
        nodes,
        routes,
        uses=["aos/schedule@1"],
        routing={"subscriptions": routes, "shards": shards if by_bar else []},
        schedules=[
            {"id": id, "every_ms": 60_000, "event": RING, "value": {"key": id.partition("|")[0]}}
            for id in IDS
        ],
    ).effective


def ids_set(manifest: Effective) -> list[Any]:
    """The ids of the schedules that a world without any sets under this manifest."""
    return [
        decode_record(event.value)["id"]  # type: ignore[index,call-overload]  # a record
        for event in schedule_events(manifest, [], no_blob)
    ]


def test_each_schedule_of_a_manifest_is_set_in_one_shard() -> None:
    """GR-37."""
    whole = bells(by_bar=True)

    by_shard = [ids_set(with_shard(whole, index, SHARDS)) for index in range(SHARDS)]

    assert sorted(id for ids in by_shard for id in ids) == sorted(IDS) == sorted(ids_set(whole))
    assert sum(map(bool, by_shard)) > 1
    for index, ids in enumerate(by_shard):
        for id in ids:
            assert shard_of_cell(whole, SCHEDULE, encode(id), SHARDS) == index
        assert refused_manifest([], with_shard(whole, index, SHARDS), no_blob) is None


def test_without_a_placement_all_are_set_in_the_first_shard() -> None:
    """GR-3, GR-37."""
    whole = bells(by_bar=False)

    by_shard = [ids_set(with_shard(whole, index, SHARDS)) for index in range(SHARDS)]

    assert sorted(by_shard[0]) == sorted(IDS)
    assert by_shard[1:] == [[]] * (SHARDS - 1)


def test_a_sender_cannot_set_a_schedule_whose_event_leaves_its_shard() -> None:
    """GR-37: it would fail at its first time."""
    whole = bells(by_bar=True)
    shard_by_customer = {
        name: shard_of_cell(whole, BELL, encode(name), SHARDS) for name in ("c-1", "c-2", "c-3")
    }
    (near, far) = sorted({shard: name for name, shard in shard_by_customer.items()}.items())[:2]
    manifest = with_shard(whole, int(near[0] or 0), SHARDS)

    def refusal(customer: str) -> Any:
        entry = ScheduleEntry(
            id=f"{near[1]}|hourly", every_ms=60_000, event=RING, value={"key": customer}
        )
        return refused_schedule(manifest, SET, set_value(entry, manifest.schemas, ()))

    assert refusal(near[1]) is None
    refused = refusal(far[1])
    assert refused.rule is Rule.EVENT_IS_INVALID
    assert f'{BELL} "{far[1]}" is in shard {far[0]} of {SHARDS}' in refused.message
    assert "a schedule emits events in its own shard" in refused.message
