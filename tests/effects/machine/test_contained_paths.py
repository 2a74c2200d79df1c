"""No path leaves the root (AG-63 to AG-65)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from aos.effects.machine.contained_paths import DEPTH_MAX, ContainedFolder
from aos.effects.machine.host_outputs import Declined
from aos.errors import BadUsage
from tests.effects.machine.bench import Bench, inline, status

SECRET = "the secret"  # no password


@pytest.fixture
def tree(bench: Bench) -> Path:
    """A root with links of every kind, and a secret outside."""
    (bench.folder / "outside").mkdir()
    (bench.folder / "outside" / "secret").write_text(SECRET)
    root = bench.root
    (root / "in" / "deep").mkdir(parents=True)
    (root / "in" / "deep" / "file").write_text("deep")
    (root / "file").write_text("top")
    links = {
        "to-file": "file",
        "to-deep": "in/deep",
        "in/up": "../file",
        "in/deep/root": "../..",
        "own-path": str(root / "in"),
        "out-relative": "../outside",
        "out-absolute": str(bench.folder / "outside"),
        "out-file": "../outside/secret",
        "out-etc": "/etc/passwd",
        "out-root": "/",
        "out-through-link": "in/deep/root/../outside/secret",
        "out-prefix": f"{root}-2/secret",
        "loop": "loop",
        "loop-a": "loop-b",
        "loop-b": "loop-a",
        "dangling": "in/new",
        "out-dangling": "../outside/new",
        "out-proc": "/proc/self/root/etc/passwd",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    (bench.folder / "root-2").mkdir()
    (bench.folder / "root-2" / "secret").write_text(SECRET)
    return root


OUTSIDE = [
    "..",
    "../outside/secret",
    "in/../../outside/secret",
    "in/deep/../../../outside/secret",
    "/..",
    "/../etc/passwd",
    "/in/../../outside",
    "./.././outside/secret",
    "in//..//..//outside//secret",
    "out-relative/secret",
    "out-absolute/secret",
    "out-file",
    "out-etc",
    "out-root",
    "out-root/etc/passwd",
    "out-through-link",
    "out-prefix",
    "out-dangling",
    "out-proc",
    "to-deep/root/../outside/secret",
    "in/deep/root/in/deep/root/../outside/secret",
    "own-path/../../outside/secret",
]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.usefixtures("tree")
def test_no_effect_follows_a_path_out(bench: Bench, path: str) -> None:
    """AG-63: each effect with a path, for every spelling; nothing outside has changed."""
    before = _outside(bench)
    patch = f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"
    diff = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{SECRET}\n+x\n"

    async def body() -> list[Any]:
        session = await bench.open()
        calls: list[tuple[str, dict[str, Any]]] = [
            ("read_file", {"path": path}),
            ("write_file", {"path": path, "content": inline("x")}),
            ("write_file", {"path": path, "content": inline("x"), "mode": "create_new"}),
            ("edit_file", {"path": path, "old_string": SECRET, "new_string": "x"}),
            ("apply_patch", {"patch": inline(patch)}),
            ("apply_patch", {"patch": inline(diff)}),
            ("stat", {"path": path}),
            ("exists", {"path": path}),
            ("list_dir", {"path": path}),
            ("grep", {"path": path, "pattern": "s"}),
            ("glob", {"path": path, "pattern": "*"}),
        ]
        found = [
            await bench.call(f"fs.{effect}", {"session_id": session, **params})
            for effect, params in calls
        ]
        found.append(
            await bench.call("exec", {"session_id": session, "argv": ["pwd"], "cwd": path})
        )
        target = {"$tag": "local", "$value": {"network_mode": "host", "workdir": path}}
        found.append(await bench.call("session.open", {"target": target}))
        return found

    receipts = bench.run(body)

    assert [status(each) for each in receipts] == [("forbidden", "path_outside")] * len(receipts)
    assert all(SECRET not in str(each) for each in receipts)
    assert _outside(bench) == before


def _outside(bench: Bench) -> dict[str, str]:
    return {
        str(each): each.read_text()
        for folder in ("outside", "root-2")
        for each in (bench.folder / folder).iterdir()
    }


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("file", "top"),
        ("./in/../file", "top"),
        ("/file", "top"),
        ("//file", "top"),
        ("to-file", "top"),
        ("in/up", "top"),
        ("in/deep/root/file", "top"),
        ("to-deep/file", "deep"),
        ("to-deep/../up", "top"),
        ("own-path/deep/file", "deep"),
        ("in/deep/root/to-deep/root/own-path/deep/file", "deep"),
    ],
)
@pytest.mark.usefixtures("tree")
def test_links_and_absolute_paths_inside_are_followed(
    bench: Bench, path: str, content: str
) -> None:
    """AG-64."""
    found = bench.one("fs.read_file", path=path)

    assert (status(found), bench.text(found["content"])) == (("ok", None), content)


def test_the_root_as_commands_spell_it_is_the_root(bench: Bench, tree: Path) -> None:
    """AG-64: a path that a command printed leads to the same file."""
    assert bench.text(bench.one("fs.read_file", path=f"{tree}/in/up")["content"]) == "top"
    assert bench.one("fs.stat", path=str(tree))["is_dir"] is True
    outside = bench.one("fs.read_file", path=str(bench.folder / "outside" / "secret"))
    assert status(outside) == ("not_found", "not_found")  # read from the root


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", ("error", "invalid_path")),
        ("a\0b", ("error", "invalid_path")),
        ("a" * 256, ("error", "invalid_path")),
        ("a/" * 2049, ("error", "invalid_path")),
        ("loop", ("error", "too_many_links")),
        ("loop-a/x", ("error", "too_many_links")),
        ("none", ("not_found", "not_found")),
        ("none/..", ("not_found", "not_found")),
        ("file/x", ("error", "not_a_directory")),
        ("file/..", ("error", "not_a_directory")),
        ("dangling", ("not_found", "not_found")),
    ],
)
@pytest.mark.usefixtures("tree")
def test_a_path_that_leads_nowhere_has_a_code(
    bench: Bench, path: str, expected: tuple[str, str]
) -> None:
    """AG-62."""
    assert status(bench.one("fs.read_file", path=path)) == expected


def test_a_path_may_be_so_deep_and_no_deeper(bench: Bench) -> None:
    """AG-65."""
    deep = "/".join("d" for _ in range(DEPTH_MAX))
    (bench.root / deep).mkdir(parents=True)
    (bench.root / deep / "f").write_text("x")

    assert bench.one("fs.exists", path=f"{deep}/f")["exists"] is True
    (bench.root / deep / "d").mkdir()
    assert status(bench.one("fs.exists", path=f"{deep}/d/f")) == ("error", "invalid_path")


def test_a_new_file_is_written_where_a_dangling_link_leads(bench: Bench, tree: Path) -> None:
    """AG-64."""
    bench.one("fs.write_file", path="dangling", content=inline("new"))

    assert (tree / "in" / "new").read_text() == "new"


def test_a_link_that_changes_all_the_time_never_leads_out(bench: Bench) -> None:
    """AG-65: a folder on the way, and the file itself, are swapped with links to the outside."""
    outside = bench.folder / "outside"
    (outside / "d").mkdir(parents=True)
    (outside / "d" / "file").write_text(SECRET)
    inside = bench.root / "d"
    inside.mkdir()
    (inside / "file").write_text("inside")
    over = threading.Event()

    def swap() -> None:
        (bench.root / "link").symlink_to("../outside/d")
        (bench.root / "file-link").symlink_to("../../outside/d/file")
        while not over.is_set():
            for place, link, aside in (
                (inside, bench.root / "link", bench.root / "aside"),
                (inside / "file", bench.root / "file-link", bench.root / "file-aside"),
            ):
                place.rename(aside)
                link.rename(place)
                place.rename(link)
                aside.rename(place)

    swapping = threading.Thread(target=swap)
    swapping.start()
    codes: set[str | None] = set()

    async def body() -> None:
        session = await bench.open()
        for number in range(120):
            read = await bench.call("fs.read_file", {"session_id": session, "path": "d/file"})
            codes.add(read["error_code"])
            assert bench.text(read["content"]) in ("", "inside")
            written = await bench.call(
                "fs.write_file",
                {"session_id": session, "path": f"d/new-{number % 3}", "content": inline("n")},
            )
            codes.add(written["error_code"])
            grep = await bench.call("fs.glob", {"session_id": session, "pattern": "**/*"})
            assert "secret" not in bench.text(grep["paths"])

    try:
        bench.run(body)
    finally:
        over.set()
        swapping.join()

    assert sorted(each.name for each in (outside / "d").iterdir()) == ["file"]
    assert (outside / "d" / "file").read_text() == SECRET
    assert None in codes
    assert codes <= {None, "path_outside", "not_found", "not_a_directory", "path_changed"}


def test_a_folder_that_is_moved_out_while_it_is_open_gives_no_way_up(bench: Bench) -> None:
    """AG-65: the parent of a moved folder is another one, and is never asked for."""
    (bench.root / "a" / "b").mkdir(parents=True)
    (bench.folder / "outside").mkdir()
    (bench.folder / "secret").write_text(SECRET)
    root = ContainedFolder(bench.root)

    with root.resolve((), "a/b/new") as file_place:
        (bench.root / "a" / "b").rename(bench.folder / "outside" / "b")
        assert file_place.stat_result is None
    with pytest.raises(Declined) as refused, root.resolve((), "a/b/../../secret"):
        pass

    assert refused.value.code == "not_found"
    root.close()


def test_a_root_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    """AG-60."""
    (tmp_path / "file").write_text("")

    for name in ("file", "none"):
        with pytest.raises(BadUsage, match="expected a folder that this process can open"):
            ContainedFolder(tmp_path / name)


def test_no_descriptor_is_left(bench: Bench, tree: Path) -> None:
    """AG-65: after walks that end well and badly."""
    root = ContainedFolder(bench.root)
    before = len(list(Path("/proc/self/fd").iterdir()))

    for path in [*OUTSIDE, "in/deep/file", "loop", "none/x", "file/x", str(tree)]:
        try:
            with root.resolve((), path):
                pass
        except Declined:
            pass

    assert len(list(Path("/proc/self/fd").iterdir())) == before
    root.close()
