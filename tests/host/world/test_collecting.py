"""Marking while the world works: blobs that arrive meanwhile stay (RT-20 to RT-24)."""

from __future__ import annotations

import sys
import threading
import time
from array import array
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from aos.core.decide.answers import Admitted, Answer
from aos.core.journal.records import slot_bytes
from aos.core.limits import Limits
from aos.errors import AosError, Unavailable
from aos.host.door.protocol import pack
from aos.host.door.writer import Writer, open_writer
from aos.host.errors import Busy, Stopping
from aos.host.retention.gc import collect_world
from aos.host.retention.marking import Marks, find_still_needed, mark
from aos.host.world import collecting, engine, pipeline
from aos.host.world.collecting import Arrivals, Collecting, StillNeeded, parts
from aos.host.world.snapshots import Snapshots
from aos.store.errors import NoRoom
from aos.store.lmdb_store import LmdbStore
from aos.store.rows import FORGET_MAX, Forget
from aos.values.digests import Hash, content_hash
from tests.cli.shell import here
from tests.host import puppet
from tests.host.disk_world import Running
from tests.host.retention.test_gc import blob, check, stored
from tests.host.rig import Rig, add, counter, eventually, loaded, running, sign
from tests.host.served import receive, served
from tests.host.vault import Vault, make, write
from tests.run_seed import in_turns

DATA = b"somebody's blob " * 100
HASH = content_hash(DATA)
WAIT_S = 60.0


def begin(rig: Rig) -> int:
    return rig.engine.collecting.begin().result(WAIT_S).token


def forget(rig: Rig, token: int, *hashes: Hash) -> int:
    return rig.engine.collecting.forget(token, Forget(blobs=hashes)).result(WAIT_S)


def test_an_unmarked_blob_is_removed() -> None:
    """RT-24."""
    with running() as rig:
        rig.engine.keep({HASH: DATA}).result(WAIT_S)
        token = begin(rig)

        assert forget(rig, token, HASH) == 1
        assert not rig.store.has_blob(HASH)


def test_a_blob_put_since_the_marking_began_stays() -> None:
    """RT-21: though it was in the store before, and unneeded then."""
    with running() as rig:
        rig.engine.keep({HASH: DATA}).result(WAIT_S)
        for put in (
            lambda: rig.engine.keep({HASH: DATA}).result(WAIT_S),
            lambda: rig.ask(add("a"), blobs={HASH: DATA}),
        ):
            token = begin(rig)
            put()
            assert forget(rig, token, HASH) == 0
            assert rig.store.has_blob(HASH)
        token = begin(rig)
        assert forget(rig, token, HASH) == 1


def test_a_blob_that_comes_back_after_its_removal_is_stored_again() -> None:
    """RT-21."""
    with running() as rig:
        rig.engine.keep({HASH: DATA}).result(WAIT_S)
        assert forget(rig, begin(rig), HASH) == 1
        rig.ask(add("a"), blobs={HASH: DATA})
        assert rig.store.blob(HASH) == DATA


def test_a_marking_begins_when_commits_under_way_are_durable() -> None:
    """RT-22: a record in the making has put some of its blobs already."""
    with running() as rig:
        rig.quiet()
        rig.store.entered.clear()
        rig.store.gate.clear()
        answer = rig.submit(add("a"))
        assert rig.store.entered.wait(WAIT_S)
        begun = rig.engine.collecting.begin()
        time.sleep(0.05)
        assert not begun.done()
        seq = rig.store.head().seq
        rig.store.gate.set()

        begun.result(WAIT_S)

        assert rig.store.head().seq > seq
        assert isinstance(answer.result(WAIT_S)[0], Admitted)


def test_a_marking_does_not_begin_before_a_frame_that_waits_behind_a_group() -> None:
    """RT-22: the group under way ends first, but a later frame may name a blob, too."""
    with running() as rig:
        rig.quiet()
        rig.store.entered.clear()
        rig.store.gate.clear()
        answers = [rig.submit(add("a"))]
        assert rig.store.entered.wait(WAIT_S)
        answers.append(rig.submit(add("b")))
        eventually(lambda: rig.engine.stats().frames > 1, "the next frame waits")
        begun = rig.engine.collecting.begin()
        eventually(lambda: not rig.engine._inbox.has_errands, "the core has noted the marking")
        heads: list[int] = []
        begun.add_done_callback(lambda _: heads.append(rig.store.head().seq))
        rig.store.gate.set()

        begun.result(WAIT_S)

        [admitted] = answers[1].result(WAIT_S)
        assert isinstance(admitted, Admitted)
        assert heads[0] >= admitted.seq


