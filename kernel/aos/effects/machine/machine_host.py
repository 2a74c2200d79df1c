"""``MachineHost``: what the effects of one process share, or why it is not configured (AG-60)."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aos.effects.machine.contained_paths import ContainedFolder
from aos.effects.machine.guarded_command import GuardedCommands
from aos.effects.machine.host_sessions import HostSessions
from aos.errors import BadUsage
from aos.worker import EffectContext, NotConfigured
from aos.worker.host_root import ROOT_VARIABLE, STATE_VARIABLE, are_apart

ENDING_S: Final = 1.5
"""How long commands may take to end with the process, which has 2 s in all (X-52)."""


class MachineHost:
    """The root, the sessions and the running commands. ``changing`` is held while files are read,
    changed and written."""

    def __init__(self, root: Path, state: Path) -> None:
        self.root = ContainedFolder(root)
        if not are_apart(self.root.path, state):
            raise BadUsage(
                f"{STATE_VARIABLE} {state}: expected a folder apart from the root {root}, whose "
                "files effects change"
            )
        try:
            self.sessions = HostSessions(state.absolute())
        except OSError as error:
            raise BadUsage(f"{STATE_VARIABLE} {state}: {error.strerror}") from error
        self.commands = GuardedCommands()
        self.changing = threading.Lock()


def machine_host(ctx: EffectContext) -> MachineHost:
    """The resource of the process.

    Raises:
        NotConfigured: No root was given.
    """
    resource = ctx.resource
    if not isinstance(resource, MachineHost):
        raise NotConfigured(
            "host_root_missing",
            f"{ctx.effect} needs a folder of this machine, and none was given",
            "restart it with --host-root DIR",
        )
    return resource


@asynccontextmanager
async def opened_machine() -> AsyncIterator[MachineHost | None]:
    """Read root and state from the environment. At its end, no command is left.

    Raises:
        BadUsage: The root is no folder, or the state cannot be kept.
    """
    root = os.environ.get(ROOT_VARIABLE, "")
    if not root:
        yield None
        return
    host = await asyncio.to_thread(MachineHost, Path(root), _state_folder(root))
    try:
        yield host
    finally:
        await host.commands.end_all(ENDING_S)
        host.root.close()


def _state_folder(root: str) -> Path:
    state = os.environ.get(STATE_VARIABLE, "")
    if not state:
        raise BadUsage(
            f"{ROOT_VARIABLE}={root}: expected {STATE_VARIABLE} too, a folder of this machine "
            "outside of it, in which sessions are kept"
        )
    return Path(state)
