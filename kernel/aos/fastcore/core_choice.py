"""Which kernel runs a world (spec/core.md, CR-33 and CR-34).

A command may name one, or ``AOS_CORE``; otherwise ``DEFAULT_CORE`` does. The second kernel starts
quickly only with its compiled code, which is in the user's cache. Without the code, a command that
was not told to use that kernel runs the reference, and a child process compiles the code.

Few modules are imported here: a command that sends one event chooses, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from aos.core.kernel_protocol import OpenKernel
from aos.fastcore.core_kind import CoreKind, core_of_environment

if TYPE_CHECKING:
    from aos.fastcore.buffer import CoreCode
    from aos.sandbox.cache import ModuleCache

DEFAULT_CORE: Final = CoreKind.FAST
"""The kernel of worlds if no one names one."""

SHORT_FOLD_RECORDS: Final = 5_000
"""A command that reads, or writes without a running process, uses the reference for a fold of at
most so many records: that takes less time than to load the second kernel and its engine."""


class ChosenCore(NamedTuple):
    """A kernel and the function that opens it.

    With ``gives_way``, a world that does not fit into its memory, or that leaves less of it free
    than events need, is opened with the reference (CR-37a): neither the command nor the environment
    named the kernel.
    """

    kind: CoreKind
    opens: OpenKernel
    gives_way: bool = False


def reference_core() -> ChosenCore:
    """The choice of code that needs the reference."""
    return ChosenCore(CoreKind.PYTHON, CoreKind.PYTHON.opens)


def choose_core(
    core: CoreKind | None,
    *,
    cache: Callable[[], ModuleCache | None],
    note: Callable[[str], None],
    short_fold: bool = False,
) -> ChosenCore:
    """Choose the kernel that runs a world: ``core``, or that of the environment, or the default.

    With ``short_fold`` the default is the reference. ``cache`` opens the user's cache. ``note``
    gets one line if the core is compiled now, which takes seconds.

    Raises:
        BadUsage: ``AOS_CORE`` names no kernel.
        Damage: The second kernel of this installation was altered.
    """
    explicit = core or core_of_environment()
    kind = explicit or (CoreKind.PYTHON if short_fold else DEFAULT_CORE)
    code = _code(kind, cache, note, compiles=explicit is not None)
    if code is None:
        return reference_core()
    from aos.fastcore.fast_kernel import open_fast_kernel  # noqa: PLC0415  # slow to import

    opens = partial(open_fast_kernel, code=code)
    return ChosenCore(CoreKind.FAST, opens, gives_way=explicit is None)


def reading_code(
    records: int, *, cache: Callable[[], ModuleCache | None], note: Callable[[str], None]
) -> CoreCode | None:
    """Return the code of the second kernel for a fold of so many records whose state is only read;
    None if the reference folds them. Arguments and exceptions are those of ``choose_core``."""
    explicit = core_of_environment()
    is_short = records <= SHORT_FOLD_RECORDS
    kind = explicit or (CoreKind.PYTHON if is_short else DEFAULT_CORE)
    return _code(kind, cache, note, compiles=explicit is not None)


def _code(
    kind: CoreKind,
    cache: Callable[[], ModuleCache | None],
    note: Callable[[str], None],
    *,
    compiles: bool,
) -> CoreCode | None:
    """The compiled code of the second kernel; None if the kind is the reference, or if the cache
    does not have the code, which is compiled now if ``compiles``, else by a child."""
    if kind is CoreKind.PYTHON:
        return None
    # The engine is slow to import.
    from aos.fastcore.compiled_core import cached_code, compile_in_child, live_code  # noqa: PLC0415

    module_cache = cache()
    if compiles:
        return live_code(module_cache, note)
    code = cached_code(module_cache)
    if code is None:
        compile_in_child(module_cache)
    return code
