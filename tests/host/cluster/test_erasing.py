"""Erasures at the servers of a replicated world: which are open, and how they end (spec/cluster.md,
CL-280 to CL-283)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from aos.errors import Unavailable
from aos.host.cluster import erasing
from aos.host.cluster.base import ABANDONED_NS, WorldServers
from aos.host.cluster.erasing import OpenErasures, finish_erasure, open_erasures
from aos.host.folder.folder import STORE
from aos.store.lmdb_store import LmdbStore
from aos.store.log import base_stream, patience
from aos.store.log.nats_address import NatsAccess
from aos.store.log.world_streams import new_base_name
from tests.cli.shell import here
from tests.host.cluster.owner_process import WORLD
from tests.host.cluster.replicated import NAME, Kill, Killed, Replicated, replicated, value_of

ACCESS = NatsAccess.read(None)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replicated]:
    monkeypatch.setattr(base_stream, "GROUP_BYTES", 4000)
    monkeypatch.setattr(patience, "_PAUSE_S", 0.0)
    monkeypatch.setattr(erasing, "LOOK_S", 0.0)
    with replicated(tmp_path) as world:
        world.join("b")
        serve(world.servers(), monkeypatch)
        yield world


def serve(servers: WorldServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "connected_servers", lambda *_: contextlib.nullcontext(servers))


def open_here(rig: Replicated) -> OpenErasures:
    with LmdbStore.open(rig.path / "b" / STORE, readonly=True) as store:
        return open_erasures(store, rig.servers().streams, rig.registration())


def erased_by(rig: Replicated) -> int:
    row = rig.owner.store.erased(value_of("k0"))
    assert row is not None
    return row.seq


def test_an_erasure_is_open_until_a_base_has_it_and_nothing_older_is_there(
    rig: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:  # CL-280, CL-283
    seq = erased_by(rig)
    before = open_here(rig)
    assert (before.number, before.first_seq) == (1, seq)
    assert before.since_ns is not None
    assert "aos cluster base" in str(before.reason)
    finish_erasure(rig.path / "b", ACCESS, seq)
    assert open_here(rig) == OpenErasures()

    rig.servers().streams.make(new_base_name(WORLD))
    assert "another base is still there" in str(open_here(rig).reason)
    monkeypatch.setattr(erasing, "GONE_S", 0.0)
    with pytest.raises(Unavailable, match="run the same command again"):
        finish_erasure(rig.path / "b", ACCESS, seq)
    rig.streams.now_ns = lambda: ABANDONED_NS
    monkeypatch.setattr(erasing, "GONE_S", 30.0)
    lines: list[str] = []
    finish_erasure(rig.path / "b", ACCESS, seq, report=lines.append)  # CL-282
    assert len(lines) == 1
    assert open_here(rig) == OpenErasures()
    assert rig.registration().name == NAME


def test_an_erasure_that_was_killed_at_any_point_is_finished_by_the_same_call(
    rig: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:
    seq, step = erased_by(rig), Kill()  # CL-282
    counted = rig.copy()
    serve(counted.servers(step), monkeypatch)
    finish_erasure(rig.path / "b", ACCESS, seq)
    for at in range(1, step.count + 1, max(1, step.count // 25)):
        copy = rig.copy()
        serve(copy.servers(Kill(at)), monkeypatch)
        with pytest.raises(Killed):
            finish_erasure(rig.path / "b", ACCESS, seq)
        copy.streams.now_ns = lambda: ABANDONED_NS
        serve(copy.servers(), monkeypatch)
        finish_erasure(rig.path / "b", ACCESS, seq)
        assert open_here(copy) == OpenErasures(), at


def test_a_folder_that_lacks_the_erasure_is_waited_for(
    rig: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:  # CL-281
    monkeypatch.setattr(erasing, "FOLLOWED_S", 0.0)
    with pytest.raises(Unavailable, match="start its node"):
        finish_erasure(rig.path / "b", ACCESS, 10**6)
    assert rig.bases() == []


def test_an_embedded_world_has_nothing_to_wait_for(tmp_path: Path) -> None:
    assert here("init", tmp_path / "shop").code == 0
    refused = here("erase", "blake3:" + "0" * 64, "--yes", "--wait", "--world", tmp_path / "shop")
    assert refused.code == 2
    assert "this world is embedded" in refused.err
