"""Events from a world to a group in the same folder (spec/world-send.md, WS-40 to WS-45)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.records import Attempt
from aos.errors import Unavailable
from aos.host.delivery_queue import Pauses
from aos.host.door.delivery_targets import (
    DeliveryWay,
    NeighbourTargets,
    TargetGroup,
    TargetWorld,
)
from aos.host.door.writer import open_writer
from aos.host.folder.folder import WorldFolder, open_folder
from aos.host.folder.group import GroupFolder, open_group
from aos.host.folder.group_making import GroupPlan, init_group
from aos.host.world_send import EACH_ATTEMPT, SHARD_ATTEMPT, WorldSendExecutor
from aos.manifest.load import Loaded, load
from aos.manifest.names import WORLD_SEND
from aos.manifest.shards import shard_of_key, with_shard
from aos.message_fields import Message
from aos.read.views.view import Running
from aos.values.cbor import Value, encode
from aos.values.digests import hash_text
from tests.host import puppet as puppets
from tests.host.puppet import DO, PUPPET, asks_for
from tests.host.test_world_send import (
    Up,
    delivered,
    puppet,
    receipts,
    records,
    run,
    settled,
    until,
    up,
    world_at,
)
from tests.memory_world import route

COUNT = 2


def routed(*, by: str = "key", **manifest: Any) -> Loaded:
    """A manifest whose events have another field that can be the key."""
    files = puppets.files(effects=(WORLD_SEND,), **manifest)
    nodes = json.loads(files["m.air.json"])
    [event] = [node for node in nodes if node.get("name") == DO]
    event["type"]["record"]["other"] = {"text": {}}
    if "routing" not in manifest:
        nodes[-1]["routing"] = {"subscriptions": [route(DO, PUPPET, by)]}
    return load({**files, "m.air.json": json.dumps(nodes).encode()})


def applied(group: GroupFolder, loaded: Loaded, *, first: int = 0, last: int = COUNT - 1) -> None:
    """Apply a manifest to some shards."""
    for index in range(first, last + 1):
        with open_writer(group.shard_path(index)) as writer:
            effective = with_shard(loaded.effective, index, COUNT)
            answer = writer.apply(replace(loaded, effective=effective)).answer
            assert isinstance(answer, Admitted), answer


@pytest.fixture
def cards(tmp_path: Path) -> GroupFolder:
    """A group next to the world ``shop``."""
    world_at(tmp_path / "shop")
    group = init_group(tmp_path / "cards", GroupPlan(shards=COUNT))
    applied(group, routed())
    return open_group(group.path)


def key_of(shard: int, *, but: str = "") -> str:
    keys = (f"k{number}" for number in range(100))
    return next(key for key in keys if shard_of_key(encode(key), COUNT) == shard and key != but)


def sends(to: str, *keys: tuple[str, str]) -> bytes:
    """The output of a step that sends an event for each pair of keys."""
    values = [
        encode({"key": key, "other": other, "out": None, "trap": None}) for key, other in keys
    ]
    return asks_for(*((WORLD_SEND, {"to": to, "schema": DO, "value": value}) for value in values))


def attempts(folder: WorldFolder) -> list[int]:
    return [record.attempt for record in records(folder, Attempt)]


async def send(world: Up, out: bytes) -> None:
    [answer] = await world.link.send([puppet("a", out)], None)
    assert isinstance(answer, Admitted)


def test_an_event_goes_to_the_shard_of_its_key_and_a_shard_sends_to_its_own_group(
    cards: GroupFolder,
) -> None:
    """WS-40, WS-44."""
    zero, one = key_of(0), key_of(1)

    async def story() -> None:
        shop_path = cards.path.parent / "shop"
        async with (
            up(shop_path) as shop,
            up(cards.shard_path(0)) as first,
            up(cards.shard_path(1)) as second,
        ):
            await send(shop, sends("cards", (zero, "x"), (one, "x"), (one, "y")))
            await settled(shop, 3)
            assert delivered(first.folder) == [zero]
            assert delivered(second.folder) == [one, one]
            assert sorted(attempts(shop.folder)) == [
                SHARD_ATTEMPT, SHARD_ATTEMPT + 1, SHARD_ATTEMPT + 1,
            ]  # fmt: skip
            told = receipts(shop.folder)
            assert {(status, payload["world"]) for status, payload in told} == {
                ("ok", hash_text(world)) for world in cards.worlds
            }
            own = sends("cards", (zero, "own"), (one, "own"))
            [answer] = await first.link.send(
                [
                    replace(
                        puppet(zero, own),
                        value=encode({"key": zero, "other": "", "out": own, "trap": None}),
                    )
                ],
                None,
            )
            assert isinstance(answer, Admitted), answer
            await settled(first, 2)
            assert delivered(first.folder) == [zero, zero]
            assert delivered(second.folder) == [one, one, one]

    run(story())


def test_an_event_for_each_shard_is_admitted_by_all_and_told_once(cards: GroupFolder) -> None:
    """WS-42."""
    shards = [{"workflow": PUPPET, "shard": "each"}]
    group = init_group(cards.path.parent / "each", GroupPlan(shards=COUNT))
    applied(group, routed(routing={"subscriptions": [route(DO, PUPPET, "key")], "shards": shards}))

    async def story() -> None:
        async with up(cards.path.parent / "shop") as shop:
            async with up(group.shard_path(0)) as first:
                await send(shop, sends("each", ("x", "x")))

                async def has_first() -> bool:
                    return delivered(first.folder) == ["x"]

                await until(has_first)
                assert receipts(shop.folder) == []
                async with up(group.shard_path(1)) as second:
                    await settled(shop, 1)
                    assert delivered(first.folder) == delivered(second.folder) == ["x"]
            [(status, payload)] = receipts(shop.folder)
            assert (status, payload["world"]) == ("ok", hash_text(group.worlds[0]))
            assert attempts(shop.folder) == [EACH_ATTEMPT]

    run(story())


@dataclass
class DeafWay:
    """A connection over which no answer to a delivery comes."""

    way: DeliveryWay

    async def ask(self, request: Mapping[str, Value]) -> Message:
        answer = await self.way.ask(request)
        if request["op"] == "deliver":
            raise Unavailable("no answer came")
        return answer

    def close(self) -> None:
        self.way.close()


class DeafTargets(NeighbourTargets):
    """Finds neighbours whose answers are lost."""

    async def find(self, to: str) -> TargetWorld | TargetGroup:
        group = await super().find(to)
        assert isinstance(group, TargetGroup)

        def deaf(target: TargetWorld) -> TargetWorld:
            return replace(target, connect=lambda: DeafWay(target.connect()))

        return TargetGroup(tuple(map(deaf, group.shards)))


@pytest.mark.parametrize("was_admitted", [True, False])
def test_a_route_that_changes_between_attempts_brings_no_event_to_a_second_shard(
    cards: GroupFolder, *, was_admitted: bool
) -> None:
    """WS-41, WS-43: the sender is killed after its first attempt, whose answer is lost, or which
    did not arrive. Then another field is the key, which leads to the other shard."""
    zero, one = key_of(0), key_of(1)
    shop_path = cards.path.parent / "shop"

    def deaf(_read: object, _id: object) -> list[WorldSendExecutor]:
        folder = open_folder(shop_path)
        return [WorldSendExecutor(folder, targets=DeafTargets(folder), pauses=Pauses(0.05, 0.2))]

    async def begin() -> None:
        async with up(shop_path, executors=deaf) as shop, up(cards.shard_path(0)):

            async def is_fixed() -> bool:
                return attempts(shop.folder) == [SHARD_ATTEMPT + 1]

            if was_admitted:
                async with up(cards.shard_path(1)) as second:
                    await send(shop, sends("cards", (one, zero)))

                    async def is_there() -> bool:
                        return delivered(second.folder) == [one]

                    await until(is_there)
                    await until(is_fixed)
            else:
                await send(shop, sends("cards", (one, zero)))
                await until(is_fixed)
            assert receipts(shop.folder) == []

    async def finish() -> None:
        async with (
            up(shop_path) as shop,
            up(cards.shard_path(0)) as first,
            up(cards.shard_path(1)) as second,
        ):
            await settled(shop, 1)
            assert delivered(first.folder) == []
            assert delivered(second.folder) == ([one] if was_admitted else [])
            [(status, payload)] = receipts(shop.folder)
            if was_admitted:
                assert (status, payload["duplicate"]) == ("ok", True)
                assert payload["world"] == hash_text(cards.worlds[1])
            else:
                assert (status, payload["code"]) == ("error", "event_refused")
                assert payload["message"].startswith("key_of_another_shard: ")
            assert attempts(shop.folder) == [SHARD_ATTEMPT + 1]

    run(begin())
    applied(cards, routed(by="other"))
    run(finish())


def test_a_refusal_counts_once_all_shards_have_one_manifest(cards: GroupFolder) -> None:
    """WS-43: shard 0 has a new manifest, and shard 1 gets it later."""
    zero, one = key_of(0), key_of(1)
    new = routed(by="other")
    applied(cards, new, last=0)

    async def story() -> None:
        async with up(cards.path.parent / "shop") as shop, up(cards.shard_path(0)):
            async with up(cards.shard_path(1)):
                await send(shop, sends("cards", (zero, one)))

                async def is_shown() -> bool:
                    tasks = Running.of_answer(await shop.link.work()).tasks.values()
                    return any("shards differ" in (task.problem or "") for task in tasks)

                await until(is_shown)
                assert receipts(shop.folder) == []
            await asyncio.to_thread(applied, cards, new, first=1)
            async with up(cards.shard_path(1)) as second:
                await settled(shop, 1)
                assert receipts(shop.folder)[0][0] == "ok"
                assert delivered(second.folder) == [zero]

    run(story())


def test_a_shard_that_is_away_stops_only_its_own_events(cards: GroupFolder) -> None:
    """WS-45: and a name of a group that no shard takes, or of none, is told."""
    zero, one = key_of(0), key_of(1)

    async def story() -> None:
        async with up(cards.path.parent / "shop") as shop, up(cards.shard_path(0)) as first:
            await send(shop, sends("cards", (one, "x"), (zero, "x"), (one, "y"), (zero, "y")))
            await settled(shop, 2)
            assert delivered(first.folder) == [zero, zero]
            async with up(cards.shard_path(1)) as second:
                await settled(shop, 4)
                assert delivered(second.folder) == [one, one]
            assert {status for status, _ in receipts(shop.folder)} == {"ok"}

    run(story())
