"""Scenarios: one handle and sets of handles, with every way in which an effect ends."""

from __future__ import annotations

from typing import Any, Final

from aos.core.decide.answers import Admitted
from aos.values.cbor import Value, encode
from tests.sdk.conformance.driver import Asked, ConformanceWorld, Seen

WORK: Final = "conformance/work@1"
SINGLE: Final = "conformance/single@1"
FAN: Final = "conformance/fan@1"
ID: Final = "00000000-0000-4000-8000-000000000001"


def ask(world: ConformanceWorld, **more: object) -> Seen:
    given = {"id": "a", "work": {"item": "i", "weight": -3}, "forget": False, **more}
    return world.give("conformance/Ask@1", given)


def ref(seen: Seen, index: int = 0) -> str:
    found = seen.effects[index].ref
    assert found is not None
    return found


def answers(seen: Seen) -> list[Any]:
    found: list[Any] = seen.state["answers"]
    return found


def a_handle_gives_a_request_its_issuer_ref(world: ConformanceWorld) -> None:
    seen = ask(world)

    name = f"aos:{world.steps()[-1].seq}:0"
    assert seen.effects == (Asked(effect=WORK, params={"item": "i", "weight": -3}, ref=name),)
    assert seen.state == {"work": name, "cancel": None, "answers": []}
    assert seen.status == "waiting"


def an_answer_settles_its_handle(world: ConformanceWorld) -> None:
    name = ref(ask(world))

    seen = world.answer(name, {"result": 42})

    assert seen.state == {
        "work": None, "cancel": None, "answers": [{"$tag": "Ok", "$value": 42}],
    }  # fmt: skip
    assert seen.status == "running"


def an_effect_fails_runs_out_of_time_or_is_canceled(world: ConformanceWorld) -> None:
    error = world.error(ref(ask(world)), "broken")
    timeout = world.error(ref(ask(world)), "late", status="timeout")
    canceled = world.error(ref(ask(world)), "canceled", status="canceled")

    assert answers(canceled) == [
        {
            "$tag": "Error",
            "$value": {"code": "broken", "message": "on purpose", "retryable": False},
        },
        {"$tag": "Timeout"},
        {"$tag": "Canceled"},
    ]
    assert [each.state["work"] for each in (error, timeout, canceled)] == [None, None, None]


def an_error_may_carry_the_payload_of_a_receipt(world: ConformanceWorld) -> None:
    seen = world.answer(ref(ask(world)), {"result": 1}, status="error")

    assert answers(seen) == [
        {"$tag": "Error", "$value": {"code": "receipt", "message": "", "retryable": False}}
    ]


def a_receipt_that_does_not_fit_is_rejected(world: ConformanceWorld) -> None:
    seen = world.answer(ref(ask(world)), {"result": "many"})

    assert answers(seen) == [{"$tag": "Rejected", "$value": "receipt_payload_invalid"}]
    assert seen.state["work"] is None


def a_rejection_of_an_unknown_request_is_a_stray(world: ConformanceWorld) -> None:
    ask(world, forget=True, issuer_ref="mine")

    seen = world.answer("mine", {"result": "many"})

    assert answers(seen) == [{"$tag": "Stray", "$value": {"effect": WORK, "status": "ok"}}]


def frames_come_before_the_answer(world: ConformanceWorld) -> None:
    name = ref(ask(world))
    intent = world.intent(name)
    for number in (1, 2):
        assert isinstance(world.stream(intent, number), Admitted)
        world.take_steps()

    seen = world.answer(name, {"result": 3})

    assert answers(seen) == [
        *(
            {"$tag": "Frame", "$value": {"seq": n, "kind": "progress", "payload": encode(n)}}
            for n in (1, 2)
        ),
        {"$tag": "Ok", "$value": 3},
    ]
    assert world.seen[1].state["work"] == name


def what_is_of_no_handle_is_a_stray(world: ConformanceWorld) -> None:
    asked = ask(world, forget=True, issuer_ref="mine")
    intent = world.intent("mine")
    assert isinstance(world.stream(intent, 1), Admitted)
    world.take_steps()

    seen = world.answer("mine", {"result": 3})

    assert asked.effects == (Asked(effect=WORK, params={"item": "i", "weight": -3}, ref="mine"),)
    assert asked.state["work"] is None
    assert answers(seen) == [
        {"$tag": "Stray", "$value": {"effect": WORK, "status": "frame"}},
        {"$tag": "Stray", "$value": {"effect": WORK, "status": "ok"}},
    ]


