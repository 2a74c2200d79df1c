"""The effects on trees of files, one by one (spec/agentos.md, AG-51 to AG-53)."""

from __future__ import annotations

from typing import Any

import pytest
from cbor2 import loads

from aos.values.digests import content_hash, hash_text
from aos.values.sha256 import given_name
from tests.effects.workspace.trees import (
    Trees,
    described,
    file,
    folder,
    node,
    refused,
    sha,
)


@pytest.fixture
def trees() -> Trees:
    return Trees()


# The form of a tree


def test_a_node_is_self_described_cbor_named_by_its_sha256(trees: Trees) -> None:
    """AG-51: modes and sizes of new files and folders; entries in the order of their names."""
    root = trees.tree(("b.txt", b"beta"), ("a/x", b""))

    inner = node(file("x", b""))
    outer = node(folder("a", inner), file("b.txt", b"beta"))
    assert root == sha(outer)
    assert trees.stored(root) == outer
    assert trees.stored(sha(inner)) == inner
    assert trees.stored(sha(b"beta")) == b"beta"


def test_the_empty_root_is_one_for_every_workspace(trees: Trees) -> None:
    """AG-51."""
    assert trees.do("empty_root", workspace="a") == trees.do("empty_root", workspace="b")
    assert trees.stored(trees.empty()) == bytes.fromhex("d9d9f7a167656e747269657380")


def test_names_are_in_the_order_of_their_utf_8(trees: Trees) -> None:
    """AG-51: shorter is not before longer, as in the keys of canonical CBOR."""
    names = ["Z", "a", "a-b", "aa", "b", "é", "\uffff", "\U0001f600"]
    root = trees.tree(*((name, b"x") for name in reversed(names)))

    assert [each["name"] for each in loads(trees.stored(root)[3:])["entries"]] == names
    assert trees.paths(root) == names


def test_equal_contents_have_one_root(trees: Trees) -> None:
    """AG-51: in whatever order they were written, and with what in between."""
    one = trees.tree(("a", b"1"), ("d/b", b"2"))
    other = trees.tree(("d/b", b"0"), ("c", b"3"), ("a", b"1"), ("d/b", b"2"))
    other = trees.remove(other, "c")
    other = trees.annotate(trees.annotate(other, "d", note=sha(b"n")), "d", note=None)

    assert one == other


# Writing


def test_writing_changes_no_old_tree(trees: Trees) -> None:
    """AG-52."""
    before = trees.tree(("a/b/c", b"old"))
    after = trees.write(before, "a/b/c", b"new")

    assert trees.read(before, "a/b/c") == b"old"
    assert trees.read(after, "a/b/c") == b"new"
    assert before != after


def test_the_same_params_have_the_same_answer(trees: Trees) -> None:
    """AG-52: an attempt may be repeated after any crash."""
    root = trees.tree(("a/b", b"1"))
    blobs = dict(trees.blobs)

    first = trees.write(root, "a/c", b"2")
    blobs |= trees.blobs

    assert trees.write(root, "a/c", b"2") == first
    assert trees.blobs == blobs


def test_a_file_keeps_its_mode_unless_another_is_given(trees: Trees) -> None:
    """AG-52."""
    root = trees.write(trees.empty(), "run", b"1", mode=0o755)
    root = trees.write(root, "run", b"2")
    assert trees.do("read_ref", root_hash=root, path="run")["mode"] == 0o755

    root = trees.write(root, "run", b"2", mode=0o600)
    assert trees.do("read_ref", root_hash=root, path="run")["mode"] == 0o600


