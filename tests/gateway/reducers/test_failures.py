"""Effects of a record without an answer: retries, automatic stalls, parked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from aos.testing import Transition
from tests.gateway.reducers import inputs
from tests.gateway.reducers.cell import Cell
from tests.gateway.reducers.inputs import MINUTE, SECOND, tag
from tests.gateway.reducers.way import (
    EVERY_TX_STEP,
    NO_ONE,
    STORED,
    WAYS,
    begin,
    called,
    checking,
    done_word,
    error_of,
    failed_with,
    is_at,
    order,
    priced,
    status,
    uploaded,
    verifying,
    word,
)
from tests.tools import long_form


def storing() -> Cell:
    return begin("work")


def pricing() -> Cell:
    cell = storing()
    cell.answer(STORED)
    return cell


def uploading() -> Cell:
    cell = pricing()
    cell.answer(priced())
    return cell


def awaiting_arweave() -> Cell:
    cell = uploading()
    cell.answer(uploaded())
    return cell


def asking_for_works() -> Cell:
    cell = begin("epoch")
    cell.answer(called(NO_ONE))
    return cell


def asking_for_the_submitter() -> Cell:
    cell = checking("direct", "SUBMIT_SCORE")
    cell.answer(called(NO_ONE))
    return cell


def asking_for_the_window() -> Cell:
    cell = checking("committed", "REVEAL_SCORE")
    cell.answer(called(word(1)))
    return cell


Make = Callable[[], Cell]

STORE: Final[dict[str, Make]] = {"StoringEvidence": storing}
ARWEAVE: Final[dict[str, Make]] = {
    "PricingUpload": pricing,
    "Uploading": uploading,
    "AwaitingArweave": awaiting_arweave,
}
CHAIN: Final[dict[str, Make]] = {
    "Works": asking_for_works,
    "Submitter": asking_for_the_submitter,
    "Window": asking_for_the_window,
    "Preconditions": lambda: begin("epoch"),
} | {
    f"{word} {kind} {step}": partial(at, kind, step)
    for kind, step in EVERY_TX_STEP
    for word, at in (("Checking", checking), ("Verifying", verifying))
}
EVERYWHERE: Final = STORE | ARWEAVE | CHAIN
SOME: Final = (
    "StoringEvidence",
    "Uploading",
    "AwaitingArweave",
    "Works",
    "Verifying committed REVEAL_SCORE",
)

# --- Delays --------------------------------------------------------------------------------------

RETRIES: Final = [1, 2, 4, 8, 16]
"""Seconds before the retries of a step."""
STALLS: Final = [1, 2, 4, 8, 15]
"""Minutes of the automatic stalls."""


def is_about(found_ns: int, expected_ns: int) -> bool:
    """A quarter less to a quarter more."""
    return expected_ns * 3 // 4 <= found_ns <= expected_ns * 5 // 4


@pytest.mark.long
@pytest.mark.parametrize("where", EVERYWHERE if long_form() else SOME[1:3])
def test_an_outage_is_retried_stalls_and_at_last_parks_and_the_record_can_resume(
    where: str,
) -> None:
    cell = EVERYWHERE[where]()
    place, params = is_at(cell), cell.params
    repeated = "PricingUpload" if where == "Uploading" else place[2]
    waits = 0

    for cycle in range(6):
        for retry, seconds in enumerate(RETRIES, 1):
            cell.fail("unavailable")
            assert is_about(cell.wait_ns, seconds * SECOND)
            assert cell.state["step_attempts"] == retry
            assert is_at(cell)[0] == "RUNNING"
            assert cell.state["error"]["recoverable"] is True
            waits += 1
            cell.fire()
            assert is_at(cell)[2] == repeated
        cell.fail("unavailable")
        if cycle == 5:
            break
        until = cell.now_ns + cell.wait_ns
        assert cell.state["stall"] == tag("Auto", {"until": until, "cycle": cycle + 1})
        assert is_about(cell.wait_ns, STALLS[cycle] * MINUTE)
        assert is_at(cell)[0] == "STALLED"
        cell.fire()
        assert is_at(cell)[0] == "RUNNING"
    assert waits == 30
    assert cell.state["stall"]["$tag"] == "Parked"
    assert not cell.open

    order(cell, "Resume")
    assert cell.state["stall"] is None
    assert (cell.state["step_attempts"], cell.state["stall_cycles"]) == (0, 0)
    if where != "Uploading":
        assert (is_at(cell), cell.params) == (place, params)


def test_the_delays_are_spread_over_a_quarter_less_to_a_quarter_more() -> None:
    found = set()
    for steps in range(40):
        cell = begin("epoch")
        cell.steps = 1_000 + steps  # other entropy
        cell.fail("unavailable")
        found.add(cell.wait_ns * 100 // SECOND)

    assert len(found) > 15
    assert min(found) >= 75
    assert max(found) <= 125


def test_the_delays_follow_the_policy_up_to_its_caps() -> None:
    policy = inputs.POLICY | {"retries": 3, "retry_base_ms": 100, "retry_cap_ms": 250}
    policy |= {"stall_base_ms": 1_000, "stall_cap_ms": 1_500, "stall_cycles": 2}
    cell = begin("epoch", policy=policy)
    found = []

    while is_at(cell)[0] != "STALLED" or cell.open:
        if cell.effect == "sys/timer.set@1":
            found.append(cell.wait_ns)
            cell.fire()
        else:
            cell.fail("unavailable")

    expected = [100, 200, 250, 1_000, 100, 200, 250, 1_500, 100, 200, 250]
    assert len(found) == len(expected)
    assert all(is_about(*each) for each in zip(found, [n * 10**6 for n in expected], strict=True))


@pytest.mark.parametrize(("retries", "cycles"), [(0, 0), (0, 1), (1, 0)])
def test_a_policy_without_retries_or_stalls_parks_at_once(retries: int, cycles: int) -> None:
    cell = begin("epoch", policy=inputs.POLICY | {"retries": retries, "stall_cycles": cycles})

    for _ in range(retries + cycles):
        cell.fail("unavailable")
        cell.fire()
    cell.fail("unavailable")

    assert cell.state["stall"]["$tag"] == "Parked"


def test_an_answer_makes_all_retries_and_stalls_available_again() -> None:
    cell = begin("epoch")
    for _ in range(6):
        cell.fail("unavailable")
        cell.fire()
    assert cell.state["stall_cycles"] == 1

    cell.answer(called(NO_ONE))
    cell.answer(called(word(3)))

    assert (cell.state["step_attempts"], cell.state["stall_cycles"]) == (0, 0)
    assert cell.state["error"] is None


# --- Codes ---------------------------------------------------------------------------------------

Answer = Callable[[Cell], Transition]


def failing(code: str) -> Answer:
    return lambda cell: cell.fail(code)


RETRIED: Final[dict[str, tuple[Answer, str | None]]] = {
    "unavailable": (failing("unavailable"), None),
    "of a secret": (failing("secret_missing"), None),
    "another": (failing("what_is_this"), None),
    "wrong_chain": (failing("wrong_chain"), "WRONG_CHAIN"),
    "block_unknown": (failing("block_unknown"), "BLOCK_UNKNOWN"),
    "a timeout": (Cell.timeout, "TIMED_OUT"),
    "a misfit": (Cell.reject, "UNAVAILABLE"),
}


@pytest.mark.parametrize("where", EVERYWHERE)
@pytest.mark.parametrize("how", RETRIED)
def test_an_unknown_answer_is_tried_again(where: str, how: str) -> None:
    cell = EVERYWHERE[where]()
    doing = cell.state["doing"]
    answer, code = RETRIED[how]
    if code is None:
        code = "NODE_UNAVAILABLE"
        code = "STORE_FAILED" if where in STORE else code
        code = "ARWEAVE_UNAVAILABLE" if where in ARWEAVE else code

    answer(cell)

    assert (is_at(cell)[0], error_of(cell), cell.state["doing"]) == ("RUNNING", code, doing)
    assert is_about(cell.wait_ns, SECOND)


@pytest.mark.parametrize("where", SOME)
@pytest.mark.parametrize("code", ["evm_bad_request", "arweave_bad_request"])
def test_a_request_that_the_executor_calls_invalid_fails_the_record(where: str, code: str) -> None:
    cell = EVERYWHERE[where]()

    cell.fail(code)

    assert failed_with(cell, "INVALID_INPUT")


@pytest.mark.parametrize("code", ["blob_missing", "blob_too_large"])
def test_a_blob_that_cannot_be_had_parks_the_record(code: str) -> None:
    cell = uploading()

    cell.fail(code)

    assert cell.state["stall"] == tag("Parked", {"why": f"it is {code}"})
    order(cell, "Resume")
    assert cell.effect == "arweave/quote@1"


@pytest.mark.parametrize("where", EVERYWHERE)
def test_an_effect_that_an_operator_cancels_parks_the_record(where: str) -> None:
    cell = EVERYWHERE[where]()

    cell.cancel()

    assert (is_at(cell)[0], cell.state["stall"]["$tag"]) == ("STALLED", "Parked")
    assert not cell.open


@pytest.mark.parametrize("how", [Cell.answer, Cell.cancel, Cell.timeout, Cell.reject])
def test_any_end_of_a_timer_is_its_end(how: Answer) -> None:
    for stalls in (False, True):
        cell = begin("epoch", policy=inputs.POLICY | {"retries": 0 if stalls else 5})
        asked = cell.params
        cell.fail("unavailable")
        cell.now_ns += MINUTE * 2
        how(cell)

        assert (is_at(cell)[0], cell.params) == ("RUNNING", asked)


@pytest.mark.parametrize("where", EVERYWHERE)
def test_an_answer_that_no_one_waits_for_changes_nothing(where: str) -> None:
    cell = EVERYWHERE[where]()
    ref = cell.ref
    order(cell, "Park")
    before = cell.state

    stale: list[Any] = [cell.cancel, cell.timeout, cell.reject]
    for how in stale:
        assert how(ref=ref).effects == ()
        assert cell.state == before
    order(cell, "Resume")
    before, opened = cell.state, list(cell.open)
    for how in stale:
        how(ref=ref)
        assert (cell.state, list(cell.open)) == (before, opened)


@pytest.mark.parametrize("kind", inputs.KINDS)
def test_a_record_that_was_parked_in_each_step_still_completes(kind: str) -> None:
    cell = begin(kind)
    if kind == "work":
        for answer in (STORED, priced(), uploaded(), status()):
            order(cell, "Park")
            order(cell, "Resume")
            if cell.effect == "arweave/quote@1" and answer != priced():
                cell.answer(priced())  # a parked upload begins with the price
            cell.answer(answer)
    for step in WAYS[kind]:
        order(cell, "Park")
        order(cell, "Resume")
        cell.answer(called(done_word(cell, step)))

    assert is_at(cell)[0] == "COMPLETED"
