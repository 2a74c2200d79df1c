"""Workspaces in a real world: commit, resolve, read back, copy, collect (AG-52 to AG-57)."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from aos.host.folder.folder import open_folder
from aos.host.retention.gc import collect_world
from aos.values.cbor import encode
from aos.values.digests import content_hash, hash_text
from aos.values.sha256 import given_text, true_name
from tests.cli.shell import here, start
from tests.copies import copied
from tests.effects.workspace.editor_world import (
    EDITORS,
    EXECUTORS,
    FOREIGN,
    PLAIN,
    answer,
    asks,
    commit,
    contents,
    delivered,
    history,
    make_world,
    named,
    resolve,
    run,
    send,
    send_commit,
)
from tests.effects.workspace.trees import Trees, file, node, sha
from tests.run_seed import run_seed

MISSING: Final = {"exists": False, "resolved_version": None, "root_hash": None}
OFFLINE = Trees()
"""The same trees, made without a world."""

FILES_1 = (("src/lib.rs", b"fn main() {}\n"), ("README.md", b"hello\n"))
FILES_2 = (*FILES_1, ("src/a/b.txt", b"beta"))
NOTE = b"a note on the version"


def _version_2() -> str:
    root = OFFLINE.tree(*FILES_2)
    return OFFLINE.annotate(root, "src", note=sha(NOTE))


EMPTY: Final = OFFLINE.empty()
ROOT_1: Final = OFFLINE.tree(*FILES_1)
ROOT_2: Final = _version_2()
ABANDONED: Final = OFFLINE.write(ROOT_1, "draft", b"given up")


def write(root: str, path: str, data: bytes) -> tuple[str, Any]:
    return "write_bytes", {"root_hash": root, "path": path, "bytes": data, "mode": None}


@pytest.fixture(scope="session")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world with two versions of the workspace ``docs``, made by both editors, and a tree that
    was written but never committed. Tests that write take a copy."""
    world = make_world(tmp_path_factory.mktemp("edited"))
    root = answer(world, "empty_root", workspace="docs").value["root_hash"]
    assert root == EMPTY
    for editor, files in ((PLAIN, FILES_1), (FOREIGN, FILES_2[2:])):
        for path, data in files:
            name, params = write(root, path, data)
            found = answer(world, name, editor, **params)
            assert found.value["blob_hash"] == sha(data)
            root = found.value["new_root_hash"]
        if editor is PLAIN:
            assert root == ROOT_1
            send(world, PLAIN, "commits", asks(commits=(commit("docs", ROOT_1),)))
    note = answer(world, *write(EMPTY, "note", NOTE)[:1], **write(EMPTY, "note", NOTE)[1])
    annotated = answer(
        world,
        "annotations_set",
        FOREIGN,
        root_hash=root,
        path="src",
        annotations_patch={"note": note.value["blob_hash"]},
    )
    assert annotated.value["new_root_hash"] == ROOT_2
    send(world, FOREIGN, "commits", asks(commits=(commit("docs", ROOT_2, head=1),)))
    name, params = write(ROOT_1, "draft", b"given up")
    assert answer(world, name, **params).value["new_root_hash"] == ABANDONED
    return world


@pytest.fixture
def world(edited: Path, tmp_path: Path) -> Path:
    return copied(edited, tmp_path / "world")


def test_an_editor_gets_the_answers_that_the_params_determine(edited: Path) -> None:
    """AG-52, AG-54: the roots in the world are those that were made without one; versions begin
    with 1."""
    assert contents(edited, ROOT_1) == dict(FILES_1)
    assert contents(edited, ROOT_2) == dict(FILES_2)
    found = history(edited, "docs")
    assert found["latest"] == 2
    assert {number: each["root_hash"] for number, each in found["versions"].items()} == {
        1: ROOT_1,
        2: ROOT_2,
    }


@pytest.mark.parametrize("editor", EDITORS, ids=["aos", "agentos"])
def test_a_workspace_is_resolved_and_read_back(world: Path, editor: tuple[str, str]) -> None:
    """AG-57, AG-52: by a module of each ABI."""
    found = resolve(world, "docs", editor=editor)
    versions: tuple[int | None, ...] = (None, 0, 1)
    assert found == {"exists": True, "resolved_version": 2, "head": 2, "root_hash": ROOT_2}
    found = resolve(world, "docs", 1, editor)
    assert found == {"exists": True, "resolved_version": 1, "head": 2, "root_hash": ROOT_1}
    for absent in (0, 3):
        assert resolve(world, "docs", absent, editor) == {**MISSING, "head": 2}
    for version in versions:
        assert resolve(world, "nowhere", version, editor) == {**MISSING, "head": None}

    for path, data in FILES_2:
        params: dict[str, Any] = {"root_hash": ROOT_2, "path": path, "range": None}
        assert answer(world, "read_bytes", editor, **params) == ("ok", data)
    listing: dict[str, Any] = {
        "root_hash": ROOT_2,
        "path": None,
        "scope": "subtree",
        "cursor": None,
        "limit": 0,
    }
    listed = answer(world, "list", editor, **listing).value
    assert [each["path"] for each in listed["entries"]] == OFFLINE.paths(ROOT_2)
    changes = answer(world, "diff", editor, root_a=ROOT_1, root_b=ROOT_2, prefix=None).value
    assert changes == OFFLINE.do("diff", root_a=ROOT_1, root_b=ROOT_2)
    missing = answer(world, "read_bytes", editor, root_hash=ROOT_2, path="x", range=None)
    if editor is PLAIN:
        assert (missing.status, missing.value["code"]) == ("error", "not_found")
    else:
        assert missing.status == "rejected"  # AG-16
        assert missing.value.startswith("not_found: x: this tree has nothing")
    assert answer(world, "read_ref", editor, root_hash=ROOT_2, path="x") == ("ok", None)


