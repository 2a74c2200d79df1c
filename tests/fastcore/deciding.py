"""Decide everything that kernels decide by a fast core, too, and compare.

    with deciding() as mirrors: ...       every ``Kernel`` of the block has a ``DecidingMirror``

The reference decides first. Then the core decides the same input or step: each call that it makes
of a module must be the one that the reference made, and gets its result. The record, the blobs, the
refusal with its blockers, and the words of Damage must be the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from aos.core import kernel as kernel_module
from aos.core.decide.answers import Decided, Duplicate, Refusal
from aos.core.journal.inputs import Input, ManifestInput
from aos.core.journal.ports import BlobReader, Call, Ran, Runner
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import KernelReceipt, Stamp, Step
from aos.core.kernel import Kernel
from aos.core.state.state import State
from aos.errors import Damage
from aos.fastcore.buffer import shipped_code
from aos.fastcore.decide_core import CallDue, DecideCore, Next, RecordDecided, reference_answers
from aos.values.digests import Hash
from tests.fastcore.lockstep import Differs, Mirror, differing, mirror_of, mirrored
from tests.fastcore.owned import on_owner

Expected: TypeAlias = Decided | Duplicate | Refusal | Damage
Begin: TypeAlias = Callable[[DecideCore], Next]


class RecordedRunner:
    """A runner that keeps its calls and how they ended."""

    def __init__(self, runner: Runner | None) -> None:
        self._runner = runner
        self.calls: list[tuple[Call, Ran]] = []

    def run(self, call: Call) -> Ran:
        assert self._runner is not None, "this kernel runs no module"
        ran = self._runner.run(call)
        self.calls.append((call, ran))
        return ran


class DecidingMirror(Mirror):
    """A fast core that decides what one kernel decides."""

    core: DecideCore

    def __init__(self, kernel: Kernel) -> None:
        self.decisions = 0
        self._at = kernel.state.cells.at
        super().__init__(kernel)

    def made(self) -> DecideCore:
        kernel = self.kernel
        return on_owner(
            lambda: DecideCore(
                shipped_code(),
                read=self._read,
                find=self._find,
                ask=reference_answers(kernel._verify),
                limits=kernel.state.limits,
            )
        )

    def _find(self, submission_id: str) -> int | None:
        """The store's row: this core began with a snapshot, and the kernel may have held the id."""
        submission = self.kernel.state.submissions.get(submission_id)
        return None if submission is None else submission.seq

    def keep(self, blobs: Mapping[Hash, bytes]) -> None:
        """Have blobs that the host of a migration made durable."""
        self.own_blobs.update(blobs)

    def may_differ(self, input: Input) -> bool:
        """Whether the answer depends on a snapshot that only the kernel continues from (K-71a)."""
        has_check = isinstance(input, ManifestInput) and input.checked is not None
        return has_check and self.kernel.state.cells.at != self._at

    def compare(
        self, place: str, expected: Expected, calls: list[tuple[Call, Ran]], begin: Begin
    ) -> None:
        """Decide from ``begin`` on; the reference came to ``expected``, with these calls."""
        try:
            found = on_owner(lambda: begin(self.core))
            for call, ran in calls:
                if not isinstance(found, CallDue) or found.call != call:
                    raise Differs(f"{place}: expected {call!r}, found {_shown(found)}")
                found = on_owner(partial(self.core.ran, ran))
        except ValueError:
            return  # an input with a field that the core cannot be given
        except Damage as damage:
            if not isinstance(expected, Damage) or str(expected) != str(damage):
                raise Differs(f"{place}: expected {expected!r}, found {damage!r}") from damage
            return
        self.decisions += 1
        if not isinstance(expected, Decided):
            if expected != found:
                raise Differs(f"{place}: expected {expected!r}, found {_shown(found)}")
            return
        if not isinstance(found, RecordDecided) or found.record != to_bytes(expected.record):
            raise Differs(f"{place}: expected {expected.record!r}, found {_shown(found)}")
        self._compare_blobs(place, expected, found)

    def _compare_blobs(self, place: str, expected: Decided, found: RecordDecided) -> None:
        # The host of a migration has made the others durable.
        left = {name: data for name, data in expected.blobs.items() if name not in self.own_blobs}
        right = {name: data for name, data in found.blobs.items() if name not in self.own_blobs}
        if left != right:
            raise Differs(f"{place}: blobs: {differing(left, right)}")


def _shown(found: Next) -> str:
    return repr(from_bytes(found.record) if isinstance(found, RecordDecided) else found)


def _or_damage(decide: Callable[[], Decided | Duplicate | Refusal]) -> Expected:
    try:
        return decide()
    except Damage as damage:
        return damage


@contextlib.contextmanager
def deciding() -> Iterator[list[DecidingMirror]]:
    """Mirror every kernel that is at the end of a frame when it first decides or folds."""
    decide, step = Kernel.decide, Kernel.step
    names = vars(kernel_module)
    decide_step, decide_owed = names["decide_step"], names["decide_owed"]
    stepping: list[DecidingMirror] = []

    def decided(self: Kernel, input: Input, stamp: Stamp) -> Decided | Duplicate | Refusal:
        mirror = mirror_of(self, DecidingMirror)
        if mirror is None or mirror.may_differ(input):
            return decide(self, input, stamp)
        migrator, keep = self._migrator, self._keep
        recorded = self._migrator = RecordedRunner(migrator)
        if keep is not None:

            def kept(blobs: Mapping[Hash, bytes]) -> None:
                mirror.keep(blobs)
                keep(blobs)

            self._keep = kept
        try:
            expected = _or_damage(lambda: decide(self, input, stamp))
        finally:
            self._migrator, self._keep = migrator, keep
        place = f"record {self.state.next_seq}: {input!r:.300}"
        mirror.compare(place, expected, recorded.calls, lambda core: core.decide(input, stamp))
        if isinstance(expected, Damage):
            raise expected
        return expected

    def stepped(self: Kernel) -> Step | Any | KernelReceipt | None:
        mirror = mirror_of(self, DecidingMirror)
        if mirror is None:
            return step(self)
        stepping.append(mirror)
        try:
            return step(self)
        finally:
            stepping.pop()

    def step_decided(state: State, runner: Runner, read: BlobReader) -> Decided:
        recorded = RecordedRunner(runner)
        return compared(state, lambda: decide_step(state, recorded, read), recorded)

    def owed_decided(state: State, read: BlobReader) -> Decided:
        return compared(state, lambda: decide_owed(state, read), RecordedRunner(None))

    def compared(state: State, function: Callable[[], Decided], calls: RecordedRunner) -> Decided:
        if not stepping or stepping[-1].kernel.state is not state:
            return function()
        expected = _or_damage(function)
        place = f"record {state.next_seq}: the next step"
        stepping[-1].compare(place, expected, calls.calls, DecideCore.next)
        if isinstance(expected, Damage):
            raise expected
        assert isinstance(expected, Decided)
        return expected

    Kernel.decide, Kernel.step = decided, stepped  # type: ignore[method-assign]
    names["decide_step"], names["decide_owed"] = step_decided, owed_decided
    try:
        with mirrored(DecidingMirror) as mirrors:
            yield mirrors
    finally:
        Kernel.decide, Kernel.step = decide, step  # type: ignore[method-assign]
        names["decide_step"], names["decide_owed"] = decide_step, decide_owed
