"""Decide everything that kernels decide by a second kernel, too, and compare.

    with deciding() as mirrors: ...       every ``Kernel`` of the block has a ``DecidingMirror``

The reference decides first. Then the core decides the same input or step: each call that it makes
of a module must be the one that the reference made, and gets its result. The record, the blobs, the
refusal with its blockers, and the words of Damage must be the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from aos.core.decide.answers import Decided, Duplicate, Refusal
from aos.core.journal.inputs import Input, ManifestInput
from aos.core.journal.ports import Call, Keep, Ran
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import Stamp
from aos.core.kernel import Kernel
from aos.errors import Damage
from aos.fastcore.buffer import shipped_code
from aos.fastcore.decide_core import DecideCore, Next, RecordDecided, reference_answers
from aos.values.digests import Hash
from tests.fastcore.lockstep import Differs, Mirror, differing, mirror_of, mirrored
from tests.fastcore.owned import on_owner

Expected: TypeAlias = Call | Keep | Decided | Duplicate | Refusal | Damage | None
Begin: TypeAlias = Callable[[DecideCore], Next]


class DecidingMirror(Mirror):
    """A second kernel that decides what one kernel decides."""

    core: DecideCore

    def __init__(self, kernel: Kernel) -> None:
        self.decisions = 0
        self._is_asked = False
        self._waiting: Next = None
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

    def begin(self) -> None:
        """Forget the decision before."""
        self._is_asked = False

    def may_differ(self, input: Input) -> bool:
        """Whether the answer depends on a snapshot that only the kernel continues from (K-71a)."""
        has_check = isinstance(input, ManifestInput) and input.checked is not None
        return has_check and self.kernel.state.cells.at != self._at

    def compare(self, place: str, expected: Expected, begin: Begin) -> None:
        """Take the same part of a decision; the reference came to ``expected``."""
        try:
            found = on_owner(lambda: begin(self.core))
        except Damage as damage:
            if not isinstance(expected, Damage) or str(expected) != str(damage):
                raise Differs(f"{place}: expected {expected!r}, found {damage!r}") from damage
            return
        if isinstance(expected, Keep):
            # The blobs of the core are committed with its record.
            self.keep(expected.blobs)
            self._waiting = found
            return
        self.decisions += 1
        self._is_asked = isinstance(expected, Call)
        if isinstance(expected, Call):
            if found != expected:
                raise Differs(f"{place}: expected {expected!r}, found {_shown(found)}")
            return
        if not isinstance(expected, Decided):
            if expected != found:
                raise Differs(f"{place}: expected {expected!r}, found {_shown(found)}")
            return
        if not isinstance(found, RecordDecided) or found.record != to_bytes(expected.record):
            raise Differs(f"{place}: expected {expected.record!r}, found {_shown(found)}")
        self._compare_blobs(place, expected, found)

    def go_on(self, place: str, expected: Expected, ran: Ran | None) -> None:
        """As ``compare``, after the result of a call, or after blobs were kept."""
        if not self._is_asked:
            return
        if ran is None:
            self.compare(place, expected, lambda _: self._waiting)
        else:
            self.compare(place, expected, lambda core: core.ran(ran))

    def _compare_blobs(self, place: str, expected: Decided, found: RecordDecided) -> None:
        # The host of a migration has made the others durable.
        left = {name: data for name, data in expected.blobs.items() if name not in self.own_blobs}
        right = {name: data for name, data in found.blobs.items() if name not in self.own_blobs}
        if left != right:
            raise Differs(f"{place}: blobs: {differing(left, right)}")


def _shown(decision: Next) -> str:
    return repr(from_bytes(decision.record) if isinstance(decision, RecordDecided) else decision)


def _or_damage(decide: Callable[[], Expected]) -> Expected:
    try:
        return decide()
    except Damage as damage:
        return damage


@contextlib.contextmanager
def deciding() -> Iterator[list[DecidingMirror]]:
    """Mirror every kernel that is at the end of a frame when it first decides or folds."""
    decide, following, ran, kept = Kernel.decide, Kernel.next, Kernel.ran, Kernel.kept

    def decided(self: Kernel, input: Input, stamp: Stamp) -> Any:
        mirror = mirror_of(self, DecidingMirror)
        expected = _or_damage(lambda: decide(self, input, stamp))
        if mirror is not None:
            mirror.begin()
            if not mirror.may_differ(input):
                place = f"record {self.state.next_seq}: {input!r:.300}"
                mirror.compare(place, expected, lambda core: core.decide(input, stamp))
        return _raised(expected)

    def followed(self: Kernel, *, steps: bool = True) -> Any:
        mirror = mirror_of(self, DecidingMirror)
        expected = _or_damage(lambda: following(self, steps=steps))
        if mirror is not None:
            mirror.begin()
            if steps or self.state.owed:
                place = f"record {self.state.next_seq}: the next step"
                mirror.compare(place, expected, DecideCore.next)
        return _raised(expected)

    def has_run(self: Kernel, result: Ran) -> Any:
        expected = _or_damage(lambda: ran(self, result))
        mirror = mirror_of(self, DecidingMirror)
        if mirror is not None:
            mirror.go_on(f"record {self.state.next_seq}: a call ended", expected, result)
        return _raised(expected)

    def were_kept(self: Kernel) -> Any:
        expected = _or_damage(lambda: kept(self))
        mirror = mirror_of(self, DecidingMirror)
        if mirror is not None:
            mirror.go_on(f"record {self.state.next_seq}: blobs were kept", expected, None)
        return _raised(expected)

    Kernel.decide, Kernel.next = decided, followed  # type: ignore[method-assign]
    Kernel.ran, Kernel.kept = has_run, were_kept  # type: ignore[method-assign,assignment]
    try:
        with mirrored(DecidingMirror) as mirrors:
            yield mirrors
    finally:
        Kernel.decide, Kernel.next = decide, following  # type: ignore[method-assign]
        Kernel.ran, Kernel.kept = ran, kept  # type: ignore[method-assign]


def _raised(expected: Expected) -> Expected:
    if isinstance(expected, Damage):
        raise expected
    return expected