def a_request_without_a_handle_has_no_issuer_ref(world: ConformanceWorld) -> None:
    asked = ask(world, forget=True)
    [intent] = world.open()
    assert isinstance(world.settle(intent, {"result": 3}), Admitted)

    seen = world.take_steps()

    assert asked.effects[0].ref is None
    assert answers(seen) == [{"$tag": "Stray", "$value": {"effect": WORK, "status": "ok"}}]


def an_author_names_the_issuer_ref_and_the_key(world: ConformanceWorld) -> None:
    text = ask(world, issuer_ref="mine", idempotency_key={"Text": "once"})
    settled = world.answer("mine", {"result": 5})
    data = ask(world, idempotency_key={"Bytes": "AP8="})

    assert (text.effects[0].key, text.effects[0].ref, text.state["work"]) == (
        "once", "mine", "mine",
    )  # fmt: skip
    assert answers(settled) == [{"$tag": "Ok", "$value": 5}]
    assert data.effects[0].key == b"\x00\xff"


def an_issuer_ref_of_the_sdks_own_is_a_fault(world: ConformanceWorld) -> None:
    seen = ask(world, issuer_ref="aos:1:0")

    assert seen.fault is not None
    assert seen.fault[0] == "guest"
    assert "sdk_issuer_ref" in seen.fault[1]
    assert 'issuer refs that begin with "aos:" belong to handles' in seen.fault[1].replace(
        '\\"', '"'
    )


def one_key_for_two_different_requests_is_a_fault(world: ConformanceWorld) -> None:
    ask(world, idempotency_key={"Text": "once"})
    seen = ask(world, idempotency_key={"Text": "once"}, work={"item": "other", "weight": 0})

    assert seen.fault is not None
    assert seen.fault[0] == "idempotency_conflict"


def a_handle_that_is_started_again_forgets_its_first_request(world: ConformanceWorld) -> None:
    first, second = ref(ask(world)), ref(ask(world))

    stray = world.answer(first, {"result": 1})
    settled = world.answer(second, {"result": 2})

    assert stray.state["work"] == second
    assert answers(settled) == [
        {"$tag": "Stray", "$value": {"effect": WORK, "status": "ok"}},
        {"$tag": "Ok", "$value": 2},
    ]


def cancel(world: ConformanceWorld, id: str = "a") -> Seen:
    return world.give("conformance/Cancel@1", {"id": id})


def what_is_canceled_says_so_and_then_the_cancel_does(world: ConformanceWorld) -> None:
    name = ref(ask(world))

    asked = cancel(world)

    step = world.steps()[1].seq
    assert asked.effects == (
        Asked(
            effect="sys/effect.cancel@1",
            params={"intent": None, "issuer_ref": name},
            ref=f"aos:{step}:0",
        ),
    )
    assert asked.state["work"] == name
    assert asked.state["cancel"] == f"aos:{step}:0"
    last = world.seen[-1]
    assert answers(last) == [{"$tag": "Canceled"}, {"$tag": "Cancel", "$value": True}]
    assert (last.state["work"], last.state["cancel"]) == (None, None)


def a_cancel_of_nothing_does_nothing(world: ConformanceWorld) -> None:
    seen = cancel(world)

    assert (seen.effects, answers(seen)) == ((), [{"$tag": "Idle"}])


def a_cancel_that_comes_too_late_is_told(world: ConformanceWorld) -> None:
    name = ref(ask(world))
    intent = world.intent(name)
    # Both before the next step: the receipt is first, so that the handle is still in flight.
    assert isinstance(world.send("conformance/Cancel@1", {"id": "a"}), Admitted)
    assert isinstance(world.settle(intent, {"result": 1}), Admitted)

    world.take_steps()

    assert answers(world.seen[-1]) == [
        {"$tag": "Ok", "$value": 1},
        {"$tag": "CancelError", "$value": "already_settled"},
    ]


