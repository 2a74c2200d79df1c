"""The folder of a node is compared with its log, byte for byte (spec/cluster.md, CL-275 to
CL-278)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aos.core.journal.frame import Tip, follow
from aos.errors import Refused
from aos.host.cluster import log_comparison
from aos.host.cluster.base import make_base
from aos.host.cluster.log_comparison import LogComparison, compare_with_log
from aos.host.folder.folder import STORE
from aos.store.cut import Cut
from aos.store.lmdb_store import LmdbStore
from aos.store.log import base_stream, patience
from aos.store.row_copy import FRAMES, StoredRow
from tests.cli.shell import here
from tests.host.cluster.node_processes import NodeProcess, joined, made
from tests.host.cluster.owner_process import WORLD
from tests.host.cluster.replicated import KEY, NAME, Replicated, replicated
from tests.memory_world import WORLD_KEY
from tests.nats_servers import Servers


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replicated]:
    monkeypatch.setattr(base_stream, "GROUP_BYTES", 4000)
    monkeypatch.setattr(patience, "_PAUSE_S", 0.0)
    monkeypatch.setattr(log_comparison, "SHOWN_AGAIN_S", 0.0)
    with replicated(tmp_path) as world:
        yield world


def compared(rig: Replicated, store: LmdbStore | None = None) -> LogComparison:
    return compare_with_log(rig.servers(), NAME, store or rig.owner.store, KEY)


def altered_copy(
    rig: Replicated, path: Path, change: Callable[[StoredRow], StoredRow | None]
) -> LmdbStore:
    """A copy of the owner's store, with some rows of frames changed, or left out."""
    rows = (change(row) if row.table == FRAMES else row for row in rig.owner.store.all_rows())
    copy = LmdbStore.create(path)
    copy.put_rows(row for row in rows if row is not None)
    return copy


def test_a_folder_has_every_frame_that_counts_in_the_log(rig: Replicated) -> None:
    rig.log.publish(None)  # CL-275
    rig.events("more")
    result = compared(rig)
    frames = list(rig.owner.store.frames())
    head = rig.owner.store.head()
    assert head is not None
    assert (result.problem, result.frames, result.dead) == (None, len(frames), 1)
    assert (result.begin, result.last) == (0, rig.log.tail)
    assert (result.seq, result.local_seq) == (head.seq, head.seq)
    assert (result.behind_messages, result.behind_records) == (0, 0)


def test_a_trimmed_log_is_compared_behind_its_base(rig: Replicated) -> None:
    base = make_base(rig.servers(), NAME, rig.owner.store, WORLD_KEY).base
    assert compared(rig).entries == 0
    rig.events("more")
    result = compared(rig)
    assert (result.problem, result.begin) == (None, base.end.position)
    assert result.frames > 0


def test_a_log_from_which_messages_were_removed_by_hand_is_damage(rig: Replicated) -> None:
    rig.log.first = 3
    assert "no base has their records" in str(compared(rig).problem)


def test_a_node_that_is_behind_is_no_difference(rig: Replicated, tmp_path: Path) -> None:
    rig.join("b")
    rig.events("one", "two")
    with LmdbStore.open(tmp_path / "b" / STORE, readonly=True) as store:
        result = compared(rig, store)
    assert result.problem is None
    assert (result.behind_messages > 0, result.behind_records > 0) == (True, True)
    assert result.last - result.behind_messages == result.local_position


def test_a_node_behind_the_beginning_of_the_log_is_refused(rig: Replicated, tmp_path: Path) -> None:
    rig.join("b")
    rig.events("one")
    make_base(rig.servers(), NAME, rig.owner.store, WORLD_KEY)
    with (
        LmdbStore.open(tmp_path / "b" / STORE, readonly=True) as store,
        pytest.raises(Refused, match="behind the beginning of the log"),
    ):
        compared(rig, store)


