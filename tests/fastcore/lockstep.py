"""Fold everything that kernels fold by a second kernel, too; compare after each record and frame.

    with mirrored(Mirror) as mirrors: ... every ``Kernel`` of the block has a ``Mirror``
    with followed() as followers: ...     every restart has a ``Follower``

A mirror compares Damage in words, and of each frame: its bytes, its rows, the blobs of its records
and the snapshot's document after it (SN-5), which is the canonical form of a whole state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from aos.core import kernel as kernel_module
from aos.core.decide.answers import Decided
from aos.core.journal.frame import Frame, read_frame
from aos.core.journal.ports import BlobReader
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import Record
from aos.core.kernel import Kernel
from aos.core.pending import Sealed
from aos.core.snapshot.take import take
from aos.core.state.cell import OpenIntent
from aos.core.state.cells import Cells
from aos.core.state.state import State
from aos.errors import Damage
from aos.fastcore.buffer import Find
from aos.fastcore.fold_core import FoldCore, IntentBytes, SealedBytes
from aos.host.folder import restore
from aos.values.cbor import decode_record
from aos.values.digests import Hash, content_hash
from tests.fastcore.owned import made_core, on_owner


class Differs(AssertionError):
    """The cores do not agree."""


class Mirror:
    """A second kernel that follows one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.own_blobs: dict[Hash, bytes] = {}
        self.named_blobs: set[Hash] = set()
        self.frames = 0
        state = kernel.state
        self.is_whole = state.next_seq <= 2  # else the kernel has layers that the mirror has not
        self._parts = state, state.limits, state.proposals
        self.core = self.made()
        _enter(state, self.core, self.own_blobs)

    def made(self) -> FoldCore:
        state = self.kernel.state
        return made_core(self._read, _find(state), state.limits)

    @property
    def follows(self) -> bool:
        """Whether it still follows the kernel: no test has put another part into the state."""
        state, limits, proposals = self._parts
        now = self.kernel.state
        return now is state and now.limits == limits and now.proposals is proposals

    def __deepcopy__(self, _: object) -> None:
        """A copy of the kernel gets another mirror."""

    def _read(self, hash: Hash) -> bytes:
        own = self.own_blobs.get(hash)
        return self.kernel.read(hash) if own is None else own

    def append(self, record: Record, blobs: Mapping[Hash, bytes], problem: Damage | None) -> None:
        """Follow a record; ``problem`` is why the kernel could not fold it."""
        cells = self.kernel.state.cells
        data = to_bytes(record)
        self.named_blobs |= blobs.keys()

        def append() -> None:
            self.core.keep(cells._resting_max, spills=cells.spilling.is_on)
            self.core.append(data, list(blobs.values()))

        compare_problems(f"record {record.seq}", problem, append)

    def seal(self, sealed: Sealed | None, salt: bytes, spilled: Mapping[Hash, bytes]) -> None:
        """Follow a seal with which the bytes of cells left memory: ``spilled``."""
        own_sealed = on_owner(lambda: self.core.seal(salt))
        if sealed is None or own_sealed is None:
            if (sealed is None) != (own_sealed is None):
                raise Differs("one core sealed nothing")
            return
        self.frames += 1
        # Which cells leave memory depends on what is in memory (SN-11a).
        named = self.named_blobs | (spilled.keys() if self.is_whole else set())
        first = sealed.frame.header.first
        expected = plain(sealed)
        for name in SealedBytes._fields:
            left, right = getattr(expected, name), getattr(own_sealed, name)
            if name == "new_pins":  # its host asks for the pins as a whole
                continue
            if name == "frame" and left.to_bytes() != right.to_bytes():
                raise Differs(f"frame {first}: its bytes")
            if name == "blobs":  # a host may add others, such as modules
                left = {hash: left[hash] for hash in left.keys() & named}
                right = {hash: right[hash] for hash in right.keys() & named}
            if name == "replaced" and not self.is_whole:
                continue
            if left != right:
                raise Differs(f"frame {first}: {name}: {differing(left, right)}")
        self.named_blobs.clear()
        # The host of a test may store these only when it has the frame.
        host = self.kernel._host_read
        self.kernel._host_read = lambda name: sealed.blobs.get(name) or host(name)
        try:
            compare_states(self.kernel.state, self.core)
        finally:
            self.kernel._host_read = host


def plain(sealed: Sealed) -> SealedBytes:
    """A sealed frame as a core answers with it."""
    return SealedBytes(
        frame=read_frame(sealed.frame.to_bytes()),
        blobs=dict(sealed.blobs),
        replaced=dict(sealed.replaced),
        opened_intents=tuple(map(plain_intent, sealed.opened_intents)),
        settled=sealed.settled,
        abandoned=sealed.abandoned,
        canceled=sealed.canceled,
        erased=sealed.erased,
        submissions=sealed.submissions,
        snapshots=sealed.snapshots,
        new_pins=(),
    )


def plain_intent(intent: OpenIntent) -> IntentBytes:
    """An intent as a core answers with it."""
    fields = {name: getattr(intent, name) for name in IntentBytes._fields}
    return IntentBytes(**{**fields, "effect": intent.effect.name})


def taken(state: State, blobs: dict[Hash, bytes]) -> Hash:
    """The document of a snapshot; its blobs are added to ``blobs``."""

    def put(data: bytes) -> Hash:
        hash = content_hash(data)
        blobs[hash] = data
        return hash

    return take(state, put).document


