"""A standby's state is compared with the reference, at each snapshot (spec/cluster.md, CL-285 to
CL-289)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aos.core.state.fold import fold_frame
from aos.host.cluster import reference_fold, reference_watch
from aos.host.cluster.reference_fold import ReferenceFold
from aos.host.cluster.reference_watch import ROW, ReferenceWatch
from aos.store.lmdb_store import LmdbStore
from aos.store.log.logged_store import LoggedStore
from aos.store.rows import Forget
from tests.host.cluster.node_processes import waits
from tests.host.cluster.replicated import Replicated, replicated


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Replicated]:
    with replicated(tmp_path) as world:
        yield world


def snapshot(rig: Replicated, *names: str) -> int:
    """Events, and a snapshot after them; return its record."""
    rig.events(*names)
    rig.owner.snapshot()
    rig.owner.commit()
    row = rig.owner.store.snapshot_before()
    assert row is not None
    return row.at


def test_each_snapshot_is_compared_with_the_state_of_the_reference(rig: Replicated) -> None:
    fold = ReferenceFold(rig.owner.store)  # CL-285
    assert fold.advance()
    assert not fold.advance()
    for number in (1, 2, 3):
        at = snapshot(rig, f"n{number}")
        assert fold.advance()
        progress = fold.progress()
        assert (progress.at, progress.compared, progress.skipped) == (at, number, 0)
        assert progress.behind > 0
        assert progress.difference is None
        assert not fold.advance()


def test_a_journal_without_a_snapshot_is_folded_from_its_genesis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with replicated(tmp_path) as rig:
        rows = list(rig.owner.store.snapshots())
        with LmdbStore.create(tmp_path / "copy") as copy:
            copy.put_rows(rig.owner.store.all_rows())
            monkeypatch.setattr(copy, "snapshots", lambda: iter([]))
            fold = ReferenceFold(copy)
            assert fold.advance()
            assert fold.progress().at == 0
            monkeypatch.setattr(copy, "snapshots", lambda: iter(rows))
            assert fold.advance()
            assert (fold.progress().compared, fold.progress().difference) == (1, None)


def test_a_kernel_with_a_defect_differs_at_the_next_snapshot(
    rig: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:  # CL-286
    """One of the two kernels adds to a counter once too often."""
    fold = ReferenceFold(rig.owner.store)
    fold.advance()

    def altered(state: Any, frame: Any, read: Any) -> None:
        fold_frame(state, frame, read)
        state.serial += 1

    at = snapshot(rig, "one")
    monkeypatch.setattr(reference_fold, "fold_frame", altered)
    assert fold.advance()
    assert f"the state after record {at} differs" in str(fold.progress().difference)
    snapshot(rig, "two")
    assert not fold.advance()


def test_a_fold_that_only_the_reference_cannot_do_is_a_difference(
    rig: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold = ReferenceFold(rig.owner.store)
    fold.advance()
    snapshot(rig, "one")

    def fails(*_: object) -> None:
        raise KeyError("a cell")

    monkeypatch.setattr(reference_fold, "fold_frame", fails)
    assert fold.advance()
    assert "the reference cannot fold" in str(fold.progress().difference)


def test_a_fold_that_is_too_slow_skips_forward_to_the_last_snapshot_but_one(
    rig: Replicated,
) -> None:  # CL-288
    fold = ReferenceFold(rig.owner.store)
    fold.advance()
    begin = fold.progress().at
    snapshot(rig, "one")
    skipped_to, at = snapshot(rig, "two"), snapshot(rig, "three")
    assert fold.advance()
    progress = fold.progress()
    assert (progress.at, progress.compared) == (at, 1)
    assert progress.skipped == skipped_to - begin
    assert progress.difference is None


def test_a_snapshot_that_was_removed_under_the_fold_is_no_difference(
    rig: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold = ReferenceFold(rig.owner.store)
    fold.advance()
    begin = fold.progress().at
    at = snapshot(rig, "one")

    def fails(*_: object) -> None:
        rig.owner.store.forget(Forget(snapshots=[begin]))
        raise KeyError("a part")

    monkeypatch.setattr(reference_fold, "fold_frame", fails)
    assert fold.advance()
    assert (fold.progress().at, fold.progress().difference) == (at, None)


def watch_of(store: LoggedStore, lines: list[str], core: str = "one") -> ReferenceWatch:
    return ReferenceWatch(
        Path(store.location), store, core=core, is_owner=lambda: False, report=lines.append,
        keep=lambda write: write(),
    )  # fmt: skip


def test_a_difference_is_kept_over_a_restart_and_stops_the_claim(rig: Replicated) -> None:
    lines: list[str] = []  # CL-287
    watch = watch_of(rig.owner.store, lines)
    watch.take(json.dumps({"at": 7, "compared": 1}))
    assert (watch.problem, lines) == (None, [])
    watch.take(json.dumps({"difference": "the state after record 9 differs"}))
    assert "the state after record 9 differs" in lines[0]
    assert "the two kernels disagree" in str(watch.problem)
    again = watch_of(rig.owner.store, lines)
    assert "the state after record 9 differs" in str(again.problem)
    assert watch_of(rig.owner.store, lines, core="another build").problem is None
    rig.owner.store.meta_put(ROW, b"one of another form")
    assert watch_of(rig.owner.store, lines).problem is not None


def children_here() -> list[int]:
    """The processes that this one has started for the reference."""
    pids = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent == os.getpid() and b"aos.host.cluster.reference_child" in words:
            pids.append(int(folder.name))
    return pids


def test_one_child_of_low_priority_compares_while_the_node_is_a_standby(
    rig: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:  # CL-285, CL-289
    monkeypatch.setattr(reference_watch, "TURN_S", 0.02)
    monkeypatch.setattr(reference_watch, "PAUSE_S", 0.02)
    monkeypatch.setattr(reference_watch, "NICE", 1)  # in a test, it has to get its turns
    is_owner, lines = [False], list[str]()
    with ReferenceWatch(
        rig.path / "owner", rig.owner.store, core="one", is_owner=lambda: is_owner[0],
        report=lines.append, keep=lambda write: write(),
    ) as watch:  # fmt: skip
        watch.start()
        waits(lambda: watch.progress.at > 0)
        [child] = children_here()
        assert os.getpriority(os.PRIO_PROCESS, child) == reference_watch.NICE
        at = snapshot(rig, "one")
        waits(lambda: watch.progress.at == at)
        assert (watch.progress.compared, watch.problem, lines) == (1, None, [])
        is_owner[0] = True
        waits(lambda: not children_here())
        is_owner[0] = False
        waits(children_here)
    assert not children_here()
