"""Restore a world from the journal, without running a module (spec/host.md, H-40 and H-41).

``restore`` gives the state, for code that reads; ``restore_kernel`` a kernel, which continues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from nacl.signing import SigningKey

from aos.core.journal.frame import Frame, Head, Tip, follow
from aos.core.journal.ports import BlobReader, Verify
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.signing import is_signed
from aos.core.limits import LIMITS, Limits
from aos.core.state.fold import fold, fold_frame
from aos.core.state.state import State
from aos.errors import BadUsage, Damage, Refused
from aos.host.folder.folder import check_world
from aos.manifest.keys import key_text
from aos.store.store import Store, head_of
from aos.store.stored_world import empty_state, open_stored, state_of
from aos.values.digests import Hash

if TYPE_CHECKING:
    from aos.core.kernel_protocol import FollowsStored, KernelProtocol, OpenKernel
    from aos.host.folder.second_fold import SecondFold

Progress: TypeAlias = Callable[[int, int], None]
"""Called after each frame with (records folded, records in all)."""


def restore(
    store: Store,
    world: Hash,
    *,
    at: int | None = None,
    progress: Progress | None = None,
    limits: Limits = LIMITS,
    second: SecondFold | None = None,
) -> State:
    """Load the newest snapshot, if there is one, and fold the frames after it (H-40, H-40a).

    With ``at`` return the state after this record, which may be inside of a frame: then nothing can
    be sealed on it. ``second`` folds many records by the second kernel (CR-38); ``progress`` is
    called on another thread then. Without it, the reference folds.

    Raises:
        Damage: The genesis is missing or another world's, a frame does not follow the one before,
            or the snapshot does not belong to the journal.
        BadUsage: There is no record ``at``.
    """
    head = _head(store, world)
    if at is not None and not 1 <= at <= head.seq:
        raise BadUsage(f"record {at}: expected a record from 1 to {head.seq}")
    row = store.snapshot_before(at)
    state = None
    if second is not None:
        last = head.seq if at is None else at

        def on_frame(seq: int) -> None:
            if progress is not None:
                progress(seq, last)

        state = second.state(store, row, last, on_frame)
    if state is None:
        state = (
            empty_state(store, limits=limits)
            if row is None
            else state_of(store, row, limits=limits)
        )
    # A reader continues from snapshots that were taken earlier and are recorded later.
    state.cells.remembers_deleted = True
    if at is None or at == head.seq:
        catch_up(state, store, head, progress=progress)
    else:
        _fold_to(state, store, at, progress)
    return state


def restore_kernel(
    store: Store,
    world: Hash,
    *,
    read: BlobReader | None = None,
    verify: Verify = is_signed,
    progress: Progress | None = None,
    limits: Limits = LIMITS,
    keeps: bool = False,
    opens: OpenKernel | None = None,
) -> KernelProtocol:
    """Open a kernel at the newest snapshot and let it follow the frames after that (H-40, H-40a).

    ``read`` is the store's reader, by default, or one that also finds blobs that are on their way
    to the store; ``verify`` and ``keeps`` are as for ``open_kernel``, and ``opens`` is as for
    ``open_stored``.

    Raises:
        Damage: As ``restore``.
    """
    head = _head(store, world)
    kernel = open_stored(
        store,
        store.snapshot_before(),
        read=read or store.blob,
        verify=verify,
        limits=limits,
        keeps=keeps,
        opens=opens,
    )
    # A command that only reads has no kernel.
    from aos.core.kernel_protocol import FollowsStored  # noqa: PLC0415

    if isinstance(kernel, FollowsStored):
        _follow_stored(store, kernel.tip, head, kernel, progress)
    else:
        _follow(store, kernel.tip, head, kernel.follow, progress)
    check_end(kernel.tip, kernel.figures().world_key, head)
    return kernel


def records_to_fold(store: Store) -> int:
    """How many records ``restore_kernel`` folds. Raises: Damage: The store has no head."""
    row = store.snapshot_before()
    return head_of(store).seq - (0 if row is None else row.at)


def _head(store: Store, world: Hash) -> Head:
    head = head_of(store)
    check_world(head, world)
    return head


def _fold_to(state: State, store: Store, at: int, progress: Progress | None) -> None:
    """Fold up to a record, which need not be the last of its frame."""
    for frame in store.frames(state.tip.seq + 1, at) if state.tip.seq < at else ():
        if frame.header.last <= at:
            fold_frame(state, frame, store.blob)
        else:
            follow(state.tip, frame)
            for data in frame.records[: at + 1 - frame.header.first]:
                fold(state, from_bytes(data), store.blob)
        if progress is not None:
            progress(state.next_seq - 1, at)


def check_key(world_key: bytes, key: SigningKey) -> None:
    """Check the world's key: a head signed with another key could never be opened again.

    Raises:
        Refused: ``key`` is not the one that the genesis names.
    """
    public = bytes(key.verify_key)
    if public != world_key:
        raise Refused(
            "keys/world.key is not this world's key; nothing was changed",
            expected=key_text(world_key),
            actual=key_text(public),
            hint="restore the world's own key",
        )


def catch_up(state: State, store: Store, head: Head, *, progress: Progress | None = None) -> None:
    """Fold the frames after the state's tip up to ``head``, and check that they end there.

    Raises:
        Damage: A frame does not follow, or the head does not match the journal or is not signed by
            the world's key. The state cannot be used again.
    """
    _follow(store, state.tip, head, lambda frame: fold_frame(state, frame, store.blob), progress)
    check_end(state.tip, state.world_key, head)


def _follow(
    store: Store,
    tip: Tip,
    head: Head,
    follow_frame: Callable[[Frame], object],
    progress: Progress | None,
) -> None:
    for frame in store.frames(tip.seq + 1, head.seq) if tip.seq < head.seq else ():
        follow_frame(frame)
        if progress is not None:
            progress(frame.header.last, head.seq)


def _follow_stored(
    store: Store, tip: Tip, head: Head, kernel: FollowsStored, progress: Progress | None
) -> None:
    at = tip.seq

    def followed(seq: int) -> None:
        nonlocal at
        at = seq
        if progress is not None:
            progress(seq, head.seq)

    try:
        if at < head.seq:
            kernel.follow_stored(store.stored_frames(at + 1, head.seq), followed)
    except Damage:
        store.frame_at(at + 1)  # if it cannot be read, this names its place
        raise


def check_end(tip: Tip, world_key: bytes, head: Head) -> None:
    """Check that the journal ends at ``tip`` (H-41).

    Raises:
        Damage: The head does not match the journal or is not signed by the world's key.
    """
    if Head.of(tip).message() != head.message():
        raise Damage(
            "the journal does not end as its head says",
            expected=f"record {head.seq} in frame {head.frame.hex()[:16]}",
            actual=f"record {tip.seq} in frame {tip.frame.hex()[:16]}",
            hint="run aos verify for details",
        )
    if not head.is_signed_by(world_key):
        raise Damage(f"the head at record {head.seq} is not signed by the world's key")
