"""One world of many: a node whose world a router serves (spec/worlds.md, WD-10, WD-14).

The program around it gets its settings as a line of JSON on stdin and writes lines of JSON on
stdout:

    stdin   settings, then  rest      end, if nothing is left to do now
    stdout  {"ready": true}           it answers
            {"busy": reason}          it continues: the answer to ``rest``
            {"ended": {"has_work": …, "wake_ns": …}}

It also ends, as after SIGTERM, once its stdin ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from aos.errors import AosError
from aos.host.folder.folder import WorldFolder
from aos.host.process import Ended, RunningWorld
from aos.node.child_program import tell
from aos.node.mounted import Mounted
from aos.node.node_settings import read_settings
from aos.node.running import NodeAddresses, NodeOptions, run_node
from aos.node.webhooks import Position

REST: Final = b"rest\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class MountedSettings:
    """The settings of the program. ``options`` are those of the command, which it reads itself."""

    world: Path
    name: str
    door: int
    server: tuple[str, int]
    scheme: str
    tokens: Path
    options: Mapping[str, Any]

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for a document of another program."""
        host, port = document["server"]
        return cls(
            world=Path(document["world"]),
            name=document["name"],
            door=document["door"],
            server=(host, port),
            scheme=document["scheme"],
            tokens=Path(document["tokens"]),
            options=document["options"],
        )

    def document(self) -> dict[str, Any]:
        """The settings as ``read`` takes them."""
        return {
            "world": str(self.world),
            "name": self.name,
            "door": self.door,
            "server": list(self.server),
            "scheme": self.scheme,
            "tokens": str(self.tokens),
            "options": dict(self.options),
        }


async def run_mounted(settings: MountedSettings, options: NodeOptions, stdin: int) -> Ended:
    """Run the world behind the router until it is told to end, or rests.

    ``stdin`` is the descriptor of the lines that follow the settings; nothing else reads it.

    Raises:
        AosError: As ``run_node``.
    """
    with socket.socket(fileno=settings.door) as door:
        mounted = Mounted(
            name=settings.name,
            door=door,
            server=settings.server,
            scheme=settings.scheme,
            tokens=settings.tokens,
        )
        orders = _Orders(stdin)
        ended = await run_node(
            settings.world,
            replace(
                options,
                listen=None,
                mount=mounted,
                on_running=orders.obey,
                on_open=_say_ready,
            ),
        )
    tell({"ended": {"has_work": ended.has_work, "wake_ns": ended.next_ns}})
    return ended


def _say_ready(_: NodeAddresses) -> None:
    tell({"ready": True})


class _Orders:
    """Reads the lines of the node that has started this process."""

    def __init__(self, stdin: int) -> None:
        self._stdin = stdin
        self._running: RunningWorld | None = None
        os.set_blocking(stdin, False)
        asyncio.get_running_loop().add_reader(stdin, self._read)

    def obey(self, running: RunningWorld) -> None:
        """Obey from now on."""
        self._running = running

    def _read(self) -> None:
        try:
            lines = os.read(self._stdin, 4096)
        except BlockingIOError:
            return
        if not lines:
            asyncio.get_running_loop().remove_reader(self._stdin)
            # The run has its own handler, from its first moment on.
            os.kill(os.getpid(), signal.SIGTERM)
        elif lines.endswith(REST):
            reason = self._reason_to_go_on()
            if reason is not None:
                tell({"busy": reason})

    def _reason_to_go_on(self) -> str | None:
        """Why the world does not rest; None if it does now."""
        if self._running is None:
            return "it is starting"
        try:
            name = undelivered(self._running.folder, self._running.seq())
        except AosError as problem:
            return str(problem)
        if name is not None:
            return f"the webhook {name} has not delivered every event"
        return None if self._running.rest() else "it has open work"


def undelivered(folder: WorldFolder, seq: int) -> str | None:
    """The name of a webhook that has not posted all events up to record ``seq``; None without one.

    Raises:
        BadUsage: ``node.toml`` or a position cannot be read.
    """
    for webhook in read_settings(folder.path).webhooks:
        position = Position(folder, webhook.name).load()
        if position is None or position[0] <= seq:
            return webhook.name
    return None
