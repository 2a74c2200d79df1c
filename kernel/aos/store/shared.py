"""The environments that this process has open: LMDB may have each open once (ST-16)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from aos.errors import Refused, Unavailable, sentence
from aos.store.environment import Access, Environment, folder_key

_open: Final[dict[tuple[int, int, int], Environment]] = {}
_registry = threading.Lock()


def acquire(folder: Path, access: Access, *, looks: bool = True) -> Environment:
    """Open the environment in ``folder``, or join the one that this process has open.

    Give it back with ``release``. Not to be used across a fork. Without ``looks`` the file is taken
    for whole: for a process that may die of it.
    """
    with _registry:
        found = _find(folder)
        if found is None:
            made = Environment(folder, access, looks=looks)
            _open[made.key] = made
            return made
        if access is Access.CREATE:
            raise Refused(sentence("a store is here already, and open", where=str(folder)))
        if access is Access.WRITE and found.readonly:
            raise Unavailable(
                sentence(
                    "this process has the store open for reading, and cannot write it beside",
                    where=str(folder),
                    hint="close it first",
                )
            )
        found.users += 1
        return found


def release(environment: Environment) -> None:
    with _registry:
        environment.users -= 1
        if not environment.users:
            del _open[environment.key]
            environment.close()


def compact(environment: Environment) -> None:
    """Compact an environment that nobody else in this process has open; raises as its method.

    Raises:
        Unavailable: Somebody else has. Nothing has changed.
    """
    with _registry:
        if environment.users > 1:
            raise Unavailable(
                sentence(
                    "this process has the store open elsewhere too, and cannot compact it",
                    where=environment.where,
                    hint="close it there first",
                )
            )
        environment.compact()


def _find(folder: Path) -> Environment | None:
    try:
        return _open.get(folder_key(folder))
    except OSError:
        return None
