"""Scenarios: every built-in effect with its params and its receipt, and AIR 2's typed results."""

from __future__ import annotations

from typing import Any, Final

from aos.core.decide.answers import Admitted
from aos.values.cbor import Value, encode
from aos.values.digests import content_hash, hash_text
from tests.sdk.conformance.driver import Asked, ConformanceWorld, Seen

ONES: Final = "blake3:" + 64 * "1"
TWOS: Final = "blake3:" + 64 * "2"
BLOB: Final = hash_text(content_hash(b"blob"))
STATUS: Final = "conformance/status@1"


def use(world: ConformanceWorld, what: object) -> Seen:
    return world.give("conformance/Use@1", {"what": what})


def request(seen: Seen) -> Asked:
    [found] = seen.effects
    assert found.key is None
    return found


def ref(seen: Seen) -> str:
    found = request(seen).ref
    assert found is not None
    return found


def last_answer(of: ConformanceWorld) -> Any:
    return of.seen[-1].state["answers"][-1]


def a_timer_is_set_and_fires(world: ConformanceWorld) -> None:
    seen = use(world, "TimerSet")
    due = world.now_ns + 1_000_000_000

    assert request(seen) == Asked(
        effect="sys/timer.set@1", params={"deliver_at_ns": due, "key": None}, ref=ref(seen)
    )
    assert seen.state["timer"] == ref(seen)
    world.now_ns = due
    fired = world.answer(ref(seen), {"delivered_at_ns": due, "key": None})
    assert last_answer(world) == {
        "$tag": "Timer", "$value": {"delivered_at_ns": due, "key": None},
    }  # fmt: skip
    assert fired.state["timer"] is None


def a_timer_may_have_a_key(world: ConformanceWorld) -> None:
    params = request(use(world, "TimerSetKeyed")).params

    assert params == {"deliver_at_ns": world.now_ns + 1_000_000_000, "key": "tea"}


def a_timer_is_canceled(world: ConformanceWorld) -> None:
    timer = use(world, "TimerSet")

    seen = use(world, "TimerCancel")

    assert request(seen) == Asked(
        effect="sys/timer.cancel@1",
        params={"intent": None, "issuer_ref": ref(timer)},
        ref=ref(seen),
    )
    assert world.seen[-1].state["answers"] == [
        {"$tag": "Canceled"},
        {"$tag": "TimerCancel", "$value": {"cancelled": True}},
    ]


def canceling_an_unknown_effect_is_an_error(world: ConformanceWorld) -> None:
    for what in ("TimerCancel", "EffectCancelTimer", {"EffectCancelIntent": ONES}):
        seen = use(world, what)
        named = {"intent": ONES, "issuer_ref": None}
        unnamed = {"intent": None, "issuer_ref": "nobody"}
        assert request(seen).params == (unnamed if isinstance(what, str) else named)
        assert last_answer(world)["$tag"] == "Error"
        assert last_answer(world)["$value"]["code"] == "already_settled"


def an_effect_is_canceled_by_its_intent(world: ConformanceWorld) -> None:
    timer = use(world, "TimerSet")
    intent = hash_text(world.intent(ref(timer)).intent)

    seen = use(world, {"EffectCancelIntent": intent})

    assert request(seen).effect == "sys/effect.cancel@1"
    assert request(seen).params == {"intent": intent, "issuer_ref": None}
    assert world.seen[-1].state["answers"] == [
        {"$tag": "Canceled"},
        {"$tag": "EffectCancel", "$value": {"cancelled": True}},
    ]


def an_effect_is_canceled_by_its_handle(world: ConformanceWorld) -> None:
    timer = use(world, "TimerSetKeyed")

    seen = use(world, "EffectCancelTimer")

    assert request(seen).params == {"intent": None, "issuer_ref": ref(timer)}
    assert last_answer(world) == {"$tag": "EffectCancel", "$value": {"cancelled": True}}


def a_request_goes_out_with_a_secret_in_its_headers(world: ConformanceWorld) -> None:
    seen = use(world, "HttpGet")

    secret: Value = {"alias": "conformance/token", "version": 1}
    assert request(seen) == Asked(
        effect="sys/http.request@1",
        params={
            "method": "GET",
            "url": "https://example.com/a?b=c",
            "headers": {
                "accept": {"$tag": "literal", "$value": "text/plain"},
                "authorization": {"$tag": "secret", "$value": secret},
            },
            "body_ref": None,
            "body": None,
        },
        ref=ref(seen),
    )
    receipt: dict[str | int, Value] = {
        "status": 200,
        "headers": {"b": "2", "aa": "1"},
        "body_ref": ONES,
        "body": b"\x00",
        "timings": {"start_ns": 1, "end_ns": 2},
    }
    world.answer(ref(seen), receipt)
    assert last_answer(world) == {"$tag": "Http", "$value": receipt}


