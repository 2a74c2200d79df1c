"""Shared by replaying commands: their start, and their end at Ctrl-C (spec/cli.md, C-40)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from aos.errors import BadUsage
from aos.store.rows import SnapshotRow
from aos.store.store import Store
from aos_cli.output import Advance

T = TypeVar("T")

END_S: Final = 5.0


def snapshot_named(store: Store, start: str) -> SnapshotRow:
    """The snapshot after which to begin. Raises ``BadUsage`` if there is none."""
    if start != "snapshot" and not start.isdecimal():
        raise BadUsage(f"--from: expected snapshot or a record's number, found {start!r:.40}")
    row = store.snapshot_before(None if start == "snapshot" else int(start))
    if row is None:
        actual = "no snapshot" if start == "snapshot" else f"no snapshot up to record {start}"
        raise BadUsage(f"--from: the world has {actual} (make one: aos snapshot)")
    return row


def until_interrupted(run: Callable[[Advance], T], advance: Advance) -> T:
    """Call ``run``, which replays on a thread of its own for the stack that modules need.

    Ctrl-C ends that thread before it is raised here, so that the thread never uses closed files.
    """
    is_stopped = threading.Event()

    def on_progress(seq: int, last: int) -> None:
        if is_stopped.is_set():
            raise InterruptedError
        advance(seq, last)

    threads = set(threading.enumerate())
    try:
        return run(on_progress)
    except KeyboardInterrupt:
        is_stopped.set()
        for thread in set(threading.enumerate()) - threads:
            thread.join(END_S)
        raise
