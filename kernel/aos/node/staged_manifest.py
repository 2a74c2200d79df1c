"""A manifest before it is applied: its modules are kept, and it is tried in a process of its own
(spec/node-api.md, N-118, N-118b, N-118c)."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aos.errors import Unavailable, excerpt
from aos.host.apply.manifest_trial import TRIAL_S, run_trial
from aos.host.door.protocol import STAGED_BYTES_MAX, STAGED_MODULES_MAX
from aos.node.problems import Problem
from aos.read.lens.words import count
from aos.values.digests import Hash, content_hash, hash_text

KEPT_S: Final = 600.0
"""Seconds that a module is kept for its manifest."""


class KeptModules:
    """Modules that were sent before the manifest that names them, by their hashes: bounded in
    number, bytes and time (N-118)."""

    def __init__(self, *, bytes_max: int = STAGED_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._modules: OrderedDict[Hash, tuple[float, bytes]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._modules)

    def add(self, wasm: bytes) -> Hash:
        """Keep a module for some minutes; return its hash.

        Raises:
            Problem: There is no room for it (429).
        """
        now_s = time.monotonic()
        for hash, (since_s, _) in list(self._modules.items()):
            if now_s - since_s > KEPT_S:
                del self._modules[hash]
        module_hash = content_hash(wasm)
        self._modules.pop(module_hash, None)
        size = len(wasm) + sum(len(module) for _, module in self._modules.values())
        if size > self._bytes_max or len(self._modules) >= STAGED_MODULES_MAX:
            raise Problem(
                429, "modules_have_no_room",
                f"modules without their manifest: expected at most {STAGED_MODULES_MAX}, of "
                f"{self._bytes_max:,} bytes together (send the manifest, or wait ten minutes)",
                retry_after_s=60,
            )  # fmt: skip
        self._modules[module_hash] = now_s, wasm
        return module_hash

    def modules_of(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the modules with these hashes.

        Raises:
            Problem: One was not sent, or is no longer kept (404).
        """
        for index, module_hash in enumerate(hashes):
            if module_hash not in self._modules:
                raise Problem(
                    404, "module_is_unknown",
                    f"module {excerpt(hash_text(module_hash))} was not sent in the last ten "
                    "minutes "
                    "(send it to /v1/modules first)", pointer=f"/modules/{index}",
                )  # fmt: skip
        return {module_hash: self._modules[module_hash][1] for module_hash in hashes}

    def forget(self, hashes: Sequence[Hash]) -> None:
        """Drop modules that a manifest has brought into the world."""
        for module_hash in hashes:
            self._modules.pop(module_hash, None)


class ApplyTrials:
    """Tries one manifest after another, in a process of its own (N-118b, N-118c)."""

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
        async with self._turn:
            try:
                return await run_trial(
                    self._world, document, modules, options, seconds=self._seconds
                )
            except TimeoutError:
                raise Problem(
                    503, "gate_takes_too_long",
                    f"the manifest was not tried within {self._seconds:g} s (apply it on the "
                    "node's machine, with aos apply)", retry_after_s=60,
                ) from None  # fmt: skip
            except Unavailable as problem:
                raise Problem(500, "gate_has_ended", str(problem)) from problem
