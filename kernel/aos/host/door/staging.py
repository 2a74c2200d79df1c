"""Modules that clients send before they apply a manifest, with one bound for all (H-51a).

A module counts from the moment it is staged until its manifest is answered or its connection ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from aos.errors import Refused
from aos.host.door.protocol import STAGED_BYTES_MAX, STAGED_MODULES_MAX, STAGED_TOGETHER_MAX
from aos.host.errors import Busy


class Staging:
    """The modules of all connections of one server. Used from one event loop."""

    def __init__(
        self,
        *,
        modules_max: int = STAGED_MODULES_MAX,
        bytes_max: int = STAGED_BYTES_MAX,
        together_max: int = STAGED_TOGETHER_MAX,
    ) -> None:
        self.modules_max = modules_max
        self.bytes_max = bytes_max
        self.together_max = together_max
        self.bytes = 0

    @contextmanager
    def connection(self) -> Iterator[StagedModules]:
        """The modules of one connection; all of them are released at the end of the block."""
        staged = StagedModules(self)
        try:
            yield staged
        finally:
            staged.release()


class StagedModules:
    """The modules that one connection has staged for its next manifest."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._modules: list[bytes] = []

    @property
    def count(self) -> int:
        """How many modules are staged."""
        return len(self._modules)

    def add(self, wasm: bytes) -> int:
        """Stage one more module; return how many are staged now.

        Raises:
            Refused: One manifest may not bring so much. Modules staged before stay.
            Busy: Other connections have staged too much. The module was not staged.
        """
        staging = self._staging
        size = sum(map(len, self._modules)) + len(wasm)
        if len(self._modules) >= staging.modules_max or size > staging.bytes_max:
            raise Refused(
                f"a manifest may bring at most {staging.modules_max} modules of together "
                f"{staging.bytes_max} bytes, and this module would be number "
                f"{len(self._modules) + 1} of together {size} bytes (use fewer or smaller modules)"
            )
        if staging.bytes + len(wasm) > staging.together_max:
            raise Busy(
                f"a module of {len(wasm)} bytes cannot be staged: all clients together may stage "
                f"{staging.together_max} bytes, and {staging.bytes} are staged (wait until another "
                "client has applied its manifest or disconnected, and try again)"
            )
        self._modules.append(wasm)
        staging.bytes += len(wasm)
        return len(self._modules)

    @contextmanager
    def take(self) -> Iterator[Sequence[bytes]]:
        """Take all modules for one manifest; they are released at the end of the block."""
        modules, self._modules = self._modules, []
        try:
            yield modules
        finally:
            self._staging.bytes -= sum(map(len, modules))

    def release(self) -> None:
        """Release all modules: the connection has ended."""
        self._staging.bytes -= sum(map(len, self._modules))
        self._modules.clear()
