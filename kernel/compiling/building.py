"""Build a copy of the ``aos`` package with compiled modules next to the sources (spec/compiled.md).

Python prefers an extension module to the source of the same name, so a folder with both only has to
be first on the path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Final

from compiling.constructors import written_out

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("values", "core")
"""The packages to compile: the pure part of the kernel, in which a world spends its time."""

_WARNING: Final = "warning: Treating generator comprehension as list"


class Unbuildable(Exception):
    """The kernel cannot be compiled; the text says what is missing or wrong."""


def build(out: Path) -> None:
    """Replace ``out`` by the compiled kernel of this checkout, atomically.

    Raises:
        Unbuildable: It cannot be compiled. ``out`` is unchanged.
    """
    lacking = missing()
    if lacking:
        raise Unbuildable(f"the kernel cannot be compiled here: {'; '.join(lacking)}")
    stage = out.with_name(f"{out.name}.{os.getpid()}")
    try:
        _copy(stage)
        compile_in(stage)
        shutil.rmtree(out, ignore_errors=True)
        stage.rename(out)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def missing() -> list[str]:
    """The missing prerequisites for compiling the kernel, each with a remedy."""
    return missing_tools() + [
        f"no {module} (pip install -r kernel/compiling/requirements.txt)"
        for module in ("mypyc", "setuptools")
        if not _has(module)
    ]


def missing_tools() -> list[str]:
    """The missing prerequisites apart from Python packages."""
    found = []
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    compiler = command.split()[0]
    if shutil.which(compiler) is None:
        found.append(f"no C compiler {compiler} (Debian: apt-get install gcc libc6-dev)")
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.exists():
        found.append(f"no {header} (Debian: apt-get install python3-dev)")
    return found


def _has(module: str) -> bool:
    command = [sys.executable, "-c", f"import {module}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603


def _copy(stage: Path) -> None:
    """Copy the package as a wheel has it, with the files that a checkout has elsewhere."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "kernel" / "aos", stage / "aos", ignore=ignored)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    for source, target in wheel["force-include"].items():
        (stage / target).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, stage / target, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy(ROOT / source, stage / target)


def compile_in(stage: Path) -> None:
    """Compile the ``PACKAGES`` of the package ``aos`` in ``stage``. The sources stay next to the
    extensions, for versions of Python that cannot load these.

    Raises:
        Unbuildable: The compiler fails, or would change the behavior of the program.
    """
    sources: dict[str, str] = {}
    for package in PACKAGES:
        for path in sorted((stage / "aos" / package).rglob("*.py")):
            if path.name != "__init__.py":
                name = str(path.relative_to(stage))
                sources[name] = path.read_text(encoding="utf-8")
                path.write_text(written_out(sources[name], name), encoding="utf-8")
    script = Path(__file__).with_name("extensions.py")
    # Flags in the environment would change the code, so they are removed. CC may be set.
    environment = {k: v for k, v in os.environ.items() if k not in ("MYPYPATH", "PYTHONPATH")}
    done = subprocess.run(  # noqa: S603
        [sys.executable, str(script), *sources],
        cwd=stage,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    lazy = [line for line in said.splitlines() if _WARNING in line]
    if done.returncode or lazy:
        # The compiler would evaluate a lazy generator immediately, which changes the program.
        raise Unbuildable("\n".join(lazy) or said[-4000:])
    shutil.rmtree(stage / "build")
    for name, source in sources.items():
        (stage / name).write_text(source, encoding="utf-8")