def test_a_later_marking_ends_an_earlier_one() -> None:
    """RT-23."""
    with running() as rig:
        first, second = begin(rig), begin(rig)

        with pytest.raises(Unavailable, match="another one began"):
            forget(rig, first, HASH)
        with pytest.raises(Unavailable, match="another one began"):
            rig.engine.collecting.keep_open(first)
        rig.engine.collecting.end(first)
        rig.engine.collecting.keep_open(second)
        rig.engine.collecting.end(second)
        with pytest.raises(Unavailable):
            forget(rig, second, HASH)


def test_a_marking_that_says_nothing_for_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-23: the list of blobs kept for it does not grow without bound."""
    arrivals = Arrivals(())
    token = arrivals.begin()
    monkeypatch.setattr(collecting, "OPEN_S", -1.0)

    arrivals.note([HASH])

    with pytest.raises(Unavailable):
        arrivals.keep_open(token)


def test_a_module_that_a_manifest_relies_on_does_not_go_before_it_comes() -> None:
    """RT-21: it was looked for, and not given."""
    second = loaded(2)
    with running() as rig:
        rig.engine.keep(second.modules).result(WAIT_S)
        rig.runner.modules = {**rig.runner.modules}
        token = begin(rig)

        [answer] = rig.ask(sign(second, rig.world, 1))
        assert isinstance(answer, Admitted)
        assert forget(rig, token, *second.modules) == 0
        assert all(map(rig.store.has_blob, second.modules))


def test_states_that_were_spilled_belong_to_the_core_alone() -> None:
    """RT-21: no record and no snapshot names them."""
    names = [f"c{number}" for number in range(30)]
    rig = Rig(limits=Limits(delta_bytes=0))
    rig.state.cells.keep(1)
    with running(rig):
        rig.ask(*(add(name, 1000) for name in names))
        rig.quiet()
        rig.ask(add(names[0], 1))
        rig.quiet()
        begun = rig.engine.collecting.begin().result(WAIT_S)
        marks = mark(rig.store, keep=1, base=begun.base)
        dead = [hash for hash in rig.store.blob_hashes() if hash not in marks.live]
        assert len(dead) >= 1, "states of 1000 were spilled, and are one blob"

        assert forget(rig, begun.token, *dead) < len(dead)

        rig.ask(*(add(name, 1) for name in names))
        rig.quiet()
        assert rig.engine.stats().figures.faults == 0
        for name in names[1:]:
            state = rig.state.cells[counter(name)].state
            assert state is not None
            assert slot_bytes(state, rig.engine.read) == b"\x19\x03\xe9"
    assert not rig.stopped


def test_no_room_to_take_away_is_no_end_of_the_world() -> None:
    with running() as rig:

        def fail(_: Forget) -> None:
            raise NoRoom("full", needed_bytes=1, free=0)

        token = begin(rig)
        rig.store.store.forget = fail  # type: ignore[method-assign, assignment]
        with pytest.raises(NoRoom):
            forget(rig, token, HASH)
        rig.ask(add("a"))
    assert not rig.stopped


FULL = NoRoom("the disk is full", needed_bytes=9_000, free=0)


def full(rig: Rig, *, reserve: bool = True) -> None:
    """From now on there is no room in the rig's store, except once for what its reserve frees."""
    left = [reserve]

    def release() -> bool:
        had_one = left[0]
        left[0] = False
        if had_one:
            rig.store.failures.clear()
        return had_one

    rig.store.failures = [FULL] * 10_000
    rig.store.release_reserve = release  # type: ignore[attr-defined]


def test_a_frame_that_waits_is_committed_before_a_marking_begins_and_no_other_one() -> None:
    """RT-25, RT-26: until the marking ends, nothing else uses up the reserve."""
    with running() as rig:
        rig.quiet()
        full(rig)
        answer = rig.submit(add("a"))
        eventually(lambda: rig.engine.stats().no_room is not None, "there is no room")

        token = begin(rig)

        assert isinstance(answer.result(WAIT_S)[0], Admitted)
        appended = len(rig.store.groups)
        with pytest.raises(Busy, match="the disk is full"):
            rig.submit(add("b"))
        with pytest.raises(NoRoom):
            rig.engine.keep({HASH: DATA}).result(WAIT_S)
        assert rig.engine.collecting.is_open
        forget(rig, token, HASH)
        assert len(rig.store.groups) == appended

        rig.engine.collecting.end(token)
        assert isinstance(rig.ask(add("b"))[0], Admitted)


