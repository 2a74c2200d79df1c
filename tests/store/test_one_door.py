"""Files of a world are opened through ``store/plain_files.py`` only (ST-80).

A world's folder may come from someone else, and each name in it may be a link to a file that is not
part of the world. So no other module opens, makes, renames or removes files by their paths, unless
the list below gives the reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
DOOR: Final = "kernel/aos/store/plain_files.py"

BY_PATH: Final = frozenset(
    {"chmod", "hardlink_to", "mkdir", "read_bytes", "read_text", "rmdir", "symlink_to", "touch",
     "unlink", "write_bytes", "write_text"}
)  # fmt: skip
"""Methods of ``Path`` that no other class of ours has."""

OF_OS: Final = frozenset(
    {"chmod", "chown", "link", "listdir", "mkdir", "makedirs", "mkfifo", "open", "remove",
     "removedirs", "rename", "renames", "replace", "rmdir", "scandir", "symlink", "truncate",
     "unlink"}
)  # fmt: skip
OF_SHUTIL: Final = frozenset(
    {"copy", "copy2", "copyfile", "copymode", "copystat", "copytree", "move", "rmtree"}
)
MODE: Final = re.compile(r"[rwaxbt+]{1,4}")

NOT_OF_A_WORLD: Final = {
    "kernel/aos/author/": "the author's own project, and the scratch world that aos dev made",
    "kernel/aos/effects/machine/": "files below a root, which is apart from every world (AG-60)",
    "kernel/aos/read/index/cached_index.py": "the user's cache of indexes, outside of every world",
    "kernel/aos/fastcore/buffer.py": "the core that AOS ships",
    "kernel/aos/manifest/cron_times.py": "rules of time zones, in a package that is installed",
    "kernel/aos/manifest/packages.py": "the packages that AOS ships",
    "kernel/aos/manifest/structure.py": "JSON Schemas of the package itself",
    "kernel/aos/sandbox/cache.py": "the user's cache of compiled code, outside of every world",
    "kernel/aos/worker/host_root.py": "the system's list of mounts",
    "kernel/aos/testing/scenario.py": "a scenario file of the author's project",
    "cli/aos_cli/demo/": "the folder of a demo, and the logs of its processes",
    "cli/aos_cli/completion_scripts.py": "files that the user's shell reads at its start",
    "cli/aos_cli/output.py": "the null device",
    "manifests/gateway/aos_gateway/demo/": "the folder of a demo",
}
"""Folders and modules that open no file of a world, and what they open."""

NAMED_BY_THE_USER: Final = {
    ("kernel/aos/host/apply/manifest_files.py", "os.open"): "a manifest",
    ("kernel/aos/host/folder/secrets.py", "os.open"): "a file of secrets",
    ("kernel/aos/host/folder/secrets.py", "open"): "that file, by its descriptor",
    ("kernel/aos/effects/vault_file.py", "os.open"): "the folder of a vault, to lock it",
    ("kernel/aos/store/bundle/reader.py", "os.open"): "a bundle or an archive",
    ("cli/aos_cli/commands/send.py", "Path(name).open"): "JSON lines",
    ("cli/aos_cli/replay_against.py", "path.open"): "a candidate build",
    ("cli/aos_cli/commands/linear.py", "file.read_text"): "a plan",
    ("kernel/aos/host/folder/making.py", "path.mkdir"): "the folder of a new world",
    ("kernel/aos/host/folder/group_making.py", "path.mkdir"): "the folder of a new group",
    ("kernel/aos/host/cluster/member_child.py", "path.mkdir"): "the folder of a member",
    ("kernel/aos/host/cluster/replicated_group.py", "path.mkdir"): "the folder of a joining group",
    ("kernel/aos/host/nats_servers.py", "folder.mkdir"): "the folder of servers of NATS",
    ("kernel/aos/host/retention/pruning.py", "path.parent.mkdir"): "the folder of an archive",
    ("manifests/gateway/aos_gateway/requests.py", "file.open"): "the evidence of a record",
}
"""Openings of files that the user names on the command line, which may be links."""

REASONED: Final = {
    ("kernel/aos/host/door/protocol.py", "os.open"): (
        "the folder of a socket whose path is too long: bind and connect take no descriptor"
    ),
    ("kernel/aos/host/door/listener.py", "path.chmod"): (
        "the socket that this process has just bound: no descriptor of it can be had"
    ),
    ("kernel/aos/host/folder/making.py", "shutil.rmtree"): (
        "undoes the making of a world; rmtree follows no link"
    ),
    ("kernel/aos/host/folder/making.py", "(path / name).unlink"): (
        "undoes the making of a world; unlink follows no link"
    ),
    ("kernel/aos/host/cluster/forgetting.py", "shutil.rmtree"): (
        "removes a node on request; rmtree follows no link"
    ),
    ("kernel/aos/host/cluster/forgetting.py", "entry.unlink"): (
        "removes a node on request; unlink follows no link"
    ),
    ("kernel/aos/host/cluster/forgetting.py", "(path / name).unlink"): (
        "removes a node on request; unlink follows no link"
    ),
    ("kernel/aos/host/cluster/forgetting.py", "path.rmdir"): (
        "removes a node on request; rmdir follows no link"
    ),
    ("kernel/aos/host/cluster/joining.py", "shutil.rmtree"): (
        "removes the store of a join that was cut short; rmtree follows no link"
    ),
    ("kernel/aos/node/worlds/worlds_folder.py", "shutil.rmtree"): (
        "removes a world on request; rmtree follows no link"
    ),
    ("kernel/aos/store/environment.py", "lmdb.open"): (
        "LMDB opens by path; check_plain has checked its files immediately before (ST-81)"
    ),
    ("kernel/aos/node/leases/table.py", "lmdb.open"): (
        "LMDB opens by path; check_plain has checked its files immediately before (ST-81)"
    ),
    ("kernel/aos/store/compact.py", "lmdb.open"): (
        "LMDB opens by path; the file was made through the door immediately before"
    ),
    ("kernel/aos/store/walk.py", "lmdb.open"): (
        "LMDB opens by path, in a child that starts after check_plain (ST-81)"
    ),
    ("kernel/aos/store/walk.py", "os.open"): "the null device",
    ("kernel/aos/node/child_program.py", "os.open"): "the null device",
    ("kernel/aos/page/page_app.py", "files('aos.page').joinpath('static', name).read_bytes"): (
        "a style sheet or an icon of this package"
    ),
}
"""Other openings by path, each with its reason."""


def opens(call: ast.Call) -> bool:
    """Whether a call opens, makes, renames or removes a file by its path."""
    function = call.func
    if isinstance(function, ast.Name):
        return function.id == "open"
    if not isinstance(function, ast.Attribute):
        return False
    owner = function.value.id if isinstance(function.value, ast.Name) else None
    if owner in ("os", "io", "shutil", "lmdb"):
        known = {"os": OF_OS, "shutil": OF_SHUTIL}.get(owner, frozenset({"open"}))
        return function.attr in known
    if function.attr in BY_PATH:
        return True
    if function.attr == "open":
        # Path.open takes a mode; PlainFolder.open takes a name.
        first = call.args[0] if call.args else None
        return first is None or (isinstance(first, ast.Constant) and is_mode(first.value))
    # Path.rename and Path.replace take one target; PlainFolder.rename and str.replace take two.
    return function.attr in ("rename", "replace") and len(call.args) == 1 and not call.keywords


def is_mode(value: object) -> bool:
    return isinstance(value, str) and MODE.fullmatch(value) is not None


def openings(source: str) -> Iterator[tuple[int, str]]:
    """The line and the function of each call that opens a file by its path."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and opens(node):
            yield node.lineno, ast.unparse(node.func)


