"""A command that waits until the folder of a node has everything that was acknowledged
(spec/cluster.md, CL-129; spec/cli.md, C-8d)."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

import pytest

from aos.errors import Unavailable
from aos.host.cluster.beating import owner_key
from aos.host.cluster.fresh import wait_until_fresh
from aos.host.folder.folder import KEYS, STORE, WORLD_FILE, WORLD_KEY, key_file
from aos.host.folder.making import init_world
from aos.host.folder.replica_file import ReplicaFile
from aos.store.log.logged_store import LoggedStore
from aos.store.log.nats_address import NatsAccess, NatsAddress
from aos.store.log.nats_bucket import BEATS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.store.plain_files import PlainFolder
from aos.values.digests import hash_text
from tests import memory_world
from tests.cli.shell import here
from tests.host.cluster import bus_owner
from tests.host.cluster.node_processes import waits
from tests.host.cluster.owner_process import WORLD
from tests.store.nats.named_cluster import DO, NamedCluster, event
from tests.tools import takes_less_than


def node_folder(cluster: NamedCluster, path: Path) -> Path:
    """The folder of a node that has nothing yet."""
    (path / KEYS).mkdir(parents=True, mode=0o700)
    (path / KEYS / WORLD_KEY).write_bytes(key_file(memory_world.WORLD_KEY))
    (path / KEYS / WORLD_KEY).chmod(0o600)
    with LoggedStore.create(path / STORE) as store:
        store.begin(cluster.stream)
    replica = ReplicaFile(
        address=NatsAddress.parse(cluster.address), stream=cluster.stream, node=STORE
    )
    with PlainFolder.at_user_path(path) as folder:
        replica.write(folder)
    document = {"format": 1, "world": hash_text(WORLD), "created": "2026-01-01T00:00:00Z"}
    (path / WORLD_FILE).write_text(json.dumps(document))
    return path


def test_a_reader_waits_for_what_was_acknowledged(cluster: NamedCluster, tmp_path: Path) -> None:
    """CL-129"""
    bus_owner.owns(cluster.start("a"))
    assert cluster.signed("apply", cluster.manifest).code == 0
    path = node_folder(cluster, tmp_path / "node")
    servers = cluster.address.rpartition("/")[0]
    standby = cluster.stack.enter_context(
        bus_owner.owner(path, f"{servers}/x", cluster.stream, STORE)
    )
    waits(lambda: here("inspect", "world", "--fresh", "--json", "--world", path).code == 0)

    standby.send_signal(signal.SIGSTOP)
    seq = cluster.aos("send", DO, event("ada"), "--json").json["seq"]
    stale = here("inspect", "record", str(seq), "--json", "--world", path)
    assert stale.code == 2, "the node has not followed"
    for within_s in (1.5, 6.0, 24.0):  # on a busy machine, the owner answers later
        with pytest.raises(Unavailable) as late:
            wait_until_fresh(path, NatsAccess(), within_s=within_s)
        if "expected record" in str(late.value):
            break
    assert f"expected record {seq}, found record {seq - 1}" in str(late.value)
    assert f"after {within_s:g} s" in str(late.value)
    waking = threading.Timer(1.0, standby.send_signal, (signal.SIGCONT,))
    waking.start()
    fresh = here("inspect", "record", str(seq), "--fresh", "--json", "--world", path)
    waking.join()
    assert (fresh.code, fresh.json["seq"]) == (0, seq), fresh


def test_an_owner_that_is_suspended_is_waited_for(cluster: NamedCluster, tmp_path: Path) -> None:
    """CL-129: for a while; no other node owns the world."""
    owner = cluster.start("a")
    bus_owner.owns(owner)
    path = node_folder(cluster, tmp_path / "node")
    owner.send_signal(signal.SIGSTOP)

    def is_unanswered() -> None:
        with pytest.raises(Unavailable, match="does not answer"):
            wait_until_fresh(path, NatsAccess(), within_s=1, patience_s=2)

    assert takes_less_than(15, is_unanswered)


def test_an_owner_that_was_deposed_and_does_not_know_it_gives_no_answer(
    cluster: NamedCluster, tmp_path: Path
) -> None:
    """CL-129: the next owner has written its start, and no beat yet, so beats do not show it."""
    first = cluster.start("a")
    bus_owner.owns(first)
    path = node_folder(cluster, tmp_path / "node")
    with NatsConnection(NatsAddress.parse(cluster.address)) as connection:
        bucket = NatsBucket(connection, BEATS, replicas=None)
        first.send_signal(signal.SIGSTOP)
        beat = bucket.get(owner_key(cluster.stream))
        assert beat is not None
        second = cluster.start("b")
        bus_owner.owns(second)
        second.kill()
        second.wait()
        later = bucket.get(owner_key(cluster.stream))
        assert later is not None
        bucket.replace(owner_key(cluster.stream), beat.value, later.revision)
    first.send_signal(signal.SIGCONT)

    for patience_s in (2, 8, 32):  # on a busy machine, it answers later
        with pytest.raises(Unavailable) as deposed:
            wait_until_fresh(path, NatsAccess(), within_s=10, patience_s=patience_s)
        if "does not answer" not in str(deposed.value):
            break
    texts = ("another process owns the world now", "the owner of the world stops")
    assert any(text in str(deposed.value) for text in texts)


def test_an_embedded_world_is_fresh_and_addresses_have_no_folder(tmp_path: Path) -> None:
    """C-8d"""
    init_world(tmp_path / "w")
    assert here("inspect", "world", "--fresh", "--world", tmp_path / "w").code == 0
    for words in (
        ("inspect", "world", "--fresh", "--node", "http://127.0.0.1:1"),
        ("cells", "retry", "a", "b", "--fresh", "--world", "nats://127.0.0.1:1/shop"),
    ):
        refused = here(*words)
        assert (refused.code, "--fresh goes with the folder" in refused.err) == (2, True), refused
