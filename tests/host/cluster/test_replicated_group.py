"""Groups whose shards are replicated worlds: made, killed, joined, run, and written
(spec/cluster.md, CL-260 to CL-268)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from nacl.signing import SigningKey

from aos.errors import Damage, Refused
from aos.host.cluster.group_registration import (
    GroupRegistration,
    find_group_registration,
    register_group,
    registered_group,
)
from aos.host.cluster.registration import WorldRegistration, find_registration, register
from aos.host.folder.folder import WORLD_KEY, key_file
from aos.host.folder.group import open_group
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket
from aos.store.log.nats_bucket import WORLDS, NatsBucket
from aos.values.cbor import Value, encode
from aos.values.digests import Hash
from tests.cli.shell import environment, here
from tests.cli.test_group_commands import write
from tests.host.cluster.node_processes import NodeProcess, waits
from tests.nats_servers import Servers

Run = Callable[..., NodeProcess]
KEY, OTHER = SigningKey(bytes(31) + b"1"), SigningKey(bytes(31) + b"2")
PUBLIC = bytes(KEY.verify_key)
ONE, TWO = Hash(b"1" * 32), Hash(b"2" * 32)

KILLED = """
import os, sys
import aos.host.cluster.replicated_group as groups
from aos_cli.main import run_command

function, calls = sys.argv[1], int(sys.argv[2])
act, count = getattr(groups, function), 0

def killed(*given, **more):
    global count
    count += 1
    if count == calls:
        os._exit(9)
    return act(*given, **more)

setattr(groups, function, killed)
run_command(sys.argv[3:])
"""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def monitors(servers: Servers) -> list[str]:
    return [word for server in servers.servers for word in ("--monitor", server.monitor)]


def init_words(servers: Servers, folder: Path, name: str, *, shards: int = 2) -> list[str]:
    return [
        "init", str(folder), "--shards", str(shards), "--store", f"{servers.address}/{name}",
        "--node", "a", "--replicas", "1", *monitors(servers),
    ]  # fmt: skip


def join_words(servers: Servers, folder: Path, name: str, keys: Path) -> list[str]:
    return [
        "join", f"{servers.address}/{name}", str(folder), "--keys", str(keys), "--node", "b",
        *monitors(servers),
    ]  # fmt: skip


def begins(node: NodeProcess) -> None:
    """Wait for the first line of a group's process, and then for its shards."""
    waits(partial(output_of, node))
    waits(partial(has_begun, node), partial(output_of, node))


def group_served(node: NodeProcess) -> httpx.Client:
    """A client of the node that serves a group."""
    [url] = re.findall(r"serving the group .* at (http://[^/]+)/", node.output)
    return httpx.Client(base_url=url, timeout=90)


def events_for(prefix: str, first: int, end: int) -> dict[str, Any]:
    """A batch of events with submission ids, to new cells."""
    numbers = range(first, end)
    return {
        "items": [
            {"schema": "host/Do@1", "value": {"key": f"k-{n}"}, "submission_id": f"{prefix}-{n}"}
            for n in numbers
        ]
    }


def works(node: NodeProcess) -> bool:
    return node.owns or node.follows


def has_cells(group: Path, number: int) -> bool:
    return bool(here("inspect", "cells", "--json", "--world", group).json["total"] == number)


def output_of(node: NodeProcess) -> str:
    return node.output


def has_begun(node: NodeProcess) -> bool:
    return "it follows the world" in node.output


def killed_at(function: str, calls: int, words: list[str]) -> None:
    """Run a command in a process that is killed before a call of a function."""
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, function, str(calls), *words],
        env=environment(), check=False, capture_output=True, timeout=240,
    )  # fmt: skip
    assert ended.returncode == 9, ended.stderr