def test_a_blob_is_written_by_any_of_its_names(trees: Trees) -> None:
    """AG-52: the tree has its true name."""
    trees.put(b"some")
    given = given_name(content_hash(b"some"))
    trees.names[f"sha256:{given.sha256.hex()}"] = hash_text(content_hash(b"some"))
    root = trees.empty()

    answers = [
        trees.do("write_ref", root_hash=root, path="f", blob_hash=each)
        for each in (sha(b"some"), hash_text(content_hash(b"some")), f"sha256:{given.sha256.hex()}")
    ]

    expected = {"new_root_hash": trees.write(root, "f", b"some"), "blob_hash": sha(b"some")}
    assert answers == [expected] * 3


def test_a_root_is_named_by_any_of_its_names(trees: Trees) -> None:
    """AG-52."""
    root = trees.tree(("f", b"1"))
    by_content = trees.names[root]

    assert trees.write(by_content, "g", b"2") == trees.write(root, "g", b"2")
    assert trees.paths(by_content) == ["f"]


def test_a_blob_that_defines_a_name_cannot_be_a_file(trees: Trees) -> None:
    """AG-30, AG-52."""
    preimage = bytes.fromhex("826b616f732f676976656e2f315820") + bytes(32)

    with refused("no_name", "no SHA-256 name"):
        trees.write(trees.empty(), "f", preimage)


def test_a_missing_blob_cannot_be_a_file(trees: Trees) -> None:
    """AG-53a."""
    with refused("blob_missing"):
        trees.do("write_ref", root_hash=trees.empty(), path="f", blob_hash=sha(b"nowhere"))


def test_a_blob_over_16_mib_cannot_be_a_file(trees: Trees) -> None:
    """AG-53a."""
    large = trees.put(bytes(16 * 1024 * 1024 + 1))

    with refused("too_large"):
        trees.do("write_ref", root_hash=trees.empty(), path="f", blob_hash=large)


def test_nothing_is_written_over_a_folder_or_below_a_file(trees: Trees) -> None:
    """AG-53a."""
    root = trees.tree(("d/f", b"1"))

    with refused("is_a_directory", "d: expected a file"):
        trees.write(root, "d", b"2")
    with refused("not_a_directory", "d/f: expected a folder"):
        trees.write(root, "d/f/g/h", b"2")


def test_removing_takes_files_and_empty_folders(trees: Trees) -> None:
    """AG-52: the folder of the last file stays."""
    root = trees.tree(("d/e/f", b"1"), ("g", b"2"))

    with refused("not_empty", "1 entries"):
        trees.remove(root, "d/e")
    root = trees.remove(root, "d/e/f")
    assert trees.paths(root) == ["d", "d/e", "g"]
    root = trees.remove(root, "d/e")
    assert trees.paths(root) == ["d", "g"]
    for missing in ("d/e", "x", "x/y", "g/x"):
        with refused("not_found", missing):
            trees.remove(root, missing)


@pytest.mark.parametrize(
    "path",
    ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a\\b", "a\0b", "x" * 256,
     "/".join(["a"] * 65), "/".join(["a" * 250] * 17), "é" * 128],
)  # fmt: skip
def test_an_invalid_path_is_refused_everywhere(trees: Trees, path: str) -> None:
    """AG-53a."""
    root = trees.tree(("a", b"1"))
    trees.put(b"blob")
    calls: dict[str, dict[str, Any]] = {
        "list": {"limit": 0, "root_hash": root, "path": path},
        "read_ref": {"root_hash": root, "path": path},
        "read_bytes": {"root_hash": root, "path": path},
        "write_bytes": {"root_hash": root, "path": path, "bytes": b""},
        "write_ref": {"root_hash": root, "path": path, "blob_hash": sha(b"blob")},
        "remove": {"root_hash": root, "path": path},
        "diff": {"root_a": root, "root_b": root, "prefix": path},
        "annotations_get": {"root_hash": root, "path": path},
        "annotations_set": {"root_hash": root, "path": path, "annotations_patch": {}},
    }
    for effect, params in calls.items():
        with refused("path_invalid", "path"):
            trees.do(effect, **params)
    with refused("path_invalid"):
        trees.do("list", limit=0, root_hash=root, cursor=path)


