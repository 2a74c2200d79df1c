"""Outcomes from executors become inputs: signed together, in order, answered (H-30 to H-34)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from aos.core.decide.answers import Answer
from aos.core.journal.inputs import AttemptInput, EventInput, ReceiptInput
from aos.core.journal.records import Attempt, KernelReceipt, Receipt, Stream, slot_bytes
from aos.core.journal.signing import is_signed
from aos.core.state.cell import OpenIntent
from aos.errors import Damage
from aos.host.errors import Busy
from aos.host.executors import receipts as receipts_module
from aos.host.executors.receipts import Receipts
from aos.host.executors.task import Loss, Lost
from aos.host.world import signatures
from aos.host.world.inbox import Bounds
from aos.store.errors import NoRoom
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from aos.worker.executor_key import TOGETHER_MAX
from aos.worker.outcome import Outcome, StreamFrame
from tests.answers import word
from tests.core.desk import ARMS, DESK, ONCE, PAY, cancel, cell_id, desk, nodes, wish
from tests.host.rig import Rig, eventually, running
from tests.memory_world import START_NS, WORLD_KEY, air, route


def loaded(**arms: Any) -> Any:
    return air(nodes({**ARMS, **arms}), [route("t/Tell@1", DESK, "key")])


@contextmanager
def desks(**more: Any) -> Iterator[Rig]:
    with running(loaded=loaded(), modules={DESK: desk}, **more) as rig:
        yield rig


def tell(rig: Rig, key: str, *asks: Any, note: str = "") -> None:
    value = encode({"key": key, "asks": list(asks), "note": note})
    rig.ask(EventInput(schema="t/Tell@1", value=value))
    rig.quiet()


def paying(rig: Rig, count: int = 1, *, effect: str = PAY, key: str = "a") -> list[OpenIntent]:
    before = len(rig.opened(0))
    tell(rig, key, *(wish(effect, {"n": n}, str(n)) for n in range(count)))
    return rig.opened(before + count)[before:]


def outcome(intent: OpenIntent, ref: str = "r", **changes: Any) -> Outcome:
    given: dict[str, Any] = {
        "intent": intent.intent,
        "effect": intent.effect.name,
        "attempt": 1,
        "status": "ok",
        "payload": encode({"ref": ref}),
        "started_ns": START_NS,
        "finished_ns": START_NS,
    }
    return Outcome(**{**given, **changes})


def frame(intent: OpenIntent, number: int, **changes: Any) -> StreamFrame:
    given: dict[str, Any] = {
        "intent": intent.intent,
        "effect": intent.effect.name,
        "attempt": 1,
        "frame_seq": number,
        "frame_kind": "k",
        "payload": b"\x01",
    }
    return StreamFrame(**{**given, **changes})


def begun(intent: Hash, attempt: int, problem: str | None) -> AttemptInput:
    return AttemptInput(intent=intent, attempt=attempt, problem=problem)


def lost(intent: Hash, attempt: int, problem: str) -> AttemptInput:
    return AttemptInput(intent=intent, attempt=attempt, phase="lost", problem=problem)


def play(rig: Rig, scene: Callable[[Receipts], Awaitable[None]], **more: Any) -> None:
    async def body() -> None:
        await scene(Receipts(rig.engine, world=rig.world, key=WORLD_KEY, **more))

    asyncio.run(asyncio.wait_for(body(), 120))


def receipts_of(rig: Rig) -> list[Receipt]:
    return [each for each in rig.records() if isinstance(each, Receipt)]


def given_by(record: Receipt, payload: bytes) -> ReceiptInput:
    names = (
        "intent effect attempt status started_ns finished_ns executor key_id signature cost_cents "
        "batch"
    )
    return ReceiptInput(payload=payload, **{name: getattr(record, name) for name in names.split()})


# Signatures


def test_receipts_of_one_turn_share_a_signature_and_each_is_proved_alone() -> None:
    """H-32, J-40."""
    with desks() as rig:
        asked = paying(rig, TOGETHER_MAX + 1 + 7)

        async def scene(receipts: Receipts) -> None:
            answers = await asyncio.gather(*(receipts.answer(outcome(each)) for each in asked))
            assert set(map(word, answers)) == {"settled"}

        play(rig, scene)
        rig.quiet()
        found = receipts_of(rig)
        assert [each.intent for each in found] == [each.intent for each in asked]
        assert [each.batch.size for each in found if each.batch] == [
            TOGETHER_MAX
        ] * TOGETHER_MAX + [8] * 8
        assert len({each.signature for each in found}) == 2
        for each in found:
            message = given_by(each, slot_bytes(each.payload, rig.store.blob)).signed_message(
                rig.world
            )
            assert message is not None
            assert is_signed(message, each.signature, bytes(WORLD_KEY.verify_key))


def test_one_alone_is_signed_alone() -> None:
    with desks() as rig:
        asked = paying(rig, 2)

        async def scene(receipts: Receipts) -> None:
            for each in asked:
                assert word(await receipts.answer(outcome(each))) == "settled"

        play(rig, scene)
        assert [each.batch for each in receipts_of(rig)] == [None, None]


def test_receipts_signed_here_are_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """H-33: not by the core's thread, be it alone, in a batch, or a stream frame."""
    checked: list[bytes] = []

    def count(message: bytes, signature: bytes, public_key: bytes) -> bool:
        checked.append(message)
        return is_signed(message, signature, public_key)

    monkeypatch.setattr(signatures, "is_signed", count)
    with desks() as rig:
        asked = paying(rig, 6)

        async def scene(receipts: Receipts) -> None:
            assert word(await receipts.answer(outcome(asked[0]))) == "settled"
            assert word(await receipts.answer(frame(asked[1], 0))) == "taken"
            await asyncio.gather(*(receipts.answer(outcome(each)) for each in asked[1:]))

        play(rig, scene)
        assert len(receipts_of(rig)) == 6
        assert checked == []


