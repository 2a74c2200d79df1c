"""Find anvil, the local EVM node: in AOS_ANVIL, in tools/node_modules, on the PATH."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import Final

VARIABLE: Final = "AOS_ANVIL"
TOOLS: Final = Path(__file__).resolve().parent / "tools"

_MACHINES: Final = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class AnvilMissing(Exception):
    """There is no anvil; the message is one sentence that says what to do."""


def find_anvil() -> Path:
    """Return the program that AOS_ANVIL names, or else the installed one, or the one on the PATH.

    Raises:
        AnvilMissing: There is none, or AOS_ANVIL names no program.
    """
    if named := os.environ.get(VARIABLE):
        if not _is_program(Path(named)):
            raise AnvilMissing(f"{VARIABLE}: expected the path of a program, found {named}")
        return Path(named).absolute()
    try:
        return installed_anvil()
    except AnvilMissing:
        on_path = shutil.which("anvil")
    if on_path is None:
        raise AnvilMissing(
            f"anvil was not found in {VARIABLE}, in {TOOLS} or on the PATH: "
            "run `make gateway-tools`, which installs it"
        )
    return Path(on_path)


def installed_anvil() -> Path:
    """Return the program in tools/node_modules.

    Raises:
        AnvilMissing: It is not installed, or there is none for this machine.
    """
    machine = _MACHINES.get(platform.machine().lower(), platform.machine().lower())
    package = f"@foundry-rs/anvil-{platform.system().lower()}-{machine}"
    program = TOOLS / "node_modules" / package / "bin" / "anvil"
    if not _is_program(program):
        raise AnvilMissing(f"the package {package} is not installed")
    return program


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
