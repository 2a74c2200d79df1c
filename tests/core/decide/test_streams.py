"""Stream frames and attempts (spec/kernel.md, K-90 to K-98)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted, Answer, Refusal, Rule
from aos.core.journal.faults import FaultKind
from aos.core.journal.records import Attempt, KernelReceipt, Stream
from aos.values.cbor import encode
from aos.values.digests import content_hash, hash_text
from tests.core.decide.test_isolation import same
from tests.core.decide.test_owed import folded
from tests.core.desk import ARMS, DESK, ONCE, PAY, cancel, desk, desks, log_of, pay, tell, wish
from tests.memory_world import WORLD_KEY, Envelope, MemoryWorld, event_of


def rule_of(answer: Answer) -> Rule:
    assert isinstance(answer, Refusal), answer
    return answer.rule


def paying(**manifest: Any) -> MemoryWorld:
    world = desks(**manifest)
    tell(world, "a", pay("p"))
    return world


def test_a_frame_reaches_the_cell_that_asked_and_settles_nothing() -> None:
    """K-90, K-91."""
    world = paying()
    (intent,) = world.open()

    assert isinstance(world.stream(intent, 0), Admitted)
    assert isinstance(world.stream(intent, 5, frame_kind="token"), Admitted)
    world.run()

    assert log_of(world, "a")[1:] == ["progress 0 of p", "token 5 of p"]
    assert world.open() == [intent]
    assert isinstance(world.settle(intent, {"ref": "done"}), Admitted)
    world.run()
    assert log_of(world, "a")[-1] == f"{PAY} p ok"
    assert world.state.streams == {}
    same(folded(world), world.state)


def test_the_continuation_holds_what_the_executor_said() -> None:
    seen: list[Any] = []

    def module(envelope: Envelope) -> Envelope:
        seen.append(event_of(envelope))
        return desk(envelope)

    world = desks(module)
    tell(world, "a", pay("p"))
    (intent,) = world.open()
    long = encode("x" * 3000)
    world.stream(intent, 3, payload=long, payload_ref=content_hash(b"blob"))
    world.run()

    got = seen[-1]["$value"]
    assert (got["seq"], got["kind"], got["payload"]) == (3, "progress", long)
    assert got["payload_ref"] == hash_text(content_hash(b"blob"))
    assert (got["intent_id"], got["emitted_at_seq"]) == (hash_text(intent.intent), intent.seq)
    (record,) = [each for each in world.records() if isinstance(each, Stream)]
    assert got["signature"] == record.signature


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"effect": ONCE}, Rule.RECEIPT_EFFECT_DIFFERS),
        ({"attempt": 0}, Rule.RECEIPT_ATTEMPT_IS_OLD),
        ({"frame_seq": 2**63}, Rule.STREAM_FRAME_IS_INVALID),
        ({"frame_kind": ""}, Rule.STREAM_FRAME_IS_INVALID),
        ({"frame_kind": "x" * 129}, Rule.STREAM_FRAME_IS_INVALID),
        ({"payload_ref": b"short"}, Rule.STREAM_FRAME_IS_INVALID),
        ({"payload": bytes(65_537)}, Rule.STREAM_FRAME_IS_TOO_LARGE),
        ({"executor": "shop"}, Rule.RECEIPT_EXECUTOR_MAY_NOT_SIGN),
    ],
)
def test_a_frame_that_breaks_a_rule_is_refused_and_changes_nothing(
    fields: dict[str, Any], rule: Rule
) -> None:
    world = paying()
    (intent,) = world.open()
    before = folded(world)

    assert rule_of(world.stream(intent, 0, **fields)) is rule
    same(before, world.state)


def test_a_forged_frame_is_refused() -> None:
    world = paying()
    (intent,) = world.open()
    true = world.frame_of(intent, 1)
    stranger = SigningKey(bytes([9]) * 32)
    forged = [
        replace(true, frame_seq=2),
        replace(true, frame_kind="other"),
        replace(true, payload=b"\x02"),
        replace(true, payload_ref=content_hash(b"")),
        replace(true, attempt=2),
        replace(true, signature=stranger.sign(true.signed_message(world.state.world)).signature),
    ]
    for given in forged:
        assert rule_of(world.kernel.admit(given, world.stamp())) is Rule.RECEIPT_SIGNATURE_IS_WRONG
    assert isinstance(world.kernel.admit(true, world.stamp()), Admitted)


def test_numbers_ascend() -> None:
    """K-93."""
    world = paying()
    (intent,) = world.open()
    assert isinstance(world.stream(intent, 4), Admitted)
    for number in (0, 4):
        assert rule_of(world.stream(intent, number)) is Rule.STREAM_FRAME_IS_OLD
    assert isinstance(world.stream(intent, 5), Admitted)


def test_the_rate_is_bounded_by_the_journals_clock() -> None:
    """K-94."""
    world = paying(limits={"world": {"stream_rate": 3, "stream_frames": 5}})
    (intent,) = world.open()
    answers = [isinstance(world.stream(intent, number), Admitted) for number in range(4)]
    assert answers == [True, True, True, False]
    assert rule_of(world.stream(intent, 4)) is Rule.STREAM_IS_TOO_FAST

    world.now_ns += 10**9
    assert isinstance(world.stream(intent, 5), Admitted)
    # A clock that is set back does not open a new second.
    world.now_ns -= 5 * 10**9
    assert isinstance(world.stream(intent, 6), Admitted)
    assert rule_of(world.stream(intent, 7)) is Rule.STREAM_IS_TOO_LONG


def test_progress_that_no_cell_takes_is_dropped_and_fails_no_cell() -> None:
    """K-92."""
    deaf = desks(arms={"Receipt": ARMS["Receipt"]})
    tell(deaf, "a", pay("p"))
    assert rule_of(deaf.stream(deaf.open()[0], 0)) is Rule.STREAM_HAS_NO_TAKER

    full = paying(limits={"world": {"mailbox": 1}})
    (intent,) = full.open()
    assert isinstance(full.stream(intent, 0), Admitted)
    assert rule_of(full.stream(intent, 1)) is Rule.STREAM_HAS_NO_TAKER
    full.run()
    assert full.cell(DESK, "a").status == "waiting"

    failed = paying()
    tell(failed, "a", note="fail")
    assert rule_of(failed.stream(failed.open()[0], 0)) is Rule.STREAM_HAS_NO_TAKER


def test_a_frame_of_a_settled_intent_is_unknown_and_one_in_the_mailbox_still_arrives() -> None:
    world = paying()
    (intent,) = world.open()
    world.stream(intent, 0)
    world.settle(intent, {"ref": "done"})
    assert rule_of(world.stream(intent, 1)) is Rule.RECEIPT_INTENT_IS_UNKNOWN
    world.run()
    assert log_of(world, "a")[1:] == ["progress 0 of p", f"{PAY} p ok"]


# Attempts


def test_an_attempt_makes_the_ones_before_it_old() -> None:
    """K-95."""
    world = paying()
    (intent,) = world.open()
    for number in (0, 1):
        assert rule_of(world.attempt(intent, number)) is Rule.ATTEMPT_IS_OLD
    assert isinstance(world.attempt(intent, 2), Admitted)
    assert world.state.attempt(intent) == 2

    assert rule_of(world.settle(intent, {"ref": "x"})) is Rule.RECEIPT_ATTEMPT_IS_OLD
    assert rule_of(world.stream(intent, 0)) is Rule.RECEIPT_ATTEMPT_IS_OLD
    again = replace(world.receipt(intent, {"ref": "x"}), attempt=2)
    assert rule_of(world.kernel.admit(again, world.stamp())) is Rule.RECEIPT_SIGNATURE_IS_WRONG
    world.seal()
    assert folded(world).attempts == {intent.intent: 2}

    tell(world, "a", cancel(ref="p"))
    assert world.state.attempts == {}


def test_an_effect_that_may_run_once_has_one_attempt_and_is_settled_when_lost() -> None:
    """K-97."""
    world = desks()
    tell(world, "a", wish(ONCE, {"n": 1}, "o"))
    (intent,) = world.open()
    assert world.state.attempt(intent) == 0
    assert rule_of(world.attempt(intent, 1, "lost")) is Rule.ATTEMPT_IS_INVALID
    assert isinstance(world.attempt(intent, 1), Admitted)
    for number in (1, 2):
        assert rule_of(world.attempt(intent, number)) is Rule.ATTEMPT_IS_OLD
    assert rule_of(world.attempt(intent, 2, "lost")) is Rule.ATTEMPT_IS_OLD

    assert isinstance(world.attempt(intent, 1, "lost"), Admitted)
    world.run()

    assert log_of(world, "a")[1:] == [f"{ONCE} o error unknown_outcome"]
    assert world.open() == []
    assert isinstance(world.settle(intent, {"ref": "late"}), Refusal)
    (settled,) = [each for each in world.records() if isinstance(each, KernelReceipt)]
    (_, lost) = [each for each in world.records() if isinstance(each, Attempt)]
    assert (settled.root, settled.by) == (lost.seq, None)
    same(folded(world), world.state)


def test_a_receipt_that_overtakes_its_loss_counts() -> None:
    world = desks()
    tell(world, "a", wish(ONCE, {"n": 1}, "o"))
    (intent,) = world.open()
    world.attempt(intent, 1)
    world.attempt(intent, 1, "lost")
    assert isinstance(world.settle(intent, {"ref": "x"}), Admitted)
    assert not world.state.owed
    world.run()
    assert log_of(world, "a")[1:] == [f"{ONCE} o ok"]


def test_an_effect_that_may_run_again_is_never_lost() -> None:
    world = paying()
    (intent,) = world.open()
    assert rule_of(world.attempt(intent, 1, "lost")) is Rule.ATTEMPT_IS_INVALID
    assert rule_of(world.attempt(intent, 2, "slept")) is Rule.ATTEMPT_IS_INVALID


def test_a_lost_intent_of_a_failed_instance_waits_in_its_mailbox() -> None:
    world = desks()
    tell(world, "a", wish(ONCE, {"n": 1}, "o"))
    (intent,) = world.open()
    world.attempt(intent, 1)
    tell(world, "a", note="fail")
    world.attempt(intent, 1, "lost")
    world.run()
    cell = world.cell(DESK, "a")
    assert cell.fault is not None
    assert cell.fault.kind is FaultKind.GUEST
    assert (len(cell.mailbox), world.open()) == (2, [])


def test_an_abandoned_intent_keeps_its_attempt() -> None:
    """K-51, K-95: a late receipt of an attempt before is old, that of the last one is recorded."""
    world = paying()
    (intent,) = world.open()
    world.attempt(intent, 2)
    tell(world, "a", note="delete")
    assert rule_of(world.settle(intent, {"ref": "x"})) is Rule.RECEIPT_ATTEMPT_IS_OLD

    late = replace(world.receipt(intent, {"ref": "x"}), attempt=2)
    message = late.message(world.state.world)
    answer = world.kernel.admit(
        replace(late, signature=WORLD_KEY.sign(message).signature), world.stamp()
    )
    assert isinstance(answer, Admitted)
    assert answer.outcome == "abandoned"
    world.seal()
    assert world.state.attempts == {}
    same(folded(world), world.state)
