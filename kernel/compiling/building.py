"""A copy of the ``aos`` package beside which the compiled modules lie (spec/compiled.md).

Python imports an extension module before the source of the same name, so that a folder with both
needs nothing but to stand first on the path.
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
"""What is compiled: the pure part of the kernel, where a world's time goes."""

_WARNING: Final = "warning: Treating generator comprehension as list"


class Unbuildable(Exception):
    """The compiled kernel cannot be made; the text says what is missing or wrong."""


def build(out: Path) -> None:
    """Make ``out`` the compiled kernel of this checkout, whole or not at all.

    Raises:
        Unbuildable: ``out`` is as it was.
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
    """What is lacking to compile the kernel, each with what to do about it."""
    return missing_tools() + [
        f"no {module} (pip install -r kernel/compiling/requirements.txt)"
        for module in ("mypyc", "setuptools")
        if not _has(module)
    ]


def missing_tools() -> list[str]:
    """What of it the machine lacks, whatever is installed for Python."""
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
    """The package as a wheel has it, with what lies elsewhere in a checkout."""
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
    """Compile what ``PACKAGES`` names of the package ``aos`` in ``stage``. Beside each extension
    its source stays, for a Python that the extension was not made for.

    Raises:
        Unbuildable: The compiler refuses something, or would make another program of it.
    """
    sources: dict[str, str] = {}
    for package in PACKAGES:
        for path in sorted((stage / "aos" / package).rglob("*.py")):
            if path.name != "__init__.py":
                name = str(path.relative_to(stage))
                sources[name] = path.read_text(encoding="utf-8")
                path.write_text(written_out(sources[name], name), encoding="utf-8")
    script = Path(__file__).with_name("extensions.py")
    # Flags of somebody's shell would make other code; the compiler is theirs to choose.
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
        # A generator that is read at once where its author meant it lazily: another program.
        raise Unbuildable("\n".join(lazy) or said[-4000:])
    shutil.rmtree(stage / "build")
    for name, source in sources.items():
        (stage / name).write_text(source, encoding="utf-8")
