"""Refuse a manifest whose code does not fit flows in progress (spec/node-api.md, N-118b)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aos.audit.lens.words import count
from aos.node.problems import Problem
from aos.values.digests import Hash

COMMAND: Final = (sys.executable, "-m", "aos.node.gate_process")
GATE_S: Final = 120.0
"""Seconds that the check of one manifest may take."""


class FlowGates:
    """Checks one manifest after another, each in a process of its own."""

    def __init__(self, world: Path, *, seconds: float = GATE_S) -> None:
        self._world = world
        self._seconds = seconds
        self._turn = asyncio.Lock()

    async def check(self, document: bytes, modules: Mapping[Hash, bytes]) -> None:
        """Try the flows in progress that the manifest would take over in place.

        A manifest that cannot be read, or whose modules are refused, passes: the world says why.

        Raises:
            Problem: Flows would stop with the fault ``diverged`` (409), or it takes too long (503).
        """
        parts = [document, *modules.values()]
        lengths = json.dumps([len(each) for each in parts]).encode()
        async with self._turn:
            found = await self._tried(lengths + b"\n" + b"".join(parts))
        stopped = found.get("diverge", ())
        if stopped:
            raise Problem(
                409, "flows_diverge",
                f"the new code does not fit the history of {len(stopped):,} of "
                f"{count(found['checked'], 'flow')} in progress (apply it with mode pin, without "
                'upgrade "in_place"; or with allow_diverged)',
                blockers=stopped,
            )  # fmt: skip

    async def _tried(self, body: bytes) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            *COMMAND, str(self._world), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            async with asyncio.timeout(self._seconds):
                data, _ = await process.communicate(body)
        except TimeoutError:
            raise Problem(
                503, "gate_takes_too_long",
                f"the flows in progress were not tried within {self._seconds:g} s (apply the "
                "manifest on the node's machine, with aos apply)", retry_after_s=60,
            ) from None  # fmt: skip
        finally:
            if process.returncode is None:
                process.kill()
                await asyncio.shield(process.wait())
        if process.returncode:
            raise Problem(
                500, "gate_has_ended", "the process that tries flows in progress ended unexpectedly"
            )
        found: dict[str, Any] = json.loads(data)
        return found
