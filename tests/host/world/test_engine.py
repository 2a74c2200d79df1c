"""The engine on a store in memory: when it answers, and how it handles a failed commit."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.core.journal.inputs import ControlInput, SnapshotInput
from aos.core.journal.records import Event, Start, Step, slot_bytes
from aos.core.pending import receipt_digest
from aos.core.snapshot.take import take
from aos.errors import Damage
from aos.host.errors import Busy, Stopping, WorldStopped
from aos.host.folder.restore import restore
from aos.host.stamps import Sources
from aos.host.world import engine, pipeline
from aos.host.world.engine import (
    EVENTS_BEHIND_WORK,
    FRAME_STEPS,
    INPUTS_PER_FRAME,
)
from aos.host.world.inbox import Bounds
from aos.host.world.pipeline import FRAMES_MAX
from aos.host.world.switching import SWITCH_S
from aos.store.errors import CommitFailed, NoRoom
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from tests.host.rig import (
    ADD,
    COUNTER,
    MODULES,
    TIMEOUT_S,
    FaultyStore,
    Rig,
    add,
    asking,
    count,
    counter,
    eventually,
    loaded,
    new_store,
    receipt,
    running,
    seeded,
    sign,
)
from tests.memory_world import OPERATOR_KEY, Envelope

FULL = NoRoom("the disk is full", needed_bytes=1, free=0)


def seqs(answers: list[Answer]) -> list[int]:
    return [answer.seq for answer in answers if isinstance(answer, Admitted | Duplicate)]


class Turnstile:
    """A counter module that waits before each step until the test lets it go."""

    def __init__(self) -> None:
        self.let = threading.Semaphore(0)
        self.steps = 0

    def __call__(self, envelope: Envelope) -> Any:
        assert self.let.acquire(timeout=TIMEOUT_S), "the test never let the step go"
        self.steps += 1
        return count(envelope)


# Frames and commits


def test_one_event_to_an_idle_world_is_one_commit_with_its_step() -> None:  # H-20
    with running() as rig:
        rig.quiet()
        before = len(rig.store.groups)

        [answer] = rig.ask(add("a", 5))
        rig.quiet()

        assert isinstance(answer, Admitted)
        assert answer.to == (counter("a"),)
        assert len(rig.store.groups) == before + 1
        assert rig.kinds()[-2:] == ["event", "step"]


def test_the_first_record_of_a_process_that_steps_says_what_runs_it() -> None:  # H-13
    with running() as rig:
        rig.quiet()
        starts = [record for record in rig.records() if isinstance(record, Start)]
        assert [start.host for start in starts] == [(("kernel", "test"),)]
        assert rig.kinds()[:2] == ["genesis", "start"]


def test_a_process_that_only_admits_neither_steps_nor_says_that_it_started() -> None:  # H-13
    with running(runs=False) as rig:
        rig.ask(add("a"))
        rig.quiet()
        assert rig.kinds() == ["genesis", "manifest", "event"]
        assert rig.engine.stats().figures.ready_cells == 1


def test_stamps_and_salts_come_from_the_given_sources_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # H-10
    # A frame may also end because of its time, which a slow machine does not keep.
    monkeypatch.setattr(engine, "FRAME_S", 60.0)
    worlds = []
    for _ in range(2):
        with running(sources=seeded("same"), applied=False) as rig:
            rig.quiet()  # the start has a frame of its own; else the apply might share it
            assert isinstance(rig.apply(), Admitted)
            rig.quiet()
            for key in "abc":
                rig.ask(add(key))
                rig.quiet()
            worlds.append([frame.hash for frame in rig.store.frames()])
    assert worlds[0] == worlds[1]


def test_inputs_of_one_batch_keep_their_order_and_are_answered_together() -> None:  # H-12
    with running() as rig:
        wrong = add("a")
        answers = rig.ask(add("a"), type(wrong)(schema="t/None@1", value=b"\xf6"), add("b"))
        assert isinstance(answers[0], Admitted)
        assert isinstance(answers[1], Refusal)
        assert answers[1].rule is Rule.EVENT_SCHEMA_IS_UNKNOWN
        assert isinstance(answers[2], Admitted)
        assert answers[2].seq > answers[0].seq


def test_an_empty_batch_is_answered_at_once() -> None:
    with running() as rig:
        assert rig.ask() == []


def test_a_large_batch_is_cut_into_frames_and_answered_whole() -> None:  # H-11
    with running(runs=False) as rig:
        answers = rig.ask(*(add(f"k{i}") for i in range(3 * INPUTS_PER_FRAME)))
        assert seqs(answers) == list(range(3, 3 + 3 * INPUTS_PER_FRAME))
        rig.quiet()
        sizes = [len(frame.records) for frame in rig.store.frames()]
        assert max(sizes) == INPUTS_PER_FRAME


def test_a_frame_has_at_most_so_many_steps() -> None:  # H-11
    with running(runs=False) as rig:
        rig.ask(*(add(f"k{i}") for i in range(2 * FRAME_STEPS + 10)))
    with running(Rig(store=rig.store), applied=False) as again:
        again.quiet()
        steps = [
            sum(b'"kind": "step"' in record or b"dkinddstep" in record for record in frame.records)
            for frame in again.store.frames()
        ]
        assert sum(steps) == 2 * FRAME_STEPS + 10
        assert max(steps) <= FRAME_STEPS


def test_concurrent_senders_each_keep_their_order() -> None:  # H-12
    seen: dict[int, list[int]] = {}

    def send(rig: Rig, who: int) -> None:
        seen[who] = [seqs(rig.ask(add(f"s{who}")))[0] for _ in range(25)]

    with running() as rig:
        threads = [threading.Thread(target=send, args=(rig, who)) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT_S)
        rig.quiet()
        assert sorted(seen) == list(range(8))
        assert all(found == sorted(found) for found in seen.values())
        assert len({seq for found in seen.values() for seq in found}) == 200
        state = restore(rig.store, rig.world)
        assert all(state.cells[counter(f"s{who}")].state == encode(25) for who in range(8))


# Output commit


def test_nothing_is_told_before_it_is_durable() -> None:  # H-21
    with running() as rig:
        rig.quiet()
        figures, told = rig.engine.stats().figures, len(rig.published)
        rig.store.gate.clear()
        rig.store.entered.clear()

        future = rig.submit(asking("a"))
        assert rig.store.entered.wait(TIMEOUT_S)

        assert not future.done()
        assert rig.engine.stats().figures == figures
        assert len(rig.published) == told
        assert not rig.engine.is_quiet

        rig.store.gate.set()
        assert isinstance(future.result(TIMEOUT_S)[0], Admitted)
        assert [intent.effect.name for intent in rig.opened(1)] == ["t/echo@1"]
        assert rig.engine.stats().figures.open_intents == 1


def test_the_core_continues_while_a_group_is_committed_and_the_rest_is_one_group() -> None:  # H-20
    with running() as rig:
        rig.quiet()
        rig.store.gate.clear()
        rig.store.entered.clear()
        first = rig.submit(add("a"))
        assert rig.store.entered.wait(TIMEOUT_S)
        groups = len(rig.store.groups)

        later = []
        for i in range(5):
            later.append(rig.submit(add("b")))
            eventually(lambda n=i: rig.engine.stats().frames == n + 2, "the core is ahead")  # type: ignore[misc]

        rig.store.gate.set()
        answers = [future.result(TIMEOUT_S)[0] for future in (first, *later)]
        assert seqs(answers) == sorted(seqs(answers))
        assert [len(group) for group in rig.store.groups[groups:]] == [1, 5]


def test_frames_that_wait_for_the_disk_are_bounded() -> None:  # H-22
    with running() as rig:
        rig.quiet()
        rig.store.gate.clear()
        futures = []
        for _ in range(FRAMES_MAX + 20):
            futures.append(rig.submit(add("a")))
            # One frame for each, as long as the core continues.
            goal = min(len(futures), FRAMES_MAX)
            eventually(lambda goal=goal: rig.engine.stats().frames >= goal, "a frame")  # type: ignore[misc]
        assert rig.engine.stats().frames == FRAMES_MAX

        rig.store.gate.set()
        assert len({seqs(future.result(TIMEOUT_S))[0] for future in futures}) == FRAMES_MAX + 20


def test_a_refusal_waits_for_what_came_before_it() -> None:  # H-21
    with running() as rig:
        rig.quiet()
        rig.store.gate.clear()
        rig.store.entered.clear()
        rig.submit(add("a", submission_id="one"))
        assert rig.store.entered.wait(TIMEOUT_S)
        refused = rig.submit(add("b", submission_id="one"))
        again = rig.submit(add("a", submission_id="one"))
        eventually(lambda: rig.engine.stats().queued == 0, "both are decided")
        assert not refused.done()
        assert not again.done()
        rig.store.gate.set()
        [refusal] = refused.result(TIMEOUT_S)
        assert isinstance(refusal, Refusal)
        assert refusal.rule is Rule.SUBMISSION_ID_IS_TAKEN
        assert isinstance(again.result(TIMEOUT_S)[0], Duplicate)


def test_a_callers_cancel_does_not_take_the_answer_from_the_committer() -> None:
    with running() as rig:
        rig.store.gate.clear()
        future = rig.submit(add("a"))
        assert not future.cancel()
        rig.store.gate.set()
        assert isinstance(future.result(TIMEOUT_S)[0], Admitted)


def test_a_frame_is_cut_when_it_takes_long_and_the_disk_has_nothing_to_do() -> None:  # H-11
    slow = threading.Event()

    def slowly(envelope: Envelope) -> Any:
        eventually(lambda: rig.engine._pipeline.is_idle, "the disk has nothing to do")
        slow.wait(0.006)
        return count(envelope)

    with running(modules={**MODULES, COUNTER: slowly}) as rig:
        rig.quiet()
        before = len(rig.store.groups)
        rig.ask(*(add(f"k{i}") for i in range(10)))
        rig.quiet()
        assert len(rig.store.groups) - before >= 3


def test_frames_that_wait_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:  # H-22
    monkeypatch.setattr(pipeline, "BYTES_MAX", 1)
    with running() as rig:
        rig.quiet()
        rig.store.gate.clear()
        futures = [rig.submit(add("a"))]
        eventually(lambda: rig.engine.stats().frames == 1, "one may always wait")
        futures += [rig.submit(add("a")) for _ in range(5)]
        eventually(lambda: rig.engine.stats().queued < 5, "the core has a second one in hand")
        assert rig.engine.stats().frames == 1
        rig.store.gate.set()
        assert len({seqs(future.result(TIMEOUT_S))[0] for future in futures}) == 6


def test_the_switch_interval_is_short_while_any_engine_runs() -> None:  # H-17
    before = sys.getswitchinterval()
    one, other = Rig(), Rig()
    one.engine.start()
    other.engine.start()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
    one.engine.stop()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
    other.engine.stop()
    assert sys.getswitchinterval() == pytest.approx(before)


def test_the_systems_random_bytes_are_never_given_twice() -> None:  # H-10
    sources = Sources()
    stamps = [sources.stamp() for _ in range(200)]
    salts = [sources.salt() for _ in range(200)]
    assert len({stamp.entropy for stamp in stamps} | set(salts)) == 400
    assert {len(stamp.entropy) for stamp in stamps} == {64}
    assert len({salt[:8] for salt in salts}) == 200


# Bounds


def test_a_full_inbox_is_busy_and_takes_more_when_it_has_room() -> None:  # H-15
    gate = Turnstile()
    with running(modules={**MODULES, COUNTER: gate}, bounds=Bounds(inputs=4)) as rig:
        rig.quiet()
        first = rig.submit(add("a"))
        eventually(lambda: rig.engine.stats().queued == 0, "the core has it")
        futures = [rig.submit(add("a")) for _ in range(4)]
        with pytest.raises(Busy, match="the world is busy: 4 inputs of"):
            rig.submit(add("a"))
        for _ in range(5):
            gate.let.release()
        assert len({seqs(f.result(TIMEOUT_S))[0] for f in (first, *futures)}) == 5
        gate.let.release()
        assert isinstance(rig.ask(add("a"))[0], Admitted)


def test_an_inbox_is_bounded_in_bytes_but_takes_one_large_input() -> None:  # H-15
    gate = Turnstile()
    with running(modules={**MODULES, COUNTER: gate}, bounds=Bounds(bytes=2000)) as rig:
        rig.submit(add("a"))
        eventually(lambda: rig.engine.stats().queued == 0, "the core has it")
        large = rig.submit(asking("b", "x" * 5000))
        with pytest.raises(Busy):
            rig.submit(add("a"))
        gate.let.release(1)
        assert isinstance(large.result(TIMEOUT_S)[0], Admitted)


def test_receipts_have_room_when_events_do_not() -> None:  # H-15
    gate = Turnstile()
    with running(modules={**MODULES, COUNTER: gate}, bounds=Bounds(inputs=1)) as rig:
        rig.ask(asking("a"))
        [intent] = rig.opened(1)
        rig.submit(add("a"))
        eventually(lambda: rig.engine.stats().queued == 0, "the core has it")
        rig.submit(add("a"))
        with pytest.raises(Busy):
            rig.submit(add("a"))
        settled = rig.submit(receipt(rig.world, intent))
        gate.let.release(2)
        assert isinstance(settled.result(TIMEOUT_S)[0], Admitted)


def test_a_flood_waits_in_the_inbox_and_not_in_the_mailboxes() -> None:  # H-16
    gate = Turnstile()
    with running(modules={**MODULES, COUNTER: gate}) as rig:
        rig.quiet()
        total = INPUTS_PER_FRAME * 2
        future = rig.submit(*(add(f"k{i}") for i in range(total)))
        gate.let.release(FRAME_STEPS)
        eventually(lambda: gate.steps == FRAME_STEPS, "the first frame")
        gate.let.release(total)
        assert len(seqs(future.result(TIMEOUT_S))) == total
        rig.quiet()
        # Behind a frame that left cells ready, only a few more events came in.
        kinds = [[from_kind(record) for record in frame.records] for frame in rig.store.frames()]
        assert all(
            frame.count("event") <= EVENTS_BEHIND_WORK
            for before, frame in pairwise(kinds)
            if before.count("step") < before.count("event")
        )


def test_steps_that_are_slow_hold_a_flood_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """H-16: after a frame that is over after one step, one event enters: mailboxes do not grow."""
    monkeypatch.setattr(engine, "FRAME_S", 0.0)
    with running() as rig:
        rig.quiet()
        mail: list[int] = []
        admit = rig.engine._kernel.admit

        def counted(*given: Any) -> Any:
            mail.append(sum(len(cell.mailbox) for cell in rig.state.cells.active.values()))
            return admit(*given)

        monkeypatch.setattr(rig.engine._kernel, "admit", counted)
        total = INPUTS_PER_FRAME * 3
        futures = [rig.submit(add(f"k{number}")) for number in range(total)]
        for future in futures:
            assert isinstance(future.result(TIMEOUT_S)[0], Admitted)
    assert len(mail) == total
    assert max(mail) <= INPUTS_PER_FRAME + EVENTS_BEHIND_WORK


def from_kind(record: bytes) -> str:
    from aos.core.journal.record_codec import from_bytes

    return from_bytes(record).KIND


# Receipts


def test_a_receipt_again_is_a_duplicate_and_another_is_refused_durable_or_not() -> None:  # H-30
    with running() as rig:
        rig.ask(asking("a"))
        [intent] = rig.opened(1)
        given, other = receipt(rig.world, intent), receipt(rig.world, intent, "other")
        rig.store.gate.clear()

        on_way = rig.submit(given, given, other)
        rig.submit(given)
        later = rig.submit(other)
        rig.store.gate.set()
        first, again, refused = on_way.result(TIMEOUT_S)
        durable = rig.ask(given, other)

        assert isinstance(first, Admitted)
        assert again == Duplicate(seq=first.seq)
        for answer in (refused, later.result(TIMEOUT_S)[0], durable[1]):
            assert isinstance(answer, Refusal)
            assert answer.rule is Rule.RECEIPT_INTENT_IS_SETTLED
            assert f"record {first.seq} settled it with another receipt" in answer.message
        assert durable[0] == Duplicate(seq=first.seq)
        row = rig.store.intent(intent.intent)
        assert row.receipt_digest == receipt_digest(given)


def test_a_receipt_is_known_again_after_a_restart() -> None:  # H-30
    with running() as rig:
        rig.ask(asking("a"))
        [intent] = rig.opened(1)
        given = receipt(rig.world, intent)
        [first] = rig.ask(given)
    with running(Rig(store=rig.store), applied=False) as again:
        answers = again.ask(given, receipt(again.world, intent, "other"))
        assert isinstance(first, Admitted)
        assert answers[0] == Duplicate(seq=first.seq)
        assert isinstance(answers[1], Refusal)


def test_a_receipt_for_an_unknown_intent_is_refused() -> None:  # H-30
    with running() as rig:
        rig.ask(asking("a"))
        [intent] = rig.opened(1)
        given = receipt(rig.world, intent)
        unknown = replace(given, intent=content_hash(b""))
        [answer] = rig.ask(unknown)
        assert isinstance(answer, Refusal)
        assert answer.rule is Rule.RECEIPT_INTENT_IS_UNKNOWN


def test_blobs_become_durable_with_the_input_that_brings_them_or_not_at_all() -> None:  # H-14
    with running() as rig:
        rig.ask(asking("a"))
        [intent] = rig.opened(1)
        kept, lost = b"kept", b"lost"
        given = receipt(rig.world, intent)
        rig.ask(given, blobs={content_hash(kept): kept})
        rig.ask(given, blobs={content_hash(lost): lost})
        assert rig.store.blob(content_hash(kept)) == kept
        assert not rig.store.has_blob(content_hash(lost))


def test_the_core_reads_what_is_not_durable_yet() -> None:  # H-14
    long = "x" * 5000
    with running() as rig:
        rig.quiet()
        rig.store.gate.clear()
        rig.store.entered.clear()
        first = rig.submit(asking("a", long))
        assert rig.store.entered.wait(TIMEOUT_S)
        # The step reads its event from a blob that no disk holds yet.
        second = rig.submit(asking("a", "y" + long))
        eventually(lambda: rig.engine.stats().frames == 2, "the core has read it")
        rig.store.gate.set()
        assert isinstance(first.result(TIMEOUT_S)[0], Admitted)
        assert isinstance(second.result(TIMEOUT_S)[0], Admitted)
        intents = rig.opened(2)
        assert len(slot_bytes(intents[1].params, rig.store.blob)) > 5000
        assert len(rig.engine._overlay) == 0


# Manifests


def test_a_manifest_whose_modules_are_nowhere_is_refused() -> None:  # H-72
    with running(applied=False) as rig:
        command = sign(rig.loaded, rig.world, 0)
        [refused] = rig.ask(command)
        assert isinstance(refused, Refusal)
        assert refused.rule is Rule.MANIFEST_IS_INVALID
        assert "its bytes" in refused.message
        [answer] = rig.ask(command, blobs=rig.loaded.modules)
        assert isinstance(answer, Admitted)
        assert all(rig.store.has_blob(module) for module in rig.loaded.modules)


def test_a_manifest_in_force_shows_in_the_figures_once_it_is_durable() -> None:  # H-21
    with running(applied=False) as rig:
        assert rig.engine.stats().figures.manifest is None
        rig.apply()
        figures = rig.engine.stats().figures
        assert figures.manifest == rig.loaded.effective
        assert figures.serial == 1
        changed = loaded(version=2)
        rig.apply(changed)
        assert rig.engine.stats().figures.manifest == changed.effective


# When a commit fails


def test_frames_that_found_no_room_are_kept_and_written_when_there_is_some() -> None:  # H-24
    with running() as rig:
        rig.quiet()
        rig.store.failures = [FULL, FULL]
        attempts = len(rig.store.attempts)
        future = rig.submit(asking("a"))
        eventually(lambda: rig.engine.stats().no_room is not None, "the status says so")
        with pytest.raises(Busy, match="so nothing is admitted: the disk is full"):
            rig.submit(add("a"))
        assert not future.done()

        assert isinstance(future.result(TIMEOUT_S)[0], Admitted)
        assert len(set(rig.store.attempts[attempts:])) == 1
        assert len(rig.store.attempts) == attempts + 3
        assert len(rig.opened(1)) == 1
        eventually(lambda: rig.engine.stats().no_room is None, "the status forgets it")
        assert isinstance(rig.ask(add("a"))[0], Admitted)


def test_a_world_that_stops_while_there_is_no_room_loses_only_unacknowledged_inputs() -> (
    None
):  # H-24
    rig = Rig()
    rig.engine.start()
    rig.apply()
    rig.quiet()
    head = rig.store.head()
    rig.store.failures = [FULL] * 1000
    future = rig.submit(asking("a"))
    eventually(lambda: rig.engine.stats().no_room is not None, "the status says so")

    with pytest.raises(Stopping, match="stopped before there was room: the disk is full"):
        rig.engine.stop()

    with pytest.raises(Stopping):
        future.result(TIMEOUT_S)
    assert rig.store.head() == head
    assert not rig.published[-1].opened_intents


def test_a_core_that_waits_for_the_disk_is_stopped_all_the_same() -> None:  # H-24
    rig = Rig()
    rig.engine.start()
    rig.apply()
    rig.quiet()
    rig.store.gate.clear()
    futures = []
    for _ in range(FRAMES_MAX + 3):
        futures.append(rig.submit(add("a")))
        goal = min(len(futures), FRAMES_MAX)
        eventually(lambda goal=goal: rig.engine.stats().frames >= goal, "a frame")  # type: ignore[misc]
    rig.store.failures = [FULL] * 1000
    rig.store.gate.set()
    eventually(lambda: rig.engine.stats().no_room is not None, "the status says so")
    with pytest.raises(Stopping, match="stopped before there was room"):
        rig.engine.stop()
    for future in futures:
        with pytest.raises(Stopping):
            future.result(TIMEOUT_S)


def test_any_other_failed_commit_stops_the_world() -> None:  # H-25
    with running() as rig:
        rig.quiet()
        head = rig.store.head()
        rig.store.failures = [CommitFailed("input/output error")]
        with pytest.raises(CommitFailed):
            rig.ask(add("a"))
        with pytest.raises(CommitFailed):
            rig.submit(add("a"))
        eventually(lambda: len(rig.stopped) == 1, "it says that it stopped")
        assert not rig.engine.wait_quiet(TIMEOUT_S)
        with pytest.raises(CommitFailed):
            rig.engine.stop()
        assert rig.store.head() == head

    with running(Rig(store=rig.store), applied=False) as again:
        assert isinstance(again.ask(add("a"))[0], Admitted)


def test_inputs_waiting_behind_a_failed_commit_are_lost_with_it() -> None:  # H-25
    with running() as rig:
        rig.quiet()
        head = rig.store.head()
        rig.store.gate.clear()
        rig.store.failures = [OSError("the cable came out")]
        futures = [rig.submit(add("a")) for _ in range(10)]
        rig.store.gate.set()
        for future in futures:
            with pytest.raises(WorldStopped, match="OSError: the cable came out"):
                future.result(TIMEOUT_S)
        assert rig.store.head() == head
        assert len(rig.stopped) == 1


def test_a_bug_in_the_core_stops_the_world_and_keeps_what_was_sealed() -> None:  # H-26
    def fail(envelope: Envelope) -> Any:
        raise ZeroDivisionError("in the runner")

    with running(modules={**MODULES, COUNTER: fail}) as rig:
        [before] = rig.ask(asking("a"))
        with pytest.raises(WorldStopped, match="ZeroDivisionError: in the runner"):
            rig.ask(add("a"))
        eventually(lambda: len(rig.stopped) == 1, "it says that it stopped")
        assert isinstance(before, Admitted)
        assert rig.store.head().seq >= before.seq
        assert not any(isinstance(r, Event) and r.schema == ADD for r in rig.records())


def test_a_missing_blob_stops_the_world_with_the_damage() -> None:  # H-26
    with running(runs=False) as rig:
        rig.ask(asking("a", "x" * 5000))
        memory = rig.store.store
        [gone] = [
            h
            for h in memory.blob_hashes()
            if len(memory.blob(h)) > 5000 and h not in rig.loaded.modules
        ]
        if rig.loaded.effective.hash == gone:
            raise AssertionError("the wrong blob")
    del memory._blobs[gone]  # type: ignore[attr-defined]
    with running(Rig(store=rig.store), applied=False) as again:
        eventually(lambda: len(again.stopped) == 1, "it says that it stopped")
        assert isinstance(again.stopped[0], Damage)
        assert "is missing" in str(again.stopped[0])


# Stopping


def test_stop_finishes_the_batch_that_was_begun_and_refuses_the_rest() -> None:  # H-28
    gate = Turnstile()
    rig = Rig(modules={**MODULES, COUNTER: gate})
    rig.engine.start()
    rig.apply()
    rig.quiet()
    begun = rig.submit(*(add(f"k{i}") for i in range(INPUTS_PER_FRAME + 50)))
    eventually(lambda: rig.engine.stats().queued > 0 and rig.runner.calls > 0, "it has begun")
    queued = rig.submit(add("late"))

    stopper = threading.Thread(target=rig.engine.stop)
    stopper.start()
    eventually(lambda: rig.engine._inbox.is_closed, "it stops")
    gate.let.release()
    stopper.join(TIMEOUT_S)

    assert len(seqs(begun.result(TIMEOUT_S))) == INPUTS_PER_FRAME + 50
    with pytest.raises(Stopping):
        queued.result(TIMEOUT_S)
    with pytest.raises(Stopping):
        rig.submit(add("later"))
    assert gate.steps == 1
    rig.engine.stop()  # again does nothing


def test_an_engine_that_never_started_can_be_stopped() -> None:
    Rig().engine.stop()


# Restart


def test_a_restart_gives_the_state_that_ran() -> None:  # H-40
    with running() as rig:
        for i in range(20):
            rig.ask(add(f"k{i % 3}"), asking(f"q{i % 4}"))
        intents = rig.opened(20)
        rig.ask(*(receipt(rig.world, intent) for intent in intents[:7]))
        rig.quiet()
    live, again = rig.state, restore(rig.store, rig.world)
    assert list(again.intents) == list(live.intents)
    for one, other in zip(again.intents.values(), live.intents.values(), strict=True):
        assert (one.seq, one.index, one.opened_ns) == (other.seq, other.index, other.opened_ns)
        assert (one.params, one.idempotency_key) == (other.params, other.idempotency_key)
    assert again.tip == live.tip
    assert again.clock_ns == live.clock_ns
    assert {id: cell.state for id, cell in again.cells.items()} == {
        id: cell.state for id, cell in live.cells.items()
    }


def test_a_restart_continues_where_the_last_process_ended() -> None:  # H-40
    with running(runs=False) as rig:
        rig.ask(*(add("a") for _ in range(10)))
    with running(Rig(store=FaultyStore(rig.store.store)), applied=False) as again:
        again.quiet()
        steps = [record for record in again.records() if isinstance(record, Step)]
        assert len(steps) == 10
        assert again.state.cells[counter("a")].state == encode(10)


def test_a_restored_store_must_be_this_worlds() -> None:  # H-41
    store = new_store()
    with pytest.raises(Damage, match="the store holds another world"):
        restore(store, content_hash(b"another"))


# Erasure (K-104)


def erasing(rig: Rig, value: Hash) -> ControlInput:
    given = ControlInput(action="erase", principal="operator", serial=0, signature=b"", value=value)
    return replace(given, signature=OPERATOR_KEY.sign(given.message(rig.world)).signature)


def test_a_value_that_came_with_an_input_of_the_same_frame_is_erased_too() -> None:
    data = b"personal " * 200
    value = content_hash(data)
    with running() as rig:
        rig.quiet()
        # One batch is one drain, so all of it is one frame.
        first, second = rig.ask(add("a"), erasing(rig, value), blobs={value: data})

        assert isinstance(first, Admitted)
        assert isinstance(second, Admitted)
        assert second.seq == first.seq + 1
        assert not rig.store.has_blob(value)


def test_a_value_that_the_world_does_not_hold_cannot_be_erased() -> None:
    with running() as rig:
        [answer] = rig.ask(erasing(rig, content_hash(b"nothing")))
        assert isinstance(answer, Refusal)
        assert answer.rule is Rule.VALUE_IS_UNKNOWN


def test_a_world_continues_if_a_snapshot_to_continue_from_cannot_be_read() -> None:  # H-47a
    with running() as rig:
        rig.ask(add("a"))

        rebased = rig.engine.rebase(content_hash(b"no snapshot"))

        with pytest.raises(Damage):
            rebased.result(TIMEOUT_S)
        assert isinstance(rig.ask(add("a"))[0], Admitted)
        assert not rig.stopped


def test_a_snapshot_of_before_an_erasure_is_refused() -> None:
    """H-47d: the value may be a part of it by now."""
    data = b"personal " * 200
    value = content_hash(data)
    with running() as rig:
        rig.quiet()
        first, _ = rig.ask(add("a"), erasing(rig, value), blobs={value: data})
        rig.quiet()
        head = rig.store.head()
        assert isinstance(first, Admitted)
        assert head is not None
        taken = take(restore(rig.store, rig.world), content_hash)
        old = SnapshotInput(
            at=first.seq, frame=head.frame, document=taken.document, size=taken.size
        )

        [refused, made] = rig.ask(old, replace(old, at=head.seq))

        assert isinstance(refused, Refusal)
        assert refused.rule is Rule.SNAPSHOT_IS_OLD
        assert isinstance(made, Admitted)