def test_the_longest_paths_are_taken(trees: Trees) -> None:
    """AG-53a: 64 names, 255 bytes in a name, 4,096 bytes."""
    paths = ["/".join(["a"] * 64), "é" * 127 + "x", "/".join(["b" * 255] * 16)]
    assert len(paths[2].encode()) == 4095
    root = trees.tree(*((path, path.encode()) for path in paths))

    assert [trees.read(root, path) for path in paths] == [path.encode() for path in paths]
    assert set(paths) < set(trees.paths(root))


# Reading


def test_a_reference_is_kind_hash_size_and_mode(trees: Trees) -> None:
    """AG-53: null where nothing is."""
    root = trees.tree(("d/f", b"12345"))

    found = trees.do("read_ref", root_hash=root, path="d/f")
    assert found == {"kind": "file", "hash": sha(b"12345"), "size": 5, "mode": 0o644}
    found = trees.do("read_ref", root_hash=root, path="d")
    inner = sha(node(file("f", b"12345")))
    assert found == {"kind": "dir", "hash": inner, "size": 0, "mode": 0o755}
    for path in ("x", "d/x", "d/f/x", "x/y"):
        assert trees.do("read_ref", root_hash=root, path=path) is None


def test_bytes_are_read_whole_or_in_a_range(trees: Trees) -> None:
    """AG-53: from start up to end, which may be the size."""
    root = trees.tree(("d/f", b"0123456789"))

    def read(start: int, end: int) -> object:
        range_ = {"start": start, "end": end}
        return trees.do("read_bytes", root_hash=root, path="d/f", range=range_)

    assert (read(0, 10), read(2, 5), read(10, 10), read(0, 0)) == (b"0123456789", b"234", b"", b"")
    for start, end in ((0, 11), (5, 4), (11, 11)):
        with refused("range_invalid", "10, the size of the file"):
            read(start, end)
    with refused("not_found"):
        trees.read(root, "d/g")
    with refused("is_a_directory"):
        trees.read(root, "d")


def test_a_file_that_does_not_fit_into_an_answer_is_read_in_parts(trees: Trees) -> None:
    """AG-53a."""
    root = trees.tree(("f", bytes(2000)))
    trees.result_bytes_max = 1000

    with refused("too_large", "at most 991", "with range"):
        trees.read(root, "f")
    range_ = {"start": 0, "end": 991}
    assert trees.do("read_bytes", root_hash=root, path="f", range=range_) == bytes(991)


def test_a_list_is_of_one_folder_or_of_all_below(trees: Trees) -> None:
    """AG-53: paths are from the root on."""
    root = trees.tree(("a", b"1"), ("a-b", b"2"), ("d/e/f", b"3"), ("d/g", b"4"))

    assert trees.paths(root, scope="dir") == ["a", "a-b", "d"]
    assert trees.do("list", root_hash=root, limit=0)["entries"] == [
        {"path": "a", **trees.do("read_ref", root_hash=root, path="a")},
        {"path": "a-b", **trees.do("read_ref", root_hash=root, path="a-b")},
        {"path": "d", **trees.do("read_ref", root_hash=root, path="d")},
    ]
    assert trees.paths(root) == ["a", "a-b", "d", "d/e", "d/e/f", "d/g"]
    assert trees.paths(root, path="d") == ["d/e", "d/e/f", "d/g"]
    assert trees.paths(root, path="d/e", scope="dir") == ["d/e/f"]
    with refused("not_found"):
        trees.paths(root, path="x")
    with refused("not_a_directory"):
        trees.paths(root, path="a")
    with refused("scope_invalid", "dir or subtree"):
        trees.paths(root, scope="all")


