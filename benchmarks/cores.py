"""The kernels that a run measures, and the order in which they alternate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from aos.fastcore.core_kind import CORE_VARIABLE, CoreKind

SECOND: Final = CoreKind.FAST.value
REFERENCE: Final = CoreKind.PYTHON.value

TURNS: Final = (SECOND, REFERENCE)
"""The kernels of a whole run, in the order of its first turn."""

CORE_WORDS: Final = {SECOND: "second kernel", REFERENCE: "reference"}


def by_turns(cores: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The order of the kernels in one turn after the other: what is measured second meets a warmer
    machine, so no kernel is always second."""
    order = tuple(cores)
    while True:
        yield order
        order = (*order[1:], order[0])


def core_environment(core: str) -> dict[str, str]:
    """Environment in which every process runs worlds on this kernel."""
    return {CORE_VARIABLE: core}
