"""The file that makes a folder that of a node (spec/cluster.md, CL-100 to CL-102)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aos.errors import Damage, Refused
from aos.host.folder.folder import REPLICA_FILE
from aos.host.folder.replica_file import ReplicaFile, find_replica
from aos.store.log.nats_address import NatsAddress
from aos.store.plain_files import PlainFolder

NODE = ReplicaFile(
    address=NatsAddress.parse("nats://10.0.0.1,10.0.0.2:4223/shop"),
    stream="AOS-1",
    node="n1",
    monitors=("http://10.0.0.1:8222",),
)


def write(path: Path, replica: ReplicaFile = NODE) -> None:
    with PlainFolder.at_user_path(path) as folder:
        replica.write(folder)


def test_a_folder_without_the_file_is_embedded(tmp_path: Path) -> None:
    assert find_replica(tmp_path) is None
    assert find_replica(tmp_path / "missing") is None


def test_a_file_that_is_read_is_the_one_that_was_written(tmp_path: Path) -> None:  # CL-100
    write(tmp_path)
    assert find_replica(tmp_path) == NODE


def test_a_write_replaces_an_earlier_one_and_one_that_was_interrupted(tmp_path: Path) -> None:
    write(tmp_path)  # CL-101
    (tmp_path / f"{REPLICA_FILE}.part").write_text("{")
    other = ReplicaFile(address=NODE.address, stream="AOS-2", node="n1", unverified_durability=True)
    write(tmp_path, other)
    assert find_replica(tmp_path) == other
    assert [file.name for file in tmp_path.iterdir()] == [REPLICA_FILE]


@pytest.mark.parametrize(
    "change",
    [
        {"format": 0}, {"address": "nats://shop"}, {"address": 1}, {"monitors": [1]},
        {"node": None}, {"unverified_durability": 1},
    ],
)  # fmt: skip
def test_a_file_with_something_else_is_damage(tmp_path: Path, change: dict[str, Any]) -> None:
    document = NODE.document() | change  # CL-101
    (tmp_path / REPLICA_FILE).write_text(json.dumps(document))
    with pytest.raises(Damage, match=r"replica\.json: .* or make the node again: aos join"):
        find_replica(tmp_path)


def test_a_file_that_is_cut_or_newer_is_no_embedded_world(tmp_path: Path) -> None:  # CL-101
    text = json.dumps(NODE.document())
    (tmp_path / REPLICA_FILE).write_text(text[:-5])
    with pytest.raises(Damage, match="not JSON"):
        find_replica(tmp_path)
    for other in ("[" * 60_000, "null", "\xff", '{"format": 1, "format": 1}', " " * 70_000):
        (tmp_path / REPLICA_FILE).write_bytes(other.encode("latin-1"))
        with pytest.raises(Damage, match=r"replica\.json: "):
            find_replica(tmp_path)
    (tmp_path / REPLICA_FILE).write_text(json.dumps(NODE.document() | {"format": 2}))
    with pytest.raises(Refused, match="a newer release made this node"):
        find_replica(tmp_path)
