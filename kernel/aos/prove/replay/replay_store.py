"""Replay a store with the real sandbox (spec/audit.md, A-19)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from aos.errors import BadUsage
from aos.prove.replay.replay import replay
from aos.prove.replay.replay_report import ReplayReport
from aos.prove.verify.roots import recorded_snapshots
from aos.sandbox.config import REPLAY_STACK_BYTES, WASMTIME
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from aos.store.rows import SnapshotRow
from aos.store.store import Store
from aos.store.stored_world import open_stored

NO_JOURNAL: Final = "the journal is empty: it has no genesis (make a world: aos init DIR)"


def replay_store(
    store: Store,
    *,
    target: str | None = None,
    start: SnapshotRow | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> ReplayReport:
    """Replay everything up to the head. Other processes may append to the journal meanwhile.

    Args:
        start: The snapshot to start from; None: the genesis.
        target: None for machine code, or ``aos.sandbox.config.PULLEY``.
        on_progress: Called on another thread after each frame with the sequence reached. An
            exception that it raises ends the replay, which raises the same exception.

    Raises:
        Divergence, Damage, Unavailable: As ``replay``.
        BadUsage: The store has no journal yet.
    """
    head = store.head()
    if head is None:
        raise BadUsage(NO_JOURNAL)

    def run() -> ReplayReport:
        sandbox = Sandbox(store.blob, stack_bytes=REPLAY_STACK_BYTES, target=target)
        try:
            first = 1 if start is None else start.at + 1
            return replay(
                store.frames(first, head.seq),
                store.blob,
                sandbox,
                head=head,
                wasmtime=WASMTIME,
                snapshots=dict(recorded_snapshots(store.frames(first, head.seq))),
                start=None if start is None else partial(open_stored, store, start),
                on_progress=on_progress,
            )
        finally:
            sandbox.close()

    return run_on_big_stack(run)