def differing(left: Any, right: Any) -> str:
    """The parts in which two values differ."""
    if not isinstance(left, dict) or not isinstance(right, dict):
        return f"expected {left!r}, found {right!r}"
    names = [name for name in left.keys() | right.keys() if left.get(name) != right.get(name)]
    return "; ".join(
        f"{name!r}: expected {left.get(name)!r}, found {right.get(name)!r}" for name in names
    )


def compare_problems(place: str, problem: Damage | None, function: Any) -> None:
    """Both raise the same Damage, or none."""
    text = None if problem is None else str(problem)
    found: str | None = None
    try:
        on_owner(function)
    except Damage as damage:
        found = str(damage)
    if text != found:
        raise Differs(f"{place}: expected {text!r}, found {found!r}")


def compare_states(state: State, core: FoldCore) -> None:
    """Both have the same snapshot: one document, which names all else by its hash."""
    blobs: dict[Hash, bytes] = {}
    document = taken(state, blobs)
    own_snapshot = on_owner(lambda: core.take(content_hash))
    if (document, state.tip.seq, state.tip.frame) != (
        content_hash(own_snapshot.document),
        own_snapshot.at,
        own_snapshot.frame,
    ):
        expected_fields: Any = decode_record(blobs[document])
        found_fields: Any = decode_record(own_snapshot.document)
        parts = differing(expected_fields, found_fields)
        raise Differs(f"the states after record {state.tip.seq} differ: {parts}")


class Follower:
    """A second kernel that folds the stored frames that a state folds."""

    def __init__(self, state: State, read: BlobReader) -> None:
        self.state = state
        self.frames = 0
        blobs: dict[Hash, bytes] = {}

        def read_either(hash: Hash) -> bytes:
            own = blobs.get(hash)
            return read(hash) if own is None else own

        self.core = made_core(read_either, _find(state), state.limits)
        _enter(state, self.core, blobs)

    def fold(self, frame: Frame, problem: Damage | None) -> None:
        self.frames += 1
        data = frame.to_bytes()
        place = f"frame {frame.header.first}"
        compare_problems(place, problem, lambda: self.core.fold_frame(data))
        if problem is None:
            compare_states(self.state, self.core)


def _find(state: State) -> Find:
    return state.submissions._find or (lambda _: None)


def _enter(state: State, core: FoldCore, blobs: dict[Hash, bytes]) -> None:
    """Open the core in this state; the blobs of a snapshot are added to ``blobs``."""
    if state.next_seq == 1:
        on_owner(lambda: core.open(state.world))
    else:
        document = taken(state, blobs)
        on_owner(lambda: core.load(document))
        compare_states(state, core)


@contextlib.contextmanager
def followed() -> Iterator[list[Follower]]:
    """Follow every state into which a kernel or ``restore`` folds frames."""
    followers: list[Follower] = []
    modules = [vars(restore), vars(kernel_module)]
    fold_frame = modules[0]["fold_frame"]

    def folded(state: State, frame: Frame, read: BlobReader) -> list[Record]:
        if not followers or followers[-1].state is not state:
            followers.append(Follower(state, read))
        problem: Damage | None = None
        try:
            records: list[Record] = fold_frame(state, frame, read)
        except Damage as damage:
            problem = damage
            raise
        finally:
            followers[-1].fold(frame, problem)
        return records

    for names in modules:
        names["fold_frame"] = folded
    try:
        yield followers
    finally:
        for names in modules:
            names["fold_frame"] = fold_frame


AnyMirror = TypeVar("AnyMirror", bound=Mirror)


def mirror_of(kernel: Kernel, kind: type[AnyMirror]) -> AnyMirror | None:
    """The mirror of a kernel; it gets one at the end of a frame."""
    known: AnyMirror | None = getattr(kernel, "_mirror", None)
    if known is not None and not known.follows:
        known = None
    if known is None and kernel.pending_records == 0:
        known = kind(kernel)
        kernel._mirror = known  # type: ignore[attr-defined]
    return known


@contextlib.contextmanager
def mirrored(kind: type[AnyMirror]) -> Iterator[list[AnyMirror]]:
    """Mirror every kernel that is at the end of a frame when its first record comes."""
    mirrors: list[AnyMirror] = []
    enter, seal, spill = Kernel.enter, Kernel.seal, Cells.spill
    gone: dict[Hash, bytes] = {}

    def listed(kernel: Kernel) -> AnyMirror | None:
        mirror = mirror_of(kernel, kind)
        if mirror is not None and mirror not in mirrors:
            mirrors.append(mirror)
        return mirror

    def entered(self: Kernel, decided: Decided) -> None:
        mirror = listed(self)
        problem: Damage | None = None
        try:
            enter(self, decided)
        except Damage as damage:
            problem = damage
        if mirror is not None:
            mirror.append(decided.record, decided.blobs, problem)
        if problem is not None:
            raise problem

    def sealed(self: Kernel, salt: bytes) -> Sealed | None:
        mirror = listed(self)
        gone.clear()
        made = seal(self, salt)
        if mirror is not None:
            mirror.seal(made, salt, gone)
        return made

    def spilled(self: Cells) -> dict[Hash, bytes]:
        gone.update(blobs := spill(self))
        return blobs

    Kernel.enter, Kernel.seal = entered, sealed  # type: ignore[method-assign]
    Cells.spill = spilled  # type: ignore[method-assign]
    try:
        yield mirrors
    finally:
        Kernel.enter, Kernel.seal = enter, seal  # type: ignore[method-assign]
        Cells.spill = spill  # type: ignore[method-assign]
