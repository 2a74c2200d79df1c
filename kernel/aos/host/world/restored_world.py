"""A restored world that an engine continues: its kernel, the kernel's thread, and what the kernel
reads and verifies with (spec/host.md, H-40)."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass

from aos.core.journal.frame import Tip
from aos.core.kernel_protocol import KernelFigures, KernelProtocol
from aos.core.limits import LIMITS, Limits
from aos.fastcore.core_choice import ChosenCore, reference_core
from aos.fastcore.core_kind import CoreKind
from aos.fastcore.errors import CoreDefect, CoreFull, gives_way
from aos.host.errors import Stopping, WorldStopped
from aos.host.folder.restore import Progress, restore_kernel
from aos.host.world.core_thread import CoreThread
from aos.host.world.inbox import memory_in_use, takes_no_event
from aos.host.world.signatures import Signatures
from aos.host.world.unit import Overlay
from aos.store.store import Store
from aos.values.digests import Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredWorld:
    """``kernel`` has followed all durable frames. It reads ``blobs``, which are durable or on their
    way to the disk, and asks ``signatures`` whether one is valid.

    ``core`` is the kind of the kernel. ``thread`` owns it, so only functions that it calls may use
    it. ``tip`` and ``figures`` are those of the kernel after the last durable record.
    """

    kernel: KernelProtocol
    core: CoreKind
    thread: CoreThread
    blobs: Overlay
    signatures: Signatures
    tip: Tip
    figures: KernelFigures


def restored_world(
    store: Store,
    world: Hash,
    *,
    core: ChosenCore | None = None,
    progress: Progress | None = None,
    note: Callable[[str], None] = lambda _: None,
    limits: Limits = LIMITS,
) -> RestoredWorld:
    """Restore the world in ``store`` for an engine, on a new thread for its kernel. ``core`` opens
    the kernel (default: the reference). ``progress`` and ``note`` are called on that thread:
    ``note`` with one line if the reference takes the place of a core that is full, or so full after
    the fold that it would take no event (CR-37a).

    An exception while this waits, such as ``KeyboardInterrupt``, ends the fold first.

    Raises:
        Damage: As ``restore_kernel``.
        WorldStopped: The core has a defect, or its memory is full and it does not give way.
    """
    chosen = core or reference_core()
    thread = CoreThread()

    def advance(seq: int, total: int) -> None:
        if thread.is_closing:
            raise Stopping("the world was stopped while its journal was read")
        if progress is not None:
            progress(seq, total)

    def restore_with(core: ChosenCore) -> RestoredWorld:
        blobs, signatures = Overlay(store.blob), Signatures()
        kernel = restore_kernel(
            store,
            world,
            read=blobs.read,
            verify=signatures,
            progress=advance,
            limits=limits,
            keeps=True,
            opens=core.opens,
        )
        return RestoredWorld(
            kernel=kernel,
            core=core.kind,
            thread=thread,
            blobs=blobs,
            signatures=signatures,
            tip=kernel.tip,
            figures=kernel.figures(),
        )

    def restore() -> RestoredWorld:
        try:
            restored = restore_with(chosen)
            memory = restored.kernel.memory
            if not chosen.gives_way or memory is None or not takes_no_event(memory):
                return restored
            note(gives_way(f"{memory_in_use(memory)} (bounded by {memory.setting})"))
            del restored
        except CoreFull as full:
            if not chosen.gives_way:
                raise
            note(gives_way(str(full)))
        # The functions that a core calls refer to it: only this frees its memory at once.
        gc.collect()
        return restore_with(reference_core())

    try:
        return thread.call(restore)
    except CoreDefect as defect:
        thread.close()
        raise unopened(defect) from defect
    except BaseException:
        thread.close()
        raise


def unopened(defect: CoreDefect) -> WorldStopped:
    """Why a world whose core has a defect could not be opened (CR-36)."""
    return WorldStopped(f"the world could not be opened: {defect.stops()}")