def test_a_group_is_made_joined_run_and_written_by_any_of_its_nodes(
    tmp_path: Path, three: Servers, run: Run, stack: ExitStack
) -> None:
    """CL-260 to CL-267, CL-310 to CL-312: killed between the shards, with the wrong keys, with
    another number of shards, under the name of a world; then two machines, of which the second
    serves the group over HTTP, and the first is killed."""
    name, first, second = "grouped", tmp_path / "a", tmp_path / "b"
    words = init_words(three, first, name)
    killed_at("init_replica", 2, words)
    other_number = here(*init_words(three, first, name, shards=3))
    assert other_number.code == 1
    assert "--shards 2 --store" in other_number.err
    killed_at("register_group", 1, words)
    assert here(*words).code == 0
    group = open_group(first)
    assert (
        len({(group.shard_path(index) / "keys" / WORLD_KEY).read_bytes() for index in (0, 1)}) == 1
    )
    with three.connected() as connection:
        bucket = NatsBucket(connection, WORLDS, replicas=None)
        registered = find_group_registration(bucket, name)
        assert registered is not None
        assert registered.worlds == group.worlds
        entry = find_registration(bucket, f"{name}-001")
        assert entry is not None
        assert entry.registration.world == group.worlds[1]

    assert "there is a group already" in here(*words).err
    taken = here(*init_words(three, tmp_path / "c", name, shards=3))
    assert (taken.code, "another group has this name" in taken.err) == (1, True)
    world = [
        word for word in init_words(three, tmp_path / "c", name) if word not in ("--shards", "2")
    ]
    assert "a group has this name" in here(*world).err
    of_shard = here(*init_words(three, tmp_path / "c", f"{name}-000"))
    assert "a world has this name" in of_shard.err
    idle = here("node", "--world", first, "--idle", "1s")
    assert (idle.code, "--idle" in idle.err) == (2, True), idle

    wrong = tmp_path / "wrong"
    wrong.mkdir()
    (wrong / WORLD_KEY).write_bytes(key_file(OTHER))
    (wrong / WORLD_KEY).chmod(0o600)
    refused = here(*join_words(three, second, name, wrong))
    assert "not signed by the world key" in refused.err
    assert not second.exists()
    joining = join_words(three, second, name, first / "001" / "keys")
    killed_at("join_world", 2, joining)
    assert here(*joining).code == 0
    assert open_group(second).worlds == group.worlds
    assert "there is a group already" in here(*joining).err

    a = run(first)
    begins(a)
    b = run(second, "--listen", "127.0.0.1:0", command="node")
    begins(b)
    shards = [
        NodeProcess(folder / shard, node.process, node.log)
        for folder, node in ((first, a), (second, b))
        for shard in group.names
    ]
    for shard in shards:
        waits(partial(works, shard), partial(output_of, shard))
    manifest = write(tmp_path / "manifest")
    assert here("apply", manifest, "--world", second).out.endswith("all 2 shards have it\n")
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(
        json.dumps({"schema": "host/Do@1", "value": {"key": f"k-{n}", "out": None, "trap": None},
                    "submission_id": f"s-{n}"}) + "\n" for n in range(20)
    ))  # fmt: skip
    assert "20 admitted" in here("send", "--jsonl", lines, "--world", first).out
    served = stack.enter_context(group_served(b))
    shown = served.get("/v1/cells?fresh=1").json()
    assert (shown["total"], {row["shard"] for row in shown["cells"]}) == (20, {"000", "001"})
    through = served.post("/v1/events", json=events_for("x", 20, 24)).json()["items"]
    assert {item["shard"] for item in through} == {"000", "001"}
    assert all("seq" in item for item in through), through
    a.kill()
    for shard in shards[2:]:
        waits(partial(getattr, shard, "owns"), partial(output_of, shard))
    repeated = here("send", "--jsonl", lines, "--world", second)
    assert repeated.code == 0, repeated
    assert "0 admitted, 20 sent before" in repeated.out
    waits(partial(has_cells, second, 24))
    through = served.post("/v1/events", json=events_for("x", 20, 24)).json()["items"]
    assert all(item["duplicate"] for item in through), through
    assert served.get("/v1/cells?fresh=1").json()["total"] == 24
    assert b.stop() == 0
    again = run(second, "--listen", "127.0.0.1:0", command="node")
    # Also with nothing to do, and without a request: each shard has a node that can take over.
    waits(lambda: again.output.count("it follows the world") == 4, lambda: again.output)
    assert again.stop() == 0


def test_the_registration_of_a_group_is_signed_and_no_world_takes_its_name() -> None:
    """CL-260, CL-262."""
    bucket = MemoryBucket(SharedBucket())
    group = GroupRegistration(name="shop", worlds=(ONE, TWO)).signed(KEY)
    assert find_group_registration(bucket, "shop") is None
    register_group(bucket, group)
    register_group(bucket, group)
    assert registered_group(bucket, "shop", PUBLIC) == group
    with pytest.raises(Refused, match="not signed by the world key"):
        registered_group(bucket, "shop", bytes(OTHER.verify_key))
    with pytest.raises(Refused, match="another program has registered"):
        register_group(bucket, GroupRegistration(name="shop", worlds=(TWO, ONE)).signed(KEY))
    world = WorldRegistration(name="shop", world=ONE, stream="AOS-1").signed(KEY)
    with pytest.raises(Refused, match="another program has registered"):
        register(bucket, world)
    with pytest.raises(Refused, match="a group has this name"):
        find_registration(bucket, "shop")
    register(bucket, WorldRegistration(name="bank", world=ONE, stream="AOS-1").signed(KEY))
    with pytest.raises(Refused, match="a world has this name"):
        find_group_registration(bucket, "bank")
    forms: tuple[Value, ...] = ([ONE], [ONE, b"short"], [ONE, 2], "worlds", [ONE, TWO, TWO] * 11)
    for number, worlds in enumerate(forms):
        bucket.create(f"bad{number}", encode(["aos/group/1", f"bad{number}", worlds, bytes(64)]))
        with pytest.raises(Damage, match="cannot be read"):
            find_group_registration(bucket, f"bad{number}")