def a_request_carries_a_body(world: ConformanceWorld) -> None:
    seen = use(world, "HttpPost")

    assert request(seen).params == {
        "method": "POST",
        "url": "https://example.com/",
        "headers": {},
        "body_ref": None,
        "body": b"hello",
    }
    world.error(ref(seen), "unreachable", status="timeout")
    assert last_answer(world) == {"$tag": "Timeout"}


def blobs_are_put_and_got(world: ConformanceWorld) -> None:
    put, refs, get = (use(world, what) for what in ("BlobPut", "BlobPutRefs", "BlobGet"))

    assert request(put).effect == request(refs).effect == "sys/blob.put@1"
    assert request(put).params == {"bytes": b"blob", "blob_ref": None, "refs": None}
    assert request(refs).params == {"bytes": b"blob", "blob_ref": None, "refs": [ONES]}
    assert request(get).effect == "sys/blob.get@1"
    assert request(get).params == {"blob_ref": TWOS}
    was_put: dict[str | int, Value] = {"blob_ref": BLOB, "edge_ref": ONES, "size": 4}
    world.answer(ref(refs), was_put)
    assert last_answer(world) == {"$tag": "BlobPut", "$value": was_put}
    was_got: dict[str | int, Value] = {"blob_ref": TWOS, "size": 4, "bytes": b"blob"}
    world.answer(ref(get), was_got)
    assert last_answer(world) == {"$tag": "BlobGet", "$value": was_got}


def the_kernel_is_asked_about_itself(world: ConformanceWorld) -> None:
    world.give("conformance/Act@1", {"id": 1, "act": "Keep"})

    manifest = use(world, "Manifest")
    document = last_answer(world)
    cell = use(world, "WorkflowState")
    state = last_answer(world)
    head = use(world, "JournalHead")
    height = last_answer(world)
    cells = use(world, "ListCells")
    listed = last_answer(world)

    asked = [request(each) for each in (manifest, cell, head, cells)]
    assert [(each.effect, each.params) for each in asked] == [
        ("sys/introspect.manifest@1", {"consistency": None}),
        (
            "sys/introspect.workflow_state@1",
            {"workflow": STATUS, "key": encode(1), "consistency": None},
        ),
        ("sys/introspect.journal_head@1", {}),
        (
            "sys/introspect.list_cells@1",
            {"workflow": STATUS, "after": None, "limit": 10, "consistency": None},
        ),
    ]  # fmt: skip
    assert document["$tag"] == "Manifest"
    assert document["$value"]["manifest"] == world.effective.document
    assert state["$tag"] == "WorkflowState"
    assert state["$value"]["state"] == encode({"steps": 1})
    assert height["$tag"] == "JournalHead"
    assert height["$value"]["meta"]["journal_height"] > 0
    assert listed["$tag"] == "ListCells"
    assert [each["key"] for each in listed["$value"]["cells"]] == [encode(1)]


def typed_results_come_without_an_envelope(world: ConformanceWorld) -> None:
    asked = [
        world.give("conformance/UseLegacy@1", {"what": what}) for what in ("Timer", "Put", "Get")
    ]
    due = asked[0].effects[0].params["deliver_at_ns"]
    payloads: list[Value] = [
        {"delivered_at_ns": due, "key": "tea"},
        {"blob_ref": BLOB, "edge_ref": ONES, "size": 4},
        {"blob_ref": TWOS, "size": 4, "bytes": b"blob"},
    ]

    for intent, payload in zip(world.open(), payloads, strict=True):
        assert isinstance(world.settle(intent, payload), Admitted)
        world.take_steps()

    assert [(each.effects[0].effect, each.effects[0].ref) for each in asked] == [
        ("sys/timer.set@1", None),
        ("sys/blob.put@1", None),
        ("sys/blob.get@1", None),
    ]
    state = world.seen[-1].state
    assert [state[arm]["receipt"] for arm in ("fired", "put", "got")] == payloads
    assert [state[arm]["requested"] for arm in ("fired", "put", "got")] == [
        {"deliver_at_ns": due, "key": "tea"},
        {"bytes": b"blob", "blob_ref": None, "refs": None},
        {"blob_ref": TWOS},
    ]
    assert {state[arm]["status"] for arm in ("fired", "put", "got")} == {"ok"}
