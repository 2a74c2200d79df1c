"""The second kernel for tests on the main thread: its methods, on the thread of cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from aos.core.journal.records import CellId
from aos.core.kernel import open_kernel
from aos.core.kernel_protocol import CellView, KernelProtocol, OpenKernel
from aos.fastcore.fast_kernel import open_fast_kernel
from tests.fastcore.owned import on_owner


class OwnedKernel:
    """Has the attributes of a kernel, and calls its methods on the thread of cores."""

    def __init__(self, kernel: KernelProtocol) -> None:
        self._kernel = kernel

    def __getattr__(self, name: str) -> Any:
        value = on_owner(lambda: getattr(self._kernel, name))
        return _owned(value) if callable(value) else value


def _owned(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        def body() -> Any:
            result = method(*arguments, **named)
            return iter(list(result)) if isinstance(result, Iterator) else result

        return on_owner(body)

    return call


def open_owned(**arguments: Any) -> KernelProtocol:
    """Open a second kernel; the arguments are those of ``open_kernel``."""
    kernel = on_owner(lambda: open_fast_kernel(**arguments))
    return cast("KernelProtocol", OwnedKernel(kernel))


OPENERS: Final[dict[str, OpenKernel]] = {"python": open_kernel, "fast": open_owned}
"""Both kernels, by the words of ``--core``."""


class KernelView:
    """The parts of a ``State`` that tests of the protocol read, as any kernel has them."""

    def __init__(self, kernel: KernelProtocol) -> None:
        figures = kernel.figures()
        self.tip = kernel.tip
        self.world = kernel.tip.world
        self.next_seq = kernel.next_seq
        self.serial = figures.serial
        self.controls = figures.controls
        self.manifest = self.effective = figures.manifest
        self.cells = _Cells(kernel)
        self.intents = {each.intent.intent: each.intent for each in kernel.open_intents()}


class _Cells:
    def __init__(self, kernel: KernelProtocol) -> None:
        self._kernel = kernel

    def __getitem__(self, id: CellId) -> CellView:
        cell = self._kernel.cell(id)
        if cell is None:
            raise KeyError(id)
        return cell
