"""Trees that no effect wrote: an error that says so, and never an endless walk (AG-53a)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.effects.workspace.tree_node import node_bytes, read_node
from aos.worker import EffectFailed
from tests.effects.workspace.trees import Trees, described, file, folder, node, refused, sha

EMPTY = node()
OK = file("f", b"1")


def without(name: str) -> dict[str, Any]:
    return {field: value for field, value in OK.items() if field != name}


def version_2(*entries: object, annotations: object = None) -> bytes:
    return described({"entries": list(entries), "annotations_hash": annotations})


INVALID = {
    "not CBOR": b"\xd9\xd9\xf7\xff",
    "empty": b"",
    "without the tag": node(OK)[3:],
    "a file": b"hello",
    "cut off": node(OK)[:-1],
    "with more behind": node(OK) + b"\0",
    "a list": described([]),
    "no entries": described({}),
    "another field": described({"entries": [], "more": 1}),
    "entries that are a map": described({"entries": {}}),
    "an entry that is text": described({"entries": ["f"]}),
    "unsorted names": node(file("b", b""), file("a", b"")),
    "a name twice": node(file("a", b""), file("a", b"")),
    "an empty name": node(file("", b"")),
    "a name with a slash": node(file("a/b", b"")),
    "a name that leads up": node(folder("..", EMPTY)),
    "a name with NUL": node(file("a\0", b"")),
    "a long name": node(file("x" * 256, b"")),
    "a name that is bytes": node(OK | {"name": b"a"}),
    "a kind that is not known": node(file("a", b"", kind="link")),
    "a kind that is a number": node(file("a", b"", kind=1)),
    "a hash that is none": node(file("a", b"", hash="sha256:0")),
    "a hash of another algorithm": node(file("a", b"", hash="blake3:" + 64 * "0")),
    "a hash that is bytes": node(file("a", b"", hash=bytes(32))),
    "a size that is negative": node(file("a", b"", size=-1)),
    "a size that is a bool": node(file("a", b"", size=True)),
    "a mode that is text": node(file("a", b"", mode="0644")),
    "a folder with a size": node(folder("a", EMPTY, size=1)),
    "an entry without a mode": node(without("mode")),
    "an entry with more fields": node(OK | {"owner": "me"}),
    "version 2 of an entry in version 1": node(OK | {"annotations_hash": sha(b"a")}),
    "version 1 of an entry in version 2": version_2(OK, annotations=sha(b"a")),
    "version 2 without annotations": version_2(OK | {"annotations_hash": None}),
    "annotations of a folder in its parent": version_2(
        folder("d", EMPTY, annotations_hash=sha(b"a"))
    ),
    "annotations that are no hash": version_2(annotations="none"),
}


@pytest.mark.parametrize("data", INVALID.values(), ids=INVALID)
def test_a_node_that_no_tree_has_is_refused(data: bytes) -> None:
    """AG-51, AG-53a: as a root, and as a folder in a tree."""
    trees = Trees()
    root = trees.put(data)
    above = trees.put(node(folder("d", data)))
    trees.put(b"1")

    for call in (
        lambda: trees.paths(root),
        lambda: trees.read(root, "f"),
        lambda: trees.write(root, "f", b""),
        lambda: trees.remove(root, "f"),
        lambda: trees.annotate(root, None, a=sha(b"a")),
        lambda: trees.annotations(root),
        lambda: trees.paths(above),
        lambda: trees.read(above, "d/f"),
        lambda: trees.write(above, "d/f", b""),
        lambda: trees.do("diff", root_a=above, root_b=trees.empty()),
    ):
        with refused("node_invalid", "is no folder of a tree"):
            call()


def test_bytes_that_are_not_canonical_are_refused() -> None:
    """AG-51: equal trees have equal names, because each has one form."""
    trees = Trees()
    entries = bytes.fromhex("d9d9f7bf67656e747269657380ff")

    with refused("node_invalid"):
        trees.paths(trees.put(entries))


def test_a_file_in_place_of_a_folder_and_a_wrong_size_are_refused() -> None:
    """AG-53a."""
    trees = Trees()
    trees.put(b"12345")
    as_folder = trees.put(node(folder("d", b"12345")))
    sized = trees.put(node(file("f", b"12345", size=4)))

    with refused("node_invalid"):
        trees.paths(as_folder)
    with refused("node_invalid", "the size 4, its blob 5 bytes"):
        trees.read(sized, "f")


def test_missing_nodes_and_files_are_named() -> None:
    """AG-53a."""
    trees = Trees()
    root = trees.put(node(folder("d", EMPTY), file("f", b"gone")))

    with refused("blob_missing", sha(EMPTY)):
        trees.paths(root)
    with refused("blob_missing", sha(b"gone")):
        trees.read(root, "f")
    with refused("blob_missing"):
        trees.paths("sha256:" + 64 * "0")
    assert trees.paths(root, scope="dir") == ["d", "f"]
    assert trees.do("read_ref", root_hash=root, path="f")["hash"] == sha(b"gone")


def test_annotations_that_no_effect_wrote_are_refused() -> None:
    """AG-53a."""
    trees = Trees()
    for data in (b"", described([]), described({1: sha(b"a")}), described({"a": "b"})):
        root = trees.put(data, version_2(annotations=sha(data)))
        with refused("node_invalid", "has no annotations"):
            trees.annotations(root)
        with refused("node_invalid", "has no annotations"):
            trees.annotate(root, None, a=None)


def deep(trees: Trees, levels: int, *, width: int = 1) -> str:
    """A tree of few nodes: each folder has ``width`` names for one and the same folder."""
    data = node(file("f", b"1"))
    trees.put(b"1", data)
    for _ in range(levels):
        data = node(*(folder(str(number), data) for number in range(width)))
        trees.put(data)
    return sha(data)


def test_a_tree_deeper_than_any_path_is_refused() -> None:
    """AG-53a: 64 names lead to the deepest file."""
    trees = Trees()
    deepest = deep(trees, 63)
    assert len(trees.paths(deepest)) == 64

    deeper = deep(trees, 64)
    with refused("too_large", "expected at most 64, found 65"):
        trees.paths(deeper)
    with refused("too_large", "expected at most 64, found 65"):
        trees.do("diff", root_a=deeper, root_b=trees.empty())


def test_a_tree_of_few_nodes_and_endless_paths_is_listed_in_pages() -> None:
    """AG-53a: 2^60 paths; a call reads at most 4,096 folders, and the next page continues there."""
    trees = Trees()
    root = deep(trees, 60, width=2)
    before = trees.reads

    first = trees.do("list", root_hash=root, scope="subtree", limit=0)
    assert trees.reads - before <= 4096
    assert first["next_cursor"] == first["entries"][-1]["path"]
    second = trees.do("list", root_hash=root, scope="subtree", limit=0, cursor=first["next_cursor"])
    assert second["entries"][0]["path"] != first["entries"][-1]["path"]
    with refused("too_large"):
        trees.do("diff", root_a=root, root_b=trees.empty())


def test_pages_of_many_small_folders_miss_nothing() -> None:
    """AG-53a: the page ends with the last folder whose entry it has."""
    trees = Trees()
    few = node(*(folder(f"{number:03}", EMPTY) for number in range(100)))
    many = trees.put(EMPTY, few, node(*(folder(f"{number:03}", few) for number in range(100))))

    pages = list(trees.pages(many, scope="subtree", limit=0))

    paths = [each["path"] for page in pages for each in page]
    names = [f"{number:03}" for number in range(100)]
    assert paths == [path for a in names for path in (a, *(f"{a}/{b}" for b in names))]
    assert len(pages) >= 3


def test_a_diff_reads_at_most_4096_folders() -> None:
    """AG-53a: the error names the limit."""
    trees = Trees(result_bytes_max=16 << 20)
    few = node(*(folder(f"{number:02}", EMPTY) for number in range(70)))
    many = trees.put(EMPTY, few, node(*(folder(f"{number:02}", few) for number in range(70))))
    before = trees.reads

    with refused("too_large", "at most 4,096 folders", "a smaller part"):
        trees.do("diff", root_a=many, root_b=trees.empty())
    assert trees.reads - before <= 4096 + 2


def test_folders_of_many_bytes_are_bounded_together() -> None:
    """AG-53a: 64 MiB in one call; here each folder has 5 MiB."""
    trees = Trees()
    entries = [file("x" * 200 + f"{number:05}", b"") for number in range(16_000)]
    wide, other = node(*entries), node(*entries[1:])
    roots = [
        trees.put(each, node(*(folder(f"{number:02}", each) for number in range(30))))
        for each in (wide, other)
    ]
    before = trees.reads

    with refused("too_large", "67,108,864 bytes together"):
        trees.do("diff", root_a=roots[0], root_b=roots[1])
    assert trees.reads - before < 20


def test_a_node_over_8_mib_is_refused() -> None:
    """AG-53a: before it is decoded."""
    trees = Trees()
    root = trees.put(b"\xd9\xd9\xf7" + bytes(8 << 20))

    with refused("too_large", "bytes of the node"):
        trees.paths(root)


@given(st.binary(max_size=64), st.integers(0, 2**32))
def test_any_bytes_are_a_node_or_refused(noise: bytes, at: int) -> None:
    """AG-51, AG-53a: a node that can be read has exactly these bytes."""
    whole = version_2(OK | {"annotations_hash": sha(b"a")}, annotations=sha(b"b"))
    place = at % len(whole)
    for data in (noise, whole[:place] + noise[:1] + whole[place + 1 :]):
        with suppress(EffectFailed):
            assert node_bytes(read_node(data, sha(data))) == data
