"""``aos cluster check`` on real servers (C-117b; spec/cluster.md, CL-174 to CL-178)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aos.errors import BadUsage
from aos.host.cluster import checking
from aos.host.cluster.checking import ClusterCheck
from aos.host.cluster.findings import ClusterFindingKind
from aos.host.cluster.registration import BaseRef, register
from aos.store.log.nats_address import NatsAccess, NatsAddress
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_stream import log_settings
from tests.cli.shell import Result, here
from tests.memory_world import WORLD_KEY
from tests.nats_servers import Servers, asked
from tests.store.nats.registered_world import OTHER_KEY, RegisteredWorld
from tests.store.nats.test_nats_access import fake_server

PAGE = Path(__file__).parents[3] / "spec" / "cluster.md"


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """A server whose buckets have the worlds of this module alone."""
    with Servers(tmp_path_factory.mktemp("nats-check")) as servers:
        servers.start()
        yield servers


@pytest.fixture
def connection(own_server: Servers) -> Iterator[NatsConnection]:
    with own_server.connected() as connection:
        yield connection


@pytest.fixture
def world(own_server: Servers, connection: NatsConnection, tmp_path: Path) -> RegisteredWorld:
    return RegisteredWorld(connection, own_server, tmp_path / "a")


def monitors(servers: Servers) -> list[str]:
    return [word for monitor in servers.monitors for word in ("--monitor", monitor)]


def check(*words: str | Path) -> tuple[int, dict[str, str], dict[str, Any]]:
    """The exit code, the text of each kind of finding, and the document."""
    ran = here("cluster", "check", *words, "--json")
    document = json.loads(ran.out)
    texts = {finding["kind"]: finding["text"] for finding in document["findings"]}
    return ran.code, texts, document


def text(*words: str | Path) -> Result:
    return here("cluster", "check", *words)


@pytest.mark.usefixtures("long_lease")
def test_nothing_is_found_on_servers_that_are_well(three: Servers, tmp_path: Path) -> None:
    """CL-174"""
    with three.connected() as connection:
        world = RegisteredWorld(connection, three, tmp_path / "a", replicas=3)
        with world.beating(world.node("a")):
            code, texts, document = check(world.address.text, *monitors(three))
            ran = text(world.address.text, *monitors(three))

    assert (code, texts) == (0, {})
    assert (document["worlds"], document["unchecked"]) == ([world.name], [])
    assert (ran.code, ran.out, ran.err) == (0, "", "1 world, 0 findings\n")


def test_servers_that_are_away_are_found_until_too_few_are_left(tmp_path: Path) -> None:
    """CL-175: with two of three the world works; with one of them nothing answers."""
    with Servers(tmp_path / "servers", count=3) as servers:
        servers.start()
        with servers.connected() as connection:
            world = RegisteredWorld(connection, servers, tmp_path / "a", replicas=3)
            address, all_monitors = world.address.text, monitors(servers)
        followers = [name for name in ("n1", "n2", "n3") if name != world.log.state.leader]
        servers.kill(servers.named(followers[0]))
        expected = {"replica_behind", "server_unusable", "monitor_silent"}
        until = time.monotonic() + 60
        while True:  # the servers elect leaders of other streams meanwhile
            code, texts, _ = check(address, *all_monitors)
            if (code == 4 and expected <= texts.keys()) or time.monotonic() > until:
                break
        assert followers[0] in texts["replica_behind"]
        assert "cannot be reached" in texts["server_unusable"]
        assert "does not answer for monitoring" in texts["monitor_silent"]
        assert "sync_unknown" not in texts, "its monitor does not answer now"
        assert code == 4
        servers.kill(servers.named(followers[1]))
        code, texts, document = check(address, *all_monitors)
        assert code == 4, texts
        assert "server_unusable" in texts
        assert len(document["findings"]) >= 4, "two servers, and two monitors"


def test_settings_of_a_server_that_can_lose_records_are_found(tmp_path: Path) -> None:
    """CL-175"""
    extra = {
        "max_payload": 16384,
        "jetstream": {"sync_interval": "2m", "max_file_store": 1_000_000},
    }
    with Servers(tmp_path / "servers", extra=extra) as servers:
        servers.start_server(servers.servers[0])
        until = time.monotonic() + 60
        while servers.servers[0].document("/varz") is None:
            assert time.monotonic() < until
        with servers.connected() as connection:
            world = RegisteredWorld(connection, servers, tmp_path / "a")
            part = next(iter(world.log.read(0))).part
            assert part is not None
            while True:
                usage = connection.run(connection.api("INFO"))
                if usage["storage"] > 900_000:
                    break
                tail = world.log.tail()
                world.log.append([part._replace(data=bytes(8000), number=1, total=1)] * 20, tail)
        code, texts, _ = check(servers.address, *monitors(servers))

    assert code == 1
    assert "expected sync_interval: always" in texts["sync_missing"]
    assert "expected max_payload: 65536 or more, found 16384" in texts["payload_small"]
    assert "less than 90% of 1,000,000 bytes" in texts["storage_full"]


@pytest.mark.usefixtures("long_lease")
def test_without_monitors_it_is_not_known_whether_servers_sync(world: RegisteredWorld) -> None:
    """CL-175: unless the world does without."""
    with world.beating(world.node("a")):
        code, texts, _ = check(world.address.text)
        assert (code, set(texts)) == (1, {"sync_unknown"})
        assert "give --monitor for each server" in texts["sync_unknown"]
        folder = world.make_folder(unverified_durability=True)
        assert check("--world", folder)[:2] == (0, {})
    with pytest.raises(BadUsage, match="monitoring"):
        ClusterCheck(address=world.address, access=NatsAccess(), monitors=["x"]).run()


@pytest.mark.parametrize("version", ["2.9.25", "2.13.4"])
def test_servers_that_refuse_or_must_not_be_used_are_found(version: str) -> None:  # CL-175
    for port in fake_server(version):
        code, texts, _ = check(f"nats://127.0.0.1:{port}")
    assert code == 1
    assert f"expected 2.14 or newer, found {version}" in texts["server_unusable"]


def test_a_server_that_is_away_is_no_setting(own_server: Servers) -> None:  # CL-177
    address = f"{own_server.address},127.0.0.1:1"
    code, texts, _ = check(address, *monitors(own_server))
    assert code == 4
    assert "127.0.0.1:1 cannot be reached" in texts["server_unusable"]


def problems(world: RegisteredWorld, *words: str | Path) -> tuple[int, dict[str, str]]:
    """The findings about a world, of which no one expects that its node runs."""
    code, texts, _ = check(world.address.text, *monitors(world.servers), *words)
    texts.pop("owner_missing", None)
    return code, texts


@pytest.mark.parametrize(
    ("change", "kind", "code", "words"),
    [
        ({"max_msgs": 7}, "stream_unusable", 1, "setting max_msgs of a stream differs"),
        ({"sealed": True, "deny_purge": True}, "stream_sealed", 1, "takes no more messages"),
        (None, "stream_unusable", 3, "the stream is missing"),
    ],
)
def test_streams_that_operators_changed_are_found(
    world: RegisteredWorld, change: dict[str, Any] | None, kind: str, code: int, words: str
) -> None:  # CL-176
    stream = world.stream
    if change is None:
        asked(world.connection, f"STREAM.DELETE.{stream}", {})
    else:
        asked(world.connection, f"STREAM.UPDATE.{stream}", {**log_settings(stream, 1), **change})

    found_code, texts = problems(world)

    assert (found_code, set(texts)) == (code, {kind})
    assert words in texts[kind]


def test_a_world_that_was_taken_out_has_no_findings(world: RegisteredWorld) -> None:  # CL-186
    world.node("b").stand_by(replace(world.end, position=9))
    taken = replace(world.registration, taken_by=f"a/{'0' * 32}")
    revision = register(world.worlds, taken.signed(WORLD_KEY), world.revision)
    sealed = {**log_settings(world.stream, 1), "sealed": True, "deny_purge": True}
    asked(world.connection, f"STREAM.UPDATE.{world.stream}", sealed)
    assert check(world.address.text, *monitors(world.servers))[:2] == (0, {})
    asked(world.connection, f"STREAM.DELETE.{world.stream}", {})
    assert check(world.address.text, *monitors(world.servers))[:2] == (0, {})
    register(world.worlds, taken.signed(OTHER_KEY), revision)
    folder = world.make_folder()  # the stream that has the key is gone
    code, texts, _ = check("--world", folder, *monitors(world.servers))
    assert (code, set(texts)) == (3, {"registration_signature"})


def test_registrations_and_beats_that_others_wrote_are_found(world: RegisteredWorld) -> None:
    """CL-176"""
    changed = replace(world.registration, base=BaseRef(stream="AOS-BASE-none", end=world.end))
    revision = register(world.worlds, changed.signed(OTHER_KEY), world.revision)
    world.add_beat("b", world.end, OTHER_KEY)
    world.beats.create(f"{world.stream}.standby.c", b"\x1b[31m")
    world.add_beat("d", world.end)

    code, texts = problems(world)

    assert code == 3
    assert set(texts) == {"registration_signature", "base_missing", "beat_invalid"}
    assert "AOS-BASE-none" in texts["base_missing"]
    assert f"{world.stream}.standby.c, of node b" in texts["beat_invalid"]
    world.worlds.replace(world.name, b"garbage", revision)
    code, texts = problems(world)
    assert (code, set(texts)) == (3, {"registration_invalid"})
    ran = text(world.address.text)
    assert ran.code == 3
    assert ran.out.startswith("registration_invalid: bucket AOS, key ")
    asked(world.connection, "STREAM.PURGE.KV_AOS", {"filter": f"$KV.AOS.{world.name}"})


def test_a_log_that_ends_before_a_beat_or_a_folder_is_damage(  # CL-176
    world: RegisteredWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "SHOWN_AGAIN_SECONDS", 0.3)
    folder = world.make_folder()
    assert "log_lost_end" not in problems(world, "--world", folder)[1]
    world.add_beat("b", replace(world.end, position=9))

    code, texts = problems(world)

    assert code == 3
    assert "expected a log that continues to position 9" in texts["log_lost_end"]
    assert "found one that ends at 1" in texts["log_lost_end"]
    asked(world.connection, f"STREAM.DELETE.{world.stream}", {})
    asked(world.connection, f"STREAM.CREATE.{world.stream}", log_settings(world.stream, 1))
    asked(world.connection, "STREAM.PURGE.KV_AOS_BEATS", {})
    code, texts = problems(world, "--world", folder)
    assert code == 3
    assert f"the folder {folder}" in texts["log_lost_end"]


def test_nodes_that_are_silent_are_found(world: RegisteredWorld) -> None:  # CL-176
    code, texts, _ = check(world.address.text, *monitors(world.servers))
    assert (code, set(texts)) == (4, {"owner_missing"})
    world.node("a").claim(world.end)
    world.node("b").stand_by(world.end)
    until = time.monotonic() + 60
    while not {"owner_silent", "standby_silent"} <= set(texts):
        assert time.monotonic() < until
        code, texts, _ = check(world.address.text, *monitors(world.servers))
    assert (code, set(texts)) == (4, {"owner_silent", "standby_silent"})
    assert "the owner a is silent" in texts["owner_silent"]
    assert "the standby b is silent" in texts["standby_silent"]


@pytest.mark.parametrize(("skew_s", "word"), [(10, "behind"), (-10, "ahead of")])
def test_a_clock_that_differs_from_that_of_the_servers_is_found(  # CL-175
    world: RegisteredWorld, skew_s: int, word: str
) -> None:
    report = ClusterCheck(
        address=NatsAddress.parse(world.servers.address, needs_name=False),
        access=NatsAccess(),
        monitors=world.servers.monitors,
        clock_ns=lambda: time.time_ns() + skew_s * 10**9,
    ).run()

    texts = [each.text for each in report.findings if each.kind is ClusterFindingKind.CLOCK_DIFFERS]
    assert len(texts) == 3, "by the monitor, and by the leader of each bucket"
    assert all(re.search(rf"(9|10)\.\d s {word} the clock of this machine", one) for one in texts)


def test_the_page_says_for_each_finding_what_to_do() -> None:  # CL-178
    rows = re.findall(r"^  \| `([a-z_]+)` \| .{15,} \| .{15,} \|$", PAGE.read_text(), re.MULTILINE)

    assert rows == [kind.value for kind in ClusterFindingKind]
