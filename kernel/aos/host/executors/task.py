"""The interface between host and executor: a task goes in, an outcome comes out (X-1 to X-6a)."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from aos.core.decide.answers import Answer
from aos.core.journal.inputs import AttemptInput
from aos.core.journal.vocabulary import HaltPhase
from aos.errors import AosError
from aos.manifest.effective import Effect, Effective
from aos.manifest.forms import ABI_DEFAULT
from aos.values.digests import Hash
from aos.worker.outcome import Outcome, StreamFrame

LEASE_LOOK_S: Final = 0.1
"""Interval of looks whether the lease is held again, in seconds."""


@dataclass(frozen=True, slots=True)
class Halted:
    """Why an executor does not run a task that stays open (K-99): ``held``, because this process
    lacks something, or ``parked``, because its attempts ran out on an unexpected exception."""

    phase: HaltPhase
    code: str
    problem: str

    def of(self, intent: Hash, attempt: int) -> AttemptInput:
        """The input that journals it, after ``attempt``."""
        return AttemptInput(
            intent=intent, attempt=attempt, phase=self.phase, problem=self.problem, code=self.code
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One open intent, as it is published once it is durable (X-1).

    ``params`` is canonical CBOR in normal form, and so is ``cell_key`` (empty for an unkeyed
    workflow). ``abi`` is the ABI of the workflow's module. ``attempt`` is the number of the first
    run here; the journal has it already, unless the task ``begins``. ``spent`` attempts do not
    count against its policy: it was halted after them (X-16). ``halted`` is why it did not run when
    the last process ended. ``left_by`` is why an attempt in another process does not count any more
    that may still run (X-16b). ``next_frame`` is the lowest number that a stream frame may have.
    """

    intent: Hash
    effect: Effect
    params: bytes
    idempotency_key: str
    workflow: str
    cell_key: bytes
    issuer_ref: str | None
    opened_seq: int
    opened_ns: int
    attempt: int = 1
    spent: int = 0
    halted: Halted | None = None
    left_by: str | None = None
    next_frame: int = 0
    abi: str = ABI_DEFAULT

    @property
    def is_once(self) -> bool:
        """Whether the task may run only once: its attempt is journaled before it begins, and there
        is no other (K-95, K-97)."""
        return self.effect.delivery == "at_most_once"

    @property
    def begins(self) -> bool:
        """Whether ``attempt`` must be journaled before it begins (X-12)."""
        return self.is_once or self.problem is not None

    @property
    def problem(self) -> str | None:
        """Why the attempt before ``attempt`` is over, if there was one."""
        return self.left_by if self.halted is None else self.halted.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorStats:
    """Counts for a status line. ``settled`` tasks were settled since the start, ``dropped`` stream
    frames were lost."""

    running: int
    queued: int
    settled: int
    dropped: int = 0


class Loss(enum.Enum):
    """Why a stream frame was dropped before the journal could refuse it."""

    TOO_MANY_ON_WAY = "too_many_on_way"
    TOO_FAST = "too_fast"
    NO_TAKER = "no_taker"
    WORLD_IS_UNAVAILABLE = "world_is_unavailable"


@dataclass(frozen=True, slots=True)
class Lost:
    """A stream frame was dropped before the journal could refuse it. ``text`` is for people."""

    loss: Loss
    text: str


WorkItem: TypeAlias = Outcome | AttemptInput | StreamFrame
"""An item of an executor for the journal: the end of an intent, the fate of an attempt, a frame."""

OnAnswer: TypeAlias = Callable[[Answer | Lost | AosError], None]
"""Called once, on the event loop: with the journal's answer, or with the error if it took nothing.
After ``Unavailable`` it may take the same item later. A stream frame that was dropped is Lost."""


class WorkJournal(Protocol):
    """The way from executors into the journal. Used from one event loop."""

    def submit(self, item: WorkItem, on_answer: OnAnswer) -> None:
        """Submit an item, after those that were submitted before it. ``on_answer`` is called once
        the item is durable, refused or lost.

        For an outcome, ``RECEIPT_INTENT_IS_SETTLED`` means that another receipt settled the intent
        first. A stream frame that is refused is dropped; that has no other effect.
        """
        ...


Report: TypeAlias = Callable[[str], None]
"""Takes one or more lines for the person who runs the node."""