@pytest.mark.parametrize("scope", ["dir", "subtree"])
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_follow_each_other(trees: Trees, scope: str, limit: int) -> None:
    """AG-53: a folder comes before what is in it, whatever the text order says."""
    root = trees.tree(*((path, b"") for path in ("a/x", "a/y/z", "a-b", "b", "c/d/e/f")))

    pages = list(trees.pages(root, scope=scope, limit=limit))

    assert [each for page in pages for each in page] == next(trees.pages(root, scope=scope))
    assert all(len(page) == limit for page in pages[:-1])
    assert 1 <= len(pages[-1]) <= limit


def test_a_cursor_need_not_be_a_path_of_the_tree(trees: Trees) -> None:
    """AG-53: the paths that come after it."""
    root = trees.tree(("a/x", b""), ("a/y", b""), ("b", b""))

    for cursor, expected in {
        "a/x/z": ["a/y", "b"],
        "a/xx": ["a/y", "b"],
        "aa": ["b"],
        "b": [],
        "z": [],
        "A": ["a", "a/x", "a/y", "b"],
    }.items():
        found = trees.do("list", root_hash=root, scope="subtree", limit=0, cursor=cursor)
        assert [each["path"] for each in found["entries"]] == expected
        assert found["next_cursor"] is None


def test_a_page_ends_where_the_answer_is_full(trees: Trees) -> None:
    """AG-53a: also without a limit."""
    root = trees.tree(*((f"{number:03}", b"") for number in range(100)))
    trees.result_bytes_max = 2000

    pages = list(trees.pages(root))

    assert len(pages) > 5
    assert [each["path"] for page in pages for each in page] == [f"{n:03}" for n in range(100)]
    trees.result_bytes_max = 300
    with refused("too_large", "bytes of one entry"):
        trees.paths(root)


# Differences


def test_a_diff_has_what_differs(trees: Trees) -> None:
    """AG-53: files, and folders that only one tree has."""
    old = trees.tree(("a", b"1"), ("d/e/f", b"2"), ("g/h", b"3"), ("same/x", b"4"))
    new = trees.remove(trees.remove(trees.write(old, "d/e/f", b"5"), "g/h"), "g")
    new = trees.write(new, "n/m", b"6")

    changes = trees.do("diff", root_a=old, root_b=new)["changes"]

    nodes = sha(node(file("h", b"3"))), sha(node(file("m", b"6")))
    assert changes == [
        {"path": "d/e/f", "kind": "file", "old_hash": sha(b"2"), "new_hash": sha(b"5")},
        {"path": "g", "kind": "dir", "old_hash": nodes[0], "new_hash": None},
        {"path": "g/h", "kind": "file", "old_hash": sha(b"3"), "new_hash": None},
        {"path": "n", "kind": "dir", "old_hash": None, "new_hash": nodes[1]},
        {"path": "n/m", "kind": "file", "old_hash": None, "new_hash": sha(b"6")},
    ]
    assert trees.do("diff", root_a=new, root_b=new)["changes"] == []


def test_a_file_in_place_of_a_folder_is_two_changes(trees: Trees) -> None:
    """AG-53."""
    one, other = trees.tree(("x/y", b"1")), trees.tree(("x", b"2"))
    inner = sha(node(file("y", b"1")))

    assert trees.do("diff", root_a=one, root_b=other)["changes"] == [
        {"path": "x", "kind": "dir", "old_hash": inner, "new_hash": None},
        {"path": "x/y", "kind": "file", "old_hash": sha(b"1"), "new_hash": None},
        {"path": "x", "kind": "file", "old_hash": None, "new_hash": sha(b"2")},
    ]
    assert [
        (each["path"], each["kind"], each["old_hash"] is None)
        for each in trees.do("diff", root_a=other, root_b=one)["changes"]
    ] == [("x", "file", False), ("x", "dir", True), ("x/y", "file", True)]


