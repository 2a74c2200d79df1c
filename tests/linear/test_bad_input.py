"""Hostile events: each has a clear answer, changes nothing else, and makes no instance fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aos.testing import step
from aos.testing.problems import InputRefused
from aos.values.cbor import encode
from tests.linear.stage import (
    DAY,
    LEASE,
    LINEAR,
    MODES,
    NODES,
    NULL,
    SECOND,
    SHIPPED,
    Stage,
    Tagged,
    completed,
    dead,
    plan_step,
    retry,
    shipped,
    start,
    waiting,
)

KIB = 1 << 10
MB = 1_000_000
CONTEXT_MAX = 64 * KIB
ERROR_MAX = 4 * KIB
YEAR = 365 * DAY
FUEL_MAX = 10**9
"""Of a step, where a manifest says nothing else."""
NOT_CANONICAL = b"\x18\x01"


@pytest.fixture(params=MODES)
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    stage = Stage(request.param)
    yield stage
    assert stage.world.faults() == []
    stage.world.close()


def claimed(stage: Stage, **more: Any) -> Stage:
    stage.begin(**more)
    assert stage.claim() == "Claimed 0 1"
    return stage


def context_of(size: int) -> dict[str, bytes]:
    """A context of exactly this many bytes of canonical CBOR."""
    room = size - len(encode({"a": b""})) - 8
    while (missing := size - len(encode({"a": encode(bytes(room))}))) > 0:
        room += missing
    found = encode(bytes(room))
    assert len(encode({"a": found})) == size
    return {"a": found}


@pytest.mark.parametrize(
    ("broken", "detail"),
    [
        ({"steps": []}, "steps: expected 1 to 256, found 0"),
        ({"steps": [plan_step()] * 257}, "steps: expected 1 to 256, found 257"),
        ({"steps": [plan_step(""), plan_step()]}, "type of a plan step: expected 1 to 256 bytes"),
        ({"steps": [plan_step("x" * 257)]}, "type of a plan step: expected 1 to 256 bytes"),
        ({"steps": [plan_step(max_attempts=0)]}, "max_attempts: expected 1 to 10000, found 0"),
        ({"steps": [plan_step(max_attempts=10_001)]}, "max_attempts: expected 1 to 10000"),
        ({"steps": [plan_step(lease=0)]}, "lease: expected 1000000 to 86400000000000 ns, found 0"),
        ({"steps": [plan_step(lease=YEAR)]}, f"ns, found {YEAR}"),
        ({"steps": [plan_step(lease=-1)]}, "ns, found -1"),
        ({"steps": [plan_step(backoff=-1)]}, "backoff: expected 0 to 86400000000000 ns, found -1"),
        ({"steps": [plan_step(backoff=2**63 - 1)]}, f"ns, found {2**63 - 1}"),
        ({"version": 0}, "version: expected 1 or more, found 0"),
        ({"type": ""}, "type: expected 1 to 256 bytes, found 0"),
        ({"schedule": ""}, "schedule: expected 1 to 256 bytes, found 0"),
        (
            {"context": context_of(CONTEXT_MAX + 1)},
            "context: expected at most 65536 bytes, found 65537",
        ),
        ({"context": {"a": NOT_CANONICAL}}, "a: expected canonical CBOR"),
        ({"context": {"a": b""}}, "a: expected canonical CBOR"),
        ({"context": {"a": NULL + NULL}}, "a: expected canonical CBOR"),
        ({"instance": ""}, "instance: expected 1 to 256 bytes, found 0"),
    ],
)
def test_a_start_that_breaks_a_limit_starts_nothing(
    stage: Stage, broken: dict[str, Any], detail: str
) -> None:
    given = start(mode=stage.mode, **broken)

    assert stage.send("Start", **given) == "INVALID"
    assert stage.send("Reserve", biz_key="k-1", start=given) == "INVALID"

    assert all(detail in found for found in stage.details), stage.details
    assert len(stage.details) == 2
    assert stage.world.cells() == []
    assert stage.begin() == "Done"


def test_a_business_key_that_is_too_long_is_refused(stage: Stage) -> None:
    assert stage.reserve("") == "INVALID"
    assert stage.reserve("k" * 257) == "INVALID"

    assert stage.world.cells() == []


@pytest.mark.parametrize("biz_key", ["", "k" * 257, "k" * 2_000])
def test_a_forged_reservation_of_a_key_that_no_cell_can_have_starts_nothing(
    stage: Stage, biz_key: str
) -> None:
    given = start(mode=stage.mode)

    assert stage.send("Reserved", biz_key=biz_key, start=given) == "INVALID"
    assert stage.world.cells() == []

    stage.begin()
    before = stage.state()
    assert stage.send("Reserved", biz_key=biz_key, start=given) == "INVALID"
    assert stage.state() == before


def test_a_context_of_64_kib_is_accepted(stage: Stage) -> None:
    assert stage.begin(context=context_of(CONTEXT_MAX)) == "Done"


def test_a_patch_that_makes_the_context_too_large_is_refused_whole(stage: Stage) -> None:
    claimed(stage, context=context_of(CONTEXT_MAX))
    before = stage.state()

    assert stage.result(completed(b=NULL), outbound=[shipped()]) == "INVALID"
    assert stage.result(completed(b=NOT_CANONICAL)) == "INVALID"

    assert (stage.state(), stage.outbound) == (before, [])
    assert stage.result(completed(a=None, b=NULL)) == "Done"
    assert stage.state()["context"] == {"b": NULL}


def test_a_start_for_an_instance_that_exists_gives_its_business_key_back(stage: Stage) -> None:
    claimed(stage)
    before = stage.state()

    assert stage.reserve("k-1") == "Done"

    assert stage.answers[-2:] == [("i-1", "EXISTS"), ("k-1", "Done")]
    assert (stage.state(), stage.holder("k-1")) == (before, None)
    assert stage.reserve("k-1", instance="i-2") == "Done"
    assert stage.holder("k-1") == "i-2"


def test_a_release_by_another_instance_leaves_a_business_key_taken(stage: Stage) -> None:
    stage.reserve("k-1")

    assert stage.send("Released", biz_key="k-1", instance="i-2") == "Done"

    assert stage.holder("k-1") == "i-1"


@pytest.mark.parametrize(
    ("worker", "claim", "lease"),
    [
        ("", "c-1", None),
        ("w" * 257, "c-1", None),
        ("w-1", "", None),
        ("w-1", "c-1", 0),
        ("w-1", "c-1", -1),
        ("w-1", "c-1", YEAR),
    ],
)
def test_a_claim_that_breaks_a_limit_is_refused(
    stage: Stage, worker: str, claim: str, lease: int | None
) -> None:
    stage.begin()
    before = stage.state()

    answer = stage.send("Claim", instance="i-1", worker=worker, claim=claim, lease=lease)

    assert answer == "INVALID"
    assert stage.state() == before


def test_a_heartbeat_of_a_year_is_refused_and_a_day_is_cut_to_the_plan(stage: Stage) -> None:
    claimed(stage)
    before = stage.state()

    assert stage.extend(lease=YEAR) == "INVALID"
    assert stage.extend(lease=0) == "INVALID"
    assert stage.state() == before

    assert stage.extend(lease=DAY) == "Done"
    assert stage.row()["locked_until"] == stage.now + LEASE


@pytest.mark.parametrize("early", [-1, 1])
def test_a_result_of_a_past_or_future_epoch_is_refused(early: int) -> None:
    stage = claimed(Stage())
    stage.result(retry(backoff=0))
    stage.claim()
    before = stage.state()

    for outcome in (completed(), waiting(), retry(), dead()):
        assert stage.result(outcome, epoch=2 + early) == "STALE_EPOCH"

    assert stage.details[-1] == "the epoch of the plan step is 2"
    assert stage.state() == before


@pytest.mark.parametrize("seq", [1, 2, 2**63])
def test_a_result_for_another_plan_step_is_refused(stage: Stage, seq: int) -> None:
    claimed(stage, steps=[plan_step(), plan_step()])
    before = stage.state()

    assert stage.result(completed(), seq=seq, epoch=1) == "STALE_EPOCH"

    assert stage.details[-1] == "the current plan step is 0"
    assert stage.state() == before


def test_a_result_of_another_worker_is_refused(stage: Stage) -> None:
    claimed(stage)
    before = stage.state()

    assert stage.result(completed(), "w-2") == "LEASE_LOST"
    assert stage.result(completed(), "") == "LEASE_LOST"

    assert stage.state() == before


@pytest.mark.parametrize(
    "outcome",
    [
        waiting(""),
        waiting("x" * 257),
        waiting(timeout=-1),
        waiting(timeout=2**63 - 1),
        retry(backoff=-1),
        retry(backoff=2**63 - 1),
    ],
)
def test_an_outcome_that_breaks_a_limit_is_refused(stage: Stage, outcome: Tagged) -> None:
    claimed(stage)
    before = stage.state()

    assert stage.result(outcome) == "INVALID"

    assert stage.state() == before
    assert stage.result(completed()) == "Done"


@pytest.mark.parametrize(
    "outbound",
    [
        [{"schema": "sys/EffectError@1", "value": NULL}],
        [{"schema": "aos/LinearResult@1", "value": NULL}],
        [{"schema": "aos/LinearStart@1", "value": NULL}],
        [shipped(), {"schema": "aos/LinearReleased@1", "value": NULL}],
        [{"schema": "", "value": NULL}],
        [{"schema": SHIPPED, "value": NOT_CANONICAL}],
        [{"schema": SHIPPED, "value": b""}],
        [shipped()] * 65,
    ],
)
def test_an_outbound_event_that_no_handler_may_send_is_refused(
    stage: Stage, outbound: list[dict[str, Any]]
) -> None:
    claimed(stage)
    before = stage.state()

    assert stage.result(completed(), outbound=outbound) == "INVALID"

    assert (stage.state(), stage.outbound) == (before, [])


def test_a_result_cannot_carry_an_event_that_only_steps_may_emit() -> None:
    """L-34, M-30b: whoever sends a result chooses its events, so each must be open at ingress."""
    stage = claimed(Stage(ingress=[]))
    before = stage.state()

    assert stage.result(completed(), outbound=[shipped()]) == "event_is_internal"

    assert (stage.state(), stage.outbound) == (before, [])
    assert stage.result(completed()) == "Done"
    stage.world.close()


def test_a_result_may_carry_an_event_that_is_open_at_ingress() -> None:
    """L-34, M-30b."""
    stage = claimed(Stage(ingress=[SHIPPED]))

    assert stage.result(completed(), outbound=[shipped()]) == "Done"

    assert stage.outbound == [{"order": "o-1"}]
    stage.world.close()


@pytest.mark.parametrize("name", ["Reserved", "Released"])
def test_only_the_package_makes_its_own_events_where_the_manifest_has_a_list(name: str) -> None:
    """L-31, M-30c."""
    stage = Stage(ingress=[])
    stage.reserve("b-1")
    values = {
        "Reserved": {"biz_key": "b-2", "start": start("i-2")},
        "Released": {"biz_key": "b-1", "instance": "i-1"},
    }

    with pytest.raises(InputRefused) as refused:
        stage.world.send(f"aos/Linear{name}@1", values[name])

    assert refused.value.rule == "event_is_internal"
    assert (stage.find("i-2"), stage.holder("b-1")) == (None, "i-1")
    stage.world.close()


@pytest.mark.parametrize(("more", "answer"), [(0, "Done"), (1, "Refused")])
def test_outbound_events_have_1_mib_together(more: int, answer: str) -> None:
    """Only a workflow can send so much: the kernel refuses such an event from outside."""
    stage = claimed(Stage())
    values = [
        encode({"order": "o" * (KIB * KIB // 32 - 10 + (number < more))}) for number in range(32)
    ]
    assert sum(map(len, values)) == KIB * KIB + more
    outbound = [{"schema": SHIPPED, "value": value} for value in values]
    event = _event("Result", worker="w-1", epoch=1, seq=0, outcome=completed(), outbound=outbound)

    after = step(NODES, LINEAR, event=event, state=stage.world.state(LINEAR, "i-1"))

    assert after.annotation["$tag"] == answer


def test_the_101st_early_signal_is_refused_until_one_was_used() -> None:
    stage = claimed(Stage())
    for number in range(100):
        assert stage.signal(event_id=f"e-{number}") == "Done"
    before = stage.state()

    assert stage.signal(event_id="e-100") == "BUFFER_FULL"

    assert stage.details[-1] == "100 signals wait, with 100 bytes"
    assert stage.state() == before
    assert stage.signal(event_id="e-7") == "Done"
    stage.result(waiting())
    assert stage.row()["woken_by"]["event_id"] == "e-0"
    assert stage.signal(event_id="e-100") == "Done"


def test_early_signals_have_256_kib_of_payload_together() -> None:
    stage = claimed(Stage())
    payload = encode(bytes(64 * KIB - 3))
    assert len(payload) == 64 * KIB

    answers = [stage.signal(event_id=f"e-{number}", payload=payload) for number in range(5)]

    assert answers == ["Done"] * 4 + ["BUFFER_FULL"]


@pytest.mark.parametrize(
    ("type", "event_id", "payload"),
    [
        ("", "e-1", NULL),
        ("x" * 257, "e-1", NULL),
        ("PAID", "", NULL),
        ("PAID", "e" * 257, NULL),
        ("PAID", "e-1", b""),
        ("PAID", "e-1", NOT_CANONICAL),
        ("PAID", "e-1", encode(bytes(64 * KIB))),
    ],
)
def test_a_signal_that_breaks_a_limit_is_refused(
    stage: Stage, type: str, event_id: str, payload: bytes
) -> None:
    claimed(stage).result(waiting())
    before = stage.state()

    assert stage.signal(type, event_id, payload) == "INVALID"

    assert stage.state() == before


def test_an_event_id_again_with_another_payload_changes_nothing(stage: Stage) -> None:
    claimed(stage).result(waiting())
    stage.signal(payload=encode(1))
    before = stage.state()

    assert stage.signal(payload=encode(2)) == "Done"

    assert stage.state() == before


@pytest.mark.parametrize("is_buffered", [False, True])
def test_an_event_id_again_with_another_type_is_refused(stage: Stage, is_buffered: bool) -> None:
    """L-26: it is another event, and dropping it in silence would lose it."""
    claimed(stage)
    if not is_buffered:
        stage.result(waiting())
    first, other = ("SENT", "PAID") if is_buffered else ("PAID", "SENT")
    if is_buffered and stage.mode == "source":
        return  # this mode buffers nothing
    stage.signal(first, payload=encode(1))
    before = stage.state()

    assert stage.signal(other, payload=encode(1)) == "EVENT_ID_TAKEN"
    assert stage.details[-1] == first
    assert stage.signal(first) == "Done"
    assert stage.state() == before

    assert stage.signal(other, event_id="e-2") in ("Done", "NOT_WAITING")


def signaled(state: dict[str, Any], *signals: tuple[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The state after these signals, each an event id and a type, and the answers to them."""
    answers = []
    for event_id, type in signals:
        signal = {"instance": "i-1", "event_id": event_id, "type": type, "payload": NULL}
        after = step(NODES, LINEAR, event=("aos/LinearSignal@1", signal), state=state)
        state = after.state
        answer = after.annotation
        reason = answer["$value"]["reason"]["$tag"] if answer["$tag"] == "Refused" else "Done"
        answers.append(reason)
    return state, answers