def report_to_stderr(line: str) -> None:
    """Print a line on the node's terminal."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201  # the node's terminal


class TaskExecutor(Protocol):
    """Runs the tasks of some effects. Used from one event loop only."""

    @property
    def name(self) -> str:
        """Its name in messages, and in receipts that it signs."""
        ...

    @property
    def effects(self) -> frozenset[str]:
        """The effects it runs; complete once ``start`` has returned."""
        ...

    @property
    def signer(self) -> tuple[str, bytes] | None:
        """(name, public key) of its own signature; None where the host signs as ``node``."""
        ...

    async def start(self, journal: WorkJournal) -> None:
        """Get ready. Raises BadUsage if that fails; then nothing is left running."""
        ...

    def use(self, effective: Effective) -> None:
        """A manifest is in force from here on. Called before the first ``publish``."""
        ...

    def publish(self, tasks: Sequence[Task]) -> None:
        """Take tasks to run. Never blocks; an intent that is here already is ignored (X-2)."""
        ...

    def cancel(self, intents: Sequence[Hash]) -> None:
        """End these as ``canceled``, unless they have ended already (X-6). Unknown ones are
        ignored."""
        ...

    async def stop(self) -> None:
        """Stop taking and running tasks. Intents that are not settled stay open in the journal."""
        ...

    def stats(self) -> ExecutorStats:
        """Return counts for the status."""
        ...


@runtime_checkable
class Journaling(Protocol):
    """An executor that journals attempts itself: it may run a task again, or lose one.

    For any other the pool journals the attempt of a task that ``begins``, before it hands it over.
    """

    journals_attempts: Literal[True]


@runtime_checkable
class Leased(Protocol):
    """An executor with a queue, from which it hands out no task while ``holds_lease`` returns False
    (CL-89). The pool sets it."""

    holds_lease: Callable[[], bool]


@runtime_checkable
class Timing(Protocol):
    """The executor of timers, which a world may have many of. It sets only the first ones."""

    @property
    def has_all(self) -> bool:
        """Whether all open timers are set."""
        ...

    def begin(self, ask: Callable[[Hash | None], None]) -> None:
        """Set no timer yet, and ask for the first ones. ``ask`` gets the place after which the next
        ones are needed (SN-16), None for the first; ``add_page`` answers it."""
        ...

    def add_page(self, after: Hash | None, tasks: Sequence[Task], until: Hash | None) -> None:
        """Set the next timers after a place: with these tasks, all up to ``until`` are set, or all
        that there are if it is None."""
        ...

    def is_open(self, intent: Hash) -> bool:
        """Whether a timer is set or fires, and its end was not told."""
        ...

    def ended(self, intents: Iterable[Hash]) -> None:
        """Forget timers that are settled or abandoned."""
        ...

    def cancel_tasks(self, tasks: Sequence[Task]) -> None:
        """As ``cancel``, for timers that are not set."""
        ...

    def is_due(self) -> bool:
        """Whether the time of an open timer has come, or one fires."""
        ...

    def next_ns(self) -> int | None:
        """The time at which the first timer fires, in ns since 1970; None without timers. If none
        is set yet, no timer fires before the time that is returned."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNow:
    """A task and its phase at an executor: it is ``queued``, ``running``, in ``backoff``, ``held``
    or ``parked``, since ``since_ns``, or until then if that is in the future. A queued one is open
    since then; a held or parked one is so in this process since then. ``problem`` is why it is in
    backoff, if the journal does not have the reason. ``limit_ns`` is how long an attempt may take,
    None without a limit."""

    task: Task
    phase: str
    attempt: int
    since_ns: int
    problem: str | None = None
    limit_ns: int | None = None


@runtime_checkable
class Working(Protocol):
    """An executor that reports what it does with each task."""

    def now(self) -> Iterator[TaskNow]:
        """Its tasks without an outcome, in the order in which they were published."""
        ...


@runtime_checkable
class Configured(Protocol):
    """An executor that may lack something that the manifest asks for."""

    def lacking(self) -> Sequence[str]:
        """Return a line for people about each thing that the manifest in force may need and this
        process lacks, with the option that provides it (X-19)."""
        ...


@runtime_checkable
class Stranding(Protocol):
    """An executor that may give up tasks, which then stay open until the world is run again, or
    until someone asks to retry them."""

    on_stranded: Callable[[], None]
    """Called when ``stranded`` has grown."""

    def stranded(self) -> Mapping[Hash, Task]:
        """Tasks that it will not run any more. The reason has been reported."""
        ...

    def halted(self) -> Mapping[Hash, Halted]:
        """Those of ``stranded`` that are held or parked."""
        ...

    def retry(self, intents: Sequence[Hash]) -> list[Hash]:
        """Run tasks of ``stranded`` again, with all attempts of their policy (X-16). Returns those
        that run; not one that has run already and may run only once."""
        ...