def test_inputs_that_were_queued_before_wait_until_the_marking_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RT-25, RT-26: frames that the kernel has made are committed; then it waits at its next."""
    monkeypatch.setattr(pipeline, "FRAMES_MAX", 2)
    monkeypatch.setattr(engine, "INPUTS_PER_FRAME", 1)
    monkeypatch.setattr(engine, "EVENTS_BEHIND_WORK", 1)
    with running() as rig:
        rig.quiet()
        rig.store.entered.clear()
        rig.store.gate.clear()
        answers = [rig.submit(add("a"))]
        assert rig.store.entered.wait(WAIT_S)
        answers += [rig.submit(add("a")) for _ in range(5)]
        eventually(lambda: rig.engine.stats().queued == 3, "the third frame waits to be put")
        full(rig)
        begun = rig.engine.collecting.begin()
        rig.store.gate.set()

        token = begun.result(WAIT_S).token

        eventually(lambda: rig.engine.stats().queued == 2, "the fourth frame waits to be put")
        appended = sum(map(len, rig.store.groups))
        assert [each.done() for each in answers] == [True] * 3 + [False] * 3
        assert forget(rig, token, HASH) == 1
        assert sum(map(len, rig.store.groups)) == appended
        rig.engine.collecting.end(token)
        assert all(isinstance(each.result(WAIT_S)[0], Admitted) for each in answers)


def test_a_marking_lets_one_frame_pass_that_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-26: queued inputs do not use up the reserve before the marking begins."""
    monkeypatch.setattr(pipeline, "FRAMES_MAX", 2)
    monkeypatch.setattr(engine, "INPUTS_PER_FRAME", 1)
    monkeypatch.setattr(engine, "EVENTS_BEHIND_WORK", 1)
    with running() as rig:
        rig.quiet()
        rig.store.entered.clear()
        rig.store.gate.clear()
        answers = [rig.submit(add("a"))]
        assert rig.store.entered.wait(WAIT_S)
        answers += [rig.submit(add("a")) for _ in range(7)]
        eventually(lambda: rig.engine.stats().queued == 5, "the third frame waits to be put")
        full(rig)
        marking = rig.engine.collecting.prepare()
        rig.store.gate.set()

        def assert_passed(count: int) -> None:
            eventually(lambda: sum(answer.done() for answer in answers) >= count, f"{count} passed")
            time.sleep(0.05)  # enough for many frames
            assert sum(answer.done() for answer in answers) == count

        assert_passed(2)
        rig.engine.collecting.let_pass(marking)
        assert_passed(3)
        token = rig.engine.collecting.begin(marking).result(WAIT_S).token
        assert_passed(4)
        rig.engine.collecting.let_pass(marking)
        assert_passed(4)
        rig.engine.collecting.end(token)
        assert all(isinstance(answer.result(WAIT_S)[0], Admitted) for answer in answers)


def test_a_marking_that_was_replaced_before_it_began_does_not_begin() -> None:
    """RT-23: also if the later one is given up meanwhile."""
    with running() as rig:
        rig.quiet()
        rig.store.entered.clear()
        rig.store.gate.clear()
        answer = rig.submit(add("a"))
        assert rig.store.entered.wait(WAIT_S)
        goes_on = threading.Event()
        rig.engine._inbox.between_frames(partial(goes_on.wait, WAIT_S))
        first = rig.engine.collecting.begin()
        second = rig.engine.collecting.prepare()
        full(rig, reserve=False)
        rig.store.gate.set()
        eventually(lambda: not rig.engine.collecting.is_open, "the second one is given up")
        goes_on.set()

        with pytest.raises(Unavailable, match="another marking began"):
            first.result(WAIT_S)

        with pytest.raises(NoRoom, match="first commit the frames that wait"):
            rig.engine.collecting.let_pass(second)
        rig.store.failures.clear()
        assert isinstance(answer.result(WAIT_S)[0], Admitted)
        assert rig.engine.stats().no_room is None


def test_a_marking_that_was_replaced_does_not_hold_frames_for_the_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RT-23, RT-26: its turn comes after the later one was prepared."""
    monkeypatch.setattr(pipeline, "FRAMES_MAX", 2)
    monkeypatch.setattr(engine, "INPUTS_PER_FRAME", 1)
    with running() as rig:
        rig.quiet()
        rig.store.entered.clear()
        rig.store.gate.clear()
        answers = [rig.submit(add("a"))]
        assert rig.store.entered.wait(WAIT_S)
        answers += [rig.submit(add("a")) for _ in range(2)]
        eventually(lambda: rig.engine.stats().queued == 0, "the third frame waits to be put")
        full(rig)
        first = rig.engine.collecting.prepare()
        begun = rig.engine.collecting.begin()

        first.begin(0)

        rig.store.gate.set()
        token = begun.result(WAIT_S).token
        assert all(isinstance(each.result(WAIT_S)[0], Admitted) for each in answers)
        rig.engine.collecting.end(token)


def test_a_marking_that_fails_as_it_begins_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RT-26."""
    failed: Future[Any] = Future()
    failed.set_exception(FULL)
    with running() as rig:
        rig.quiet()
        with monkeypatch.context() as patch:
            patch.setattr(rig.engine._pipeline, "between", lambda _: failed)
            with pytest.raises(NoRoom):
                begin(rig)

        assert not rig.engine.collecting.is_open
        assert isinstance(rig.ask(add("b"))[0], Admitted)


