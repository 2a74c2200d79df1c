"""A group behind one address, with real worlds (spec/groups.md, GR-90 on)."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from aos.core.decide.answers import Admitted
from aos.errors import Refused, Unavailable
from aos.host.door.writer import open_writer
from aos.host.folder.group import GroupFolder
from aos.host.folder.group_making import GroupPlan, init_group
from aos.manifest.load import Loaded
from aos.manifest.shards import shard_of_key, with_shard
from aos.node.tokens import Scope, create
from aos.node.worlds.worlds_folder import WorldsFolder
from aos.values.cbor import encode
from tests.cli.shell import here
from tests.host import puppet
from tests.memory_world import route
from tests.node.worlds.hosts import Host, run, until
from tests.node.worlds.test_real_worlds import real

SHARDS = 2
EACH = {
    "subscriptions": [route(puppet.DO, puppet.PUPPET, "key")],
    "shards": [{"workflow": puppet.PUPPET, "shard": "each"}],
}


def give(group: GroupFolder, index: int, loaded: Loaded, mode: str = "strict") -> None:
    """Put a manifest in force in one shard."""
    own = dataclasses.replace(loaded, effective=with_shard(loaded.effective, index, SHARDS))
    with open_writer(group.shard_path(index)) as writer:
        assert isinstance(writer.apply(own, mode=mode).answer, Admitted)


def made(tmp_path: Path, **manifest: Any) -> GroupFolder:
    group = init_group(tmp_path / "group", GroupPlan(shards=SHARDS))
    for index in range(SHARDS):
        give(group, index, puppet.manifest(**manifest))
    return group


def shard_of(key: str) -> str:
    return f"00{shard_of_key(encode(key), SHARDS)}"


def event(key: str, **more: Any) -> dict[str, Any]:
    return {"schema": puppet.DO, "value": {"key": key}, **more}


async def document(client: httpx.AsyncClient, path: str, status: int = 200) -> Any:
    answer = await client.get(path)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_events_and_questions_at_one_address(tmp_path: Path) -> None:
    """GR-90 to GR-94"""
    host = Host(made(tmp_path).path)
    keys = [f"k-{number}" for number in range(8)]

    async def script() -> None:
        async with host.hosting(**real()), host.http() as client:
            one = await client.post("/v1/events?wait=ran", json=event("ada"))
            assert one.status_code == 200
            assert one.json()["shard"] == shard_of("ada")
            assert one.json()["to"][0]["ran"] is True
            batch = await client.post(
                "/v1/events",
                json={"items": [*map(event, keys), {"schema": "host/No@1", "value": {}}]},
            )
            assert batch.status_code == 200, batch.text
            *sent, unknown = batch.json()["items"]
            assert [row["shard"] for row in sent] == [shard_of(key) for key in keys]
            assert len({row["shard"] for row in sent}) == SHARDS
            assert unknown["shard"] == "000"
            assert unknown["problem"]["rule"] == "event_schema_is_unknown"
            as_cbor = await client.post(
                "/v1/events", content=encode({"schema": puppet.DO, "value": {"key": "cbor"}}),
                headers={"content-type": "application/cbor"},
            )  # fmt: skip
            assert as_cbor.json()["shard"] == shard_of("cbor")
            for _ in range(2):
                again = await client.post("/v1/events", json=event("ada", submission_id="once"))
            assert again.json()["duplicate"] is True

            cells = await document(client, "/v1/cells?limit=3")
            assert [len(cells["cells"]), cells["total"], cells["next_offset"]] == [3, 10, 3]
            counted = await document(client, "/v1/cells/count")
            assert counted["count"] == 10
            cell = await document(client, "/v1/cell?workflow=puppet&key=ada")
            assert cell["shard"] == shard_of("ada")
            trace = await document(client, "/v1/trace?workflow=puppet&key=ada")
            assert trace["shard"] == shard_of("ada")
            worlds = await document(client, "/v1/world")
            assert [row["shard"] for row in worlds["shards"]] == ["000", "001"]
            assert (await document(client, "/w/001/v1/world"))["world"]
            absent = await document(client, "/v1/cell?workflow=puppet&key=none", 404)
            assert absent["rule"] == "cell_is_unknown"
            for path, status, rule in (
                ("/v1/feed", 404, "path_is_of_a_shard"),
                ("/v1/work", 400, "group_cannot_answer"),
                ("/v1/record?seq=1", 400, "group_cannot_answer"),
                ("/v1/cells?at=1", 400, "group_cannot_answer"),
                ("/v1/cells?lim=1", 400, "query_is_invalid"),
                ("/v1/none", 404, "path_is_of_a_shard"),
            ):
                assert (await document(client, path, status))["rule"] == rule
            for body in (
                b"{",
                b"[]",
                b'{"items": 3}',
                b'{"items": [{"schema": "a", "value": 1}, 3]}',
            ):
                refused = await client.post("/v1/events", content=body)
                assert refused.status_code in (400, 422)
            claim = await client.post("/v1/work/claim", json={"worker": "w"})
            assert claim.json()["rule"] == "path_is_of_a_shard"

        assert here("verify", "--world", host.path).code == 0

    run(script())


def test_an_event_for_each_shard_has_an_answer_of_each(tmp_path: Path) -> None:
    """GR-22, GR-93: also if another manifest is in force since the event before"""
    group = made(tmp_path, routing=EACH)
    host = Host(group.path)

    async def script() -> None:
        async with host.hosting(**real()), host.http() as client:
            every = await client.post("/v1/events", json=event("bob"))
            items = await client.post("/v1/events", json={"items": [event("cat")]})

            assert every.status_code == 200, every.text
            rows = every.json()["shards"]
            assert [row["shard"] for row in rows] == ["000", "001"]
            assert all(row["to"] for row in rows)
            [item] = items.json()["items"]
            assert [row["shard"] for row in item["shards"]] == ["000", "001"]
            for index in range(SHARDS):
                give(group, index, puppet.manifest(routing=EACH, version=3))
            batch = {"items": [event("dan")]}
            once = await client.post("/v1/events?wait=ran", json=batch)
            [row] = once.json()["items"]
            assert len(row["shards"]) == SHARDS, "routed again, by the third manifest"
            for name in group.names:
                cell = await document(client, f"/w/{name}/v1/cell?workflow=puppet&key=dan")
                assert cell["state"] == 1, "the puppet counts its steps"
            several = await client.get("/v1/cell?workflow=puppet&key=bob")
            assert several.status_code == 409
            assert several.json()["rule"] == "several_shards_have_it"

    run(script())


def test_while_a_manifest_is_being_applied_no_event_is_routed_by_the_other_one(
    tmp_path: Path,
) -> None:
    """GR-94"""
    group = made(tmp_path)
    host = Host(group.path)
    first = next(key for key in map(str, range(100)) if shard_of(key) == "000")
    second = next(key for key in map(str, range(100)) if shard_of(key) == "001")

    async def script() -> None:
        async with host.hosting(**real()), host.http() as client:
            assert (await client.post("/v1/events", json=event(second))).status_code == 200
            give(group, 0, puppet.manifest(version=2))
            having = await client.post("/v1/events", json=event(first))
            lacking = await client.post("/v1/events", json=event(second))
            both = await client.post("/v1/events", json={"items": [event(first), event(second)]})
            give(group, 1, puppet.manifest(version=2))
            complete = await client.post("/v1/events", json=event(second))

        assert lacking.status_code == 503
        assert lacking.json()["rule"] == "group_is_changing"
        assert having.status_code == complete.status_code == 200
        admitted, refused = both.json()["items"]
        assert "seq" in admitted
        assert refused["problem"]["rule"] == "group_is_changing"

    run(script())


def test_a_shard_that_dies_is_started_again_and_the_others_answer(tmp_path: Path) -> None:
    """GR-91, WD-16"""
    host = Host(made(tmp_path).path)

    async def script() -> None:
        async with host.hosting(**real()), host.http() as client:
            await host.until_phase("000", "running")  # no request has come
            await host.until_phase("001", "running")
            rows = await _rows(host)
            os.kill(rows["001"]["pid"], signal.SIGKILL)
            answers = [
                await client.post(
                    "/v1/events", json=event(f"k-{number}", submission_id=f"{number}")
                )
                for number in range(8)
            ]
            await until(lambda: len(host.reports) > 0)
            repeated = [
                await client.post(
                    "/v1/events", json=event(f"k-{number}", submission_id=f"{number}")
                )
                for number in range(8)
            ]
            after = await _rows(host)

        assert {answer.status_code for answer in answers} <= {200, 503}
        by_shard = Counter(answer.json()["shard"] for answer in repeated)
        assert set(by_shard) == {"000", "001"}
        assert {answer.status_code for answer in repeated} == {200}
        assert after["000"]["pid"] == rows["000"]["pid"]
        assert after["001"]["pid"] != rows["001"]["pid"]

    run(script())


async def _rows(host: Host) -> dict[str, Any]:
    async with host.own() as client:
        return {row["name"]: row for row in (await client.get("/v1/worlds")).json()["worlds"]}


def test_each_shard_checks_the_token(tmp_path: Path) -> None:
    """GR-92"""
    host = Host(made(tmp_path).path)
    reader = create(
        WorldsFolder(host.path), "reader", (Scope("read"),), secret=os.urandom(32), now_ns=1
    )

    async def script() -> None:
        async with host.hosting(**real()), host.http() as client:
            bare = await client.get("/v1/cells")
            client.headers["authorization"] = f"Bearer {reader}"
            read = await client.get("/v1/cells")
            sent = await client.post("/v1/events", json=event("ada"))
        assert [bare.status_code, read.status_code, sent.status_code] == [401, 200, 403]
        assert sent.json()["rule"] == "token_does_not_allow"

    run(script())


def test_a_group_that_is_not_whole_is_not_served_and_gets_no_further_world(tmp_path: Path) -> None:
    """GR-53, GR-91"""
    group = made(tmp_path)
    with pytest.raises(Refused, match="the shards of a group stay as they are"):
        WorldsFolder(group.path).create("other")
    with pytest.raises(Refused, match="the shards of a group stay as they are"):
        WorldsFolder(group.path).remove("001", group.worlds[1])
    shutil.rmtree(group.shard_path(1))

    async def script() -> None:
        async with Host(group.path).hosting(**real()):
            pass

    with pytest.raises(Unavailable, match="a shard of the group is missing"):
        run(script())
