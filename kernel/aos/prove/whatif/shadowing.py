"""Make the shadow of a journal with the real sandbox: from its range to its report (spec/shadow.md,
SH-1 to SH-8).

A shadow begins at a record that changes no cell: a ``manifest`` that came into force, a ``start``
or a ``snapshot``. It ends before the next manifest.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from aos.core.decide.answers import Blocker
from aos.core.journal.frame import Frame, Tip, follow
from aos.core.journal.ports import Runner
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Manifest, Record, Snapshot, Start
from aos.core.journal.shadow_report import ReportHead
from aos.core.state.fold import fold, fold_frame
from aos.core.state.state import State
from aos.core.state.version import manifest_under
from aos.errors import BadUsage, Damage
from aos.prove.verify.journal_source import JournalSource, Progress, records_of_kinds
from aos.prove.whatif.shadow import Shadow
from aos.prove.whatif.shadow_answers import CarryOut, ScriptAnswers, carries_nothing_out
from aos.prove.whatif.shadow_course import IntentKey, recorded_keys
from aos.prove.whatif.shadow_report import blocked_report, shadow_report
from aos.prove.whatif.shadow_state import BlobOverlay, Proposed, ShadowState, put_in_force
from aos.prove.whatif.step_comparison import ShadowComparison
from aos.read.lens.lens import ALL_BYTES, Lens, Manifests
from aos.sandbox.engine import Sandbox
from aos.store.store import Store
from aos.values.digests import Hash, hash_text

LOOK_S: Final = 0.1
"""Seconds between two looks at a journal that is followed."""

DEFAULT_RECORDS: Final = 10_000
"""How many records a shadow follows at least, if the base has been in force for as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRange:
    """``first`` is the record that the proposed manifest replaces, ``last`` the last one that the
    shadow follows."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowRequest:
    """Everything that determines a shadow, apart from the journal. ``answers`` are those of a user
    to effects that the journal does not answer; ``base`` is the manifest that must be in force
    where the shadow begins (None: any)."""

    proposed: Proposed
    range: RecordRange
    answers: ScriptAnswers | None = None
    base: Hash | None = None


def run_shadow(
    source: JournalSource,
    request: ShadowRequest,
    modules: Mapping[Hash, bytes],
    *,
    carry_out: CarryOut,
    follows: tuple[Store, float] | None = None,
    on_progress: Progress | None = None,
) -> bytes:
    """Return the report of a shadow, made with the real sandbox (SH-2).

    Args:
        modules: Modules of the proposed manifest that the journal does not have.
        carry_out: Carries out built-in effects that only need blobs.
        follows: The store of the running world, and for how many seconds its journal is followed.

    Raises:
        As ``shadow_of``.
    """

    def tell(seq: int) -> None:
        if on_progress is not None:
            on_progress(seq, max(seq, request.range.last))

    def run(sandbox: Sandbox) -> bytes:
        frames = None
        if follows is not None:
            frames = _frames_followed(*follows, request.range.first, tell)
        return shadow_of(
            source, request, runner=sandbox, carry_out=carry_out, frames=frames, on_progress=tell
        )

    return source.in_sandbox(modules, run)


def _frames_followed(
    store: Store, seconds: float, first: int, tell: Callable[[int], None]
) -> Iterator[Frame]:
    """Yield the frames from that with record ``first`` on, as they become durable, until so many
    seconds have passed."""
    until_s = time.monotonic() + seconds
    last = first - 1
    while True:
        is_over = time.monotonic() >= until_s
        head = store.head()
        assert head is not None, "its journal is the source"
        if head.seq > last:
            for frame in store.frames(last + 1, head.seq):
                yield frame
                last = frame.header.last
        if is_over:
            return
        tell(last)
        time.sleep(min(LOOK_S, max(0.0, until_s - time.monotonic())))


def shadow_of(
    source: JournalSource,
    request: ShadowRequest,
    *,
    runner: Runner,
    carry_out: CarryOut = carries_nothing_out,
    frames: Iterable[Frame] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> bytes:
    """Return the report of a shadow.

    Args:
        runner: Runs the modules of the journal and of the proposed manifest.
        carry_out: Carries out built-in effects that only need blobs.
        frames: The frames from that with the first record on, if they come while the world runs:
            the shadow then ends with them, or before the next manifest.
        on_progress: Called after each frame with the sequence reached.

    Raises:
        BadUsage: Another manifest than ``request.base`` is in force where the shadow begins.
        Refused: This world could never take the manifest, or the manifest does not come to rest.
        Damage: The journal cannot be read.
        Unavailable: This machine lacks something that a step needs.
    """
    last = None if frames is not None else request.range.last
    to_come: Counter[IntentKey] | None = None
    if request.answers is not None:
        frames = None if frames is None else list(frames)
        to_come = _intents_to_come(source, request, frames)
    making = Making(source, request, runner, carry_out, to_come)
    if frames is None:
        frames = source.frames(request.range.first, request.range.last)
    for frame in frames:
        if not making.frame(frame, last):
            break
        if on_progress is not None:
            on_progress(making.last)
    return making.report()


def _intents_to_come(
    source: JournalSource, request: ShadowRequest, frames: list[Frame] | None
) -> Counter[IntentKey]:
    """The intents that the journal opens in the range: the answers of a user are not for these."""
    first, last = request.range.first, request.range.last
    if frames is None:
        return recorded_keys(source.frames(first, last), first, last)
    return recorded_keys(frames, first, frames[-1].header.last if frames else last)


class Making:
    """Follows one shadow. ``last`` is the last record that it has followed; ``shadow`` is
    None until it begins, and if it cannot."""

    def __init__(
        self,
        source: JournalSource,
        request: ShadowRequest,
        runner: Runner,
        carry_out: CarryOut,
        to_come: Counter[IntentKey] | None = None,
    ) -> None:
        self.last = 0
        self._request = request
        self._proposed = request.proposed
        self._runner = runner
        self._carry_out = carry_out
        self._to_come = to_come
        self._overlay = BlobOverlay(source.blob, source.has_blob)
        first = request.range.first
        self._recorded, self._tip = _state_before(source, first, self._overlay)
        self._state, _ = _state_before(source, first, self._overlay)
        self._manifests = Manifests()
        self.shadow: Shadow | None = None
        self._standing: tuple[Blocker, ...] = ()
        self._frame: Hash | None = None

    def frame(self, frame: Frame, last: int | None) -> bool:
        """Take a frame; return whether the shadow follows the next one, too."""
        first = self._request.range.first
        self._tip = follow(self._tip, frame)
        for data in frame.records[max(0, first - frame.header.first) :]:
            record = from_bytes(data)
            if last is not None and record.seq > last:
                return False
            if record.seq == first:
                self._begin(record)
            elif self.shadow is None or isinstance(record, Manifest):
                return False
            else:
                self.shadow.follow(record)
            self.last, self._frame = record.seq, frame.hash
        for state in (self._recorded, self._state):
            for hash, blob in state.cells.spill().items():
                self._overlay.put(hash, blob)
        return self.shadow is not None

    def report(self) -> bytes:
        """End the shadow, and return its report. Raises as ``shadow_of``."""
        proposed, answers = self._proposed, self._request.answers
        if self._frame is None:
            raise Damage(f"record {self._request.range.first} cannot be read")
        head = ReportHead(
            world=self._recorded.world,
            base=self._recorded.effective.hash,
            document=proposed.effective.hash,
            mode=proposed.mode,
            leaves=proposed.leaves,
            first=self._request.range.first,
            last=self.last,
            frame=self._frame,
        )
        hash = None if answers is None else answers.hash
        if self.shadow is None:
            lens = Lens(self._manifests, self._overlay.read, value_bytes_max=ALL_BYTES)
            return blocked_report(head, self._standing, hash, lens)
        self.shadow.finish()
        return shadow_report(
            head, self.shadow, proposed.effective, self._manifests,
            standing=self._standing, answers=hash, read=self._overlay.read,
        )  # fmt: skip

    def _begin(self, record: Record) -> None:
        """Put the proposed manifest in the place of ``record``."""
        assert isinstance(record, Manifest | Snapshot | Start), "a shadow begins at no other"
        recorded, state = self._recorded, self._state
        for era in recorded.eras.all:
            self._manifests.add(era.seq, manifest_under(recorded, era.seq))
        fold(recorded, record, self._overlay.read)
        base = recorded.effective
        expected = self._request.base
        if expected is not None and expected != base.hash:
            raise BadUsage(
                "another manifest is in force there",
                location=f"--from, record {record.seq}",
                expected=hash_text(expected),
                actual=hash_text(base.hash),
            )
        self._proposed = self._proposed.over(base)
        self._manifests.add(recorded.manifest_seq, base)
        self._standing, is_blocked = put_in_force(
            state, self._proposed, record, runner=self._runner, overlay=self._overlay
        )  # fmt: skip
        if is_blocked:
            return
        state.snapshot = recorded.snapshot
        comparison = ShadowComparison(
            self._proposed.effective, recorded, self._manifests,
            runner=self._runner, read=self._overlay.read,
        )  # fmt: skip
        self.shadow = Shadow(
            recorded,
            ShadowState(state, self._runner, self._overlay),
            comparison,
            self._overlay,
            answers=self._request.answers,
            to_come=self._to_come,
            carry_out=self._carry_out,
        )


def _state_before(source: JournalSource, first: int, overlay: BlobOverlay) -> tuple[State, Tip]:
    """Return the state before record ``first``, and the end of the frame before its own."""
    state = source.state_before(first)
    state.cells.read_with(overlay.read)
    for frame in source.frames(state.tip.seq + 1, first):
        if frame.header.last < first:
            fold_frame(state, frame, overlay.read)
            continue
        tip = state.tip
        for data in frame.records[: first - frame.header.first]:
            fold(state, from_bytes(data), overlay.read)
        return state, tip
    raise Damage(f"record {first} cannot be read")


@dataclass(frozen=True, slots=True)
class _StartPoint:
    seq: int
    is_manifest: bool


_StartPoints: TypeAlias = list[_StartPoint]


def chosen_range(
    source: JournalSource,
    *,
    first: int | None = None,
    last: int | None = None,
    is_all: bool = False,
    around: int | None = None,
    records: int = 0,
) -> RecordRange:
    """Return the range for ``--from``, ``--to`` and ``--all``; without them the default one.
    Without ``--to`` it may end as early as the manifest that was in force at record ``around``.
    The default one has ``records`` records or ``DEFAULT_RECORDS``, if the base has so many.

    Raises:
        BadUsage: There is no such record, or no place where a shadow can begin before it.
        Damage: A record cannot be read.
    """
    end = source.last if last is None else last
    for name, seq in (("--to", end), ("--from", first)):
        if seq is not None and not source.first <= seq <= source.last:
            raise BadUsage(
                f"{name}: there is no such record",
                expected=f"a record from {source.first} to {source.last}",
                actual=str(seq),
            )
    points = list(_start_points(source))
    if last is None and around is not None:
        next_one = (point.seq for point in points if point.is_manifest and point.seq > around)
        end = next(next_one, end + 1) - 1
    points = [point for point in points if point.seq <= end]
    if first is not None and first > end:
        raise BadUsage("--from: it is after the end", expected=f"at most {end}", actual=str(first))
    behind = max(records, DEFAULT_RECORDS)
    if first is not None:
        begins = _start_before(source, points, first)
    else:
        begins = _start_in_era(source, points, None if is_all else end - behind)
    later = [point.seq for point in points if point.is_manifest and point.seq > begins]
    return RecordRange(first=begins, last=min([end, *(seq - 1 for seq in later)]))


def _start_before(source: JournalSource, points: _StartPoints, seq: int) -> int:
    """The nearest place at or before a record."""
    earlier_seqs = [point.seq for point in points if point.seq <= seq]
    if not earlier_seqs:
        raise BadUsage(
            "--from: no shadow can begin there",
            expected=f"a record from {_first_start(source, points)} on, where a manifest, a "
            "start or a snapshot is recorded",
            actual=str(seq),
        )
    return earlier_seqs[-1]


def _start_in_era(source: JournalSource, points: _StartPoints, seq_max: int | None) -> int:
    """The last place of the manifest in force that is at most record ``seq_max``; without one, or
    with None, the first."""
    bases = [index for index, point in enumerate(points) if point.is_manifest]
    era = points[bases[-1] if bases else 0 :]
    if not era:
        raise BadUsage(_first_start(source, points))
    behind = [point.seq for point in era if seq_max is not None and point.seq <= seq_max]
    return behind[-1] if behind else era[0].seq


def _first_start(source: JournalSource, points: _StartPoints) -> str:
    if points:
        return str(points[0].seq)
    return (
        f"the journal from record {source.first} on has no manifest, and no start or snapshot "
        "under one: nothing to shadow"
    )


def _start_points(source: JournalSource) -> Iterator[_StartPoint]:
    """The records where a shadow can begin, in order: those with a manifest in force afterwards."""
    begins = source.begins
    is_in_force = begins is not None and begins.state(source.blob).manifest is not None
    frames = source.frames(source.first, source.last)
    for record in records_of_kinds(frames, Manifest, Snapshot, Start):
        is_manifest = isinstance(record, Manifest)
        is_in_force |= is_manifest
        if is_in_force:
            yield _StartPoint(record.seq, is_manifest)