def test_ids_that_a_build_without_types_has_seen_are_still_done(stage: Stage) -> None:
    """L-26: an instance of an earlier build continues, and knows the types from then on."""
    claimed(stage).result(waiting())
    old = stage.world.state(LINEAR, "i-1") | {"seen": ["e-1", "e-2"], "seen_types": None}

    state, answers = signaled(
        old, ("e-2", "SENT"), ("e-3", "PAID"), ("e-1", "SENT"), ("e-3", "SENT"), ("e-3", "PAID")
    )

    assert answers == ["Done", "Done", "Done", "EVENT_ID_TAKEN", "Done"]
    assert (state["seen"], state["seen_types"]) == (["e-1", "e-2", "e-3"], ["PAID"])


def test_of_1000_ids_of_an_earlier_build_the_types_stay_those_of_the_last_ones(
    stage: Stage,
) -> None:
    """L-26"""
    claimed(stage).result(waiting())
    ids = [f"e-{number}" for number in range(1_000)]
    old = stage.world.state(LINEAR, "i-1") | {"seen": ids, "seen_types": ["PAID"] * 998}

    state, answers = signaled(old, ("e-1", "SENT"), ("new", "PAID"), ("e-1", "SENT"))
    assert answers == ["Done", "Done", "Done"]
    assert (len(state["seen"]), len(state["seen_types"])) == (1_000, 999)
    state["steps"][0]["waiting_event_type"] = "SENT"
    state["steps"][0]["status"] = {"$tag": "WAITING"}
    state, answers = signaled(state, ("more", "SENT"), ("e-2", "SENT"), ("more", "PAID"))
    assert answers == ["Done", "EVENT_ID_TAKEN", "EVENT_ID_TAKEN"]
    assert (len(state["seen"]), len(state["seen_types"])) == (1_000, 1_000)


