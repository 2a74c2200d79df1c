"""The program nats-server on this machine (spec/cluster.md, CL-35)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from aos.errors import BadUsage, Refused
from aos.store.log.nats_durability import RELEASE_MIN

PROGRAM: Final = "nats-server"
PROGRAM_VARIABLE: Final = "AOS_NATS_SERVER"
INSTALL_HINT: Final = (
    f"install nats-server 2.14 or newer (make nats-server, or https://nats.io/download), or set "
    f"{PROGRAM_VARIABLE} to its path"
)


def find_nats_server() -> Path:
    """Return the program that AOS_NATS_SERVER names, or the one on the PATH, or the one next to the
    Python that runs this.

    Raises:
        BadUsage: There is none, or the variable names no program.
    """
    name = os.environ.get(PROGRAM_VARIABLE)
    if name:
        path = Path(name)
        if not (path.is_file() and os.access(path, os.X_OK)):
            raise BadUsage(f"{PROGRAM_VARIABLE}: expected the path of a program, found {name}")
        return path.absolute()
    program = shutil.which(PROGRAM) or shutil.which(PROGRAM, path=str(Path(sys.executable).parent))
    if program is None:
        raise BadUsage(f"{PROGRAM} was not found", hint=INSTALL_HINT)
    return Path(program).absolute()


def check_release(program: Path) -> None:
    """Check that a nats-server can be run and is recent enough.

    Raises:
        BadUsage: It cannot be run. Refused: Its release is too old.
    """
    try:
        ran = subprocess.run(  # noqa: S603  # the user's program
            [program, "--version"], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise BadUsage(f"{program} cannot be run: {problem}", hint=INSTALL_HINT) from None
    release = re.search(r"v(\d+)\.(\d+)\.\d+", ran.stdout)
    if release is None:
        raise BadUsage(f"{program} is no nats-server", actual=ran.stdout.strip()[:80])
    if (int(release[1]), int(release[2])) < RELEASE_MIN:
        raise Refused(
            "this release of nats-server is too old",
            location=str(program),
            expected="2.14 or newer",
            actual=release[0],
            hint=INSTALL_HINT,
        )
