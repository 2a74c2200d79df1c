"""Packages that extend ``aos``, installed into a folder as an installer does, without network."""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.cli.shell import ROOT, Result, run

HELLO: Final = Path(__file__).parent / "hello"


def install_project(site: Path, project: Path) -> None:
    """Install a project by its ``pyproject.toml``: its packages, and what describes it."""
    document: dict[str, Any] = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    for module in project.glob("*/__init__.py"):
        shutil.copytree(module.parent, site / module.parent.name)
    describe(
        site,
        document["name"],
        version=document["version"],
        requires=document["dependencies"],
        entry_points=document["entry-points"],
    )


def describe(
    site: Path,
    name: str,
    *,
    entry_points: Mapping[str, Mapping[str, str]],
    version: str = "1.0",
    requires: Sequence[str] = (),
) -> None:
    """Write the ``.dist-info`` of a package."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    needs = "".join(f"Requires-Dist: {text}\n" for text in requires)
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
    )
    (folder / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
            for group, entries in entry_points.items()
        )
    )


def aos_with(site: Path, *words: str | Path, cwd: Path) -> Result:
    """Run ``aos`` in an environment that has the packages of ``site`` too."""
    paths = [str(ROOT / "kernel"), str(ROOT / "cli"), str(site)]
    return run(*words, env={"PYTHONPATH": os.pathsep.join(paths)}, cwd=cwd)