def test_a_frame_that_is_held_while_a_marking_begins_keeps_its_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RT-21, RT-25: the kernel made it after the marking began and before it was reported."""
    monkeypatch.setattr(pipeline, "FRAMES_MAX", 2)
    monkeypatch.setattr(engine, "INPUTS_PER_FRAME", 1)
    monkeypatch.setattr(engine, "EVENTS_BEHIND_WORK", 1)
    second = loaded(2)
    with running() as rig:
        rig.engine.keep(second.modules).result(WAIT_S)
        rig.quiet()
        rig.store.entered.clear()
        rig.store.gate.clear()
        answers = [rig.submit(add("a"))]
        assert rig.store.entered.wait(WAIT_S)
        answers += [rig.submit(add("a")) for _ in range(2)]
        eventually(lambda: rig.engine.stats().queued == 0, "the third frame waits to be put")
        manifest = rig.submit(sign(second, rig.world, 1))
        full(rig)
        append, groups = rig.store.store.append, len(rig.store.groups)

        def slow(*args: Any, **more: Any) -> None:
            if len(rig.store.groups) > groups:  # the last group before the marking
                eventually(lambda: rig.engine.stats().queued == 0, "the manifest waits to be put")
            append(*args, **more)

        rig.store.store.append = slow  # type: ignore[method-assign]
        begun = rig.engine.collecting.begin()
        rig.store.gate.set()
        token = begun.result(WAIT_S).token

        assert all(isinstance(each.result(WAIT_S)[0], Admitted) for each in answers)
        assert not manifest.done()
        assert forget(rig, token, *second.modules) == 0
        rig.engine.collecting.end(token)
        assert isinstance(manifest.result(WAIT_S)[0], Admitted)
        assert all(map(rig.store.has_blob, second.modules))


def test_a_frame_that_waits_during_a_marking_gets_the_reserve() -> None:
    """RT-25: its blobs arrived since the marking began, so that they stay."""
    with running() as rig:
        rig.engine.keep({HASH: DATA}).result(WAIT_S)
        token = begin(rig)
        full(rig)

        assert isinstance(rig.ask(add("a"), blobs={HASH: DATA})[0], Admitted)

        assert forget(rig, token, HASH) == 0
        with pytest.raises(Busy):
            rig.submit(add("b"))
        rig.engine.collecting.end(token)
        assert isinstance(rig.ask(add("b"))[0], Admitted)


def test_a_marking_without_room_for_the_frame_before_it_is_refused() -> None:
    """RT-28: with the bytes that are needed; the frame waits on."""
    with running() as rig:
        rig.quiet()
        full(rig, reserve=False)
        answer = rig.submit(add("a"))
        eventually(lambda: rig.engine.stats().no_room is not None, "there is no room")

        with pytest.raises(NoRoom, match="first commit the frames that wait") as refused:
            begin(rig)

        assert refused.value.needed_bytes == FULL.needed_bytes
        assert not answer.done()
        assert not rig.engine.collecting.is_open
        rig.store.failures.clear()
        assert isinstance(answer.result(WAIT_S)[0], Admitted)
        rig.engine.collecting.end(begin(rig))


def test_only_the_collection_is_told_that_nothing_can_be_removed() -> None:
    """RT-28: a snapshot or migration that is given up gets the plain reason."""
    with running() as rig:
        rig.quiet()
        token = begin(rig)
        rig.store.entered.clear()
        rig.store.gate.clear()
        answer = rig.submit(add("a"))
        assert rig.store.entered.wait(WAIT_S)
        kept = rig.engine.keep({HASH: DATA})
        gone = rig.engine.collecting.forget(token, Forget(blobs=[HASH]))
        full(rig, reserve=False)
        rig.store.gate.set()

        with pytest.raises(NoRoom, match=r"^the disk is full$"):
            kept.result(WAIT_S)
        with pytest.raises(NoRoom, match="first commit the frames that wait"):
            gone.result(WAIT_S)
        rig.store.failures.clear()
        assert isinstance(answer.result(WAIT_S)[0], Admitted)


def test_a_removal_without_room_is_split_and_admits_nothing_meanwhile() -> None:
    """RT-27."""
    blobs = {content_hash(data): data for data in (bytes([n]) * 100 for n in range(9))}
    with running() as rig:
        rig.engine.keep(blobs).result(WAIT_S)
        token = begin(rig)
        remove, sizes = rig.store.store.forget, []

        def one_at_a_time(removal: Forget) -> int:
            sizes.append(len(removal))
            if len(removal) > 1:
                raise FULL
            return remove(removal)

        rig.store.store.forget = one_at_a_time  # type: ignore[method-assign]

        assert forget(rig, token, *blobs) == len(blobs)

        assert sizes.count(1) == len(blobs)
        with pytest.raises(Busy):
            rig.submit(add("b"))
        rig.engine.collecting.end(token)
        assert isinstance(rig.ask(add("b"))[0], Admitted)


def test_a_world_that_collects_without_room_can_be_stopped() -> None:
    """RT-26, H-28."""
    rig = Rig()
    with running(rig):
        rig.quiet()
        full(rig)
        answer = rig.submit(add("a"))
        eventually(lambda: rig.engine.stats().no_room is not None, "there is no room")
        begin(rig)
        assert isinstance(answer.result(WAIT_S)[0], Admitted)
    assert not rig.stopped


def test_a_marking_ends_with_the_connection_of_its_client(tmp_path: Path) -> None:
    """RT-26: a client that was killed does not hold up the world."""
    with served(tmp_path / "world", still_needed=lambda _: NOTHING) as world:
        world.rig.quiet()
        with world.connect() as connection:
            full(world.rig)
            world.rig.submit(add("a"))
            eventually(lambda: world.rig.engine.stats().no_room is not None, "there is no room")
            assert "token" in world.ask(connection, op="collect", step="begin")
            status = world.ask(connection, op="status")
            assert status["collecting"] is True
            assert status["no_room"] == "the disk is full"
        eventually(lambda: not world.rig.engine.collecting.is_open, "the marking has ended")
        assert isinstance(world.rig.ask(add("b"))[0], Admitted)


def full_with_one_waiting(rig: Rig, *, reserve: bool = True) -> Future[list[Answer]]:
    rig.quiet()
    full(rig, reserve=reserve)
    answer = rig.submit(add("a"))
    eventually(lambda: rig.engine.stats().no_room is not None, "there is no room")
    return answer


@pytest.mark.parametrize("problem", [OSError(12, "no memory"), Unavailable("no child")])
def test_a_marking_that_cannot_be_checked_holds_up_nothing(
    tmp_path: Path, problem: Exception
) -> None:
    """RT-20a, RT-26: whatever went wrong."""

    def fail(_: int) -> StillNeeded:
        raise problem

    with served(tmp_path / "world", still_needed=fail) as world:
        full_with_one_waiting(world.rig)
        with world.connect() as connection:
            connection.sendall(pack({"op": "collect", "step": "begin"}))
            eventually(lambda: world.rig.engine.stats().frames == 0, "the frame is committed")
            eventually(lambda: not world.rig.engine.collecting.is_open, "the marking has ended")
            assert isinstance(world.rig.ask(add("b"))[0], Admitted)


def test_a_client_that_is_suspended_does_not_keep_its_marking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RT-26, H-51."""
    monkeypatch.setattr("aos.host.door.server.BEAT_S", 0.1)
    with (
        served(tmp_path / "world", still_needed=lambda _: NOTHING) as world,
        world.connect() as connection,
        world.connect() as other,
    ):
        full_with_one_waiting(world.rig)
        collecting = world.rig.engine.collecting
        end = collecting.end
        were_open: list[bool] = []

        def note_end(token: int) -> None:
            were_open.append(collecting.is_open)
            end(token)

        monkeypatch.setattr(collecting, "end", note_end)
        assert "pid" in world.ask(other, op="status")
        assert "token" in world.ask(connection, op="collect", step="begin")

        assert connection.recv(1) == b""

        eventually(lambda: not world.rig.engine.collecting.is_open, "the marking has ended")
        assert were_open == [True]
        assert isinstance(world.rig.ask(add("b"))[0], Admitted)
        assert "pid" in world.ask(other, op="status")


