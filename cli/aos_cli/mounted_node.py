"""Run one of many worlds; ``aos node --worlds`` starts this program (spec/worlds.md, WD-10).

    python -m aos_cli.mounted_node

Its settings are a line on stdin: ``MountedSettings``, whose options are those of ``NodeRun``.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace

from aos.errors import AosError
from aos.host.errors import Stopping
from aos.host.folder.folder import is_group
from aos.node.child_program import while_read
from aos.node.worlds.mounted_world import MountedSettings, run_mounted
from aos.private_memory import keep_memory_private
from aos_cli.node_run import NodeRun


def main() -> int:
    """Run the world; return the exit code."""
    line = _first_line(0)
    if not line:
        return 0  # the node was killed before it wrote them
    settings = MountedSettings.read(json.loads(line))

    def report(text: str) -> None:
        sys.stderr.write(f"{settings.name}: {text}\n")
        sys.stderr.flush()

    try:
        with while_read():
            run = NodeRun.read(settings.options)
            if not is_group(settings.world.parent):
                run = replace(run, has_neighbours=True)
            options = run.options(settings.world, report)
            asyncio.run(run_mounted(settings, options, 0))
    except (KeyboardInterrupt, Stopping):
        return 0
    except AosError as error:
        report(str(error))
        return error.exit_code
    return 0


def _first_line(stdin: int) -> bytes:
    """Read a line, and nothing after it."""
    line = bytearray()
    while not line.endswith(b"\n"):
        character = os.read(stdin, 1)
        if not character:
            return b""
        line += character
    return bytes(line)


if __name__ == "__main__":
    keep_memory_private()
    # Ctrl-C reaches the whole group of a terminal; the node ends its worlds in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(main())
