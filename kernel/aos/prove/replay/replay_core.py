"""The kernel that decides again in a replay (spec/core.md, CR-32)."""

from __future__ import annotations

from enum import Enum

from aos.core.kernel_protocol import OpenKernel


class ReplayCore(Enum):
    """The reference in Python, or the second kernel in Rust."""

    PYTHON = "python"
    FAST = "fast"

    @property
    def opens(self) -> OpenKernel:
        """The function that opens a kernel of this kind."""
        if self is ReplayCore.FAST:
            # A replay by the reference needs no second engine.
            from aos.fastcore.fast_kernel import open_fast_kernel  # noqa: PLC0415

            return open_fast_kernel
        from aos.core.kernel import open_kernel  # noqa: PLC0415

        return open_kernel