def test_an_invalid_signature_refuses_its_receipt_and_no_other_of_the_turn() -> None:
    with desks() as rig:
        asked = paying(rig, 3)
        forged = outcome(asked[1], key_id=bytes(WORLD_KEY.verify_key), signature=bytes(64))

        async def scene(receipts: Receipts) -> None:
            said = [outcome(asked[0]), forged, outcome(asked[2])]
            answers = await asyncio.gather(*(receipts.answer(each) for each in said))
            assert [*map(word, answers)] == ["settled", "receipt_signature_is_wrong", "settled"]
            assert list(receipts.refused) == [asked[1].intent]
            assert receipts.refused[asked[1].intent] is answers[1]
            assert receipts.on_way == 0

        play(rig, scene)


# Order


def test_a_frame_that_was_told_before_the_outcome_is_admitted_before_it() -> None:
    """H-34."""
    with desks() as rig:
        (intent,) = paying(rig)

        async def scene(receipts: Receipts) -> None:
            told = [receipts.answer(frame(intent, number)) for number in range(3)]
            settled = asyncio.ensure_future(receipts.answer(outcome(intent)))
            assert [*map(word, await asyncio.gather(*told))] == ["taken"] * 3
            assert word(await settled) == "settled"
            late = await receipts.answer(frame(intent, 9))
            assert word(late) == "receipt_intent_is_unknown"

        play(rig, scene)
        rig.quiet()
        kinds = [type(each) for each in rig.records() if isinstance(each, Stream | Receipt)]
        assert kinds == [Stream, Stream, Stream, Receipt]
        assert rig.state.cells[cell_id("a")].state == encode(
            ["told ", "k 0 of 0", "k 1 of 0", "k 2 of 0", f"{PAY} 0 ok"]
        )


def test_a_frames_blob_is_stored_with_the_frame_or_not_at_all() -> None:
    with desks() as rig:
        asked = paying(rig, 2)
        kept, lost = b"kept" * 10, b"lost" * 10

        async def scene(receipts: Receipts) -> None:
            told = [
                receipts.answer(frame(asked[0], 5, blob=kept)),
                receipts.answer(frame(asked[0], 4, blob=lost)),
                receipts.answer(frame(asked[1], 0)),
            ]
            answers = await asyncio.gather(*told)
            assert [*map(word, answers)] == ["taken", "stream_frame_is_old", "taken"]

        play(rig, scene)
        assert rig.store.blob(content_hash(kept)) == kept
        assert not rig.store.has_blob(content_hash(lost))
        refs = [each.payload_ref for each in rig.records() if isinstance(each, Stream)]
        assert refs == [content_hash(kept), None]


def test_frames_on_their_way_leave_room_for_receipts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts_module, "FRAMES_MAX", 3)
    with desks() as rig:
        (intent,) = paying(rig)

        async def scene(receipts: Receipts) -> None:
            told = [receipts.answer(frame(intent, number)) for number in range(5)]
            assert [each.done() for each in told] == [False, False, False, True, True]
            answers = await asyncio.gather(*told)
            text = "too many stream frames are on their way"
            assert answers[3:] == [Lost(Loss.TOO_MANY_ON_WAY, text)] * 2
            assert word(await receipts.answer(frame(intent, 7))) == "taken"

        play(rig, scene)


