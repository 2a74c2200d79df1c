"""Replay a store with the real sandbox (spec/audit.md, A-19), and verify or replay a bundle from
the file alone (spec/bundle.md, B-50 to B-54).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from aos.core.journal.frame import Head
from aos.core.journal.records import Control
from aos.errors import BadUsage, Damage, Unavailable
from aos.fastcore.core_kind import CoreKind
from aos.fastcore.errors import CoreDefect
from aos.prove.replay.replay import replay
from aos.prove.replay.replay_report import ReplayReport
from aos.prove.verify.checkpoints import CheckpointCheck, checking
from aos.prove.verify.findings import FindingKind, VerifyReport
from aos.prove.verify.pruned_journal import beginning_of
from aos.prove.verify.roots import recorded_snapshots
from aos.prove.verify.verify import Verifier
from aos.sandbox.config import REPLAY_STACK_BYTES, WASMTIME
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from aos.store.bundle.reader import Bundle, open_bundle
from aos.store.rows import SnapshotRow
from aos.store.store import Store
from aos.store.stored_world import open_stored
from aos.values.digests import Hash

NO_JOURNAL: Final = "the journal is empty: it has no genesis (make a world: aos init DIR)"


def replay_store(
    store: Store,
    *,
    target: str | None = None,
    start: SnapshotRow | None = None,
    core: CoreKind = CoreKind.PYTHON,
    on_progress: Callable[[int], None] | None = None,
) -> ReplayReport:
    """Replay everything up to the head. Other processes may append to the journal meanwhile.

    Args:
        start: The snapshot to start from; None: the genesis.
        core: The kernel that decides again.
        target: None for machine code, or ``aos.sandbox.config.PULLEY``.
        on_progress: Called on another thread after each frame with the sequence reached. An
            exception that it raises ends the replay, which raises the same exception.

    Raises:
        Divergence, Damage, Unavailable: As ``replay``; Unavailable also where the kernel itself
            fails or its memory is full.
        BadUsage: The store has no journal yet.
    """
    head = store.head()
    if head is None:
        raise BadUsage(NO_JOURNAL)

    def run() -> ReplayReport:
        sandbox = Sandbox(store.blob, stack_bytes=REPLAY_STACK_BYTES, target=target)
        try:
            first = 1 if start is None else start.at + 1
            opens = core.replays(head.seq + 1 - first)
            return replay(
                store.frames(first, head.seq),
                store.blob,
                sandbox,
                head=head,
                wasmtime=WASMTIME,
                snapshots=dict(recorded_snapshots(store.frames(first, head.seq))),
                start=None if start is None else partial(open_stored, store, start, opens=opens),
                opens=opens,
                on_progress=on_progress,
            )
        except CoreDefect as defect:
            raise Unavailable(defect.replays()) from defect
        finally:
            sandbox.close()

    return run_on_big_stack(run)


def verify_bundle(
    path: Path,
    *,
    checkpoints: Sequence[Path] = (),
    log: Path | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> VerifyReport:
    """Verify a bundle. An altered bundle is checked as far as it can be read. ``checkpoints`` were
    kept elsewhere and are compared with it; ``log`` is the header log of the other side (PF-95).

    ``on_progress`` is called after each frame with the sequence reached.

    Raises:
        BadUsage: There is no such file, or it is not a bundle.
        Unavailable: The file cannot be read.
    """
    try:
        bundle = open_bundle(path)
    except Damage as problem:
        verifier = Verifier(_nothing)
        verifier.add(FindingKind.BUNDLE_DAMAGED, str(problem))
        return verifier.report()
    with bundle, checking(checkpoints, log) as checkpoint_check:
        return _Look(bundle, checkpoint_check).report(on_progress)


class _Look:
    """One check of a bundle. It reports damage as findings."""

    def __init__(self, bundle: Bundle, checkpoints: CheckpointCheck | None) -> None:
        self._bundle = bundle
        begins, problem = None, None
        try:
            begins = beginning_of(bundle)
        except Damage as damage:
            problem = str(damage)
        if checkpoints is not None and begins is not None:
            checkpoints.lose()  # an archive does not have the frames before it
        self._verifier = Verifier(
            bundle.blob, begins=begins, snapshots=_snapshots(bundle), checkpoints=checkpoints
        )
        if problem is not None:
            message = f"the world that its frames continue cannot be read: {problem}"
            self._verifier.add(FindingKind.BUNDLE_DAMAGED, message)

    def report(self, on_progress: Callable[[int], None] | None) -> VerifyReport:
        verifier = self._verifier
        is_whole = self._says_no_damage(self._bundle.check)
        self._says_no_damage(lambda: self._frames(on_progress))
        self._says_no_damage(self._erasures)
        head = self._head()
        verifier.finish(head)
        if is_whole:
            self._header()
        return verifier.report()

    def _says_no_damage(self, look: Callable[[], None]) -> bool:
        try:
            look()
        except Damage as problem:
            self._verifier.add(FindingKind.BUNDLE_DAMAGED, str(problem))
            return False
        return True

    def _frames(self, on_progress: Callable[[int], None] | None) -> None:
        for frame in self._bundle.frames():
            self._verifier.take(frame)
            if on_progress is not None:
                on_progress(frame.header.last)

    def _erasures(self) -> None:
        """Take note of values that were erased after the bundle's end: they may be missing from
        it."""
        for command in _erased_after(self._bundle, self._verifier.next_seq):
            self._verifier.erased_since(command)

    def _head(self) -> Head | None:
        try:
            return self._bundle.head()
        except Damage as problem:
            self._verifier.add(FindingKind.HEAD_WRONG, str(problem))
            return None

    def _header(self) -> None:
        header, genesis = self._bundle.header, self._verifier.genesis
        if genesis is None:
            return
        claimed = (header.world_key, header.operators, header.world)
        if claimed != (genesis.world_key, genesis.operators, self._verifier.world):
            self._verifier.add(
                FindingKind.BUNDLE_DAMAGED,
                "its header does not name the world and keys of the genesis",
            )


def replay_bundle(
    bundle: Bundle,
    *,
    target: str | None = None,
    core: CoreKind = CoreKind.PYTHON,
    on_progress: Callable[[int, int], None] | None = None,
) -> ReplayReport:
    """Replay a bundle in the real sandbox, after checking that the whole file is unaltered.

    Args:
        target: None for machine code, or ``aos.sandbox.config.PULLEY``.
        core: The kernel that decides again.
        on_progress: Called on another thread after each frame with (sequence reached, last one). An
            exception that it raises ends the replay, which raises the same exception.

    Raises:
        Divergence, Unavailable: As ``replay``; Unavailable also where the kernel itself fails or
            its memory is full.
        Damage: As ``replay``, or the file was altered.
    """
    bundle.check()
    head = bundle.head()

    def tell(seq: int) -> None:
        if on_progress is not None:
            on_progress(seq, head.seq)

    def run() -> ReplayReport:
        sandbox = Sandbox(bundle.blob, stack_bytes=REPLAY_STACK_BYTES, target=target)
        begins = beginning_of(bundle)
        opens = core.replays(head.seq)
        try:
            return replay(
                bundle.frames(),
                bundle.blob,
                sandbox,
                head=head,
                start=None if begins is None else partial(begins.open, opens=opens),
                opens=opens,
                wasmtime=WASMTIME,
                on_progress=tell,
                erased_since=_erased_after(bundle, head.seq + 1),
                snapshots=_snapshots(bundle),
            )
        except CoreDefect as defect:
            raise Unavailable(defect.replays()) from defect
        finally:
            sandbox.close()

    return run_on_big_stack(run)


def _snapshots(bundle: Bundle) -> dict[int, Hash]:
    """Return the snapshots that the frames record, as far as the frames can be read."""
    snapshots: dict[int, Hash] = {}
    with contextlib.suppress(Damage):
        snapshots.update(recorded_snapshots(bundle.frames()))
    return snapshots


def _erased_after(bundle: Bundle, next_seq: int) -> Iterator[Control]:
    """Yield the commands after a bundle's end that erased values. Replay checks the signatures."""
    for erased in bundle.erased():
        if erased.seq >= next_seq:
            yield erased.command()


def _nothing(hash: bytes) -> bytes:
    raise AssertionError(f"nothing is read: {hash.hex()}")
