"""Report to followers how far the journal is durable (spec/host.md, H-53a).

A follower is a connection on which, after the request ``follow``, only the world speaks. Each
message has the durable head of that moment; a slow reader gets fewer messages, never old ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Protocol

from aos.host.door.protocol import error_fields, pack
from aos.host.errors import Busy
from aos.message_fields import field
from aos.values.cbor import Value
from aos.values.digests import Hash

if TYPE_CHECKING:  # a follower in another process needs no engine
    from aos.host.world.engine import EngineStats

FOLLOWERS_MAX: Final = 4
"""They are never idle, so they never make room for another client."""

FIGURES_S: Final = 0.25
"""Least interval of the figures, in seconds: heads come more often."""

OWNER: Final = "owner"
STANDBY: Final = "standby"
"""The roles of a node of a replicated world."""

BEAT_S: Final = 1.0
"""Interval of messages while the head stays the same, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFigures:
    """A running world in numbers, as its followers get them.

    The fields up to ``faults`` are those of ``Figures`` at the durable head. ``queued`` inputs of
    ``queued_bytes`` bytes wait in the inbox, ``frames`` wait for the disk, recent commits took
    ``commit_ns``. ``no_room`` is why nothing can be written at the moment, if so.
    """

    seq: int
    clock_ns: int
    cells: int
    ready_cells: int
    open_intents: int
    events: int
    receipts: int
    steps: int
    faults: int
    queued: int
    queued_bytes: int
    frames: int
    commit_ns: int
    no_room: str | None

    @classmethod
    def of(cls, engine: Measured) -> LiveFigures:
        """Return the figures of this moment."""
        stats = engine.stats()
        figures = stats.figures
        return cls(
            seq=figures.seq,
            clock_ns=figures.clock_ns,
            cells=figures.cells,
            ready_cells=figures.ready_cells,
            open_intents=figures.open_intents,
            events=figures.events,
            receipts=figures.receipts,
            steps=figures.steps,
            faults=figures.faults,
            queued=stats.queued,
            queued_bytes=stats.queued_bytes,
            frames=stats.frames,
            commit_ns=engine.commit_ns,
            no_room=stats.no_room,
        )

    def to_message(self) -> dict[str | int, Value]:
        """Encode them for a follower."""
        return {figure.name: getattr(self, figure.name) for figure in fields(self)}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> LiveFigures:
        """Read a message of ``to_message``. Raises: BadUsage: It is not one."""
        values = dict(message)
        no_room = None if values.get("no_room") is None else field(values, "no_room", str)
        numbers = {
            figure.name: field(values, figure.name, int)
            for figure in fields(cls)
            if figure.name != "no_room"
        }
        return cls(no_room=no_room, **numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceFigures:
    """How far the reference has compared the journal of a standby: it is ``behind`` so many
    records, and ``differs`` is whether it has found a difference (CL-285, CL-286)."""

    behind: int
    differs: bool

    def to_message(self) -> dict[str | int, Value]:
        """Encode them for a follower."""
        return {"behind": self.behind, "differs": self.differs}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> ReferenceFigures:
        """Read a message of ``to_message``. Raises: BadUsage: It is not one."""
        values = dict(message)
        return cls(behind=field(values, "behind", int), differs=field(values, "differs", bool))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPlace:
    """The place of a node in its replicated world, as the followers of its process get it (CL-201).

    ``term`` counts the terms in which this process owns the world; None while it follows another
    node. ``owner`` is the node that owns the world, None if none does. ``lag`` is the number of
    messages of the log that this node is behind, and ``reason`` why it cannot read the log now.
    ``reference`` is None on a node without the reference.
    """

    node: str
    owner: str | None
    term: int | None
    lag: int
    reason: str | None
    reference: ReferenceFigures | None = None

    @property
    def role(self) -> str:
        """``owner`` or ``standby``."""
        return STANDBY if self.term is None else OWNER

    def to_message(self) -> dict[str | int, Value]:
        """Encode it for a follower."""
        message: dict[str | int, Value] = {
            part.name: getattr(self, part.name) for part in fields(self)
        }
        message["reference"] = None if self.reference is None else self.reference.to_message()
        return message

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> ReplicaPlace:
        """Read a message of ``to_message``. Raises: BadUsage: It is not one."""
        values = dict(message)
        figures = values.get("reference")
        optional: dict[str, Any] = {
            name: None if values.get(name) is None else field(values, name, kind)
            for name, kind in (("owner", str), ("term", int), ("reason", str))
        }
        return cls(
            node=field(values, "node", str), lag=field(values, "lag", int),
            reference=None if figures is None else ReferenceFigures.from_message(figures),
            **optional,
        )  # fmt: skip


class Measured(Protocol):
    """A world in figures: an engine, or a node that follows."""

    @property
    def commit_ns(self) -> int:
        """How long recent commits took, in ns."""
        ...

    def stats(self) -> EngineStats:
        """Return the durable figures, and how much waits. Any thread may ask."""
        ...


class Followers:
    """The followers of one running world. Used from one event loop. ``lease_end_ns`` is the time of
    the boot-time clock until which tasks of a replicated world may be handed out (CL-89), and
    ``replica_place`` that of the node in it.

    Without a follower, ``notify`` costs one comparison.
    """

    def __init__(
        self,
        engine: Measured,
        world: Hash,
        *,
        clock_s: Callable[[], float] = time.monotonic,
        beat_s: float = BEAT_S,
        lease_end_ns: Callable[[], int | None] = lambda: None,
        replica_place: Callable[[], ReplicaPlace | None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._world = world
        self._clock_s = clock_s
        self._beat_s = beat_s
        self._lease_end_ns = lease_end_ns
        self._replica_place = replica_place
        self._news: set[asyncio.Event] = set()
        self._is_stopping = False
        self._is_over = False

    def notify(self) -> None:
        """The durable head may have moved."""
        for news_event in self._news:
            news_event.set()

    def stopping(self) -> None:
        """Tell followers that the process is about to end. Heads still follow."""
        self._is_stopping = True
        self.notify()

    def begin(self) -> None:
        """Follow again after ``end``."""
        self._is_stopping = self._is_over = False

    def end(self, *, is_stopping: bool = True) -> None:
        """End all streams, each after a last message with the head of this moment. Unless the
        process ``is_stopping``, a follower finds another stream soon."""
        self._is_stopping = self._is_stopping or is_stopping
        self._is_over = True
        self.notify()

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The packed messages for one follower, until ``end``.

        If there are too many followers, the only message is an error, ``busy``.
        """
        if len(self._news) >= FOLLOWERS_MAX:
            text = f"{FOLLOWERS_MAX} clients follow this world (end one of them, and try again)"
            yield pack(error_fields(Busy(text)))
            return
        news = asyncio.Event()
        self._news.add(news)
        try:
            message: dict[str, Value] = {"world": self._world}
            figures_s = -FIGURES_S
            is_over = False
            while not is_over:
                news.clear()
                is_over = self._is_over
                lease_end_ns = self._lease_end_ns()
                if lease_end_ns is not None:
                    message["lease_end_ns"] = lease_end_ns
                message["head"] = self._engine.stats().figures.seq
                now_s = self._clock_s()
                has_figures = is_over or now_s - figures_s >= FIGURES_S
                if has_figures:
                    message["figures"] = LiveFigures.of(self._engine).to_message()
                    figures_s = now_s
                    if (replica_place := self._replica_place()) is not None:
                        message["place"] = replica_place.to_message()
                if self._is_stopping:
                    message["stopping"] = True
                yield pack(message)
                message = {}
                if not is_over:
                    await _news_or(news, self._beat_s if has_figures else FIGURES_S)
        finally:
            self._news.discard(news)


async def _news_or(news: asyncio.Event, seconds: float) -> None:
    """Wait for news, for at most so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        pass
