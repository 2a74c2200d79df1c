"""The folder of ``--host-root``, and how it reaches the process that uses it (AG-60).

The executor ``aos.executors.machine`` reads both variables. Only ``aos run``, ``aos dev`` and ``aos
node`` set them; for ``aos worker``, its user does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from aos.errors import BadUsage
from aos.worker.folder_places import are_apart
from aos.worker.shipped import SHIPPED

ROOT_VARIABLE: Final = "AOS_HOST_ROOT"
STATE_VARIABLE: Final = "AOS_HOST_STATE"
STATE_FOLDER: Final = "machine"
"""In the world's folder: the sessions of this machine (AG-69)."""

MACHINE: Final = SHIPPED["sys/host."]


def with_machine(specs: Sequence[str], root: Path | None) -> list[str]:
    """The ``--executors`` of a process: with ``--host-root``, the machine's too."""
    return [*specs, *([MACHINE] if root is not None and MACHINE not in specs else ())]


def host_environment(root: Path | None, world: Path) -> Mapping[str, str] | None:
    """The environment of the process that runs effects; None if there is no ``--host-root``.

    Raises:
        BadUsage: ``root`` is no folder, or one of root and world contains the other.
    """
    if root is None:
        return None
    root_folder, folder = root.resolve(), world.resolve()
    if not root_folder.is_dir():
        raise BadUsage(f"--host-root {root}: expected a folder, found none")
    if not are_apart(root_folder, folder):
        raise BadUsage(
            f"--host-root {root}: expected a folder apart from the world {world}, whose keys and "
            "journal effects must not read (keep one of the two elsewhere)"
        )
    return {
        **os.environ,
        ROOT_VARIABLE: str(root_folder),
        STATE_VARIABLE: str(folder / STATE_FOLDER),
    }