def test_a_diff_is_of_a_prefix(trees: Trees) -> None:
    """AG-53: a file or a folder, in one of the trees or in both."""
    old = trees.tree(("a", b"1"), ("d/e", b"2"), ("d/f", b"3"))
    new = trees.write(trees.write(trees.write(old, "a", b"4"), "d/e", b"5"), "n", b"6")

    def paths(prefix: str) -> list[str]:
        found = trees.do("diff", root_a=old, root_b=new, prefix=prefix)
        return [each["path"] for each in found["changes"]]

    assert {each: paths(each) for each in ("a", "d", "d/e", "d/f", "n", "x", "a/b")} == {
        "a": ["a"], "d": ["d/e"], "d/e": ["d/e"], "d/f": [], "n": ["n"], "x": [], "a/b": [],
    }  # fmt: skip


def test_another_mode_or_annotation_is_a_change_with_equal_hashes(trees: Trees) -> None:
    """AG-53: a folder's annotations are in its node, so its hash changes with them. The root has
    the empty path."""
    old = trees.tree(("d/f", b"1"), ("g", b"2"))
    new = trees.write(trees.annotate(old, "g", k=sha(b"k")), "d/f", b"1", mode=0o600)
    new = trees.annotate(new, None, k=sha(b"k"))
    new = trees.annotate(new, "d", k=sha(b"k"))

    changes = trees.do("diff", root_a=old, root_b=new)["changes"]

    hashes = [trees.do("read_ref", root_hash=each, path="d")["hash"] for each in (old, new)]
    assert changes == [
        {"path": "", "kind": "dir", "old_hash": old, "new_hash": new},
        {"path": "d", "kind": "dir", "old_hash": hashes[0], "new_hash": hashes[1]},
        {"path": "d/f", "kind": "file", "old_hash": sha(b"1"), "new_hash": sha(b"1")},
        {"path": "g", "kind": "file", "old_hash": sha(b"2"), "new_hash": sha(b"2")},
    ]


def test_a_diff_reads_only_folders_that_differ(trees: Trees) -> None:
    """AG-53: two nodes for each name of the path that changed, and none for the others."""
    root = trees.tree(
        *((f"{a}/{b}/{c}", b"") for a in range(4) for b in range(4) for c in range(4))
    )
    new = trees.write(root, "2/3/1", b"x")
    before = trees.reads

    assert len(trees.do("diff", root_a=root, root_b=new)["changes"]) == 1
    assert trees.reads - before == 6


def test_changes_that_do_not_fit_into_an_answer_are_refused(trees: Trees) -> None:
    """AG-53a: with advice."""
    root = trees.tree(*((f"{number}", b"") for number in range(20)))
    trees.result_bytes_max = 2000

    with refused("too_large", "with prefix"):
        trees.do("diff", root_a=trees.empty(), root_b=root)


# Annotations


def test_annotations_belong_to_a_path_or_to_the_root(trees: Trees) -> None:
    """AG-52a: null where there are none."""
    root = trees.tree(("d/f", b"1"))
    assert trees.annotations(root) is None

    root = trees.annotate(root, None, a=sha(b"1"))
    root = trees.annotate(root, "d", b=sha(b"2"))
    root = trees.annotate(root, "d/f", c=hash_text(content_hash(b"3")))

    assert trees.annotations(root) == {"a": sha(b"1")}
    assert trees.annotations(root, "d") == {"b": sha(b"2")}
    assert trees.annotations(root, "d/f") == {"c": hash_text(content_hash(b"3"))}
    assert trees.read(root, "d/f") == b"1"
    for each in ("x", "d/x", "d/f/x"):
        with refused("not_found"):
            trees.annotations(root, each)
        with refused("not_found"):
            trees.annotate(root, each, a=sha(b"1"))


def test_a_patch_sets_and_removes(trees: Trees) -> None:
    """AG-52a: null removes, also a key that is not there."""
    root = trees.annotate(trees.empty(), None, a=sha(b"1"), b=sha(b"2"))
    root = trees.annotate(root, None, a=None, b=sha(b"3"), c=sha(b"4"), d=None)

    assert trees.annotations(root) == {"b": sha(b"3"), "c": sha(b"4")}


