"""The environments that this process has open: LMDB may have each open once (ST-16)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from aos.errors import Refused, Unavailable
from aos.store.environment import Access, Environment, folder_key

_open: Final[list[Environment]] = []
_registry = threading.Lock()


def acquire(folder: Path, access: Access, *, looks: bool = True) -> Environment:
    """Open the environment in ``folder``, or share the one that this process has open (ST-16).

    The caller gives it back with ``release``. It must not be used across a fork. Without ``looks``
    the file is not checked first: for a process that a damaged file may end.
    """
    with _registry:
        environment = _find(folder)
        if environment is None:
            new_environment = Environment(folder, access, looks=looks)
            _open.append(new_environment)
            return new_environment
        if access is Access.CREATE:
            raise Refused("a store is here already, and open", location=str(folder))
        if access is Access.WRITE and environment.readonly:
            raise Unavailable(
                "this process has the store open for reading, and cannot also write to it",
                location=str(folder),
                hint="close it first",
            )
        environment.users += 1
        return environment


def release(environment: Environment) -> None:
    """Give an environment back. The last user closes it."""
    with _registry:
        environment.users -= 1
        if not environment.users:
            _open.remove(environment)
            environment.close()


def compact(environment: Environment) -> None:
    """Compact an environment that this process has open once; raises as its method (ST-53).

    Raises:
        Unavailable: This process has it open elsewhere too. Nothing has changed.
    """
    with _registry:
        if environment.users > 1:
            raise Unavailable(
                "this process has the store open elsewhere too, and cannot compact it",
                location=environment.location,
                hint="close it there first",
            )
        environment.compact()


def _find(folder: Path) -> Environment | None:
    """Compares keys of now: a reader follows its folder's name to another folder. If a writer had
    that one open before, it comes first: the reader cannot open it a second time."""
    try:
        key = folder_key(folder)
    except OSError:
        return None
    environments = [environment for environment in _open if environment.key == key]
    return min(environments, key=lambda environment: environment.readonly, default=None)
