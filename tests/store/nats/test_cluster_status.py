"""``aos cluster status`` on real servers (C-117a; spec/cluster.md, CL-170 to CL-173)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aos.host.cluster.lease import LEASE_NS
from aos.host.cluster.registration import register
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_log import NatsLog
from aos.store.log.nats_stream import log_settings
from aos.values.digests import hash_text
from tests.cli.shell import Result, here
from tests.host.cluster.owner_process import WORLD
from tests.memory_world import WORLD_KEY
from tests.nats_servers import Servers, asked
from tests.store.nats.registered_world import OTHER_KEY, RegisteredWorld


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """A server whose buckets have the worlds of this module alone."""
    with Servers(tmp_path_factory.mktemp("nats-status")) as servers:
        servers.start()
        yield servers


@pytest.fixture
def connection(own_server: Servers) -> Iterator[NatsConnection]:
    with own_server.connected() as connection:
        yield connection


@pytest.fixture
def world(own_server: Servers, connection: NatsConnection, tmp_path: Path) -> RegisteredWorld:
    return RegisteredWorld(connection, own_server, tmp_path / "a")


def status(*words: str | Path) -> dict[str, Any]:
    ran = here("cluster", "status", *words, "--json")
    assert ran.code == 0, ran.err
    document: dict[str, Any] = json.loads(ran.out)
    return document


def text(*words: str | Path) -> Result:
    return here("cluster", "status", *words)


def test_the_nodes_of_a_world_are_shown_with_their_lag(world: RegisteredWorld) -> None:  # CL-170
    world.node("a", inbox="inbox.a").claim(world.end)
    world.node("b").stand_by(replace(world.end, position=0, seq=0))
    world.log.append([part for message in world.log.read(0) if (part := message.part)], 1)

    [shown] = status(world.address.text)["worlds"]

    assert (shown["name"], shown["world"]) == (world.name, hash_text(WORLD))
    assert shown["signature"] == "valid", "the genesis in the log has the key"
    assert (shown["base"], shown["problem"], shown["other_beats"]) == (None, None, 0)
    assert (shown["log"]["first"], shown["log"]["last"]) == (1, 2)
    assert shown["log"]["bytes"] > 0
    owner, standby = shown["nodes"]
    assert (owner["node"], owner["role"], owner["inbox"]) == ("a", "owner", "inbox.a")
    assert (owner["seq"], owner["position"], owner["signature"]) == (1, 1, "valid")
    assert (owner["behind_messages"], owner["behind_records"]) == (1, 0)
    assert 0 <= owner["beat_age_ns"] < 30 * 10**9
    assert (standby["node"], standby["role"]) == ("b", "standby")
    assert (standby["behind_messages"], standby["behind_records"]) == (2, 1)
    ran = text(world.address.text)
    assert ran.code == 0
    assert "1 record, 2 messages" in ran.out
    assert f"stream\t{world.stream}" in ran.out


def test_a_beat_that_is_older_than_the_lease_is_silent_by_the_time_of_the_server(  # CL-170
    world: RegisteredWorld,
) -> None:
    began = time.monotonic()
    world.node("a").claim(world.end)
    while not status(world.address.text)["worlds"][0]["nodes"][0]["is_silent"]:
        assert time.monotonic() - began < LEASE_NS / 1e9 + 60
        time.sleep(0.2)

    assert time.monotonic() - began > LEASE_NS / 1e9 - 1
    assert ", silent" in text(world.address.text).out


@pytest.mark.usefixtures("long_lease")
def test_an_owner_that_was_a_standby_is_shown_once(world: RegisteredWorld) -> None:  # CL-170
    node = world.node("a")
    node.stand_by(world.end)
    node.claim(world.end)

    def roles() -> list[tuple[str, str]]:
        nodes = status(world.address.text)["worlds"][0]["nodes"]
        return [(node["node"], node["role"]) for node in nodes]

    assert roles() == [("a", "owner")]
    node.release(world.end)
    assert roles() == [("a", "released")]
    node.stand_by(world.end)
    assert roles() == [("a", "released"), ("a", "standby")]


@pytest.mark.usefixtures("long_lease")
def test_a_folder_of_a_node_says_what_it_has_and_its_role(world: RegisteredWorld) -> None:
    """CL-171"""
    folder = world.make_folder()

    assert status("--world", folder)["here"]["role"] == "stopped"
    world.node("a").claim(world.end)
    document = status("--world", folder)
    assert document["address"] == world.address.text
    assert document["here"].pop("open_erasures")["number"] == 0
    assert document["here"].pop("reference") is None
    assert document["here"] == {
        "folder": str(folder), "node": "a", "world": hash_text(WORLD), "stream": world.stream,
        "role": "owner", "position": 1, "seq": 1, "frame": hash_text(world.end.frame),
        "dead_messages": 0, "dead_reason": None,
    }  # fmt: skip
    ran = text("--world", folder)
    assert "node\ta, owner" in ran.out
    assert "dead messages\t0" in ran.out


@pytest.mark.usefixtures("long_lease")
def test_without_a_name_all_worlds_are_listed(  # CL-172
    own_server: Servers, connection: NatsConnection, world: RegisteredWorld, tmp_path: Path
) -> None:
    other = RegisteredWorld(connection, own_server, tmp_path / "other")
    other.node("b").claim(other.end)
    names = {world.name, other.name}

    documents = {one["name"]: one for one in status(own_server.address)["worlds"]}
    assert names <= set(documents)
    assert [node["node"] for node in documents[other.name]["nodes"]] == ["b"]
    rows = {line.split("\t")[0]: line for line in text(own_server.address).out.splitlines()}
    assert names <= set(rows)
    assert "\tb\t" in rows[other.name]


def test_a_world_that_was_taken_out_is_shown_with_its_node(world: RegisteredWorld) -> None:
    """CL-186"""
    assert status(world.address.text)["worlds"][0]["embedded_at"] is None
    taken = replace(world.registration, taken_by=f"a/{'0' * 32}").signed(WORLD_KEY)
    register(world.worlds, taken, world.revision)
    asked(world.connection, f"STREAM.DELETE.{world.stream}", {})

    [shown] = status(world.address.text)["worlds"]
    assert (shown["embedded_at"], shown["problem"]) == ("a", None)
    ran = text(world.address.text)
    assert "embedded\tin the folder of node a; no node uses the servers" in ran.out
    assert "start one" not in ran.out
    rows = {line.split("\t")[0]: line for line in text(world.servers.address).out.splitlines()}
    assert "\ta (embedded)\t" in rows[world.name]


@pytest.mark.parametrize("value", [b"", b"\x1b[31m" * 500, b"\x80"])
def test_a_registration_that_cannot_be_read_is_listed_as_such(  # CL-172
    world: RegisteredWorld, value: bytes
) -> None:
    world.worlds.replace(world.name, value, world.revision)
    try:
        documents = {one["name"]: one for one in status(world.servers.address)["worlds"]}
        assert "registration of a world" in documents[world.name]["problem"]
        ran = text(world.address.text)
        assert ran.code == 3
        assert "registration of a world" in ran.err
        assert "\x1b" not in ran.err + text(world.servers.address).out
    finally:
        asked(world.connection, "STREAM.PURGE.KV_AOS", {"filter": f"$KV.AOS.{world.name}"})


def test_another_key_than_that_of_the_world_is_shown(world: RegisteredWorld) -> None:  # CL-173
    register(world.worlds, world.registration.signed(OTHER_KEY), world.revision)
    world.node("a", key=OTHER_KEY).claim(world.end)
    world.beats.create(f"{world.stream}.standby.b", b"\x1b[31m")

    [shown] = status(world.address.text)["worlds"]

    assert shown["signature"] == "invalid"
    assert [node["signature"] for node in shown["nodes"]] == ["invalid"]
    assert shown["other_beats"] == 1
    assert "not signed by the key of the world" in text(world.address.text).out


def test_without_the_beginning_of_the_log_only_a_folder_has_the_key(  # CL-173
    world: RegisteredWorld,
) -> None:
    asked(world.connection, f"STREAM.PURGE.{world.stream}", {})

    assert status(world.address.text)["worlds"][0]["signature"] == "unchecked"
    assert "name the folder of a node with --world" in text(world.address.text).out
    folder = world.make_folder()
    assert status(world.address.text, "--world", folder)["worlds"][0]["signature"] == "valid"


def test_a_stream_that_is_missing_is_the_problem_of_its_world(  # CL-172
    world: RegisteredWorld,
) -> None:
    asked(world.connection, f"STREAM.DELETE.{world.stream}", {})

    [shown] = status(world.address.text)["worlds"]

    assert shown["log"] is None
    assert "the stream is missing" in shown["problem"]
    assert "problem\t" in text(world.address.text).out


def test_garbage_in_the_log_hides_no_key(  # CL-173
    own_server: Servers, connection: NatsConnection, tmp_path: Path
) -> None:
    world = RegisteredWorld(connection, own_server, tmp_path / "w")
    genesis = [part for message in world.log.read(0) if (part := message.part)]
    asked(connection, f"STREAM.DELETE.{world.stream}", {})
    asked(connection, f"STREAM.CREATE.{world.stream}", log_settings(world.stream, 1))
    log = NatsLog(connection, world.stream)
    half = [part._replace(total=2) for part in genesis]
    other = [part._replace(data=part.data[:-1]) for part in genesis]
    for parts in (half, other, genesis):
        log.append(parts, log.tail())

    assert status(world.address.text)["worlds"][0]["signature"] == "valid"


def test_names_that_are_not_there_and_servers_that_are_away(  # CL-172
    own_server: Servers, tmp_path: Path
) -> None:
    missing = text(f"{own_server.address}/none-{os.urandom(4).hex()}")
    assert missing.code == 2
    assert "no world is registered under this name" in missing.err
    away = text("nats://127.0.0.1:1/shop")
    assert away.code == 4
    assert "no server can be reached" in away.err
    for words in ((), ("--world", tmp_path)):
        ran = text(*words)
        assert ran.code == 2, ran.err
    assert text("nats://user:x@a/shop").code == 2


def test_nothing_is_written(own_server: Servers, tmp_path: Path) -> None:  # CL-170
    with Servers(tmp_path / "fresh") as servers:
        servers.start()
        for command in ("status", "check"):
            ran = here("cluster", command, servers.address, "--json")
            assert json.loads(ran.out)["worlds"] == [], ran.err
        with servers.connected() as connection:
            assert connection.run(connection.api("INFO"))["streams"] == 0


def test_an_embedded_world_has_no_servers(tmp_path: Path) -> None:  # CL-171
    assert here("init", tmp_path / "shop").code == 0
    ran = text("--world", tmp_path / "shop")
    assert ran.code == 2
    assert "this world is embedded" in ran.err
