"""Try a manifest before it is applied, in a process of its own (N-118b, N-118c)."""

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

COMMAND: Final = (sys.executable, "-m", "aos.node.apply_process")
TRIAL_S: Final = 120.0
"""Seconds that the trial of one manifest may take."""


class ApplyTrials:
    """Tries one manifest after another."""

    def __init__(self, world: Path, *, seconds: float = TRIAL_S) -> None:
        self._world = world
        self._seconds = seconds
        self._turn = asyncio.Lock()

    async def check(self, document: bytes, modules: Mapping[Hash, bytes]) -> None:
        """Try the flows in progress that the manifest would take over in place.

        A manifest that cannot be read, or whose modules are refused, passes: the world says why.

        Raises:
            Problem: Flows would stop with the fault ``diverged`` (409), or it takes too long (503).
        """
        outcome = await self._try_manifest(document, modules, {})
        stopped = outcome.get("diverge", ())
        if stopped:
            raise Problem(
                409, "flows_diverge",
                f"the new code does not fit the history of {len(stopped):,} of "
                f"{count(outcome['checked'], 'flow')} in progress (apply it with mode pin, without "
                'upgrade "in_place"; or with allow_diverged)',
                blockers=stopped,
            )  # fmt: skip

    async def report(
        self,
        document: bytes,
        modules: Mapping[Hash, bytes],
        *,
        mode: str,
        leave_cells: bool,
        show: int,
    ) -> dict[str, Any]:
        """The report of a dry run (H-71b), with the workflows that the manifest leaves.

        Raises:
            Problem: The manifest cannot be read, or a module is refused (422); it takes too long
                (503).
        """
        options = {"mode": mode, "leave_cells": leave_cells, "show": show}
        outcome = await self._try_manifest(document, modules, {"report": options})
        if "problem" in outcome:
            raise Problem(422, "manifest_is_invalid", outcome["problem"])
        return outcome

    async def _try_manifest(
        self, document: bytes, modules: Mapping[Hash, bytes], options: Mapping[str, object]
    ) -> dict[str, Any]:
        parts = [document, *modules.values()]
        head = json.dumps({"lengths": [len(part) for part in parts], **options}).encode()
        async with self._turn:
            return await self._run(head + b"\n" + b"".join(parts))

    async def _run(self, body: bytes) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            *COMMAND, str(self._world), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            async with asyncio.timeout(self._seconds):
                data, _ = await process.communicate(body)
        except TimeoutError:
            raise Problem(
                503, "gate_takes_too_long",
                f"the manifest was not tried within {self._seconds:g} s (apply it on the node's "
                "machine, with aos apply)", retry_after_s=60,
            ) from None  # fmt: skip
        finally:
            if process.returncode is None:
                process.kill()
                await asyncio.shield(process.wait())
        if process.returncode:
            raise Problem(
                500, "gate_has_ended", "the process that tries the manifest ended unexpectedly"
            )
        outcome: dict[str, Any] = json.loads(data)
        return outcome
