"""A model of step plans: the source's text and the table of transitions, once more in Python."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

LEASE_AND_WAIT = ("locked_by", "locked_until", "claim", "waiting_event_type", "deadline_at")
EMPTY = (*LEASE_AND_WAIT, "next_run_at", "last_error", "woken_by")


class Refused(Exception):
    """Why an event changes nothing."""


class Row(SimpleNamespace):
    """The columns of a row."""

    def __init__(self, **plan: Any) -> None:
        counts = {"status": "PENDING", "attempts": 0, "epoch": 0, "task": "READY_STEP"}
        super().__init__(**plan, **counts, **dict.fromkeys(EMPTY))

    def to(self, status: str, **columns: Any) -> None:
        """A transition: lease and wait end, unless ``columns`` has new ones."""
        vars(self).update(dict.fromkeys(LEASE_AND_WAIT) | columns, status=status)

    def is_over(self, now: int) -> Any:
        return self.status == "RUNNING" and self.locked_until < now


class Model:
    """One instance from T1 on. A method is an event: its answer is ``Done`` if it returns none."""

    def __init__(self, rows: list[Row], now: int, *, is_source: bool, wait_timeouts: bool) -> None:
        self.rows, self.now = rows, now
        self.is_source, self.wait_timeouts = is_source, wait_timeouts
        self.status, self.current, self.ended_at = "RUNNING", 0, 0
        self.context: dict[str, bytes] = {}
        self.seen: dict[str, str] = {}
        self.buffered: list[dict[str, Any]] = []
        self.last: dict[str, Any] = {}
        self.row.to("READY", next_run_at=now)

    @property
    def row(self) -> Row:
        return self.rows[self.current]

    def must_run(self) -> None:
        if self.status != "RUNNING":
            raise Refused("CANCELED" if self.status == "CANCELED" else "NOT_RUNNING")

    def end(self, status: str) -> None:
        self.status, self.ended_at = status, self.now

    def guard(self, worker: str, seq: int, epoch: int) -> None:  # G
        self.must_run()
        if seq != self.current or (not self.is_source and epoch != self.row.epoch):  # ruling a
            raise Refused("STALE_EPOCH")
        if self.row.locked_by != worker or self.row.is_over(self.now):
            raise Refused("LEASE_LOST")

    def advance(self, now: int, *, has_timer: bool) -> None:
        """Time passes. The timer of a lease ends it, unless it is late."""
        if has_timer and self.row.is_over(now) and self.status == "RUNNING":
            self.now = self.row.locked_until + 1
            self.expire()
        self.now = now

    def expire(self) -> None:  # T2
        is_last = self.row.attempts + 1 >= self.row.max_attempts and not self.is_source  # ruling b
        self.fail("LEASE_EXPIRED", None if is_last else self.now)

    def fail(self, error: str, due: int | None) -> None:  # T2 and T7, or T8 and T9
        row = self.row
        row.to("DEAD" if due is None else "READY", attempts=row.attempts + 1, last_error=error)
        if due is None:
            self.end("FAILED")
        else:
            row.next_run_at = due
            row.task = "READY_STEP" if self.is_source else row.task  # ruling c

    def claim(self, worker: str, claim: str, lease: int | None) -> str:
        self.must_run()
        if self.row.is_over(self.now):
            self.expire()
            self.must_run()
        row, is_wait = self.row, self.row.status == "WAITING"
        deadline = row.deadline_at if self.wait_timeouts else None
        due = deadline if is_wait else row.next_run_at
        if (row.locked_by, row.claim) != (worker, claim):
            if row.status == "RUNNING" or due is None or due > self.now:
                raise Refused("NOT_DUE")
            until = self.now + min(lease or row.lease, row.lease)
            row.to("RUNNING", locked_by=worker, locked_until=until, claim=claim)
            row.epoch, row.task = row.epoch + 1, "WAITING_TIMEOUT" if is_wait else row.task
        return f"Claimed {self.current} {row.epoch}"

    def extend(self, worker: str, seq: int, epoch: int, lease: int | None) -> None:
        self.guard(worker, seq, epoch)
        self.row.locked_until = self.now + min(lease or self.row.lease, self.row.lease)

    def result(self, arm: str, given: dict[str, Any], **sent: Any) -> None:
        if self.last == (result := sent | {"arm": arm, "given": given}):
            return
        self.guard(sent["worker"], sent["seq"], sent["epoch"])
        self.last, row = result, self.row
        if arm in ("Completed", "Waiting"):
            row.task, row.woken_by, row.last_error = "READY_STEP", None, None
        if arm == "Completed":
            row.to("DONE")
            patched = self.context | given["patch"]
            self.context = {key: new for key, new in patched.items() if new is not None}
            if row is self.rows[-1]:
                self.end("COMPLETED")
            else:
                self.current += 1
                self.row.to("READY", next_run_at=self.now)
        elif arm == "Waiting":
            kind, timeout = given["event_type"], given["timeout"]
            row.to("WAITING", next_run_at=None, waiting_event_type=kind)
            row.deadline_at = None if timeout is None else self.now + timeout
            for signal in [each for each in self.buffered if each["type"] == kind][:1]:  # ruling d
                self.buffered.remove(signal)
                self.wake(signal)
        elif arm == "Retry" and row.attempts + 1 < row.max_attempts:
            pause, most = given["backoff"], max(300 * 10**9, row.backoff)
            pause = min(row.backoff << row.attempts, most) if pause is None else pause
            self.fail(given["error"], self.now + pause)
        else:
            self.fail(given["error"], None)

    def wake(self, signal: dict[str, Any]) -> None:  # T10, ruling e
        self.row.to("READY", next_run_at=self.now, woken_by=None if self.is_source else signal)

    def signal(self, **signal: Any) -> None:
        self.must_run()
        if signal["event_id"] in self.seen:
            if self.seen[signal["event_id"]] != signal["type"]:
                raise Refused("EVENT_ID_TAKEN")
            return
        if self.row.waiting_event_type == signal["type"]:
            self.wake(signal)
        elif self.is_source:
            raise Refused("NOT_WAITING")
        else:
            self.buffered.append(signal)  # ruling d
        self.seen[signal["event_id"]] = signal["type"]

    def cancel(self) -> None:
        if self.status != "CANCELED":
            self.must_run()
            self.end("CANCELED")