def test_a_connection_whose_marking_has_ended_may_be_idle_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-51."""
    with (
        served(tmp_path / "world", still_needed=lambda _: NOTHING) as world,
        world.connect() as connection,
    ):
        token = world.ask(connection, op="collect", step="begin")["token"]
        monkeypatch.setattr("aos.host.door.server.BEAT_S", 0.1)
        world.ask(connection, op="collect", step="end", token=token)
        time.sleep(0.3)
        assert "pid" in world.ask(connection, op="status")


def test_a_world_with_room_again_admits_inputs_although_the_marking_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RT-26, H-24."""
    monkeypatch.setattr(pipeline, "RETRY_MOST_S", 0.02)
    with running() as rig:
        full_with_one_waiting(rig)
        token = begin(rig)
        time.sleep(0.1)
        with pytest.raises(Busy):
            rig.submit(add("b"))

        monkeypatch.setattr(rig.store.store, "make_reserve", lambda: True)

        eventually(lambda: rig.engine.stats().no_room is None, "there is room again")
        assert isinstance(rig.ask(add("b"))[0], Admitted)
        assert rig.engine.collecting.is_open
        rig.engine.collecting.keep_open(token)
        rig.engine.collecting.end(token)


def test_a_collection_without_room_ends_at_once_though_a_snapshot_waits(tmp_path: Path) -> None:
    """RT-28."""
    rig = Rig()
    snapshots = Snapshots(rig.engine, tmp_path / "world")
    with (
        served(
            tmp_path / "world",
            rig,
            between_snapshots=snapshots.between,
            still_needed=lambda _: NOTHING,
        ) as world,
        world.connect() as connection,
    ):
        answer = full_with_one_waiting(rig, reserve=False)
        with snapshots._make_lock:
            for _ in range(2):
                refused = world.ask(connection, op="collect", step="begin")["error"]
                assert "first commit the frames that wait" in refused["message"]
                assert not rig.engine.collecting.is_open
        rig.store.failures.clear()
        assert isinstance(answer.result(WAIT_S)[0], Admitted)
        assert "token" in world.ask(connection, op="collect", step="begin")