def fan(world: ConformanceWorld, *items: tuple[str, int], by: str = "Item") -> Seen:
    given = [{"item": item, "weight": weight} for item, weight in items]
    return world.give("conformance/Fan@1", {"id": ID, "items": given, "by": by})


def ok(result: int) -> dict[str, Value]:
    return {"$tag": "Ok", "$value": result}


def a_set_is_joined_when_its_last_request_has_settled(world: ConformanceWorld) -> None:
    seen = fan(world, ("bb", 1), ("a", 2), ("ccc", 3))
    refs = [ref(seen, i) for i in range(3)]
    step = world.steps()[-1].seq
    assert refs == [f"aos:{step}:{i}" for i in range(3)]
    assert seen.state["by_item"] == {"a": refs[1], "bb": refs[0], "ccc": refs[2]}
    assert (seen.state["open"], seen.declared) == (3, None)

    one = world.answer(refs[2], {"result": 3})
    two = world.error(refs[0], "broken")
    three = world.answer(refs[1], {"result": 1})

    assert [each.state["open"] for each in (one, two, three)] == [2, 1, 0]
    assert [each.events for each in (one, two)] == [(), ()]
    assert [(e.schema, e.value) for e in three.events] == [
        ("conformance/Joined@1", {"id": ID, "answers": 3})
    ]
    assert three.declared == "completed"
    assert three.state["items"] == {
        "a": ok(1),
        "bb": {
            "$tag": "Error",
            "$value": {"code": "broken", "message": "on purpose", "retryable": False},
        },
        "ccc": ok(3),
    }


def a_set_has_keys_of_its_own_type(world: ConformanceWorld) -> None:
    seen = fan(world, ("x", 5), ("y", -1), by="Weight")
    refs = [ref(seen, i) for i in range(2)]
    assert seen.state["by_weight"] == {5: refs[0], -1: refs[1]}

    world.answer(refs[1], {"result": "wrong"})
    seen = world.error(refs[0], "late", status="timeout")

    assert seen.state["weights"] == {
        5: {"$tag": "Timeout"},
        -1: {"$tag": "Rejected", "$value": "receipt_payload_invalid"},
    }
    assert seen.declared == "completed"


def both_sets_are_joined_together(world: ConformanceWorld) -> None:
    item = fan(world, ("x", 5))
    weight = fan(world, ("x", 5), by="Weight")
    assert weight.state["open"] == 2

    first = world.answer(ref(item), {"result": 1})
    last = world.answer(ref(weight), {"result": 2})

    assert (first.declared, last.declared) == (None, "completed")
    assert last.events[0].value == {"id": ID, "answers": 2}


def an_entry_of_a_set_is_canceled_by_its_key(world: ConformanceWorld) -> None:
    seen = fan(world, ("x", 1), ("y", 2))

    asked = world.give("conformance/CancelItem@1", {"id": ID, "item": "y"})
    nothing = world.give("conformance/CancelItem@1", {"id": ID, "item": "y"})

    assert asked.effects == (
        Asked(
            effect="sys/effect.cancel@1",
            params={"intent": None, "issuer_ref": ref(seen, 1)},
        ),
    )
    assert nothing.effects == ()
    assert nothing.state["items"] == {"y": {"$tag": "Canceled"}}
    assert nothing.state["by_item"] == {"x": ref(seen)}


def an_entry_that_is_started_again_replaces_the_first(world: ConformanceWorld) -> None:
    first, second = fan(world, ("x", 1)), fan(world, ("x", 2))

    stray = world.answer(ref(first), {"result": 1})
    last = world.answer(ref(second), {"result": 2})

    assert (stray.state["open"], stray.state["items"]) == (1, {})
    assert last.state["items"] == {"x": ok(2)}


def a_large_set_is_written_in_canonical_order(world: ConformanceWorld) -> None:
    items = [(f"i{i * 37 % 60}", i * 37 % 60 - 30) for i in range(60)]

    seen = fan(world, *items, by="Weight")

    keys = list(seen.state["by_weight"])
    assert keys == sorted(keys, key=encode)
    assert len(keys) == 60
    assert seen.state["by_weight"][items[5][1]] == ref(seen, 5)