def test_annotations_survive_a_write(trees: Trees) -> None:
    """AG-52a: and go with the file."""
    root = trees.annotate(trees.tree(("d/f", b"1")), "d/f", a=sha(b"1"))
    root = trees.write(root, "d/f", b"2")
    assert trees.annotations(root, "d/f") == {"a": sha(b"1")}

    root = trees.write(trees.remove(root, "d/f"), "d/f", b"2")
    assert trees.annotations(root, "d/f") is None


def test_a_node_has_version_2_exactly_if_it_has_annotations(trees: Trees) -> None:
    """AG-51: of its own, or of a file in it; removing the last one leads back to the same tree."""
    plain = trees.tree(("d/f", b"1"), ("g", b"2"))
    one = trees.annotate(plain, "g", a=sha(b"x"))
    two = trees.annotate(plain, "d", a=sha(b"x"))
    notes = described({"a": sha(b"x")})

    inner = node(file("f", b"1"))
    expected = {
        "annotations_hash": None,
        "entries": [
            folder("d", inner, annotations_hash=None),
            file("g", b"2", annotations_hash=sha(notes)),
        ],
    }
    assert trees.stored(one) == described(expected)
    assert trees.stored(sha(notes)) == notes
    annotated = {
        "annotations_hash": sha(notes),
        "entries": [file("f", b"1", annotations_hash=None)],
    }
    assert trees.stored(two) == node(folder("d", described(annotated)), file("g", b"2"))
    assert trees.annotate(one, "g", a=None) == plain
    assert trees.annotate(two, "d", a=None) == plain


def test_the_name_of_no_annotations_is_that_of_the_empty_map(trees: Trees) -> None:
    """AG-52a: the receipt has a hash in any case, and the world its blob."""
    answer = trees.do(
        "annotations_set", root_hash=trees.empty(), path=None, annotations_patch={"a": None}
    )

    assert answer == {"new_root_hash": trees.empty(), "annotations_hash": sha(b"\xd9\xd9\xf7\xa0")}
    assert trees.stored(answer["annotations_hash"]) == b"\xd9\xd9\xf7\xa0"


def test_annotations_are_bounded(trees: Trees) -> None:
    """AG-53a."""
    root, many = trees.empty(), {f"{number:04}": sha(b"x") for number in range(3200)}
    root = trees.annotate(root, None, **many)

    with refused("too_large", "bytes of the annotations"):
        trees.annotate(root, None, **{f"x{number}": sha(b"x") for number in range(3200)})
    trees.result_bytes_max = 1000
    with refused("too_large", "at most 1,000"):
        trees.annotations(root)


# Size


def test_a_folder_with_10000_entries_works(trees: Trees) -> None:
    """AG-53a."""
    entries = [file(f"{number:05}", str(number).encode()) for number in range(10_000)]
    trees.put(b"777")
    root = trees.put(node(*entries))

    assert trees.read(root, "00777") == b"777"
    new = trees.write(root, "00777x", b"new")
    pages = list(trees.pages(new))
    assert sum(map(len, pages)) == 10_001
    assert len(pages) == 2
    assert [each["path"] for each in trees.do("diff", root_a=root, root_b=new)["changes"]] == [
        "00777x"
    ]
    assert trees.remove(new, "00777x") == root


def test_a_folder_has_at_most_16384_entries(trees: Trees) -> None:
    """AG-53a."""
    entries = [file(f"{number:05}", b"") for number in range(16_384)]
    root = trees.put(node(*entries))

    assert trees.write(root, "00000", b"x")
    with refused("too_large", "entries of a folder: expected at most 16,384, found 16,385"):
        trees.write(root, "x", b"")
    with refused("too_large", "entries of a folder"):
        trees.read(trees.put(node(*entries, file("x", b""))), "x")
