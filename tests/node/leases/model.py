"""A naive model of leases: every attempt that was ever given out, in lists, searched each time."""

from __future__ import annotations

from dataclasses import dataclass, field

from aos.node.leases.row import LeaseHolder


@dataclass
class Given:
    """An attempt that a worker got. ``until`` is when its lease ends at the earliest."""

    epoch: int
    holder: LeaseHolder
    until: int
    is_unused: bool = False


@dataclass
class ModelTask:
    """A task as the journal and the workers know it."""

    number: int
    lane: str | None
    is_once: bool
    journaled: int
    given: list[Given] = field(default_factory=list)
    is_open: bool = True
    is_halted: bool = False
    has_failed: bool = False

    def next_given_is(self, epoch: int, now: int) -> None:
        """Check that attempt ``epoch`` may be given out now."""
        assert self.is_open, "a task that has ended was given out"
        assert not self.is_halted, "a parked task was given out"
        assert epoch <= self.journaled, "an attempt was given out that the journal does not have"
        assert epoch == self.journaled, "an old attempt was given out"
        for each in self.given:
            assert each.until <= now, "two leases of a task are valid"
            assert each.epoch < epoch or each.is_unused, "an attempt was given out twice"
        if self.is_once:
            assert all(each.is_unused for each in self.given), "it may have run before"

    def speaker(self, epoch: int, holder: LeaseHolder) -> bool:
        """Whether a worker may report the end of this attempt."""
        if not self.given or self.has_failed or not self.is_open:
            return False
        last = self.given[-1]
        is_last = (last.epoch, last.holder) == (epoch, holder) and not last.is_unused
        return is_last and self.journaled <= epoch


@dataclass
class Model:
    """All tasks, in the order of opening."""

    concurrency: int
    tasks: list[ModelTask] = field(default_factory=list)
    now: int = 0

    def check_lane(self, task: ModelTask) -> None:
        """Check that ``task`` is the first open one of its lane."""
        if task.lane is not None:
            first = next(each for each in self.tasks if each.is_open and each.lane == task.lane)
            assert first is task, "a task was given out before the first of its lane"

    def check_concurrency(self, held: int) -> None:
        assert held <= self.concurrency, "more tasks than the limit allows are at workers"

    def restart(self, *, is_cleared: bool, grace: int) -> None:
        """The node starts again: leases last at least ``grace``, or are all gone with the table."""
        for task in self.tasks:
            for each in task.given:
                each.until = 0 if is_cleared else min(each.until, self.now + grace)
            if is_cleared:
                task.has_failed = False
