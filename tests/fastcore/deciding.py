"""Decide everything that kernels decide by a fast core, too, and compare.

    with deciding() as mirrors: ...       every ``Kernel`` of the block has a ``DecidingMirror``

The reference decides first. Then the core decides the same input or step: each call that it makes
of a module must be the one that the reference made, and gets its result. The record, the blobs, the
refusal with its blockers, and the words of Damage must be the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from aos.core import kernel as kernel_module
from aos.core.decide.answers import Decided, Duplicate, Refusal
from aos.core.journal.inputs import Input
from aos.core.journal.ports import Call, Ran
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import Record, Stamp
from aos.core.kernel import Kernel
from aos.core.pending import Sealed
from aos.errors import Damage
from aos.fastcore.buffer import shipped_code
from aos.fastcore.decide_core import CallDue, DecideCore, Next, RecordDecided, reference_answers
from aos.values.digests import Hash
from tests.fastcore import lockstep
from tests.fastcore.lockstep import Differs, Mirror
from tests.fastcore.owned import on_owner


class RecordedRunner:
    """A runner that keeps its calls and how they ended."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self.calls: list[tuple[Call, Ran]] = []

    def run(self, call: Call) -> Ran:
        ran: Ran = self._runner.run(call)
        self.calls.append((call, ran))
        return ran


class DecidingMirror(Mirror):
    """A fast core that decides what one kernel decides."""

    core: DecideCore

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.own_blobs: dict[Hash, bytes] = {}
        self.kept_blobs: set[Hash] = set()
        self.frames = 0
        self.decisions = 0
        self.skipped = 0
        state = kernel.state
        self.core = on_owner(
            lambda: DecideCore(
                shipped_code(),
                read=self._read,
                find=self._find,
                ask=reference_answers(kernel._verify),
                limits=state.limits,
            )
        )
        lockstep._enter(state, self.core, self.own_blobs)

    def _find(self, submission_id: str) -> int | None:
        """The store's row: this core began with a snapshot, and the kernel may have held the id."""
        submission = self.kernel.state.submissions.get(submission_id)
        return None if submission is None else submission.seq

    def compare(
        self, place: str, expected: object, calls: list[tuple[Call, Ran]], begin: Callable[[], Next]
    ) -> None:
        """``expected`` is what the reference decided, or the Damage that it raised."""
        try:
            found = on_owner(begin)
            for call, ran in calls:
                if not isinstance(found, CallDue):
                    raise Differs(f"{place}: expected a call of a module, found {found!r}")
                if found.call != call:
                    raise Differs(f"{place}: expected {call!r}, found {found.call!r}")
                found = on_owner(lambda ran=ran: self.core.ran(ran))
        except ValueError:
            self.skipped += 1  # the border of Python refuses it; the core cannot be given it
            return
        except Damage as damage:
            if not isinstance(expected, Damage) or str(expected) != str(damage):
                raise Differs(f"{place}: expected {expected!r}, found {damage!r}") from damage
            return
        self.decisions += 1
        actual: Any = found
        if isinstance(expected, Decided):
            data = to_bytes(expected.record)
            if not isinstance(found, RecordDecided) or found.record != data:
                raise Differs(f"{place}: expected {expected.record!r}, found {_shown(found)}")
            left, right = dict(expected.blobs), dict(found.blobs)
            if left != right:
                raise Differs(f"{place}: expected blobs {left!r}, found {right!r}")
        elif expected != actual:
            raise Differs(f"{place}: expected {expected!r}, found {_shown(found)}")


def _shown(found: Next) -> str:
    from aos.core.journal.record_codec import from_bytes

    return repr(from_bytes(found.record) if isinstance(found, RecordDecided) else found)


@contextlib.contextmanager
def deciding() -> Iterator[list[DecidingMirror]]:
    """Mirror every kernel that is at the end of a frame when it first decides or folds."""
    mirrors: list[DecidingMirror] = []
    append, seal, decide, step = Kernel.append, Kernel.seal, Kernel.decide, Kernel.step
    names = vars(kernel_module)
    decide_step, decide_owed = names["decide_step"], names["decide_owed"]
    current: list[DecidingMirror] = []

    def mirror_of(kernel: Kernel) -> DecidingMirror | None:
        known: DecidingMirror | None = getattr(kernel, "_mirror", None)
        if known is None and kernel.pending_records == 0 and kernel.state.next_seq > 1:
            known = DecidingMirror(kernel)
            kernel._mirror = known  # type: ignore[attr-defined]
            mirrors.append(known)
        return known

    def appended(self: Kernel, record: Record, blobs: Any) -> None:
        mirror = mirror_of(self)
        problem: Damage | None = None
        try:
            append(self, record, blobs)
        except Damage as damage:
            problem = damage
        if mirror is not None:
            mirror.append(record, blobs, problem)
        if problem is not None:
            raise problem

    def sealed(self: Kernel, salt: bytes) -> Sealed | None:
        mirror = mirror_of(self)
        made = seal(self, salt)
        if mirror is not None:
            mirror.seal(made, salt)
        return made

    def decided(self: Kernel, input: Input, stamp: Stamp) -> Decided | Duplicate | Refusal:
        mirror = mirror_of(self)
        if mirror is None:
            return decide(self, input, stamp)
        migrator, keep = self._migrator, self._keep
        recorded = self._migrator = RecordedRunner(migrator)
        if keep is not None:
            self._keep = lambda blobs: (mirror.own_blobs.update(blobs), keep(blobs))[1]
        expected: Any
        try:
            expected = decide(self, input, stamp)
        except Damage as damage:
            expected = damage
        finally:
            self._migrator, self._keep = migrator, keep
        place = f"record {self.state.next_seq}: {input!r:.300}"
        if keep is None or not recorded.calls:
            mirror.compare(
                place, expected, recorded.calls, lambda: mirror.core.decide(input, stamp)
            )
        if isinstance(expected, Damage):
            raise expected
        answer: Decided | Duplicate | Refusal = expected
        return answer

    def step_decided(state: Any, runner: Any, read: Any) -> Decided:
        return compared(state, lambda recorded: decide_step(state, recorded, read), runner)

    def owed_decided(state: Any, read: Any) -> Decided:
        return compared(state, lambda _: decide_owed(state, read), None)

    def compared(state: Any, function: Callable[[Any], Decided], runner: Any) -> Decided:
        mirror = current[-1] if current and current[-1].kernel.state is state else None
        if mirror is None:
            return function(runner)
        recorded = RecordedRunner(runner)
        expected: Any
        try:
            expected = function(recorded)
        except Damage as damage:
            expected = damage
        place = f"record {state.next_seq}: the next step"
        mirror.compare(place, expected, recorded.calls, mirror.core.next)
        if isinstance(expected, Damage):
            raise expected
        answer: Decided = expected
        return answer

    def stepped(self: Kernel) -> Any:
        mirror = mirror_of(self)
        if mirror is None:
            return step(self)
        current.append(mirror)
        try:
            return step(self)
        finally:
            current.pop()

    Kernel.append, Kernel.seal = appended, sealed  # type: ignore[method-assign]
    Kernel.decide, Kernel.step = decided, stepped  # type: ignore[method-assign]
    names["decide_step"], names["decide_owed"] = step_decided, owed_decided
    try:
        yield mirrors
    finally:
        Kernel.append, Kernel.seal = append, seal  # type: ignore[method-assign]
        Kernel.decide, Kernel.step = decide, step  # type: ignore[method-assign]
        names["decide_step"], names["decide_owed"] = decide_step, decide_owed