def test_a_root_that_is_committed_by_its_content_hash_is_resolved(world: Path) -> None:
    """AG-33, AG-57: a module of the AgentOS ABI sees a name of it, by which the tree is read."""
    root = hash_text(content_hash(OFFLINE.stored(ROOT_1)))
    send_commit(world, commit("other", root))
    run(world)

    assert resolve(world, "other")["root_hash"] == root
    foreign = resolve(world, "other", editor=FOREIGN)["root_hash"]
    assert foreign == given_text(root)
    params: dict[str, Any] = {"root_hash": foreign, "path": "README.md", "range": None}
    assert answer(world, "read_bytes", FOREIGN, **params) == ("ok", b"hello\n")


def test_a_commit_that_expects_another_head_changes_nothing(world: Path) -> None:
    """AG-55: it is no fault, and the next commit is taken. Its sender sees the head."""
    before = history(world, "docs")
    send_commit(world, *(commit("docs", EMPTY, head=head) for head in (0, 1, 3, 2**64 - 1)))
    run(world)
    assert history(world, "docs") == before

    send_commit(world, commit("docs", EMPTY, head=2), commit("docs", ROOT_1, head=2))
    send_commit(world, commit("docs", ROOT_1))
    run(world)

    after = history(world, "docs")
    assert after["latest"] == 4
    assert [after["versions"][number]["root_hash"] for number in (1, 2, 3, 4)] == [
        ROOT_1, ROOT_2, EMPTY, ROOT_1,
    ]  # fmt: skip
    assert resolve(world, "docs")["head"] == 4
    shown = here("trace", "sys/Workspace@1", "docs", "--world", world)
    assert shown.out.count('"Refused"') == 5
    assert shown.out.count('"Added"') == 4


def test_a_step_that_commits_and_resolves_sees_the_head_before(world: Path) -> None:
    """AG-57: the answer comes before the commit of the same step."""
    send(
        world,
        PLAIN,
        "both",
        asks(
            ("resolve", {"workspace": "docs", "version": None}),
            commits=(commit("docs", EMPTY, head=2),),
        ),
    )
    run(world)

    assert delivered(world, PLAIN, "both").value["head"] == 2
    assert resolve(world, "docs")["head"] == 3


def test_a_new_workspace_has_the_head_0(world: Path) -> None:
    """AG-55: a commit that expects another one makes none."""
    send_commit(world, commit("new", ROOT_1, head=1))
    run(world)
    assert history(world, "new") is None
    assert resolve(world, "new") == {**MISSING, "head": None}

    send_commit(world, commit("new", ROOT_1, head=0), commit("new", ROOT_2, head=0))
    run(world)

    assert history(world, "new")["latest"] == 1
    assert resolve(world, "new")["root_hash"] == ROOT_1


def test_the_owner_and_the_time_of_a_version_are_those_of_its_commit(world: Path) -> None:
    """AG-54."""
    send_commit(world, commit("mine", ROOT_1, owner="an owner"))
    run(world)

    assert history(world, "mine")["versions"][1] == commit("mine", ROOT_1, owner="an owner")["meta"]


def test_a_host_without_the_executors_says_which_to_name(world: Path) -> None:
    """AG-50: at its start, and the effect waits."""
    name, params = write(EMPTY, "later", b"1")
    send(world, PLAIN, "asks", asks((name, params)))

    ran = here("run", "--until-waiting", "--world", world)

    option = "--executors workspace"
    assert f"sys/workspace.write_bytes@1: no executor ({option})" in ran.err
    assert answer(world, "empty_root", id="other", workspace="any").status == "ok"
    assert delivered(world, PLAIN, "asks").status == "ok"


def test_it_is_replayed_and_verified(edited: Path) -> None:
    """AG-52: from the receipts, without the executor."""
    for command in ("replay", "verify"):
        done = here(command, "--world", edited)
        assert done.code == 0, done.out + done.err