def test_a_marking_lets_frames_pass_until_a_snapshot_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RT-22, RT-26: one at a time, while the record of the snapshot waits behind them."""
    monkeypatch.setattr(pipeline, "FRAMES_MAX", 2)
    monkeypatch.setattr(engine, "INPUTS_PER_FRAME", 1)
    monkeypatch.setattr(engine, "EVENTS_BEHIND_WORK", 1)
    monkeypatch.setattr("aos.host.world.snapshots._LOOK_S", 0.02)
    rig = Rig()
    snapshots = Snapshots(rig.engine, tmp_path / "world")
    with (
        served(
            tmp_path / "world",
            rig,
            between_snapshots=snapshots.between,
            still_needed=lambda _: NOTHING,
        ) as world,
        world.connect() as connection,
    ):
        rig.quiet()
        rig.store.entered.clear()
        rig.store.gate.clear()
        answers = [rig.submit(add("a"))]
        assert rig.store.entered.wait(WAIT_S)
        answers += [rig.submit(add("a")) for _ in range(7)]
        eventually(lambda: rig.engine.stats().queued == 5, "the third frame waits to be put")
        full(rig)
        with snapshots._make_lock:
            connection.sendall(pack({"op": "collect", "step": "begin"}))
            eventually(lambda: rig.engine.collecting.is_open, "the marking is prepared")
            rig.store.gate.set()
            assert isinstance(answers[4].result(WAIT_S)[0], Admitted)
        token = receive(connection)["token"]
        assert not answers[7].done()
        world.ask(connection, op="collect", step="end", token=token)
        assert all(isinstance(each.result(WAIT_S)[0], Admitted) for each in answers)


def test_a_snapshot_that_waits_for_room_gives_way_to_a_collection(tmp_path: Path) -> None:
    """RT-26."""
    with running() as rig:
        rig.quiet()
        full(rig)
        answer = rig.submit(add("a"))
        eventually(lambda: rig.engine.stats().no_room is not None, "there is no room")
        kept = rig.engine.keep({HASH: DATA})

        rig.engine.collecting.prepare()

        with pytest.raises(NoRoom):
            kept.result(WAIT_S)
        assert isinstance(answer.result(WAIT_S)[0], Admitted)
        rig.engine.collecting.end(begin(rig))


def test_a_world_that_stops_marks_no_more() -> None:
    with running() as rig:
        token = begin(rig)
    for act in (
        rig.engine.collecting.begin,
        lambda: rig.engine.collecting.forget(token, Forget()).result(1),
    ):
        with pytest.raises(Stopping):
            act()


def test_parts_are_bounded_and_rows_come_before_what_they_name() -> None:
    """RT-24."""
    blobs = [content_hash(bytes([n % 256, n // 256])) for n in range(FORGET_MAX * 2 + 1)]
    found = list(parts(Forget(blobs=blobs, snapshots=[1, 2], puts=[b"p"])))

    assert [len(each) for each in found] == [2, 1, FORGET_MAX, FORGET_MAX, 1]
    assert [each.snapshots for each in found[:1]] == [[1, 2]]
    assert [hash for each in found for hash in each.blobs] == blobs


def test_a_client_marks_through_the_socket(tmp_path: Path) -> None:
    """RT-20, H-53."""
    with (
        served(tmp_path / "world", still_needed=lambda _: NOTHING) as world,
        world.connect() as connection,
    ):
        world.rig.engine.keep({HASH: DATA}).result(WAIT_S)

        def ask(**fields: Any) -> dict[str, Any]:
            return world.ask(connection, op="collect", **fields)

        begun = ask(step="begin")
        assert begun["base"] == 0
        token = begun["token"]
        assert "error" not in ask(step="beat", token=token)
        gone = ask(step="forget", token=token, blobs=[HASH], snapshots=[], puts=[])
        assert gone["gone"] == 1
        assert not world.rig.store.has_blob(HASH)
        assert "error" not in ask(step="end", token=token)
        for fields, kind in (
            ({"step": "beat", "token": token}, "unavailable"),
            ({"step": "sweep"}, "usage"),
            ({"step": "forget", "token": token}, "usage"),
            ({"step": "forget", "token": token, "blobs": [b"x"], "snapshots": [], "puts": []},
             "usage"),
            ({"step": "forget", "token": token, "blobs": [], "snapshots": ["1"], "puts": []},
             "usage"),
            ({"step": "beat", "token": "1"}, "usage"),
        ):  # fmt: skip
            assert ask(**fields)["error"]["kind"] == kind, fields


NOTHING: Final = StillNeeded(array("Q"), frozenset(), frozenset())


def test_a_world_that_cannot_find_out_what_it_needs_removes_nothing(tmp_path: Path) -> None:
    """RT-20a."""

    def fail(_: int) -> StillNeeded:
        raise Unavailable("the store cannot be marked")

    with served(tmp_path / "w", still_needed=fail) as world, world.connect() as connection:
        answer = world.ask(connection, op="collect", step="begin")
        assert answer["error"]["message"] == "the store cannot be marked"
        fields = {"blobs": [HASH], "snapshots": [], "puts": []}
        answer = world.ask(connection, op="collect", step="forget", token=1, **fields)
        assert answer["error"]["kind"] == "unavailable"


def test_a_blob_that_the_world_needs_stays_though_a_client_reports_it_as_gone(
    tmp_path: Path,
) -> None:
    """RT-20a: every blob, every row of a snapshot and of a put."""
    world = Vault()
    for id in "ab":
        world.do(id, "put", blob(id))
        world.do(id, "pad", blob(f"state of {id}"))
        world.snapshot()
        world.run()
    world.do("a", "drop")
    world.do("a", "finish")
    orphan = world.put(blob("orphan"))
    folder = make(world, tmp_path / "w")
    with LmdbStore.open(folder / "store", readonly=True) as store:
        marks = mark(store, keep=1, base=0)
        everything = Forget(
            blobs=list(store.blob_hashes()),
            snapshots=[row.at for row in store.snapshots()],
            puts=[row.key for row in store.puts()],
        )

    found = find_still_needed(folder, 0).may_go(everything)

    assert set(found.blobs) == set(everything.blobs) - set(marks.live)
    assert orphan in found.blobs
    assert not set(found.blobs) & set(world.loaded.modules)
    assert set(found.snapshots) == {row.at for row in marks.snapshots_gone} != set()
    assert list(found.puts) == [row.key for row in marks.over]


def test_a_store_that_cannot_be_marked_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RT-20a, RT-15."""
    for python in (sys.executable, str(tmp_path / "no python")):
        monkeypatch.setattr(sys, "executable", python)
        with pytest.raises(Unavailable, match="nothing was removed: the running world could not"):
            find_still_needed(tmp_path / "none", 0)


