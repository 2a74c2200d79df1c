"""Install the programs of the peers in a private folder, and find the installed PostgreSQL."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.errors import Unavailable
from benchmarks.processes import wait_for

HERE: Final = Path(__file__).resolve().parent
WORK: Final = HERE / ".work"
VENV: Final = WORK / "venv"
NODE: Final = WORK / "node"
GO: Final = WORK / "go"
TEMPORAL: Final = HERE / "temporal.txt"
SERVICES: Final = HERE / "services"

INSTALL_S: Final = 600.0
COMPILE_S: Final = 2_400.0
"""Temporal's server is a Go program of 250 MB, compiled here: minutes on a quiet machine."""


class NotInstalled(Unavailable):
    """A peer cannot be measured here. The text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """Its programs, and the user that they run as: they refuse to run as root."""

    postgres: Path
    initdb: Path
    is_ready: Path
    user: str | None


def python() -> Path:
    """The interpreter with DBOS and the SDKs of Restate and Temporal, installed unless it is there.

    Raises:
        NotInstalled: The packages cannot be had.
    """
    wanted = HERE / "requirements.txt"
    found = VENV / "bin" / "python"
    if not _is_done(VENV, wanted):
        _begin(VENV)
        _install([sys.executable, "-m", "venv", VENV])
        _install(
            [
                found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                "--require-hashes", "--only-binary", ":all:", "-r", wanted,
            ]
        )  # fmt: skip
        _done(VENV, wanted)
    return found


def node() -> Path:
    """Node itself; ``NODE`` has Restate's SDK and server then.

    Raises:
        NotInstalled: There is no Node, or the packages cannot be had.
    """
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is None or npm is None:
        raise NotInstalled("there is no node and npm on the PATH")
    wanted = HERE / "package-lock.json"
    if not _is_done(NODE, wanted):
        _begin(NODE)
        NODE.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(HERE / name, NODE / name)
        # Without scripts: the only one reports the installation to a third party.
        _install(
            [npm, "ci", "--prefix", NODE, "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
        )
        _done(NODE, wanted)
    return Path(program)


def restate_server() -> Path:
    """The server's own program, not the script around it, so that its process is ours to end.

    Raises:
        NotInstalled: There is none for this machine.
    """
    node()
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    name = f"restate-server-{platform.system().lower()}-{machine}"
    program = NODE / "node_modules" / "@restatedev" / name / "bin" / "restate-server"
    if not program.exists():
        raise NotInstalled(f"the package of restate-server has no {name}")
    return program


def temporal() -> Path:
    """Temporal's command line with its dev server, compiled unless it is there.

    Raises:
        NotInstalled: There is no Go, or the module cannot be had or compiled.
    """
    go = shutil.which("go")
    if go is None:
        raise NotInstalled("the PATH has no program `go`")
    if not _is_done(GO, TEMPORAL):
        _begin(GO)
        command = [go, "install", TEMPORAL.read_text().strip()]
        _install(command, timeout_s=COMPILE_S, env={"GOBIN": str(GO)})
        _done(GO, TEMPORAL)
    return GO / "temporal"


def postgres() -> Postgres:
    """The newest PostgreSQL on this machine.

    Raises:
        NotInstalled: There is none.
    """
    folders = [Path(each) for each in os.environ.get("PATH", "").split(os.pathsep) if each]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    for folder in folders:
        program = folder / "postgres"
        if os.access(program, os.X_OK):
            real = program.resolve().parent
            if all(os.access(real / name, os.X_OK) for name in ("initdb", "pg_isready")):
                return Postgres(
                    postgres=real / "postgres",
                    initdb=real / "initdb",
                    is_ready=real / "pg_isready",
                    user=_other_user(),
                )
    raise NotInstalled("there is no PostgreSQL (Debian: apt-get install postgresql)")


def version_of(*command: str | Path, after: str = "") -> str:
    """The first number with dots that the command prints right after the text ``after``."""
    ran = subprocess.run(
        [str(each) for each in command], capture_output=True, text=True, check=False
    )
    found = re.search(rf"{re.escape(after)}(\d+(\.\d+)+)", ran.stdout)
    return found.group(1) if found else "unknown"


def package_versions(interpreter: Path, names: Sequence[str]) -> dict[str, str]:
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    ran = subprocess.run(
        [str(interpreter), "-c", code, *names], capture_output=True, text=True, check=True
    )
    return dict(zip(names, ran.stdout.split(), strict=True))


def _version(folder: Path) -> float:
    try:
        return float(folder.parent.name)
    except ValueError:
        return 0.0


def _other_user() -> str | None:
    if os.geteuid() != 0:
        return None
    import pwd  # noqa: PLC0415  # there is none on some systems, and none is needed there

    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    raise NotInstalled("PostgreSQL does not run as root, and there is no user nobody")


def _install(
    command: Sequence[str | Path],
    *,
    timeout_s: float = INSTALL_S,
    env: Mapping[str, str] | None = None,
) -> None:
    try:
        wait_for(command, folder=WORK, timeout_s=timeout_s, log=WORK / "install.log", env=env)
    except Unavailable as problem:
        raise NotInstalled(str(problem)) from problem


def _begin(folder: Path) -> None:
    WORK.mkdir(exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _stamp(folder: Path) -> Path:
    return folder.with_suffix(".installed")


def _is_done(folder: Path, wanted: Path) -> bool:
    stamp = _stamp(folder)
    return folder.is_dir() and stamp.exists() and stamp.read_text() == _digest(wanted)


def _done(folder: Path, wanted: Path) -> None:
    _stamp(folder).write_text(_digest(wanted))


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