def test_a_bundle_and_a_fork_have_all_files_of_all_versions(edited: Path, tmp_path: Path) -> None:
    """AG-36, AG-56."""
    with open_folder(edited).open_store(readonly=True) as store:
        head = store.head()
    assert head is not None
    bundle, imported, forked = (tmp_path / name for name in ("w.aos", "imported", "forked"))
    for words in (
        ("export", bundle, "--world", edited),
        ("replay", bundle),
        ("verify", bundle),
        ("import", bundle, imported),
        ("fork", forked, "--at", str(head.seq), "--world", edited),
    ):
        done = here(*words)
        assert done.code == 0, done.err

    for copy in (imported, forked):
        assert contents(copy, ROOT_1) == dict(FILES_1)
        assert contents(copy, ROOT_2) == dict(FILES_2)
        with open_folder(copy).open_store(readonly=True) as store:
            assert named(store, sha(NOTE)) == NOTE
        assert here("verify", "--world", copy).code == 0


def collect(world: Path, archive: Path) -> None:
    """Prune all records that can be pruned, and remove all blobs that nothing needs."""
    assert here("snapshot", "--world", world).code == 0
    run(world)
    done = here("journal", "prune", "--before", "newest", "--archive", archive, "--world", world)
    assert done.code == 0, done.err
    collect_world(world, keep=1)


def test_a_committed_version_keeps_every_blob_of_its_tree(world: Path, tmp_path: Path) -> None:
    """AG-56, RT-13a: folders name their entries only in their bytes, annotations their hashes. The
    tree that no one committed goes."""
    for editor in EDITORS:
        for id in ("asks", "commits"):
            send(world, editor, id, encode({"state": None}))
    run(world)
    collect(world, tmp_path / "old.aos")

    assert contents(world, ROOT_1) == dict(FILES_1)
    assert contents(world, ROOT_2) == dict(FILES_2)
    with open_folder(world).open_store(readonly=True) as store:
        assert named(store, sha(NOTE)) == NOTE
        assert named(store, ABANDONED) is None
        assert named(store, sha(b"given up")) is None
    assert resolve(world, "docs", 1)["root_hash"] == ROOT_1
    params: dict[str, Any] = {"root_hash": ROOT_2, "path": "src/a/b.txt", "range": None}
    assert answer(world, "read_bytes", FOREIGN, **params) == ("ok", b"beta")
    for words in (["verify"], ["replay", "--from", "snapshot"]):
        done = here(*words, "--world", world)
        assert done.code == 0, done.out + done.err


def test_a_folder_with_10000_entries_is_changed_by_a_real_worker(world: Path) -> None:
    """AG-53a: its node has more bytes than an event may have."""
    wide = node(*(file(f"{number:05}", b"") for number in range(10_000)))
    assert len(wide) > 1 << 20
    with open_folder(world).open_store() as store:
        store.put_blobs({content_hash(each): each for each in (wide, true_name(wide).to_bytes())})
    OFFLINE.put(wide)

    name, params = write(sha(wide), "05000", b"new")
    found = answer(world, name, **params)

    assert found.value["new_root_hash"] == OFFLINE.write(sha(wide), "05000", b"new")
    params = {
        "root_hash": found.value["new_root_hash"],
        "path": "05000",
        "range": None,
    }
    assert answer(world, "read_bytes", **params) == ("ok", b"new")
    assert here("verify", "--world", world).code == 0


def test_a_killed_host_commits_each_version_once_and_loses_no_file(tmp_path: Path) -> None:
    """AG-52, AG-54: ``kill -9`` of the host, and so of the worker, at any moment."""
    world = make_world(tmp_path)
    random = Random(run_seed())
    files = {
        f"{letter}/{number}": f"{letter}{number}".encode()
        for letter in "abc"
        for number in range(8)
    }
    roots = [OFFLINE.tree((path, data)) for path, data in files.items()]
    answer(world, "empty_root", workspace="any")
    for number, (path, data) in enumerate(files.items()):
        commits = (commit("w", roots[number], owner=path),)
        send(world, PLAIN, f"{number}", asks(write(EMPTY, path, data), commits=commits))

    kills = 0
    for _ in range(5):
        process = start(
            "run", *EXECUTORS, "--world", world,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.3 + random.random() * 1.2)
        kills += process.poll() is None
        process.kill()
        process.wait()
    run(world)

    assert kills > 0
    versions = history(world, "w")["versions"]
    assert sorted(versions) == list(range(1, len(files) + 1))
    assert {each["owner"]: each["root_hash"] for each in versions.values()} == dict(
        zip(files, roots, strict=True)
    )
    for number, (path, data) in enumerate(files.items()):
        expected = {"new_root_hash": roots[number], "blob_hash": sha(data)}
        assert delivered(world, PLAIN, f"{number}") == ("ok", expected)
        assert contents(world, roots[number]) == {path: data}
    for command in ("verify", "replay"):
        done = here(command, "--world", world)
        assert done.code == 0, done.out + done.err