# Killed


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("nth", "after"),
    in_turns(3, [(1, False), (1, True), (2, False), (3, True), (4, False), (4, True)]),
)
def test_a_killed_collection_removed_only_unneeded_blobs(
    tmp_path: Path, nth: int, after: bool
) -> None:
    """RT-24."""
    world = Vault()
    for round in range(3):
        for id in "ab":
            world.do(id, "put", blob(f"{id}{round}"))
            world.do(id, "drop")
        world.put(blob(f"orphan {round}"))
        world.snapshot()
        world.run()
    world.do("a", "finish")
    folder = make(world, tmp_path / "w")
    real, count = Collecting.forget, 0

    def killed(collecting_: Collecting, token: int, what: Forget) -> Any:
        nonlocal count
        count += 1
        if count == nth and not after:
            raise Killed
        done = real(collecting_, token, what)
        if count == nth:
            done.result()
            raise Killed
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aos.host.retention.gc.BLOBS_AT_ONCE", 2)
        patch.setattr(Collecting, "forget", killed)
        with pytest.raises(Killed):
            collect_world(folder, keep=1)
    check(world, folder)
    collect_world(folder, keep=1)
    check(world, folder)
    assert not any(content_hash(blob(f"orphan {round}")) in stored(folder) for round in range(3))


