"""Shared by replaying commands: their start, and their end at Ctrl-C (spec/cli.md, C-40)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from aos.errors import BadUsage
from aos.host.folder.folder import open_folder
from aos.prove.replay.journal_source import JournalSource, source_of_bundle, source_of_store
from aos.prove.replay.replay_store import NO_JOURNAL
from aos.store.bundle.reader import open_bundle
from aos.store.rows import SnapshotRow
from aos.store.store import Store
from aos_cli.output import Advance

T = TypeVar("T")

END_S: Final = 5.0


@contextlib.contextmanager
def open_source(world: Path, bundle: Path | None) -> Iterator[tuple[JournalSource, Store | None]]:
    """The journal of a bundle, or of a world with its store, as long as it is open."""
    if bundle is not None:
        with open_bundle(bundle) as bundle_reader:
            bundle_reader.check()
            yield source_of_bundle(bundle_reader), None
    else:
        with open_folder(world).open_store(readonly=True) as store:
            if store.head() is None:
                raise BadUsage(NO_JOURNAL)
            yield source_of_store(store), store


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
