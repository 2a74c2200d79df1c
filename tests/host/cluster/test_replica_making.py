"""``aos init --store``: it is killed everywhere, and repeated (spec/cluster.md, CL-107)."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from aos.host.cluster.registration import find_registration
from aos.host.cluster.replica_making import default_node
from aos.host.folder.folder import open_folder
from aos.host.folder.replica_file import replica_of
from aos.store.log.nats_bucket import WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from tests.cli.shell import environment, here
from tests.host.cluster.node_processes import journal, made
from tests.nats_servers import Servers, asked

KILLED = """
import os, sys
import aos.host.cluster.replica_making as making
from aos_cli.main import run_command

function, when = sys.argv[1:3]
act = getattr(making, function)

def killed(*given, **more):
    if when == "after":
        act(*given, **more)
    os._exit(9)

setattr(making, function, killed)
run_command(sys.argv[3:])
"""


def logs_of(connection: NatsConnection) -> set[str]:
    """The streams of worlds."""
    names = asked(connection, "STREAM.NAMES", {})["streams"] or []
    return {name for name in names if name.startswith("AOS-")}


def options(servers: Servers, folder: Path) -> list[str]:
    monitors = [word for server in servers.servers for word in ("--monitor", server.monitor)]
    return [
        "init", str(folder), "--store", f"{servers.address}/{folder.parent.name}", "--node", "a",
        "--replicas", "3", *monitors,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "when"),
    [
        ("new_genesis", "after"),  # the folder is reserved, with keys
        ("check_durable", "after"),  # there is a stream
        ("new_folder", "before"),  # the genesis is in the log
        ("finish", "before"),  # there is a replica.json
        ("finish", "after"),  # the world is finished
        ("register", "after"),
    ],
)
def test_an_init_that_is_killed_is_finished_by_the_same_command(
    tmp_path: Path, three: Servers, function: str, when: str
) -> None:
    top = tmp_path / f"{function}-{when}"
    top.mkdir()
    folder = top / "a"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, function, when, *options(three, folder)],
        env=environment(), check=False, capture_output=True, timeout=240,
    )  # fmt: skip
    assert killed.returncode == 9, killed.stderr

    again = made(three, folder)

    if function == "register":
        assert again.code == 1
        assert "there is a world already; nothing was changed" in again.err
    else:
        assert again.code == 0, again.err
    world = open_folder(folder).world
    with three.connected() as connection:
        entry = find_registration(NatsBucket(connection, WORLDS, replicas=3), top.name)
    assert entry is not None
    assert entry.registration.world == world
    assert entry.registration.stream == replica_of(folder).stream
    assert entry.registration.is_of(bytes(open_folder(folder).world_key().verify_key))
    assert len(journal(folder)) == 1


def test_a_name_that_another_world_has_is_refused_before_anything_is_made(
    tmp_path: Path, three: Servers
) -> None:
    top = tmp_path / "taken"
    top.mkdir()
    assert made(three, top / "a").code == 0
    with three.connected() as connection:
        before = logs_of(connection)
        refused = made(three, top / "b", node="b")
        assert logs_of(connection) == before
    assert refused.code == 1
    assert "another world has this name: expected a name that no world has" in refused.err
    assert not (top / "b").exists()


def test_a_world_that_is_there_is_not_made_again_with_other_options(
    tmp_path: Path, three: Servers
) -> None:
    top = tmp_path / "there"
    top.mkdir()
    assert made(three, top / "a").code == 0
    for words, text in (
        ((), "there is a world already; nothing was changed"),
        (("--executor", "pay"), "there is a world already, which was made with other options"),
    ):
        again = made(three, top / "a", *words)
        assert again.code == 1
        assert text in again.err
    assert here("init", top / "embedded").code == 0
    over = made(three, top / "embedded", node="b")
    assert over.code == 1


def test_a_failure_leaves_no_stream_and_no_folder(tmp_path: Path, three: Servers) -> None:
    """The address of one monitor is that of nothing."""
    top = tmp_path / "failed"
    top.mkdir()
    with socket.socket() as deaf, three.connected() as connection:
        deaf.bind(("127.0.0.1", 0))
        port = deaf.getsockname()[1]
        before = logs_of(connection)
        failed = here(
            "init", top / "a", "--store", f"{three.address}/failed", "--monitor",
            f"http://127.0.0.1:{port}",
        )  # fmt: skip
        assert failed.code == 4
        assert "the server does not answer for monitoring" in failed.err
        assert logs_of(connection) == before
    assert list((top / "a").iterdir()) == []


AT_H = ("--store", "nats://h/x", "--monitor", "u")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--store", "nats://x"), "not the address of a replicated world"),
        (("--store", "nats://u:p@h/x"), "has a user or a password"),
        (("--store", "nats://h/x"), "expected --monitor URL for each server"),
        ((*AT_H, "--replicas", "2"), "--replicas: expected 1 or 3"),
        ((*AT_H, "--node", "a.b"), "not a name of a node"),
        ((*AT_H, "--operator", "!"), "operator '!'"),
        (("--store", "nats://h/x", "--shards", "2"), "expected --monitor URL for each server"),
        (("--replicas", "3"), "expected --store URL with them"),
        (("--unverified-durability",), "expected --store URL with them"),
        ((*AT_H, "--creds", "/nowhere"), "the credentials cannot be read"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused_and_nothing_is_made(
    tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    ran = here("init", tmp_path / "w", *words)
    assert ran.code == 2
    assert text in ran.err
    assert not (tmp_path / "w").exists()


def test_servers_that_do_not_answer_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aos.host.cluster.replica_making.ANSWER_S", 0.1)
    ran = here("init", tmp_path / "w", "--store", "nats://127.0.0.1:1/x", "--unverified-durability")
    assert ran.code == 4
    assert "127.0.0.1:1 cannot be reached" in ran.err
    assert "when the servers answer, the same command continues" in ran.err


@pytest.mark.parametrize(
    ("host", "node"), [("n1.example.org", "n1-example-org"), ("ü", "node"), ("x" * 99, "x" * 64)]
)
def test_the_name_of_a_node_is_that_of_its_machine(
    monkeypatch: pytest.MonkeyPatch, host: str, node: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert default_node() == node


def test_the_document_has_the_node(tmp_path: Path, three: Servers) -> None:
    top = tmp_path / "documented"
    top.mkdir()
    document = made(three, top / "a", "--json").json
    assert document["replica"] == json.loads((top / "a" / "replica.json").read_text())
    assert document["replica"]["unverified_durability"] is False
