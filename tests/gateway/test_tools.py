"""``tools/install``: the locked packages are installed once, and a missing tool is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway import GATEWAY

TOOLS = GATEWAY / "tools"

ANVIL = "#!/bin/sh\necho anvil Version: 1.7.1\n"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The folder of the gateway with its tools not installed, and an empty PATH."""
    for name in ("anvil.py", "tools/install", "tools/package.json", "tools/package-lock.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((GATEWAY / name).read_bytes())
    (tmp_path / "bin").mkdir()
    return tmp_path


def program(copy: Path, name: str, script: str) -> None:
    file = copy / "bin" / name
    file.write_text(script)
    file.chmod(0o755)


def install(copy: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, copy / "tools" / "install"],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": str(copy / "bin"), **variables},
    )


def npm(copy: Path) -> None:
    """A program in place of npm that keeps its arguments and creates the folder of packages."""
    program(copy, "node", "#!/bin/sh\n")
    script = f"""#!{sys.executable}
import pathlib, sys
pathlib.Path("node_modules").mkdir(exist_ok=True)
with open("calls", "a") as file:
    print(*sys.argv[1:], file=file)
"""
    program(copy, "npm", script)


def test_without_npm_the_installer_says_what_to_install(copy: Path) -> None:
    ran = install(copy)

    assert (ran.returncode, ran.stdout) == (3, "")
    assert "npm was not found on the PATH" in ran.stderr
    assert "`apt-get install nodejs npm`" in ran.stderr


def test_a_machine_that_no_package_has_an_anvil_for_is_told_of_the_variable(copy: Path) -> None:
    npm(copy)

    ran = install(copy)

    assert ran.returncode == 3
    assert "there is no anvil for this machine" in ran.stderr
    assert "Set AOS_ANVIL to an anvil 1.7" in ran.stderr


def test_a_failed_npm_is_reported_and_tried_again(copy: Path) -> None:
    npm(copy)
    program(copy, "npm", "#!/bin/sh\nexit 1\n")
    assert install(copy).returncode == 1

    npm(copy)
    program(copy, "anvil", ANVIL)

    assert install(copy).returncode == 0


def test_packages_are_installed_once_without_their_scripts(copy: Path) -> None:
    npm(copy)
    program(copy, "anvil", ANVIL)

    for _ in range(2):
        ran = install(copy, AOS_ANVIL=str(copy / "bin" / "anvil"))
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout.startswith("anvil Version: 1.7.1: ")

    calls = (copy / "tools" / "calls").read_text("utf-8").splitlines()
    assert [call.split()[:2] for call in calls] == [["ci", "--ignore-scripts"]]
    (copy / "tools" / "package-lock.json").write_text("{}")
    assert install(copy).returncode == 0
    assert len((copy / "tools" / "calls").read_text("utf-8").splitlines()) == 2, "the lock changed"


def test_the_lock_has_a_hash_of_every_package_and_the_address_of_none() -> None:
    packages = json.loads((TOOLS / "package-lock.json").read_text("utf-8"))["packages"]
    listed = {name: each for name, each in packages.items() if name}

    assert {"node_modules/solc", "node_modules/@foundry-rs/anvil-linux-amd64"} <= set(listed)
    assert all(each["integrity"].startswith("sha512-") for each in listed.values())
    assert not any("resolved" in each for each in listed.values())
