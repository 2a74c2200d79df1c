"""The two kernels, and which of them a command opens (spec/core.md, CR-15, CR-32, CR-33)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from typing import Final

from aos.core.kernel_protocol import OpenKernel
from aos.errors import BadUsage

CORE_VARIABLE: Final = "AOS_CORE"
"""Names the kernel of every command that does not name one itself."""


class CoreKind(Enum):
    """The reference in Python, or the second kernel in Rust."""

    PYTHON = "python"
    FAST = "fast"

    @property
    def opens(self) -> OpenKernel:
        """The function that opens a kernel of this kind."""
        if self is CoreKind.FAST:
            # The reference needs no second engine.
            from aos.fastcore.fast_kernel import open_fast_kernel  # noqa: PLC0415

            return open_fast_kernel
        from aos.core.kernel import open_kernel  # noqa: PLC0415

        return open_kernel


def core_of_environment(environment: Mapping[str, str] = os.environ) -> CoreKind | None:
    """The kernel that ``AOS_CORE`` names; None if the variable is not set, or empty.

    Raises:
        BadUsage: It names none.
    """
    text = environment.get(CORE_VARIABLE, "")
    if not text:
        return None
    try:
        return CoreKind(text)
    except ValueError as error:
        expected = " or ".join(kind.value for kind in CoreKind)
        raise BadUsage(CORE_VARIABLE, expected=expected, actual=repr(text)) from error
