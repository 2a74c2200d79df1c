"""Modules that were sent before the manifest that names them (spec/node-api.md, N-118)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from aos.errors import excerpt
from aos.host.door.protocol import STAGED_BYTES_MAX, STAGED_MODULES_MAX
from aos.node.problems import Problem
from aos.values.digests import Hash, content_hash, hash_text

KEPT_S: Final = 600.0
"""Seconds that a module is kept for its manifest."""


class KeptModules:
    """Modules by their hashes, bounded in number, bytes and time."""

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
