"""Run one node: it follows, has the world run while it owns it, and follows again
(spec/cluster.md, CL-90 to CL-97).

    loop's thread:       turns of the replica; between two of them a standby follows the log
    the term's threads:  run the engine; the committer's looks at the log when the loop asks
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final, TypeVar

from aos.errors import AosError, Unavailable
from aos.host.cluster.following import EntryIntake
from aos.host.cluster.lease import Decision
from aos.host.cluster.replica import NodeView, Replica, Role
from aos.host.errors import NotOwner, Stopping
from aos.host.world.engine import Engine
from aos.host.world.restored_world import RestoredWorld
from aos.store.errors import Deposed, NoRoom
from aos.store.log.log import LogUnreachable

T = TypeVar("T")

CALL_BEATS: Final = 1.2
"""How many intervals an owner runs on after it has called the node to which it hands over: that
node's next turn is within one."""

FOLLOW_S: Final = 0.05
"""Interval of looks at the log between two turns of a standby, in seconds."""


class OwnerTerm:
    """The time in which this node owns the world, from the ``start`` record that counts until the
    engine has stopped. The node's loop makes it; other code runs it.

    ``world`` is for the engine, and ``host`` the map of the ``start`` record (CL-91). The runner
    calls ``runs`` with the engine, and ``ended`` when the engine has stopped, or if there is none.
    Any thread may call each of the methods.
    """

    def __init__(
        self, world: RestoredWorld, host: Mapping[str, str], changed: Callable[[], None]
    ) -> None:
        self.world = world
        self.host = host
        self.engine: Engine | None = None
        self.problem: AosError | None = None
        """Why the engine has stopped, if it was not told to."""
        self._changed = changed
        self._lock = threading.Lock()
        self._stop: Callable[[], None] | None = None
        self._is_stopping = False
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether ``ended`` was called."""
        return self._is_over

    def runs(self, engine: Engine, stop: Callable[[], None]) -> None:
        """The engine is about to run. ``stop`` is called once, from any thread and perhaps now,
        when it is to stop soon; it must not wait."""
        with self._lock:
            self.engine, self._stop = engine, stop
            is_stopping = self._is_stopping
        if is_stopping:
            stop()

    def stop(self) -> None:
        """Have the engine stop soon: this node hands over, or is deposed."""
        with self._lock:
            was_stopping, self._is_stopping = self._is_stopping, True
            stop = self._stop
        if stop is not None and not was_stopping:
            stop()

    def ended(self, problem: AosError | None = None) -> None:
        """The engine has stopped; ``problem`` is why, if it was not told to."""
        self.problem, self._is_over = problem, True
        self._changed()


class NodeLoop:
    """Runs ``replica`` until ``stop``.

    ``begin`` is called on the loop's thread with a new term. It must return soon: it has another
    thread run the term. ``problem_of_writer`` returns why this node must not own the world now, if
    so. ``on_view`` is called with the node after each turn, and when it has followed the log.
    ``report`` gets one line when something changes that an operator should know.
    """

    def __init__(
        self,
        replica: Replica,
        begin: Callable[[OwnerTerm], None],
        *,
        problem_of_writer: Callable[[], AosError | None] = lambda: None,
        on_view: Callable[[NodeView], None] = lambda _: None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._replica = replica
        self._begin_term = begin
        self._problem_of_writer = problem_of_writer
        self._on_view = on_view
        self._report = report
        self._reported: str | None = None
        self._term: OwnerTerm | None = None
        self._asked: Future[None] | None = None
        """Whether this node still owns the world, while the committer's thread reads the log."""
        self._is_deposed = False
        """Whether that has shown that it does not."""
        self._log_problem: AosError | None = None
        """Why the log cannot be used any more, as an owner has found out."""
        self._calls: queue.SimpleQueue[tuple[str, Future[None]]] = queue.SimpleQueue()
        """The nodes to which the world is to be handed over."""
        self._leaves_s: float | None = None
        """When this owner stops, because it has called another node."""
        self._errands: queue.SimpleQueue[Callable[[EntryIntake | None], None]] = queue.SimpleQueue()
        self._is_ended = False
        self._over = threading.Event()
        self._wake = threading.Event()

    def stop(self) -> None:
        """End ``run`` soon: an owner hands over first. Any thread may call this."""
        self._over.set()
        self._wake.set()

    def between_entries(self, act: Callable[[EntryIntake], T]) -> Future[T]:
        """Call ``act`` on the loop's thread, between two entries of the log. Any thread may ask.

        The future raises what ``act`` raises, and Unavailable if this node does not follow now.
        """
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def call(intake: EntryIntake | None) -> None:
            try:
                if intake is None:
                    raise Unavailable("this node does not follow the world now (try again)")
                future.set_result(act(intake))
            except BaseException as problem:
                future.set_exception(problem)
                if not isinstance(problem, Unavailable):
                    raise

        self._errands.put(call)
        if self._is_ended:
            self._run_errands()
        return future

    def hand_over(self, node: str) -> Future[None]:
        """Hand the world over to another node soon. Any thread may ask. The future is done once
        that node was called; it raises as ``Replica.call_next``, and Unavailable if this node does
        not own the world."""
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()
        self._calls.put((node, future))
        self._wake.set()
        if self._is_ended:
            self._answer_calls(None)
        return future

    def _answer_calls(self, term: OwnerTerm | None) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                node, future = self._calls.get_nowait()
                try:
                    if term is None or term.is_over or self._over.is_set():
                        raise Unavailable("this node does not own the world now (try again)")
                    is_called = self._replica.call_next(node)
                except AosError as problem:
                    future.set_exception(problem)
                    continue
                if is_called and self._leaves_s is None:
                    self._leaves_s = time.monotonic() + CALL_BEATS * self._replica.beat_ns / 1e9
                    self._say(f"this node hands the world over to node {node}")
                future.set_result(None)

    def _run_errands(self) -> None:
        follows = self._replica.role is Role.FOLLOWING and self._term is None
        with contextlib.suppress(queue.Empty):
            while True:
                call = self._errands.get_nowait()
                call(self._replica.intake if follows and not self._is_ended else None)

    def holds_lease(self) -> bool:
        """Whether tasks may be handed out now (CL-89). Any thread may ask."""
        return self._replica.holds_lease()

    def lease_end_ns(self) -> int:
        """The time of the boot-time clock until which tasks may be handed out. Any thread may
        ask."""
        return self._replica.lease_end_ns()

    def run(self) -> None:
        """Follow, own, follow, until ``stop``.

        Raises:
            Damage: The journal is damaged, the log does not continue it, or has lost its end.
            NeedsBase: The node must be made again from a base.
            WorldStopped: The world could not continue on this node.
        """
        try:
            while self._term is not None or not self._over.is_set():
                if self._term is None:
                    self._follow()
                else:
                    self._own(self._term)
        finally:
            self._end_term()
            self._is_ended = True
            self._replica.close()
            self._run_errands()
            self._answer_calls(None)

    def _end_term(self) -> None:
        """After a failure of this loop: wait until the engine has stopped, whose kernel's thread
        can only end then."""
        term = self._term
        if term is not None:
            term.stop()
            while not term.is_over:
                self._wake.wait()
                self._wake.clear()

    # Following

    def _follow(self) -> None:
        """Do one turn of a standby, then follow the log until the next one."""
        began_s = time.monotonic()
        self._run_errands()
        self._answer_calls(None)
        try:
            is_owner = self._turn()
            self._on_view(self._replica.view())
            if is_owner:
                self._begin()
                return
            until_s = began_s + self._replica.turn_ns / 1e9
            while not self._over.wait(FOLLOW_S) and time.monotonic() < until_s:
                self._run_errands()
                if self._replica.follow():
                    self._on_view(self._replica.view())
        except (NoRoom, LogUnreachable) as problem:
            self._say(str(problem))
            self._over.wait(FOLLOW_S)

    def _turn(self) -> bool:
        """Whether this node owns the world now."""
        replica = self._replica
        if replica.role is Role.CLOSED:
            replica.restore()
            return False
        if replica.role is Role.CLAIMING:
            return replica.claim()
        decision = replica.turn()
        if decision is not Decision.TAKE_OVER:
            self._say(replica.reason)
            return False
        problem = self._problem_of_writer()
        if problem is not None:
            replica.reason = str(problem)
            self._say(replica.reason)
            return False
        return replica.take_over()

    def _begin(self) -> None:
        replica = self._replica
        self._term = OwnerTerm(replica.world(), replica.host, self._wake.set)
        self._asked, self._is_deposed, self._leaves_s = None, False, None
        self._run_errands()  # they are refused
        self._say("this node owns the world")
        self._begin_term(self._term)

    # Owning

    def _own(self, term: OwnerTerm) -> None:
        """Do one turn of an owner, and wait for the next one. While the engine stops, which may
        take seconds, the node continues to beat, so that no standby deposes it meanwhile."""
        self._run_errands()
        if term.is_over:
            self._leave(term)
            return
        if self._over.is_set():
            term.stop()
        self._answer_calls(term)
        if self._leaves_s is not None and time.monotonic() >= self._leaves_s:
            term.stop()
        decision = self._replica.own_turn()
        if decision is Decision.LOST_END:
            self._log_problem = self._log_problem or self._replica.lost_end()
            term.stop()
        elif decision is Decision.HAND_OVER:
            term.stop()
        elif decision is Decision.READ_LOG and self._asked is None and term.engine is not None:
            self._asked = term.engine.between_groups(self._replica.store.check_owns)
            self._asked.add_done_callback(lambda _: self._wake.set())
        self._check_owns(term)
        self._wake.wait(self._pause_s())
        self._wake.clear()

    def _pause_s(self) -> float:
        beat_s = self._replica.beat_ns / 1e9
        if self._leaves_s is None:
            return beat_s
        left_s = self._leaves_s - time.monotonic()
        return min(beat_s, left_s) if left_s > 0 else beat_s

    def _check_owns(self, term: OwnerTerm) -> None:
        """Read the result of the look at the log, if there is one."""
        asked = self._asked
        if asked is None or not asked.done():
            return
        self._asked = None
        try:
            asked.result()
        except Deposed:
            self._is_deposed = True
            term.stop()
        except (LogUnreachable, Stopping):
            pass  # the next turn asks again, or the engine has stopped
        except AosError as problem:
            self._log_problem = self._log_problem or problem
            term.stop()
        else:
            if self._replica.is_replaced:
                self._replica.replace_beat()

    def _leave(self, term: OwnerTerm) -> None:
        """Follow again, or end: the engine has stopped.

        Raises:
            AosError: Why it has stopped, if this node cannot follow after that.
        """
        self._term = None
        problem = self._log_problem or term.problem
        if self._is_deposed or isinstance(problem, NotOwner):
            self._replica.close()
            self._say("another node owns the world now: this one follows")
        elif problem is None or isinstance(problem, NoRoom):
            self._replica.release()
            self._say("this node has released the world")
        else:
            raise problem

    def _say(self, line: str | None) -> None:
        if line != self._reported:
            self._reported = line
            if line is not None:
                self._report(line)
