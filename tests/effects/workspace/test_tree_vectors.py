"""The vectors of trees, which another library made (AG-51): ``spec/vectors/workspace.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from aos.effects.workspace.tree_changes import annotations_bytes, read_annotations
from aos.effects.workspace.tree_node import node_bytes, read_node
from tests.effects.workspace.trees import Trees, refused, sha

FILE: Final = Path(__file__).parents[3] / "spec" / "vectors" / "workspace.json"
VECTORS: Final[list[dict[str, Any]]] = json.loads(FILE.read_text("utf-8"))
TREES: Final = [each for each in VECTORS if "root" in each]
REFUSED: Final = [each for each in VECTORS if "refused" in each]


@pytest.mark.parametrize("vector", TREES, ids=lambda each: str(each["name"]))
def test_a_tree_has_the_bytes_and_names_of_its_vector(vector: dict[str, Any]) -> None:
    """AG-51: all its nodes and annotations, and the root."""
    trees = Trees()
    root = trees.empty()
    for file in vector["files"]:
        root = trees.write(root, file["path"], bytes.fromhex(file["hex"]), file.get("mode"))
    for folder in vector["folders"]:
        root = trees.remove(trees.write(root, f"{folder}/x", b""), f"{folder}/x")
    for path, hashes in vector["annotations"].items():
        root = trees.annotate(root, path or None, **hashes)

    assert root == vector["root"]
    for blob in vector["blobs"]:
        data = bytes.fromhex(blob["hex"])
        assert sha(data) == blob["sha256"]
        assert trees.stored(blob["sha256"]) == data
        if "folder" in blob:
            assert node_bytes(read_node(data, "it")) == data
        else:
            assert annotations_bytes(read_annotations(data, "it")) == data


@pytest.mark.parametrize("vector", REFUSED, ids=lambda each: str(each["name"]))
def test_bytes_that_are_no_node_are_refused(vector: dict[str, Any]) -> None:
    """AG-51."""
    with refused("node_invalid", vector["refused"]):
        read_node(bytes.fromhex(vector["hex"]), "it")


def test_every_vector_is_of_a_kind_and_has_a_name_of_its_own() -> None:
    assert len(TREES) + len(REFUSED) == len(VECTORS)
    assert len({each["name"] for each in VECTORS}) == len(VECTORS)
