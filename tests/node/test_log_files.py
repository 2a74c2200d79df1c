"""The header log of a world, as its node serves it (N-119c)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aos.host.checkpoints.checkpointing import MadeCheckpoint, make_checkpoint
from aos.prove.headerlog.checkpoint import open_checkpoint
from aos.prove.headerlog.header_tree import root
from aos.prove.headerlog.tiles import Tile, TiledLog
from tests.copies import copied
from tests.node.nodes import Node, front, running_kernel


@pytest.fixture(scope="module")
def served(
    template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Node, MadeCheckpoint]]:
    folder = tmp_path_factory.mktemp("log")
    path = copied(template, folder / "trips")
    made = make_checkpoint(path)
    with running_kernel(path) as kernel, front(path, folder / "front", kernel) as found:
        yield found, made


def test_a_monitor_reads_the_whole_log_from_the_node(served: tuple[Node, MadeCheckpoint]) -> None:
    node, made = served
    client = node.client()
    note = client.get("/log/checkpoint")
    assert (note.status_code, note.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    found, _ = open_checkpoint(note.content, made.key)
    assert found == made.checkpoint

    def read(tile: Tile) -> bytes:
        answer = client.get("/log/" + "/".join(tile.path))
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        return answer.content

    log = TiledLog(found.size, read)
    assert root(found.size, log.node) == found.root
    assert log.header(0)


@pytest.mark.parametrize(
    "path",
    [
        "", "none", "tile", "tile/0", "tile/0/999", "tile/9/000", "tile/0/000.p/256",
        "tile/0/000.p/0", "tile/entries/x000/000", "checkpoint/", "checkpoint.tsr", ".lock",
        "../keys/world.key", "..%2fkeys%2fworld.key", "tile/../../keys/world.key",
        "tile/0/000.p/../../../../../world.json", "%00",
    ],
)  # fmt: skip
def test_nothing_else_is_served(served: tuple[Node, MadeCheckpoint], path: str) -> None:
    node, _ = served

    answer = node.client().get(f"/log/{path}")

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    secret = (node.path / "keys/world.key").read_text().strip()
    assert secret not in answer.text


def test_the_log_cannot_be_written(served: tuple[Node, MadeCheckpoint]) -> None:
    node, _ = served
    for method in ("POST", "PUT", "DELETE"):
        answer = node.client().request(method, "/log/checkpoint")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


def test_a_link_in_the_log_is_not_followed(served: tuple[Node, MadeCheckpoint]) -> None:
    node, _ = served
    target = node.path / "log/checkpoint.tsr"
    target.symlink_to(node.path / "keys/world.key")
    try:
        answer = node.client().get("/log/checkpoint.tsr")
    finally:
        target.unlink()

    assert answer.status_code >= 400
    assert (node.path / "keys/world.key").read_text().strip() not in answer.text
