"""Compile a project's AssemblyScript to WASM (spec/authoring.md, AU-60 to AU-62)."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aos.author.errors import BuildFailed, ToolMissing
from aos.author.project import Project
from aos.author.toolchain import OS_RELEASE, Console, run, systems

COMPILER: Final = "node_modules/assemblyscript/bin/asc.js"
STAMP: Final = "node_modules/.aos-installed"
"""A file that names the packages ``npm ci`` has installed, so that it runs again if they change."""

CONFIG: Final = "asconfig.json"
PACKAGE: Final = "package.json"
LOCK: Final = "package-lock.json"

_INSTALL: Final[Mapping[str, str]] = {
    "debian": "`apt-get install nodejs npm`",
    "fedora": "`dnf install nodejs npm`",
    "arch": "`pacman -S nodejs npm`",
    "alpine": "`apk add nodejs npm`",
}


def compile_assemblyscript(project: Project, *, console: Console) -> Mapping[str, bytes]:
    """Build every module of the project; return their bytes by name.

    Installs the packages of ``package-lock.json`` if necessary; writes nothing else in the project.

    Raises:
        ToolMissing: Node.js is missing, or npm where packages have to be installed.
        BuildFailed: The compiler or npm failed, and printed the reason.
    """
    node = _program("node")
    install(project, console=console)
    return {
        module.name: _compile(project, node, module.source, console) for module in project.modules
    }


def install(project: Project, *, console: Console) -> bool:
    """Run ``npm ci`` unless the locked packages are installed. Return whether it ran.

    Raises: as ``compile_assemblyscript``.
    """
    packages_digest = _packages_digest(project)
    stamp = project.folder / STAMP
    if stamp.exists() and stamp.read_text("utf-8") == packages_digest:
        return False
    npm = _program("npm")
    console.report("npm ci: installing the packages of package-lock.json")
    run(
        [npm, "ci", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"],
        cwd=project.folder,
        program="npm ci",
        console=console,
    )
    if not (project.folder / COMPILER).is_file():
        raise BuildFailed(
            "npm ci has not installed AssemblyScript",
            location=str(project.folder / PACKAGE),
            expected='"assemblyscript" in devDependencies',
        )
    stamp.write_text(packages_digest, "utf-8")
    return True


def _packages_digest(project: Project) -> str:
    """A digest of the two files that name the packages to install."""
    digest = hashlib.sha256()
    for name in (PACKAGE, LOCK):
        file = project.folder / name
        try:
            data = file.read_bytes()
        except OSError as error:
            raise BuildFailed(
                f"the file cannot be read: {error.strerror}",
                location=str(file),
                hint="`npm install` makes package-lock.json"
                if name == LOCK
                else "it names the packages of the project",
            ) from error
        digest.update(hashlib.sha256(data).digest())
    return digest.hexdigest() + "\n"


def _compile(project: Project, node: Path, source: str, console: Console) -> bytes:
    if not (project.folder / source).is_file():
        raise BuildFailed(
            f"no such file: {source}",
            location=str(project.file),
            expected="the entry file of a module",
        )
    with tempfile.TemporaryDirectory(prefix="aos-build-") as scratch:
        module_file = Path(scratch) / "module.wasm"
        # The module contains file names, so they are relative to the project.
        command: list[str | Path] = [
            node,
            COMPILER,
            source,
            "--config",
            CONFIG,
            "--target",
            "release",
        ]
        run(
            [*command, "--outFile", module_file],
            cwd=project.folder,
            program="the AssemblyScript compiler",
            console=console,
        )
        return module_file.read_bytes()


def _program(name: str) -> Path:
    program = shutil.which(name)
    if program is None:
        raise ToolMissing(
            f"{name} was not found on the PATH",
            expected="Node.js 18 or newer, with npm",
            hint=f"install it: {advice()}",
        )
    return Path(program)


def advice(os_release: Path = OS_RELEASE) -> str:
    """How to install Node.js and npm on this system."""
    ways = [_INSTALL[name] for name in systems(os_release) if name in _INSTALL]
    return ways[0] if ways else "nodejs and npm, as this system packages them"