def test_frames_on_their_way_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts_module, "FRAME_BYTES_MAX", 100)
    with desks() as rig:
        (intent,) = paying(rig)

        async def scene(receipts: Receipts) -> None:
            large = receipts.answer(frame(intent, 0, blob=bytes(400)))
            small = receipts.answer(frame(intent, 1))
            assert (large.done(), small.done()) == (False, True)
            assert word(await large) == "taken"
            assert word(await small) == "too_many_on_way"

        play(rig, scene)


# Attempts


def test_an_attempt_is_durable_when_it_is_answered() -> None:
    with desks() as rig:
        (intent,) = paying(rig)

        async def scene(receipts: Receipts) -> None:
            assert word(await receipts.answer(begun(intent.intent, 2, "it failed"))) == "taken"
            (record,) = [each for each in rig.records() if isinstance(each, Attempt)]
            assert (record.attempt, record.phase, record.problem) == (2, "begun", "it failed")
            again = await receipts.answer(begun(intent.intent, 2, None))
            assert word(again) == "attempt_is_old"
            old = await receipts.answer(outcome(intent))
            assert word(old) == "receipt_attempt_is_old"
            assert word(await receipts.answer(outcome(intent, attempt=2))) == "settled"
            gone = await receipts.answer(begun(intent.intent, 3, None))
            assert word(gone) == "receipt_intent_is_unknown"

        play(rig, scene)


def test_a_lost_one_is_settled_by_the_core_and_its_receipt_comes_late() -> None:
    """K-97."""
    with desks() as rig:
        (intent,) = paying(rig, effect=ONCE)

        async def scene(receipts: Receipts) -> None:
            assert word(await receipts.answer(lost(intent.intent, 1, "x"))) == "attempt_is_invalid"
            assert word(await receipts.answer(begun(intent.intent, 1, None))) == "taken"
            assert (
                word(await receipts.answer(lost(intent.intent, 1, "the process died"))) == "taken"
            )
            await asyncio.to_thread(rig.quiet)
            late = await receipts.answer(outcome(intent))
            assert word(late) == "receipt_intent_is_settled"
            assert receipts.refused == {}

        play(rig, scene)
        (record,) = [each for each in rig.records() if isinstance(each, KernelReceipt)]
        assert (record.intent, record.status) == (intent.intent, "error")


# Answers


def test_the_same_receipt_again_is_a_duplicate_and_another_is_late() -> None:
    """H-30."""
    with desks() as rig:
        (intent,) = paying(rig)

        async def scene(receipts: Receipts) -> None:
            assert word(await receipts.answer(outcome(intent))) == "settled"
            assert word(await receipts.answer(outcome(intent))) == "duplicate"
            assert (
                word(await receipts.answer(outcome(intent, "other"))) == "receipt_intent_is_settled"
            )

        play(rig, scene)


def test_a_receipt_of_an_abandoned_intent_is_answered_so() -> None:
    """K-56."""
    with desks() as rig:
        (intent,) = paying(rig)
        tell(rig, "a", note="delete")

        async def scene(receipts: Receipts) -> None:
            assert word(await receipts.answer(outcome(intent))) == "abandoned"

        play(rig, scene)
        assert receipts_of(rig)[0].outcome == "abandoned"


def test_nothing_is_kept_of_an_intent_that_is_open_no_longer() -> None:
    """The end of an intent may be told before the answer to what was refused before it."""
    with desks() as rig:
        (intent,) = paying(rig)
        wrong = outcome(intent, effect="t/other@1")
        is_open = True

        async def scene(receipts: Receipts) -> None:
            nonlocal is_open
            rig.store.gate.clear()
            answer = asyncio.ensure_future(receipts.answer(wrong))
            await asyncio.sleep(0.01)
            is_open = False  # its end is published first
            receipts.ended(intent.intent)
            rig.store.gate.set()
            assert word(await answer) == "receipt_effect_differs"
            assert receipts.refused == {}

            is_open = True
            await receipts.answer(wrong)
            assert list(receipts.refused) == [intent.intent]
            receipts.ended(intent.intent)
            assert receipts.refused == {}

        play(rig, scene, is_open=lambda _: is_open)


