"""The two kernels, and which of them a command opens (spec/core.md, CR-15, CR-32, CR-33)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

from aos.errors import BadUsage, either

if TYPE_CHECKING:  # a command that only reads the name of a kernel needs none of it
    from typing import Any

    from aos.core.kernel_protocol import KernelProtocol, OpenKernel

CORE_VARIABLE: Final = "AOS_CORE"
"""Names the kernel of every command that does not name one itself."""

QUICK_RECORDS_MAX: Final = 100_000
"""A replay of at most so many records compiles the second kernel quickly: to run faster code would
save less than the time to compile it."""

HOST_ENTRY: Final = "core"
"""Entry of a ``start`` record's host map with the kernel that began to execute."""


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

    def replays(self, records: int) -> OpenKernel:
        """The function that opens a kernel of this kind to decide so many records again (CR-34)."""
        if self is CoreKind.PYTHON or records > QUICK_RECORDS_MAX:
            return self.opens

        from aos.fastcore.buffer import shipped_code  # noqa: PLC0415  # as in ``opens``
        from aos.fastcore.fast_kernel import open_fast_kernel  # noqa: PLC0415

        def opens(**arguments: Any) -> KernelProtocol:
            return open_fast_kernel(**arguments, code=shipped_code(is_quick=True))

        return opens


CORES: Final = tuple(kind.value for kind in CoreKind)


def core_named(host: Iterable[tuple[str, str]]) -> str:
    """The name of the kernel in the host map of a ``start`` record. Without one, it is the
    reference: releases that had no other kernel named none."""
    return dict(host).get(HOST_ENTRY, CoreKind.PYTHON.value)


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
        raise BadUsage(CORE_VARIABLE, expected=either(CORES), actual=repr(text)) from error
