"""An intent that the shadow has cancelled takes no recorded receipt from a live one (SH-20)."""

from __future__ import annotations

from typing import Any

from aos.values.cbor import encode
from tests.memory_world import Envelope, MemoryWorld, ask, event_of, state_of
from tests.prove.journals import CHARGE, LEDGER, ORDER, PLACED, TIMER, shop_with
from tests.prove.whatif.naive_world import Rule
from tests.prove.whatif.shadows import shadowed

CANCEL = "sys/effect.cancel@1"
ASKED = ask(CHARGE, {"amount": 5, "memo": ""}, issuer_ref="t")
CANCELED = ask(CANCEL, {"intent": None, "issuer_ref": "t"})


def modules(asked: dict[int, list[Any]]) -> dict[str, Any]:
    """An order asks for effects at the first and the second event, and keeps a receipt's status."""

    def order(envelope: Envelope) -> Envelope:
        state: Any = state_of(envelope) or {"phase": "new", "tries": 0, "amount": 0, "note": ""}
        event = event_of(envelope)
        if event["$tag"] != "placed":
            value = event["$value"]
            if value["effect"] == CHARGE and value["status"] == "ok":
                state = {**state, "phase": "ok"}
            return {"state": encode(state)}
        number = state["tries"] + 1
        return {"state": encode({**state, "tries": number}), "effects": asked.get(number, [])}

    return {ORDER: order, LEDGER: Rule().ledger}


def test_the_recorded_receipt_is_for_the_intent_that_is_not_cancelled() -> None:
    effects = (CHARGE, TIMER, CANCEL)
    world = MemoryWorld(shop_with(1, effects=effects), modules({2: [ASKED]}))
    world.blobs.update(world.loaded.modules)
    for _ in range(2):
        world.send(PLACED, {"order_id": "a", "amount": 5})
        world.run()
    world.settle(world.open()[0], {"id": "c"})
    world.run()

    found = shadowed(
        world, shop_with(2, effects=effects), modules({1: [ASKED, CANCELED], 2: [ASKED]})
    )

    assert found["open"] == []
    [cell] = found["differences"]
    assert cell["last"]["shadow"]["state"]["phase"] == "ok"