def test_of_1001_event_ids_the_first_is_forgotten(stage: Stage) -> None:
    claimed(stage).result(waiting())
    seen = [f"e-{number}" for number in range(1_000)]
    signal = {"instance": "i-1", "event_id": "e-1000", "type": "PAID", "payload": NULL}

    after = step(
        NODES,
        LINEAR,
        event=("aos/LinearSignal@1", signal),
        state=stage.world.state(LINEAR, "i-1") | {"seen": seen, "seen_types": ["PAID"] * 1_000},
    )

    assert after.state["seen"] == [*seen[1:], "e-1000"]
    assert len(after.state["seen_types"]) == 1_000


@pytest.mark.parametrize("event", ["Claim", "Extend", "Result", "Signal", "Cancel"])
def test_an_event_for_an_instance_that_never_was_is_refused_by_the_kernel(
    stage: Stage, event: str
) -> None:
    sent: dict[str, Callable[[], str]] = {
        "Claim": stage.claim,
        "Extend": stage.extend,
        "Result": lambda: stage.result(completed()),
        "Signal": stage.signal,
        "Cancel": stage.cancel,
    }

    assert sent[event]() == "instance_is_unknown"

    assert stage.world.cells() == []


@pytest.mark.parametrize("is_canceled", [False, True])
def test_an_event_for_an_instance_that_has_ended_changes_nothing(
    stage: Stage, is_canceled: bool
) -> None:
    claimed(stage)
    _ = stage.cancel() if is_canceled else stage.result(completed(), epoch=1)
    ended, cells = stage.state(), stage.world.cells()

    answers = {
        stage.claim(),
        stage.extend(),
        stage.result(dead(), outbound=[shipped()]),
        stage.signal(),
        stage.send("Result", **_huge_result()),
    }

    assert answers == {"CANCELED" if is_canceled else "NOT_RUNNING"}
    assert stage.begin() == "EXISTS"
    stage.advance(DAY)
    assert stage.state() == ended
    assert [(each.key, each.status) for each in stage.world.cells()] == [
        (each.key, each.status) for each in cells
    ]