def test_a_collection_reports_regularly_that_it_is_in_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RT-23, RT-26: also during one long step."""
    monkeypatch.setattr("aos.host.retention.gc.BEAT_S", 0.0)
    beats: list[int] = []
    monkeypatch.setattr(Writer, "still_marking", lambda _, token: beats.append(token))

    def slow(*args: Any, **more: Any) -> Marks:
        eventually(lambda: len(beats) >= 2, "the world is told of the marking")
        return mark(*args, **more)

    monkeypatch.setattr("aos.host.retention.gc.mark", slow)
    world = Vault()
    world.do("a", "pad", blob("x"))
    folder = make(world, tmp_path / "w")

    collect_world(folder)

    write(world, folder)


def test_a_collection_whose_marking_was_given_up_ends_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RT-23."""
    monkeypatch.setattr("aos.host.retention.gc.BEAT_S", 0.0)
    told = threading.Event()

    def given_up(*_: object) -> None:
        told.set()
        raise Unavailable("another marking began")

    def slow(*args: Any, **more: Any) -> Marks:
        assert told.wait(WAIT_S)
        eventually(lambda: "aos-gc" not in {each.name for each in threading.enumerate()}, "told")
        return mark(*args, **more)

    monkeypatch.setattr(Writer, "still_marking", given_up)
    monkeypatch.setattr("aos.host.retention.gc.mark", slow)
    world = Vault()
    world.do("a", "pad", blob("x"))
    orphan = world.put(blob("orphan"))
    folder = make(world, tmp_path / "w")

    with pytest.raises(Unavailable, match="another marking began"):
        collect_world(folder)

    assert orphan in stored(folder)


# With a process that runs the world


def test_a_world_survives_a_client_that_reports_every_blob_as_gone(world: Path) -> None:
    """RT-20a: with a process that runs it, and a socket."""
    with Running(world) as run:
        with open_writer(world) as writer:
            assert all(isinstance(each, Admitted) for each in writer.send([puppet.do("a")] * 3))
            writer.snapshot()
            with LmdbStore.open(world / "store", readonly=True) as store:
                before = set(store.blob_hashes())
                rows = [row.at for row in store.snapshots()]
            token = writer.begin_marking().token
            gone = writer.forget(token, Forget(blobs=sorted(before), snapshots=rows))
            writer.end_marking(token)
            assert all(isinstance(each, Admitted) for each in writer.send([puppet.do("a")] * 3))
            writer.snapshot()
        assert run.stop()[0] == 0
    with LmdbStore.open(world / "store", readonly=True) as store:
        assert len(before - set(store.blob_hashes())) == gone
    for command in (("replay",), ("replay", "--from", "snapshot"), ("verify",)):
        told = here(*command, "--world", world)
        assert told.code == 0, told.err


def test_a_running_world_works_on_while_blobs_go(world: Path) -> None:
    """RT-20 to RT-22: events, snapshots and collections at once, and nothing is missed."""
    problems: list[BaseException] = []
    done = threading.Event()

    def load() -> None:
        number = 0
        try:
            with open_writer(world) as writer:
                while not done.is_set():
                    number += 1
                    batch = [puppet.do(f"k{number % 40}") for _ in range(4)]
                    assert all(isinstance(each, Admitted) for each in writer.send(batch))
                    done.wait(0.05)
        except AosError as problem:
            problems.append(problem)

    with Running(world) as run:
        sender = threading.Thread(target=load)
        sender.start()
        try:
            for keep in (2, 1, 1):
                with open_writer(world) as writer:
                    writer.snapshot()
                found = collect_world(world, keep=keep)
                assert len(found.snapshots_kept) >= min(keep, 1)
                assert found.is_compacted is None
        finally:
            done.set()
            sender.join()
        assert run.stop()[0] == 0
    assert not problems
    with open_writer(world) as writer:
        writer.snapshot()
    for command in (("replay",), ("replay", "--from", "snapshot")):
        told = here(*command, "--world", world)
        assert told.code == 0, told.err
    assert collect_world(world, keep=1).is_compacted
    with LmdbStore.open(world / "store", readonly=True) as store:
        assert len(list(store.snapshots())) == 1
    assert here("verify", "--world", world).code == 0
