"""Outcomes, attempts and stream frames of clients: taken, refused and malformed ones (H-53b)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.core.decide.answers import Admitted, Duplicate, Refusal, Rule
from aos.core.journal.inputs import HELD, AttemptInput
from aos.core.journal.records import Batch, Receipt
from aos.errors import BadUsage
from aos.host.door.work_messages import (
    WORK_ITEMS_MAX,
    attempt_fields,
    read_attempt,
    read_told,
    told_fields,
)
from aos.host.executors.task import Loss, Lost
from aos.values.cbor import INTEGER_MAX, INTEGER_MIN, decode_record, encode
from aos.values.digests import Hash, content_hash
from aos.worker.outcome import (
    Outcome,
    StreamFrame,
    frame_fields,
    outcome_fields,
    read_frame,
    read_outcome,
)
from tests.host.door.test_server import error, is_well
from tests.host.rig import ECHO, asking, receipt
from tests.host.served import Served, served
from tests.memory_world import START_NS


def outcome(intent: Hash, **more: Any) -> Outcome:
    return replace(
        Outcome(
            intent=intent,
            effect=ECHO,
            attempt=1,
            status="ok",
            payload=encode({"word": "hello"}),
            started_ns=START_NS,
            finished_ns=START_NS,
        ),
        **more,
    )


def frame(intent: Hash, **more: Any) -> StreamFrame:
    return replace(
        StreamFrame(
            intent=intent, effect=ECHO, attempt=1, frame_seq=0, frame_kind="step", payload=b"half"
        ),
        **more,
    )


def opened(world: Served, count: int = 1) -> list[Hash]:
    before = len([each for found in world.rig.published for each in found.opened_intents])
    world.rig.ask(*(asking(str(number)) for number in range(count)))
    return [each.intent for each in world.rig.opened(before + count)[before:]]


def test_outcomes_of_a_client_are_signed_as_node_and_settle_their_intents(tmp_path: Path) -> None:
    with served(tmp_path / "w") as world, world.connect() as connection:
        intents = opened(world, 20)
        items = [outcome_fields(outcome(each)) for each in (*intents, Hash(bytes(32)))]
        answers = [
            read_told(each) for each in world.ask(connection, op="settle", items=items)["answers"]
        ]
        assert [type(each) for each in answers] == [Admitted] * 20 + [Refusal]
        assert isinstance(answers[-1], Refusal)
        assert answers[-1].rule is Rule.RECEIPT_INTENT_IS_UNKNOWN
        world.rig.quiet()
        assert world.rig.engine.stats().figures.open_intents == 0
    receipts = [each for each in world.rig.records() if isinstance(each, Receipt)]
    assert {each.executor for each in receipts} == {"node"}
    assert {each.batch.size for each in receipts if each.batch} == {16, 5}


def test_a_receipt_that_an_executor_signed_is_taken_once_and_recognised_again(
    tmp_path: Path,
) -> None:
    with served(tmp_path / "w") as world, world.connect() as connection:
        opened(world)
        signed = receipt(world.rig.world, world.rig.opened(1)[0])
        item = outcome_fields(
            outcome(signed.intent, key_id=signed.key_id, signature=signed.signature)
        )
        first, again = (
            read_told(world.ask(connection, op="settle", items=[item])["answers"][0])
            for _ in range(2)
        )
        assert isinstance(first, Admitted)
        assert again == Duplicate(seq=first.seq)


def test_a_forged_signature_and_an_old_attempt_settle_nothing(tmp_path: Path) -> None:
    with served(tmp_path / "w") as world, world.connect() as connection:
        [intent] = opened(world)
        begun = attempt_fields(AttemptInput(intent=intent, attempt=2, problem="the lease was lost"))
        assert "seq" in world.ask(connection, op="attempt", items=[begun])["answers"][0]
        signed = receipt(world.rig.world, world.rig.opened(1)[0])
        items = [
            outcome_fields(outcome(intent)),
            outcome_fields(outcome(intent, attempt=2, key_id=signed.key_id, signature=bytes(64))),
            outcome_fields(outcome(intent, attempt=2, key_id=b"", signature=b"")),
            outcome_fields(outcome(intent, attempt=2)),
        ]
        rules = [
            each.get("rule") for each in world.ask(connection, op="settle", items=items)["answers"]
        ]
        assert rules == [
            "receipt_attempt_is_old", "receipt_signature_is_wrong",
            "receipt_executor_may_not_sign", None,
        ]  # fmt: skip


def test_attempts_are_journaled_in_order_and_refused_by_the_rules_of_the_core(
    tmp_path: Path,
) -> None:
    with served(tmp_path / "w") as world, world.connect() as connection:
        [intent] = opened(world)
        halt = AttemptInput(
            intent=intent, attempt=2, phase=HELD, problem="no key", code="secret_missing"
        )
        items = [
            attempt_fields(AttemptInput(intent=intent, attempt=2)),
            attempt_fields(AttemptInput(intent=intent, attempt=2)),
            attempt_fields(halt),
            attempt_fields(replace(halt, phase="asleep")),
            attempt_fields(AttemptInput(intent=intent, attempt=2, phase="lost")),
        ]
        answers = world.ask(connection, op="attempt", items=items)["answers"]
        assert [each.get("rule") for each in answers] == [
            None, "attempt_is_old", None, "attempt_is_invalid", "attempt_is_invalid",
        ]  # fmt: skip


def test_a_stream_frame_without_a_taker_is_refused_with_the_reason(tmp_path: Path) -> None:
    with served(tmp_path / "w") as world, world.connect() as connection:
        [intent] = opened(world)
        items = [frame_fields(frame(intent)), frame_fields(frame(intent, blob=bytes(100)))]
        answers = world.ask(connection, op="tell", items=items)["answers"]
        assert [each["rule"] for each in answers] == ["stream_has_no_taker"] * 2


ATTEMPT: dict[Any, Any] = {"intent": bytes(32), "attempt": 1, "phase": "begun"}
OUTCOME: dict[Any, Any] = {**outcome_fields(outcome(Hash(bytes(32))))}
FRAME: dict[Any, Any] = {**frame_fields(frame(Hash(bytes(32))))}


@pytest.mark.parametrize(
    ("op", "items"),
    [
        ("settle", None),
        ("settle", {}),
        ("settle", [1]),
        ("settle", [{}]),
        ("settle", [OUTCOME] * (WORK_ITEMS_MAX + 1)),
        ("settle", [{**OUTCOME, "more": 1}]),
        ("settle", [{**OUTCOME, 7: 1}]),
        ("settle", [{**OUTCOME, "intent": bytes(31)}]),
        ("settle", [{**OUTCOME, "attempt": "1"}]),
        ("settle", [{**OUTCOME, "payload": "text"}]),
        ("settle", [{**OUTCOME, "cost_cents": None}]),
        ("settle", [{**OUTCOME, "blobs": b"x"}]),
        ("settle", [{**OUTCOME, "blobs": [b"x"] * 1025}]),
        ("settle", [{**OUTCOME, "signature": bytes(64)}]),
        ("settle", [{**OUTCOME, "batch": [0, 1, []]}]),
        ("settle", [{**OUTCOME, "batch": [0, 1, [b"short"]]}]),
        ("settle", [{**OUTCOME, "batch": [0, 1, [bytes(32)] * 65]}]),
        ("attempt", [{**ATTEMPT, "phase": 1}]),
        ("attempt", [{**ATTEMPT, "problem": None}]),
        ("attempt", [{**ATTEMPT, "code": b""}]),
        ("attempt", [{"intent": bytes(32)}]),
        ("attempt", [ATTEMPT] * (WORK_ITEMS_MAX + 1)),
        ("tell", [{**FRAME, "blob": "text"}]),
        ("tell", [{**FRAME, "frame_kind": 1}]),
        ("tell", [{**FRAME, "key_id": b""}]),
        ("tell", [FRAME] * (WORK_ITEMS_MAX + 1)),
    ],
)
def test_a_malformed_request_is_answered_and_none_of_its_items_is_taken(
    tmp_path: Path, op: str, items: Any
) -> None:
    """H-51"""
    with served(tmp_path / "w") as world, world.connect() as connection:
        [intent] = opened(world)
        world.rig.quiet()
        seq = world.rig.store.head().seq
        kinds: dict[str, dict[Any, Any]] = {"settle": OUTCOME, "attempt": ATTEMPT, "tell": FRAME}
        good = kinds[op]
        if isinstance(items, list):
            items = [{**good, "intent": intent}, *items]
        kind, message = error(world.ask(connection, op=op, items=items))
        assert kind == "usage"
        assert message
        assert world.rig.store.head().seq == seq
        is_well(world)


ODD = st.sampled_from([INTEGER_MIN, -1, 0, 1, 2**32, 2**63, INTEGER_MAX])


@given(
    numbers=st.tuples(ODD, ODD, ODD, ODD),
    texts=st.tuples(st.text(max_size=9), st.text(max_size=9)),
    signed=st.none() | st.tuples(st.binary(max_size=70), st.binary(max_size=70)),
    payload=st.binary(max_size=40),
)
def test_values_that_no_executor_sends_are_refused_and_the_world_continues(
    shared: Served,
    numbers: tuple[int, int, int, int],
    texts: tuple[str, str],
    signed: tuple[bytes, bytes] | None,
    payload: bytes,
) -> None:
    [intent] = opened(shared)
    attempt, started, finished, cost = numbers
    key_id, signature = signed or (None, None)
    strange = outcome(
        intent, attempt=attempt, started_ns=started, finished_ns=finished, cost_cents=cost,
        status=texts[0], payload=payload, key_id=key_id, signature=signature,
        batch=None if signed is None else Batch(index=attempt, size=started, path=(intent,)),
    )  # fmt: skip
    told = frame(
        intent, attempt=attempt, frame_seq=started, frame_kind=texts[1], payload=payload,
        key_id=key_id, signature=signature,
    )  # fmt: skip
    tried = AttemptInput(intent=intent, attempt=attempt, phase=texts[0], problem=texts[1])
    with shared.connect() as connection:
        for op, item in (
            ("settle", outcome_fields(strange)),
            ("tell", frame_fields(told)),
            ("attempt", attempt_fields(tried)),
        ):
            [answer] = shared.ask(connection, op=op, items=[item])["answers"]
            assert "rule" in answer or "lost" in answer, (op, answer)
        [answer] = shared.ask(connection, op="settle", items=[outcome_fields(outcome(intent))])[
            "answers"
        ]
        assert isinstance(read_told(answer), Admitted)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with served(tmp_path_factory.mktemp("world") / "w") as world:
        yield world


def test_each_message_is_read_back_as_it_was_written() -> None:
    intent, blob = Hash(bytes(32)), b"blob"
    batch = Batch(index=1, size=3, path=(content_hash(b"a"), content_hash(b"b")))
    for given_ in (
        outcome(intent),
        outcome(intent, cost_cents=0, blobs={content_hash(blob): blob}),
        outcome(intent, executor="shop", key_id=bytes(32), signature=bytes(64), batch=batch),
    ):
        assert read_outcome(_sent(outcome_fields(given_))) == given_
    for told in (frame(intent), frame(intent, blob=b"", key_id=bytes(32), signature=bytes(64))):
        assert read_frame(_sent(frame_fields(told))) == told
    for tried in (
        AttemptInput(intent=intent, attempt=3),
        AttemptInput(
            intent=intent, attempt=3, phase="parked", problem="it fails", code="exception"
        ),
    ):
        assert read_attempt(_sent(attempt_fields(tried))) == tried
    for answer in (Lost(Loss.TOO_FAST, "too fast"), Admitted(seq=3, outcome="delivered")):
        assert read_told(_sent(told_fields(answer))) == answer
    with pytest.raises(BadUsage):
        read_told({"lost": "somehow", "text": ""})


def _sent(fields: Any) -> Any:
    return decode_record(encode(fields))
