"""Compare candidates with the journal of a store or a bundle (A-80)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from aos.core.journal.frame import Frame
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Manifest
from aos.core.state.state import State
from aos.errors import BadUsage, Damage
from aos.manifest.effective import Effective
from aos.manifest.judging import judge
from aos.manifest.load import Loaded
from aos.prove.replay.against import against, check_candidates, module_names, named_module
from aos.prove.replay.against_report import AgainstReport
from aos.prove.verify.pruned_journal import beginning_of
from aos.read.lens.manifests import IS_MANIFEST
from aos.sandbox.config import REPLAY_STACK_BYTES
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from aos.store.bundle.reader import Bundle
from aos.store.rows import SnapshotRow
from aos.store.store import Store
from aos.store.stored_world import state_of
from aos.values.digests import Hash, content_hash

Progress = Callable[[int, int], None]
"""Called on another thread after each frame with (sequence reached, last one). An exception that
it raises ends the comparison, which raises the same exception."""


Candidates = Mapping[str | None, bytes] | Loaded
"""Builds by the names of their modules (None names the journal's only module), or a manifest with
its modules, whose migrations then convert the recorded states."""


class _Values(Protocol):
    def blob(self, hash: Hash, /) -> bytes: ...


def against_store(
    store: Store,
    candidates: Candidates,
    *,
    start: SnapshotRow | None = None,
    on_progress: Progress | None = None,
) -> AgainstReport:
    """Compare with all records up to the head, or with those after a snapshot. In a pruned journal,
    these are the records that were kept.

    Raises:
        ModuleRefused: A candidate may not run.
        BadUsage: The journal has no module of that name, or no name is given and the journal has
            several modules.
        Damage, Unavailable: As ``against``.
    """
    head = store.head()
    if head is None:
        raise BadUsage("the journal is empty: it has no genesis (make a world: aos init DIR)")
    cut = store.cut()
    if start is None and cut is not None:
        start = store.snapshot_before(cut.seq)
    first = 1 if start is None else start.at + 1
    start_state = None if start is None else state_of(store, start)
    return _compared(
        store,
        candidates,
        manifests=_manifests(store.frames(first, head.seq), store, start_state),
        frames=store.frames(first, head.seq),
        start=start_state,
        last=head.seq,
        on_progress=on_progress,
    )


def against_bundle(
    bundle: Bundle,
    candidates: Candidates,
    *,
    on_progress: Progress | None = None,
) -> AgainstReport:
    """Compare as ``against_store`` does, after checking that the whole file is unaltered."""
    bundle.check()
    head = bundle.head()
    begins = beginning_of(bundle)
    start_state = None if begins is None else begins.state(bundle.blob)
    return _compared(
        bundle,
        candidates,
        manifests=_manifests(bundle.frames(), bundle, start_state),
        frames=bundle.frames(),
        start=start_state,
        last=head.seq,
        on_progress=on_progress,
    )


def _compared(
    values: _Values,
    candidates: Candidates,
    *,
    manifests: Iterable[Effective],
    frames: Iterable[Frame],
    start: State | None,
    last: int,
    on_progress: Progress | None,
) -> AgainstReport:
    prepared_candidates, builds = _prepared_candidates(candidates, manifests)

    def load(hash: Hash) -> bytes:
        module = builds.get(hash)
        return values.blob(hash) if module is None else module

    def tell(seq: int) -> None:
        if on_progress is not None:
            on_progress(seq, last)

    def run() -> AgainstReport:
        sandbox = Sandbox(load, stack_bytes=REPLAY_STACK_BYTES)
        try:
            return against(
                frames, values.blob, sandbox, prepared_candidates, start=start, on_progress=tell
            )
        finally:
            sandbox.close()

    return run_on_big_stack(run)


def _prepared_candidates(
    candidates: Candidates, manifests: Iterable[Effective]
) -> tuple[Mapping[str, bytes] | Effective, Mapping[Hash, bytes]]:
    """The candidates as ``against`` takes them, and their modules by hash."""
    if isinstance(candidates, Loaded):
        return candidates.effective, candidates.modules
    builds = _builds_by_name(candidates, module_names(manifests))
    check_candidates(builds)
    return builds, {content_hash(wasm): wasm for wasm in builds.values()}


def _builds_by_name(candidates: Mapping[str | None, bytes], names: list[str]) -> dict[str, bytes]:
    if not names:
        raise BadUsage("--against: the journal has no modules: no manifest was ever applied")
    if None in candidates and len(names) > 1:
        raise BadUsage(
            "--against: the journal has several modules: say which with NAME=FILE, one of "
            + ", ".join(names)
        )
    return {
        names[0] if word is None else named_module(word, names): wasm
        for word, wasm in candidates.items()
    }


def _manifests(
    frames: Iterable[Frame], values: _Values, start_state: State | None
) -> Iterator[Effective]:
    """Yield the manifest in force before the frames, then those that the frames put in force."""
    if start_state is not None and start_state.manifest is not None:
        yield start_state.manifest
    for frame in frames:
        for data in frame.records:
            record = _manifest(data)
            if record is not None:
                yield judge(values.blob(record.document.hash))


def _manifest(data: bytes) -> Manifest | None:
    if IS_MANIFEST not in data:
        return None
    try:
        record = from_bytes(data)
    except Damage:
        return None  # the pass over the journal reports it
    return record if isinstance(record, Manifest) else None
