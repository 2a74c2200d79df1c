"""A restored world that an engine continues: its kernel, and what the kernel reads and verifies
with (spec/host.md, H-40)."""

from __future__ import annotations

from dataclasses import dataclass

from aos.core.kernel_protocol import KernelProtocol
from aos.core.limits import LIMITS, Limits
from aos.host.folder.restore import Progress, restore_kernel
from aos.host.world.signatures import Signatures
from aos.host.world.unit import Overlay
from aos.store.store import Store
from aos.values.digests import Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredWorld:
    """``kernel`` has followed all durable frames. It reads ``blobs``, which are durable or on their
    way to the disk, and asks ``signatures`` whether one is valid."""

    kernel: KernelProtocol
    blobs: Overlay
    signatures: Signatures


def restored_world(
    store: Store, world: Hash, *, progress: Progress | None = None, limits: Limits = LIMITS
) -> RestoredWorld:
    """Restore the world in ``store`` for an engine. Raises as ``restore_kernel``."""
    blobs, signatures = Overlay(store.blob), Signatures()
    kernel = restore_kernel(
        store,
        world,
        read=blobs.read,
        verify=signatures,
        progress=progress,
        limits=limits,
        keeps=True,
    )
    return RestoredWorld(kernel=kernel, blobs=blobs, signatures=signatures)
