"""Everything that the handlers of a front share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from aos.errors import Damage, Erased
from aos.host.door.link import Link
from aos.host.folder.folder import WorldFolder
from aos.host.follower import Follower
from aos.host.stamps import now_ns
from aos.node.bodies import BodyRoom
from aos.node.kept_index import KeptIndex
from aos.node.leases.work import LeasedWork
from aos.node.metrics import Counters
from aos.node.mounted import MountPoint
from aos.node.rates import TokenRates
from aos.node.readers import Readers
from aos.node.sessions import Sessions
from aos.node.staged_manifest import ApplyTrials, KeptModules
from aos.node.tokens import LiveTokens
from aos.node.tracing.span_poster import SpanPoster
from aos.node.waiting import OutcomeWaits
from aos.node.webhooks import WebhookPoster
from aos.read.views.view import View

if TYPE_CHECKING:  # these send events through these services
    from aos.node.batches.batch_runner import Batches
    from aos.node.steps.step_work import StepWork

T = TypeVar("T")

CATCH_UP_S: Final = 5.0
"""Seconds for which the front of a standby waits for the record of an answer of the owner."""


@dataclass(slots=True, kw_only=True)
class Services:
    """The world, its state, and the bounds of one front.

    ``work`` and ``steps`` serve workers, and ``batches`` runs batches; None before they are set up,
    and while another node owns the world. ``is_replica`` is whether the world is replicated.
    ``has_operator_key`` says
    that the kernel process signs commands for tokens of the scope ``operate``. ``spans`` is None
    unless spans are exported, ``mount`` unless a router serves the world.
    """

    folder: WorldFolder
    link: Link
    follower: Follower
    tokens: LiveTokens
    waiting: OutcomeWaits
    counters: Counters
    readers: Readers
    trials: ApplyTrials
    index: KeptIndex
    work: LeasedWork | None = None
    steps: StepWork | None = None
    batches: Batches | None = None
    is_replica: bool = False
    has_operator_key: bool = False
    sessions: Sessions = field(default_factory=Sessions)
    bodies: BodyRoom = field(default_factory=BodyRoom)
    staged: KeptModules = field(default_factory=KeptModules)
    rates: TokenRates = field(default_factory=TokenRates)
    webhooks: Sequence[WebhookPoster] = ()
    spans: SpanPoster | None = None
    mount: MountPoint | None = None
    _view: View | None = None
    _serial: int = -1

    @property
    def follows(self) -> bool:
        """Whether another node owns the world, as far as this front has heard (CL-200)."""
        place = self.link.place
        return self.is_replica and (place is None or place.term is None)

    async def has_record(self, seq: int, seconds: float = CATCH_UP_S) -> bool:
        """Wait until the follower has a record; return whether it has. On a standby, the record of
        an answer of the owner comes later (CL-205)."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + seconds
        while await self.follower.advance_to(seq) < seq:
            if loop.time() >= until_s:
                return False
            await self.follower.wait_past(self.follower.seq, until_s - loop.time())
        return True

    def view(self) -> View:
        """Return a view of the follower's state, measured against the time of now."""
        state = self.follower.state
        if self._view is None or self._view.state is not state or self._serial != state.serial:
            self._view = View(state, self.follower.store)
            self._serial = state.serial
        self._view.now_ns = now_ns()
        self._view.running = None
        return self._view

    async def read(self, take: Callable[[View], T]) -> T:
        """Return ``take`` of a view as of the durable head of now.

        Raises:
            AosError: As ``take``; Damage only if it is there also after a restart of the follower.
        """
        await self.follower.advance_to()
        try:
            return take(self.view())
        except Erased:
            raise
        except Damage:
            # Parts of the snapshot that the state reads from may have been removed meanwhile.
            await self.follower.restart()
            return take(self.view())
