"""Whether a task is still this process's own, in the moment in which its function begins (W-3a).

A process can be suspended for any time: by SIGSTOP, a debugger or a laptop that sleeps. When it
continues, its timers and its monotonic clock know nothing of a system that slept, and others may
have its tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aos.boot_clock import boot_s
from aos.values.digests import Hash
from aos.worker.calls import Callee

MARGIN_S_MAX: Final = 1.0
"""In the last tenth of its lease, or in its last second, a function does not begin."""


def is_fresh(until_s: float, lease_s: float) -> bool:
    """Return whether a lease of ``lease_s`` that ends at ``until_s`` or later, on the clock
    ``boot_s``, is certain to last a while yet."""
    return boot_s() < until_s - min(lease_s / 10, MARGIN_S_MAX)


class LeaseCheck(Protocol):
    """Says whether an attempt may begin. The lease of a later attempt of the same task may be here
    while an earlier one, which was lost, still waits for its thread."""

    def is_certain(self, intent: Hash, attempt: int) -> bool:
        """Return whether this process has the task for this attempt. Called from any thread."""
        ...

    async def confirm(self, intent: Hash, attempt: int) -> bool:
        """Ask who has the task, and return whether it is this process, for this attempt."""
        ...


class LeaseInDoubt(Exception):  # it is no error: the function has not begun
    """The lease might be over, so the function was not called."""


@dataclass(frozen=True, slots=True)
class GuardedCall:
    """A function that looks at its lease again in the moment in which it begins: functions that
    block the loop of all others, and a suspended process, delay that."""

    callee: Callee
    may_begin: Callable[[], bool]

    @property
    def is_async(self) -> bool:
        return self.callee.is_async

    @property
    def concurrency(self) -> int:
        return self.callee.concurrency

    @property
    def function(self) -> Callable[[Any, Any], Any]:
        """The function; it raises LeaseInDoubt if it must not begin."""
        return self._begin_async if self.is_async else self._begin

    def _begin(self, params: Any, ctx: Any) -> Any:
        if not self.may_begin():
            raise LeaseInDoubt
        return self.callee.function(params, ctx)

    async def _begin_async(self, params: Any, ctx: Any) -> Any:
        return await self._begin(params, ctx)
