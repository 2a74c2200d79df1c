"""Folders that contain each other by another path: bind mounts (AG-60)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from aos.worker.host_root import are_apart
from tests.cli.shell import environment
from tests.tools import missing

MOUNT: Final = """
import json, subprocess, sys
from pathlib import Path
from aos.errors import BadUsage
from aos.worker.host_root import host_environment
mounts, root, world = json.loads(sys.argv[1])
for source, target in mounts:
    done = subprocess.run(["mount", "--bind", source, target], capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode())
try:
    host_environment(Path(root), Path(world))
    print("apart")
except BadUsage as refused:
    print(refused)
"""

CASES: Final = {
    "the folder above": ([("data", "seen")], "seen", "data/w"),
    "a folder of the folder above": ([("data", "seen")], "seen/w/keys", "data/w"),
    "the world": ([("data/w", "seen")], "seen", "data/w"),
    "its keys": ([("data/w/keys", "seen")], "seen", "data/w"),
    "its store, below": ([("data/w/store", "root/below")], "root", "data/w"),
    "a key, below": ([("data/w/keys/k", "root/file")], "root", "data/w"),
    "the folder above, below": ([("data", "root/below")], "root", "data/w"),
    "the world by a mount": ([("data/w", "seen")], "data", "seen"),
    "keys that are a mount": ([("root/below", "data/w/keys")], "root", "data/w"),
    "a mount on a mount": ([("data/other", "seen"), ("data", "seen")], "seen", "data/w"),
    "a link to a mount": ([("data", "seen")], "link", "data/w"),
}
"""Bind mounts, and a root and a world that are not apart with them."""

APART: Final = {
    "none": ([], "root", "data/w"),
    "a folder next to the world": ([("data/other", "seen")], "seen", "data/w"),
    "a hidden mount": ([("data", "seen"), ("data/other", "seen")], "seen", "data/w"),
}


def refusal(folder: Path, mounts: list[tuple[str, str]], root: str, world: str) -> str:
    for name in ("data/w/keys", "data/w/store", "data/other", "seen", "root/below"):
        (folder / name).mkdir(parents=True)
    for name in ("data/w/keys/k", "root/file"):
        (folder / name).touch()
    (folder / "link").symlink_to("seen")
    if shutil.which("unshare") is None:
        missing("there is no unshare program: bind mounts are not tested")
    bound = [[str(folder / each) for each in mount] for mount in mounts]
    given = json.dumps([bound, str(folder / root), str(folder / world)])
    done = subprocess.run(
        ["unshare", "-m", "--propagation", "private", sys.executable, "-c", MOUNT, given],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        missing(f"nothing can be mounted: bind mounts are not tested: {done.stderr}")
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these mounts")
@pytest.mark.parametrize("name", CASES)
def test_a_root_that_shows_the_world_by_a_mount_is_refused(tmp_path: Path, name: str) -> None:
    """AG-60."""
    mounts, root, world = CASES[name]
    assert "expected a folder apart from the world" in refusal(tmp_path, mounts, root, world)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these mounts")
@pytest.mark.parametrize("name", APART)
def test_a_root_that_shows_nothing_of_the_world_is_accepted(tmp_path: Path, name: str) -> None:
    """AG-60."""
    mounts, root, world = APART[name]
    assert refusal(tmp_path, mounts, root, world) == "apart"


def test_a_world_that_does_not_exist_yet_is_where_its_path_is(tmp_path: Path) -> None:
    assert are_apart(tmp_path / "root", tmp_path / "w")
    assert not are_apart(tmp_path, tmp_path / "w" / "machine")
