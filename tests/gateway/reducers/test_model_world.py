"""Records, lanes and a model chain together, with outages and crashes: what the records say at the
end is what the chain has."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pytest

from tests.gateway.evm.studio import SCORED, Studio
from tests.gateway.reducers import inputs
from tests.gateway.reducers.inputs import ADMIN, VALIDATOR, WORKER, gateway
from tests.gateway.reducers.laws import AFTER_THE_END
from tests.gateway.reducers.model_world import EVERYTHING, ModelWorld, score, work
from tests.run_seed import seeds
from tests.tools import long_form

FAILURES: Final = {"CANCELED", "EPOCH_CLOSED", "CONFLICT"}
"""The ends of a record that trouble may bring about: the epoch may close before its works."""


def test_on_a_calm_chain_everything_completes() -> None:
    model = ModelWorld(gateway(), 1, replay=True)
    with model.world:
        for event in EVERYTHING[:2]:
            model.world.send(*event)
        model.calm()
        for event in EVERYTHING[2:]:
            model.world.send(*event)
            model.calm()

        assert {each.state["state"]["$tag"] for each in model.records()} == {"COMPLETED"}
        check(model)


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(120 if long_form() else 2))
def test_in_all_trouble_the_records_end_with_what_the_chain_has(seed: int) -> None:
    model = ModelWorld(gateway(), seed)
    with model.world:
        play(model, seed)
        check(model)


def play(model: ModelWorld, seed: int) -> None:
    """Send everything while there is trouble, and then let all end."""
    events = list(EVERYTHING)
    model.random.shuffle(events)
    for event in events:
        model.world.send(*event)
        for _ in range(model.random.randint(0, 6)):
            model.trouble()
    for _ in range(10):
        model.trouble()
    model.calm()


def check(model: ModelWorld) -> None:
    """At most one landed effect for each step, exactly one of a completed record's steps, and no
    failed step has landed."""
    studio = model.chain.head.studio
    assert studio is not None
    landed = Counter(each.transaction.data for each in model.chain.mined() if each.revert is None)
    doubles = {data: count for data, count in landed.items() if count > 1 and data}
    assert not doubles
    for record in model.records():
        check_record(model, record.state, studio)
    for lane in model.lanes():
        assert (lane.state["current"], lane.state["queued"]) == (None, 0)
    model.world.replay()


def check_record(model: ModelWorld, state: dict[str, Any], studio: Studio) -> None:
    told = {
        "WorkSubmission": work_steps,
        "ScoreSubmission": score_steps,
        "CloseEpoch": epoch_steps,
    }[state["type"]["$tag"]](state, studio)
    progress = state["progress"]
    for step, is_there in told.items():
        assert (progress[f"{step}_confirmed"] is True) == is_there, (step, state)
    hashes = {each.transaction.hash for each in model.chain.mined() if each.revert is None}
    for name in ("onchain_tx_hash", "commit_tx_hash", "register_tx_hash"):
        assert progress[name] is None or progress[name] in hashes
    if state["state"]["$tag"] == "COMPLETED":
        assert all(told.values())
    else:
        allowed = FAILURES if state["key"] in model.canceled else FAILURES - {"CANCELED"}
        assert state["error"]["code"] in allowed, state["error"]


def raw(state: dict[str, Any]) -> bytes:
    return bytes.fromhex(state["input"]["data_hash"][2:])


def work_steps(state: dict[str, Any], studio: Studio) -> dict[str, bool]:
    """The steps of a work that the chain has, by the fields of its progress."""
    found = studio.works.get(raw(state))
    return {
        "onchain": found is not None and found.submitter == WORKER,
        "register": studio.registrations.count((raw(state), WORKER)) == 1,
    }


def score_steps(state: dict[str, Any], studio: Studio) -> dict[str, bool]:
    found = studio.score(raw(state), WORKER, VALIDATOR)
    steps = {"onchain": found.status == SCORED, "register": found.registrations == 1}
    return steps | ({"commit": any(found.commitment)} if state["progress"]["salt"] else {})


def epoch_steps(state: dict[str, Any], studio: Studio) -> dict[str, bool]:
    return {"onchain": studio.closers.get(state["input"]["epoch"]) == ADMIN}


def test_a_record_continues_after_an_apply_of_the_same_manifest() -> None:
    model = ModelWorld(gateway(), 2)
    with model.world:
        model.world.send(*work(1))
        model.world.advance("5s")
        model.world.apply(gateway())
        model.calm()
        check(model)


def test_the_end_of_a_record_is_final_whatever_comes_later() -> None:
    model = ModelWorld(gateway(), 3)
    with model.world:
        model.world.send(*work(1))
        model.calm()
        [before] = model.records()
        for what in ("Park", "Resume", "Cancel", "Reconcile"):
            model.order(before, what)
        model.world.send(*work(1))
        model.world.finish()

        [after] = model.records()
        changed = {name for name in after.state if after.state[name] != before.state[name]}
        assert changed <= set(AFTER_THE_END)
        assert (after.status, before.status) == ("completed", "completed")


def test_a_score_of_a_work_that_no_one_submits_waits_and_is_canceled() -> None:
    model = ModelWorld(gateway(), 4)
    with model.world:
        model.is_calm = True
        model.world.send(*score(9, "Direct"))
        model.world.advance("10s")
        [record] = model.records()
        assert record.state["error"]["code"] == "WORK_NOT_SUBMITTED"
        model.order(record, "Cancel")

        [record] = model.records()
        assert (record.status, record.state["error"]["code"]) == ("failed", "CANCELED")
        assert not model.lanes()


def test_a_mixed_case_signer_never_opens_a_lane() -> None:
    model = ModelWorld(gateway(), 5)
    with model.world:
        schema, value = work(1)
        model.world.send(schema, value | {"signer_address": WORKER.upper().replace("X", "x")})
        model.world.finish()

        [record] = model.records()
        assert record.state["error"]["code"] == "INVALID_INPUT"
        assert not model.lanes()
        assert not model.world.asked()
        assert record.key != inputs.WORK_KEY
