"""A journal -> the state at a record, without running a module (spec/audit.md, A-2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aos.core.fold import fold, fold_frame
from aos.core.frame import Frame, Tip
from aos.core.ports import BlobReader
from aos.core.records import from_bytes
from aos.core.state import State
from aos.errors import BadUsage, Damage, sentence


def read_state(
    frames: Iterable[Frame],
    read: BlobReader,
    *,
    last_seq: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> State:
    """Fold ``frames``, from record 1 to ``last_seq`` (to their end).

    A state in the middle of a frame has the tip of the frame before. ``on_progress`` is called with
    the sequence reached, after each frame.

    Raises:
        BadUsage: There is no record ``last_seq``, or no frame at all.
        Damage: The frames are not a journal.
    """
    state: State | None = None
    for frame in frames:
        if state is None:
            state = State(tip=Tip(world=frame.header.world))
        if last_seq is not None and frame.header.last > last_seq:
            _fold_part(state, frame, read, last_seq)
            break
        fold_frame(state, frame, read)
        if on_progress is not None:
            on_progress(frame.header.last)
        if frame.header.last == last_seq:
            break
    if state is None:
        raise BadUsage("the journal is empty: it has no genesis (make a world: aos init DIR)")
    if last_seq is not None and state.next_seq <= last_seq:
        raise BadUsage(
            sentence(
                "there is no such record",
                where=f"record {last_seq}",
                expected=f"1 to {state.next_seq - 1}",
            )
        )
    return state


def _fold_part(state: State, frame: Frame, read: BlobReader, last_seq: int) -> None:
    for data in frame.records:
        record = from_bytes(data)
        if record.seq > last_seq:
            return
        if record.seq != state.next_seq:
            raise Damage(f"record {state.next_seq} calls itself record {record.seq}")
        fold(state, record, read)