def test_each_byte_of_a_frame_is_compared(rig: Replicated, tmp_path: Path) -> None:
    """Each byte of the row of one frame is changed, one after the other."""
    chosen = list(rig.owner.store.frames())[3]  # CL-276
    size = len(chosen.to_bytes())
    for place in range(0, size, max(1, size // 12)):

        def change(row: StoredRow, place: int = place) -> StoredRow:
            if row.value != chosen.to_bytes():
                return row
            data = bytearray(row.value)
            data[place] ^= 1
            return row._replace(value=bytes(data))

        with altered_copy(rig, tmp_path / f"copy-{place}", change) as copy:
            text = str(compared(rig, copy).problem)
        numbers = range(chosen.header.first, chosen.header.last + 1)
        assert any(f"in record {number}, at position" in text for number in numbers), text
        assert "run aos verify" in text


def test_a_frame_that_the_folder_lacks_is_a_difference(rig: Replicated, tmp_path: Path) -> None:
    chosen = list(rig.owner.store.frames())[3]
    with altered_copy(
        rig, tmp_path / "copy", lambda row: None if row.value == chosen.to_bytes() else row
    ) as copy:
        text = str(compared(rig, copy).problem)
    assert f"in record {chosen.header.first}" in text


def test_a_log_that_has_lost_its_end_is_damage(rig: Replicated) -> None:
    rig.events("one")  # CL-277
    end = rig.log.tail
    rig.events("two")
    rig.log.lose_end(end)
    assert "the log has lost what this folder has" in str(compared(rig).problem)


def test_a_log_with_another_end_is_damage(rig: Replicated) -> None:
    rig.events("one")
    end = rig.log.tail
    rig.events("two")
    number = rig.log.tail - end
    rig.log.lose_end(end)
    for _ in range(number):
        rig.log.publish(None)
    assert "records that do not count in the log" in str(compared(rig).problem)


def test_a_pruned_folder_is_compared_from_its_first_record_on(
    rig: Replicated, tmp_path: Path
) -> None:
    with altered_copy(rig, tmp_path / "copy", lambda row: row) as copy:
        row = copy.snapshot_before()
        assert row is not None
        frames, tip = list(copy.frames()), Tip(world=WORLD)
        for frame in frames:
            if frame.header.last <= row.at:
                tip = follow(tip, frame)
        copy.set_cut(
            Cut(seq=row.at, frame=tip.frame, log=tip.log, document=row.document,
                genesis=frames[0].records[0], archives=())
        )  # fmt: skip
        result = compared(rig, copy)
    assert result.problem is None
    assert 0 < result.frames < len(frames)


@pytest.mark.rotated(3)
def test_verify_and_audit_compare_a_standby_with_the_servers(
    three: Servers, tmp_path: Path, run: Callable[..., NodeProcess]
) -> None:
    first, second = tmp_path / "verified" / "a", tmp_path / "verified" / "b"
    first.parent.mkdir()
    assert made(three, first, replicas=1).code == 0
    owner, standby = run(first), run(joined(first, second, "b"))
    owner.wait(lambda: owner.owns)
    standby.wait(lambda: standby.follows and standby.has_all)

    verified = here("verify", "--servers", "--json", "--world", second)
    assert verified.code == 0
    assert verified.json["servers"]["equal"] is True
    assert verified.json["servers"]["frames"] > 0
    shown = here("verify", "--servers", "--world", second)
    assert "servers: the log has the same frames to record" in shown.out
    audited = here("audit", "--servers", "--world", second)
    assert audited.code == 0
    assert "Servers: the log has the same frames" in audited.out


def test_an_embedded_world_has_no_servers_to_compare_with(tmp_path: Path) -> None:
    assert here("init", tmp_path / "shop").code == 0  # CL-278
    for command in ("verify", "audit"):
        refused = here(command, "--servers", "--world", tmp_path / "shop")
        assert refused.code == 2
        assert "the world in this folder is embedded" in refused.err
        assert here(command, "x.aos", "--servers").code == 2