def test_executors_hear_of_canceled_effects_and_their_answers_are_late() -> None:
    """H-31, K-84."""
    with desks() as rig:
        (intent,) = paying(rig)
        tell(rig, "a", cancel(ref="0"))
        eventually(
            lambda: [hash_ for each in rig.published for hash_ in each.dropped] == [intent.intent],
            "the canceled intent is dropped",
        )

        async def scene(receipts: Receipts) -> None:
            answer = await receipts.answer(outcome(intent, status="canceled"))
            assert word(answer) == "receipt_intent_is_settled"
            assert receipts.refused == {}

        play(rig, scene)


# A world that takes nothing now


def test_a_busy_world_says_so_to_who_can_come_again_and_drops_frames() -> None:
    with desks(bounds=Bounds(inputs=2)) as rig:
        asked = paying(rig, 3)
        rig.store.gate.clear()

        async def scene(receipts: Receipts) -> None:
            first = [asyncio.ensure_future(receipts.answer(outcome(each))) for each in asked[:2]]
            inbox = rig.engine._inbox
            for _ in range(3):
                await asyncio.sleep(0)  # both are submitted
            await asyncio.to_thread(
                eventually, lambda: inbox.urgent.count == 0, "they are on their way to the disk"
            )
            rig.engine._inbox.bounds = Bounds(inputs=0)
            rig.engine._inbox.urgent.count += 1
            with pytest.raises(Busy):
                await receipts.answer(outcome(asked[2]))
            with pytest.raises(Busy):
                await receipts.answer(begun(asked[2].intent, 2, None))
            lost = await receipts.answer(frame(asked[2], 0))
            assert isinstance(lost, Lost)
            assert lost.loss is Loss.WORLD_IS_UNAVAILABLE
            assert lost.text.startswith("the world is busy")
            rig.engine._inbox.urgent.count -= 1
            rig.store.gate.set()
            assert [*map(word, await asyncio.gather(*first))] == ["settled", "settled"]
            assert receipts.on_way == 0
            assert receipts._frames.number == 0
            assert word(await receipts.answer(outcome(asked[2]))) == "settled"

        play(rig, scene)


def test_outcomes_outlive_a_disk_that_is_full_for_a_while() -> None:
    """X-5: those that were submitted wait, later ones are offered again."""
    with desks() as rig:
        asked = paying(rig, 8)
        rig.store.failures = [NoRoom("the disk is full", needed_bytes=1, free=0)] * 100_000

        async def settled(receipts: Receipts, each: OpenIntent) -> Answer | Lost:
            while True:
                try:
                    return await receipts.answer(outcome(each))
                except Busy:
                    refused.append(each.intent)
                    rig.store.failures.clear()
                    await asyncio.sleep(0.01)

        async def scene(receipts: Receipts) -> None:
            first = asyncio.ensure_future(settled(receipts, asked[0]))
            await asyncio.to_thread(
                eventually, lambda: rig.engine.stats().no_room is not None, "there is no room"
            )
            answers = await asyncio.gather(first, *(settled(receipts, each) for each in asked[1:]))
            assert set(map(word, answers)) == {"settled"}

        refused: list[Hash] = []
        play(rig, scene)
        assert refused
        assert {each.intent for each in receipts_of(rig)} == {each.intent for each in asked}


def test_a_world_that_stops_fails_what_waits_and_answers_frames() -> None:
    with desks() as rig:
        asked = paying(rig, 2)
        rig.store.failures = [Damage("the disk")]

        async def scene(receipts: Receipts) -> None:
            said = await asyncio.gather(
                receipts.answer(outcome(asked[0])),
                receipts.answer(frame(asked[1], 0)),
                receipts.answer(begun(asked[1].intent, 2, None)),
                return_exceptions=True,
            )
            assert [type(each) for each in said] == [Damage, Lost, Damage]
            assert receipts.on_way == 0

        play(rig, scene)


def test_a_defect_of_one_executor_takes_no_answer_from_another() -> None:
    with desks() as rig:
        asked = paying(rig, 2)

        async def scene(receipts: Receipts) -> None:
            problems: list[Any] = []
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: problems.append(context["exception"])
            )

            def fail(_: object) -> None:
                raise ZeroDivisionError

            receipts.submit(outcome(asked[0]), fail)
            assert word(await receipts.answer(outcome(asked[1]))) == "settled"
            assert [type(each) for each in problems] == [ZeroDivisionError]
            assert receipts.on_way == 0

        play(rig, scene)
