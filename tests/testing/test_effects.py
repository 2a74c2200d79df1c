"""Effects answered by hand: every way in which one ends (spec/testing.md, T-20 to T-23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aos.errors import BadUsage
from aos.testing import CellFailed, Effect, InputRefused, World, WorldProblem, like
from tests.testing.stage import (
    CELL,
    CHARGE,
    DO,
    ONCE,
    PLAIN,
    ROOT,
    SECOND,
    TELL,
    TIMER,
    charge,
    out,
    stage,
    then,
    timer,
)

START = 1_704_067_200 * SECOND
COUNTED = 2


def asking(key: str = "a", effect: str = CHARGE, ref: str | None = "count") -> World:
    world = stage()
    world.send(DO, {"key": key, "out": out(effects=((effect, charge(key), ref),))})
    world.run()
    return world


def test_an_effect_says_what_was_asked_for() -> None:
    with asking() as world:
        found = world.effect(CHARGE)

        assert (found.name, found.workflow, found.key) == (CHARGE, CELL, "a")
        assert found.params == {"id": "a", "cents": 5}
        assert (found.issuer_ref, found.requested_key) == ("count", None)
        assert found.idempotency_key == found.intent
        assert (found.is_open, found.status, found.due_ns) == (True, "open", None)
        assert repr(found) == '<t/charge@1 {"id":"a","cents":5} for t/cell@1 a (count), open>'
        assert found == world.effects()[0]
        assert len({found, world.effects()[0]}) == 1


def test_an_answer_reaches_the_cell_that_asked() -> None:
    with asking() as world:
        world.effect(CHARGE).answer({"ref": "r", "data": b"\x00"}, cost_cents=3)
        assert world.state(CELL, "a") == 1
        world.run()

        assert world.state(CELL, "a") == COUNTED
        assert world.asked()[0].status == "ok"
        assert world.effects() == []


def test_every_other_end_of_an_effect_is_told_too() -> None:
    ends: dict[str, Callable[[Effect], None]] = {
        "error": lambda effect: effect.fail("declined", "no", retryable=True),
        "timeout": lambda effect: effect.timeout("slow"),
        "canceled": lambda effect: effect.cancel(),
    }
    for status, end in ends.items():
        with asking() as world:
            end(world.effect(CHARGE))
            world.run()

            assert world.state(CELL, "a") == COUNTED
            assert world.asked()[0].status == status


def test_answers_come_in_any_order() -> None:
    with stage() as world:
        asked = tuple((CHARGE, charge(id), then(out(ord(id)))) for id in "abc")
        world.send(DO, {"key": "k", "out": out(effects=asked)})
        world.run()
        for id in "bca":
            world.effect(CHARGE, params={"id": id}).answer({"ref": id})
            world.run()
            assert world.state(CELL, "k") == ord(id)


def test_a_delayed_answer_comes_at_its_time_and_another_may_overtake_it() -> None:
    with stage() as world:
        for key in "abc":
            world.send(DO, {"key": key, "out": out(effects=((CHARGE, charge(key), "count"),))})
        world.run()
        world.effect(CHARGE, key="a").answer({"ref": "late"}, after="5s")
        world.effect(CHARGE, key="b").fail("declined", after="2s")
        world.effect(CHARGE, key="c").timeout(after="1d")
        assert world.effect(CHARGE, key="a").due_ns == START + 5 * SECOND
        world.advance("2s")
        assert [each.state for each in world.cells(CELL)] == [1, COUNTED, 1]
        world.effect(CHARGE, key="c").answer({"ref": "first"})
        world.finish()

        assert world.now_ns == START + 5 * SECOND, (
            "the timeout that the answer overtook is no longer due"
        )
        assert [each.state for each in world.cells(CELL)] == [COUNTED] * 3


def test_only_one_effect_may_be_meant() -> None:
    with stage() as world:
        asked = tuple((CHARGE, charge("x", cents), f"count{cents}") for cents in (1, 2))
        world.send(DO, {"key": "a", "out": out(effects=(*asked, (ONCE, charge(), None)))})
        world.run()

        with pytest.raises(WorldProblem, match=r"2 open effects match t/charge@1") as told:
            world.effect(CHARGE)
        assert '"cents":1' in str(told.value)
        with pytest.raises(WorldProblem, match="no open effect matches charge; open effects"):
            world.effect("charge", params={"cents": 3})
        assert world.effect("charge", issuer_ref="count2").params["cents"] == 2
        assert world.effect("charge", params={"cents": 1}, key="a", workflow="cell").is_open
        assert world.effects(CHARGE, key="b") == []
        assert [each.name for each in world.effects()] == [CHARGE, CHARGE, ONCE]
        assert world.asked(params=like({"cents": 5})) == world.effects(ONCE)
        with pytest.raises(WorldProblem, match="open effects:\n  nothing"):
            stage().effect(CHARGE)


def test_effects_of_an_unkeyed_workflow_have_no_key() -> None:
    with stage() as world:
        world.send(TELL, {"out": out(effects=((CHARGE, charge(), "count"),))})
        world.send(DO, {"key": "a", "out": out(effects=((CHARGE, charge(), "count"),))})
        world.run()
        world.effect(CHARGE, key=None).answer({"ref": "r"})
        world.run()

        assert world.state(PLAIN) == COUNTED
        assert world.state(CELL, "a") == 1


def test_an_answer_that_does_not_fit_is_refused_before_it_is_given() -> None:
    with asking() as world:
        with pytest.raises(BadUsage, match=r"the answer to t/charge@1: .*\$\.ref: missing"):
            world.effect(CHARGE).answer({})
        assert world.effect(CHARGE).is_open


def test_bytes_that_are_no_receipt_are_told_as_rejected() -> None:
    with asking() as world:
        world.effect(CHARGE).answer_badly(b"\x00")
        world.run()
        assert world.state(CELL, "a") == COUNTED
        with pytest.raises(BadUsage, match="status: expected one of ok"):
            world.asked()[0].answer_badly(status="good")


def test_an_instance_fails_where_no_arm_takes_a_misfit() -> None:
    with stage() as world:
        world.send(TELL, {"out": out(effects=((CHARGE, charge(), "count"),))})
        world.run()
        world.effect(CHARGE).answer_badly()
        with pytest.raises(CellFailed, match="t/plain@1 failed: receipt_invalid"):
            world.run()


def test_a_receipt_may_come_twice_and_another_may_not() -> None:
    with asking() as world:
        effect = world.effect(CHARGE)
        with pytest.raises(WorldProblem, match="no executor has settled it"):
            effect.duplicate()
        effect.answer({"ref": "r"})
        first = effect.duplicate()
        world.run()
        assert effect.duplicate() == first
        world.run()
        assert world.state(CELL, "a") == COUNTED

        with pytest.raises(InputRefused) as refused:
            effect.answer({"ref": "other"})
        assert refused.value.rule == "receipt_intent_is_settled"


def test_a_receipt_signed_by_a_stranger_counts_for_nothing() -> None:
    with asking() as world:
        with pytest.raises(InputRefused) as refused:
            world.effect(CHARGE).forge({"ref": "mine"})
        assert refused.value.rule == "receipt_signature_is_wrong"
        world.run()
        assert world.effect(CHARGE).is_open


def test_a_timer_cannot_be_answered_before_its_time() -> None:
    with stage() as world:
        later = timer(START + SECOND)
        world.send(DO, {"key": "a", "out": out(effects=((TIMER, later, "count"),))})
        world.run()
        with pytest.raises(InputRefused) as refused:
            world.timers()[0].answer({"delivered_at_ns": START, "key": None})
        assert refused.value.rule == "timer_is_not_due"


def test_progress_is_told_while_the_effect_is_open() -> None:
    with asking() as world:
        effect = world.effect(CHARGE)
        effect.frame("half", {"done": 50})
        effect.frame("blob", b"raw", blob=b"picture")
        world.run()
        assert world.state(CELL, "a") == 3
        assert effect.is_open
        effect.answer({"ref": "r"})
        world.run()
        with pytest.raises(InputRefused) as refused:
            effect.frame("late")
        assert refused.value.rule == "receipt_intent_is_unknown"
        with pytest.raises(BadUsage, match="not a plain value"):
            effect.frame("bad", 1.5)


def test_progress_that_no_arm_takes_is_refused() -> None:
    with stage() as world:
        world.send(TELL, {"out": out(effects=((CHARGE, charge(), "count"),))})
        world.run()
        with pytest.raises(InputRefused) as refused:
            world.effect(CHARGE).frame("half")
        assert refused.value.rule == "stream_has_no_taker"


def test_the_receipt_of_a_deleted_cell_is_abandoned() -> None:
    with asking() as world:
        world.effect(CHARGE).answer({"ref": "late"}, after="1s")
        world.send(DO, {"key": "a", "delete": True})
        world.run()
        (effect,) = world.asked()
        assert (effect.is_open, effect.status, effect.due_ns) == (False, "abandoned", None)
        effect.answer({"ref": "r"})
        world.run()
        assert world.status(CELL, "a") is None


def test_attempts_are_journaled_and_a_running_at_most_once_effect_is_lost_in_a_crash() -> None:
    with asking(effect=ONCE) as world:
        world.effect(ONCE).begin()
        with pytest.raises(InputRefused) as refused:
            world.effect(ONCE).begin()
        assert refused.value.rule == "attempt_is_old"
        world.restart()
        world.run()
        assert world.asked(ONCE)[0].status == "error"
        assert world.state(CELL, "a") == COUNTED


def test_an_at_most_once_effect_that_has_not_begun_survives_a_crash() -> None:
    with asking(effect=ONCE) as world:
        world.restart()
        world.effect(ONCE).answer({"ref": "r"})
        world.run()
        assert world.state(CELL, "a") == COUNTED


def test_a_workflow_cancels_what_it_asked_for() -> None:
    cancels: tuple[tuple[str, Any, str | None], ...] = (
        ("sys/effect.cancel@1", {"intent": None, "issuer_ref": "count"}, None),
    )
    with asking() as world:
        effect: Effect = world.effect(CHARGE)
        effect.answer({"ref": "late"}, after="1s")
        world.send(DO, {"key": "a", "out": out(1, effects=cancels)})
        world.finish()
        assert effect.status == "canceled"
        assert world.now_ns == START, "the answer that was on its way is due no more"


def test_a_world_without_timers_has_none_open() -> None:
    """T-20."""
    with World(ROOT / "manifests/cookbook/fence") as world:
        assert "sys/timer.set@1" not in world.manifest.effects
        assert world.timers() == []
