"""The counter and the shop of modules/sdk-rust/examples, in a whole kernel in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.records import Faulted, Step
from aos.core.state.cell import OpenIntent
from aos.sandbox.engine import Sandbox
from aos.values.cbor import decode_record
from tests.modules.guests import MODULES, WasmWorld
from tests.sdk.rust.examples import SDK, example

SIZE_BYTES_MAX = 14_000


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    modules = {**example("counter").modules, **example("shop").modules}
    sandbox = Sandbox(modules.__getitem__)
    yield sandbox
    sandbox.close()


class World(WasmWorld):
    def give(self, schema: str, value: object) -> list[Step | Faulted]:
        """Send an event in its JSON form; the steps that came of it."""
        given = self.effective.schemas[schema].from_json_object(value)
        return self.ran(self.send(schema, given))

    def answer(self, effect: str, payload: Any, *, of: str = "") -> list[Step | Faulted]:
        """Answer the open request of this effect whose params hold ``of``."""
        return self.ran(self.settle(self.asked(effect, of), payload))

    def refuse(self, effect: str, code: str, *, of: str = "") -> list[Step | Faulted]:
        return self.ran(self.fail(self.asked(effect, of), code))

    def asked(self, effect: str, of: str) -> OpenIntent:
        [found] = [
            each
            for each in self.open()
            if each.effect.name == effect and of in str(decode_record(self.params_of(each)))
        ]
        return found

    def params_of(self, intent: OpenIntent) -> bytes:
        return intent.params if isinstance(intent.params, bytes) else self.read(intent.params.hash)

    def ran(self, answer: object) -> list[Step | Faulted]:
        assert isinstance(answer, Admitted), answer
        return [each for each in self.run() if isinstance(each, Step | Faulted)]


@pytest.fixture
def counter(sandbox: Sandbox) -> World:
    return World(example("counter"), sandbox)


@pytest.fixture
def shop(sandbox: Sandbox) -> World:
    return World(example("shop"), sandbox)


def test_a_counter_counts_apart_from_others(counter: World) -> None:
    counter.give("demo/Add@1", {"counter": "a", "by": 2})
    counter.give("demo/Add@1", {"counter": "b", "by": 5})
    counter.give("demo/Add@1", {"counter": "a", "by": 1})

    assert counter.state_of("demo/counter@1", "a") == {"total": 3}
    assert counter.state_of("demo/counter@1", "b") == {"total": 5}


def test_a_counter_that_is_full_is_a_fault_with_its_words(counter: World) -> None:
    counter.give("demo/Add@1", {"counter": "a", "by": 2**64 - 1})

    [faulted] = counter.give("demo/Add@1", {"counter": "a", "by": 1})

    assert isinstance(faulted, Faulted)
    assert faulted.fault.message == "too_many: the counter is full"
    assert counter.state_of("demo/counter@1", "a") == {"total": 2**64 - 1}


def test_a_counter_is_a_small_module() -> None:
    wasm = (MODULES / "sdk-rust/examples/counter/counter.wasm").read_bytes()

    assert len(wasm) < SIZE_BYTES_MAX


def test_lines_of_the_log_are_no_part_of_a_module_without_it() -> None:
    shop = (MODULES / "sdk-rust/examples/shop/shop.wasm").read_bytes()
    source = SDK / "examples/shop/src/lib.rs"

    for words in ("placed twice", "charged as"):
        assert f'log!(cx, "{words}' in source.read_text()
        assert words.encode() not in shop


def place(shop: World, *skus: str) -> None:
    shop.give("shop/Placed@1", {"order_id": "o", "skus": list(skus), "cents": 100})


def test_an_order_is_done_when_its_last_parcel_is_on_its_way(shop: World) -> None:
    place(shop, "tea", "cup")
    shop.answer("shop/card.charge@1", {"charge": "c-1"})
    assert [each.issuer_ref for each in shop.open()] == ["aos:6:0", "aos:6:1", "aos:6:2"]

    shop.answer("shop/parcel.ship@1", {"parcel": "p-2"}, of="tea")
    before: Any = shop.state_of("shop/order@1", "o")
    shop.answer("shop/parcel.ship@1", {"parcel": "p-1"}, of="cup")

    assert before["phase"] == {"$tag": "Shipping"}
    assert before["parcels"] == {"cup": "aos:6:0"}
    after: Any = shop.state_of("shop/order@1", "o")
    assert after["shipped"] == {"tea": "p-2", "cup": "p-1"}
    assert after["phase"] == {"$tag": "Closed"}
    assert shop.cell("shop/order@1", "o").status == "completed"
    assert shop.open() == []


def test_a_parcel_that_is_refused_is_missing_and_the_order_done(shop: World) -> None:
    place(shop, "tea")
    shop.answer("shop/card.charge@1", {"charge": "c-1"})

    shop.refuse("shop/parcel.ship@1", "gone")

    after: Any = shop.state_of("shop/order@1", "o")
    assert (after["missing"], after["shipped"]) == (["tea"], {})


def test_a_card_that_is_declined_ends_the_order_as_failed(shop: World) -> None:
    place(shop, "tea")

    shop.refuse("shop/card.charge@1", "declined")

    assert shop.cell("shop/order@1", "o").status == "failed"
    assert shop.open() == []


def test_an_order_that_is_placed_twice_is_charged_once(shop: World) -> None:
    place(shop, "tea")
    place(shop, "tea")

    assert [each.effect.name for each in shop.open()] == ["shop/card.charge@1"]
