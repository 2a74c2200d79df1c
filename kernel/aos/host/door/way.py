"""The operations on a world, and the two ways to reach its core (spec/host.md, H-54 to H-59).

``Direct`` takes the lock of a world that no process runs and opens the store itself. ``Remote``
asks the process that runs the world. Callers use ``Writer``, which hides the difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from aos.core.decide.answers import Answer
from aos.core.journal.governing import GovernanceInput
from aos.core.journal.inputs import (
    ControlInput,
    EventInput,
    ManifestInput,
)
from aos.core.journal.records import Principal
from aos.core.state.proposals import OpenProposal
from aos.host.errors import Busy
from aos.manifest.effective import Effective
from aos.store.rows import Forget
from aos.values.digests import Hash

if TYPE_CHECKING:  # a client of a running world has no engine of its own
    from aos.host.world.collecting import Begun
    from aos.host.world.snapshots import MadeSnapshot

T = TypeVar("T")

CONNECT_S: Final = 5.0
"""Seconds that a full queue of new clients may take until it has room (H-54)."""

BUSY_S: Final = 30.0
"""Seconds for which a request to a busy world is retried (H-57)."""

PAUSE_S: Final = 0.02
"""Seconds between two such tries."""

TIMEOUT_S: Final = 30.0
"""Seconds without progress after which a wait ends."""

REPORT_S: Final = 2.0
"""Seconds after which a wait is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedState:
    """The state of a world that a command refers to and its signature covers.

    ``serial`` is the number of manifest records so far, ``controls`` the number of control records,
    ``proposed`` the number of proposals, of which ``proposals`` are open.
    """

    world: Hash
    serial: int
    controls: int
    operators: tuple[Principal, ...]
    manifest: Effective | None
    proposed: int = 0
    proposals: tuple[OpenProposal, ...] = ()


class Way(Protocol):
    """One way to the core. The methods raise as those of ``Writer`` with the same names."""

    def signed_state(self) -> SignedState:
        """Return the current state that commands refer to."""

    def post(
        self, events: Sequence[EventInput], manifest: Effective | None
    ) -> Future[list[Answer]]:
        """Submit events that were encoded by the schemas of ``manifest``. The future raises
        ManifestChanged if another manifest is in force by then (H-56)."""

    def wait(self, answers: Future[list[Answer]]) -> list[Answer]:
        """Wait for the future of ``post``. Raises as the future does, and Busy after too long."""

    def apply(self, manifest_input: ManifestInput, modules: Mapping[Hash, bytes]) -> Answer:
        """Submit a signed manifest with its new modules. Return the answer once modules,
        document and record are durable, in one transaction, or refused (H-72)."""

    def control(self, control: ControlInput) -> Answer:
        """Submit a signed command of an operator. Return the answer once it is durable, with all
        that the core settles because of it (H-59c), or refused."""

    def govern(self, governance_input: GovernanceInput, modules: Mapping[Hash, bytes]) -> Answer:
        """Submit a signed proposal with its new modules, or a report, vote or withdrawal. Return
        the answer once it is durable or refused."""

    def snapshot(self) -> MadeSnapshot:
        """Make a snapshot of everything that is durable now."""

    def begin_marking(self) -> Begun:
        """Keep every blob that arrives from now on, until ``end_marking``."""

    def still_marking(self, token: int) -> None:
        """Keep the marking open. The world gives it up ``OPEN_S`` seconds after the last sign of
        life."""

    def forget(self, token: int, rows: Forget) -> int:
        """Remove what nothing needs; return how many blobs were removed."""

    def end_marking(self, token: int) -> None:
        """End the marking: blobs that arrive are not kept for it any more. Without effect if
        another one has begun."""

    def compact(self) -> bool:
        """Rewrite the store's file without free pages, or return False."""

    def close(self) -> None:
        """Release the world; what was admitted is durable then."""


class WaitPatience:
    """How long one command waits for a world that makes nothing durable (H-57a).

    Time counts only while the world makes no progress: work that takes long, such as a large
    snapshot, has no limit here.
    """

    def __init__(
        self, timeout_s: float = TIMEOUT_S, *, report: Callable[[str], None] = lambda _: None
    ) -> None:
        self.timeout_s = timeout_s
        self._report = report
        self._since_s: float | None = None
        self._is_reported = False

    def is_over(self, reason: str | None) -> bool:
        """Note why the world makes no progress, None if it does; return whether that has lasted
        too long. The first wait of more than ``REPORT_S`` seconds is reported."""
        now_s = time.monotonic()
        if reason is None:
            self._since_s = None
            return False
        if self._since_s is None:
            self._since_s = now_s
        waited_s = now_s - self._since_s
        if waited_s >= min(REPORT_S, self.timeout_s) and not self._is_reported:
            self._is_reported = True
            self._report(f"waiting for at most {self.timeout_s:g} s: {reason}")
        return waited_s >= self.timeout_s


def while_busy(act: Callable[[], T], busy_s: float, patience: WaitPatience | None = None) -> T:
    """Call ``act`` again while it raises Busy, for up to ``busy_s`` seconds (H-57)."""
    deadline = time.monotonic() + busy_s
    while True:
        try:
            return act()
        except Busy as busy:
            if patience is not None:
                patience.is_over(str(busy))
            if time.monotonic() >= deadline:
                raise
            time.sleep(PAUSE_S)