@cache
def all_openings() -> list[tuple[str, int, str]]:
    """The module, line and function of each."""
    found: list[tuple[str, int, str]] = []
    for package in ("kernel/aos", "cli/aos_cli", "manifests/gateway/aos_gateway"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if name != DOOR:
                found += [(name, *each) for each in openings(path.read_text("utf-8"))]
    return found


@pytest.mark.parametrize(
    "source",
    [
        "open(path)",
        "os.open(path, os.O_RDONLY)",
        "path.open()",
        "path.open('rb')",
        "path.open(mode='w')",
        "path.read_text('utf-8')",
        "(folder / NAME).write_bytes(data)",
        "os.rename(old, new)",
        "path.rename(target)",
        "part.replace(target)",
        "path.unlink(missing_ok=True)",
        "shutil.copytree(a, b)",
        "lmdb.open(str(folder))",
    ],
)
def test_an_opening_by_path_is_found(source: str) -> None:
    assert len(list(openings(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "folder.open(NAME)",
        "folder.open(NAME, os.O_RDWR, is_sole=True)",
        "folder.rename(old, new)",
        "LmdbStore.open(folder / STORE, readonly=True)",
        "text.replace('a', 'b')",
        "dataclasses.replace(row, seq=1)",
        "os.fdopen(fd, 'w')",
    ],
)
def test_other_calls_are_no_openings_by_path(source: str) -> None:
    assert list(openings(source)) == []


def test_no_file_of_a_world_is_opened_but_through_the_one_door() -> None:  # ST-80
    allowed = {*NAMED_BY_THE_USER, *REASONED}
    found = [
        f"{name}:{line}: {call}"
        for name, line, call in all_openings()
        if (name, call) not in allowed and not name.startswith(tuple(NOT_OF_A_WORLD))
    ]

    assert found == [], "use aos.store.plain_files, or give a reason in this test"


def test_every_exception_is_still_needed() -> None:
    found = all_openings()

    assert {*NAMED_BY_THE_USER, *REASONED} <= {(name, call) for name, _, call in found}
    assert [
        each for each in NOT_OF_A_WORLD if not any(name.startswith(each) for name, _, _ in found)
    ] == []