def _huge_result() -> dict[str, Any]:
    place = {"instance": "i-1", "worker": "w-1", "epoch": 2**63, "seq": 2**63}
    return {**place, "outcome": dead("x" * MB), "outbound": []}


@pytest.mark.parametrize("letter", ["x", "é", "€", "𝄞"])
@pytest.mark.parametrize("lead", ["", "a", "ab", "abc"])
def test_a_long_error_is_cut_between_two_characters(letter: str, lead: str) -> None:
    stage = claimed(Stage(), steps=[plan_step(max_attempts=2)])
    text = lead + letter * (MB // len(letter.encode()))
    cut = text.encode()[:ERROR_MAX].decode(errors="ignore")

    stage.result(retry(text, backoff=0))
    assert stage.row()["last_error"] == cut
    stage.claim()
    stage.result(dead(text))
    assert stage.row()["last_error"] == stage.events("Ended")[0]["error"] == cut

    stage.begin(instance="i-2")
    stage.cancel(text, instance="i-2")
    assert stage.state("i-2")["cancel_reason"] == cut
    assert ERROR_MAX - 3 <= len(cut.encode()) <= ERROR_MAX


def test_an_answer_does_not_repeat_a_long_key(stage: Stage) -> None:
    key = "k" * 900_000

    assert stage.begin(context={key: NOT_CANONICAL}) == "INVALID"
    claimed(stage)
    assert stage.result(completed(**{key: NOT_CANONICAL})) == "INVALID"
    assert stage.result(completed(**{key: NULL})) == "INVALID"

    assert [len(each) <= ERROR_MAX for each in stage.details] == [True] * 3
    assert stage.row()["status"] == "RUNNING"


def largest_state(seq: int) -> dict[str, Any]:
    """256 plan steps, a full context, full lists of signals, long names everywhere. ``w-1`` has
    claimed the plan step ``seq``."""
    stage, name = Stage(), "n" * 255
    plan = [plan_step(f"{name}{number % 10}", max_attempts=2) for number in range(256)]
    stage.reserve(name, *plan, context=context_of(CONTEXT_MAX), type=name, schedule=name)
    stage.claim(claim=name)
    stage.result(retry("x" * MB, backoff=0))
    stage.claim(claim=name)
    state: dict[str, Any] = stage.world.state(LINEAR, "i-1")
    ids = [f"{name[:250]}-{number:05}" for number in range(1_000)]
    signal = {"type": "PAID", "payload": encode(bytes(256 * KIB // 100 - 3))}
    early = [signal | {"event_id": id} for id in ids[:100]]
    large = {"event_id": name, "type": name, "payload": encode(bytes(64 * KIB - 3))}
    rows = state["steps"]
    done = rows[1] | {"status": {"$tag": "DONE"}}
    rows[: seq + 1] = [done] * seq + [rows[0] | {"woken_by": large}]
    types = [name] * len(ids)
    return state | {
        "current_step_seq": seq, "seen": ids, "seen_types": types, "buffered": early,
    }  # fmt: skip


def _event(name: str, **value: Any) -> tuple[str, dict[str, Any]]:
    return f"aos/Linear{name}@1", {"instance": "i-1", **value}


LARGEST_EVENTS = [
    _event("Claim", worker="w-2", claim="c-9", lease=None),
    _event("Signal", event_id="new", type="SENT", payload=NULL),
    _event("Cancel", reason="x" * MB),
    *(
        _event("Result", worker="w-1", epoch=2, seq=seq, outcome=outcome, outbound=outbound)
        for seq in (0, 255)
        for outcome, outbound in (
            (
                completed(a=encode(bytes(CONTEXT_MAX - 9))),
                [{"schema": SHIPPED, "value": encode({"order": "o" * 14_000})}] * 64,
            ),
            (waiting("PAID"), []),
            (retry("x" * MB), []),
            (dead("x" * MB), []),
        )
    ),
]


@pytest.mark.parametrize("event", LARGEST_EVENTS, ids=lambda event: event[0])
def test_the_largest_instance_takes_every_event_without_a_fault(event: tuple[str, Any]) -> None:
    after = step(NODES, LINEAR, event=event, state=largest_state(event[1].get("seq", 0)))

    assert after.fault is None
    assert after.fuel < FUEL_MAX // 4
    if event[0] == "aos/LinearResult@1":
        assert after.annotation == {"$tag": "Done"}


def test_the_largest_plan_is_started_under_a_business_key(stage: Stage) -> None:
    name = "n" * 256

    assert stage.reserve(name, *[plan_step(name)] * 256, context=context_of(CONTEXT_MAX)) == "Done"

    assert stage.statuses() == ["RUNNING", "READY", *["PENDING"] * 255]


def test_a_lease_can_be_asked_for_shorter_and_the_timer_follows(stage: Stage) -> None:
    """Timers of earlier leases fire too, and change nothing."""
    claimed(stage)
    stage.result(retry(backoff=0))
    stage.claim(lease=SECOND)
    assert len(stage.world.timers()) == 2

    stage.advance(SECOND)
    assert stage.row()["status"] == "RUNNING"
    stage.advance(1)
    assert stage.row()["last_error"] == "LEASE_EXPIRED"
    stage.claim()
    stage.advance(LEASE - SECOND)

    assert stage.row()["status"] == "RUNNING"
    assert stage.row()["attempts"] == 2


def test_leases_that_get_shorter_and_shorter_open_100_timers_at_most(stage: Stage) -> None:
    """The kernel fails an instance with 10,000 open effects."""
    claimed(stage)
    for number in range(150):
        assert stage.extend(lease=LEASE - number * SECOND // 10) == "Done"

    assert len(stage.world.timers()) == 100
    stage.advance(20 * SECOND)
    assert (stage.row()["status"], stage.extend()) == ("RUNNING", "LEASE_LOST")  # T2 is late
    stage.advance(SECOND)
    assert stage.row()["last_error"] == "LEASE_EXPIRED"
    stage.advance(LEASE)
    assert stage.world.timers() == []
    assert stage.world.state(LINEAR, "i-1")["timers"] == 0


def test_an_outbound_event_that_does_not_fit_the_manifest_fails_the_instance(stage: Stage) -> None:
    """The module does not know the schemas: the front of a node refuses such a result first."""
    for schema, value in (("shop/Unknown@1", NULL), (SHIPPED, NULL)):
        after = step(
            NODES,
            LINEAR,
            event=_event(
                "Result",
                worker="w-1",
                epoch=1,
                seq=0,
                outcome=completed(),
                outbound=[{"schema": schema, "value": value}],
            ),
            state=_claimed_state(stage.mode),
        )

        assert after.fault is not None
        assert after.fault[0] == "event_invalid"


def _claimed_state(mode: str) -> Any:
    return claimed(Stage(mode)).world.state(LINEAR, "i-1")
