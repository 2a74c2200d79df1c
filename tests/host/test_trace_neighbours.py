"""A trace continues in the worlds that deliveries connect (spec/audit.md, A-49)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.records import Event, Faulted
from aos.host.folder.folder import open_folder
from aos.manifest.names import WORLD_SEND
from aos.values.cbor import Value, encode
from aos.values.digests import hash_text
from tests.cli.shell import here
from tests.host.puppet import DO
from tests.host.test_world_send import event, puppet, records, run, settled, until, up, world_at


@pytest.fixture
def worlds(tmp_path: Path) -> Path:
    for name in ("shop", "bank"):
        world_at(tmp_path / name)
    return tmp_path


def sends(to: str, value: bytes, key: str | None = None) -> bytes:
    """The output of a step that sends an event, under an idempotency key of its own."""
    params = encode({"to": to, "schema": DO, "value": value})
    request: Value = {"effect": WORLD_SEND, "params": params, "idempotency_key": key}
    return encode({"state": encode(1), "effects": [request], "status": "running"})


def tells(key: str, out: bytes) -> bytes:
    """An event whose step has the output ``out``."""
    return encode({"key": key, "out": out, "trap": None})


def conversation(worlds: Path, out: bytes, *, bank: int | None = 1) -> int:
    """Send the first event to the shop, and wait for its receipt and those of the bank, or with
    None for a fault there; return the record."""

    async def story() -> int:
        async with up(worlds / "shop") as first, up(worlds / "bank") as second:
            [answer] = await first.link.send([puppet("a", out)], None)
            assert isinstance(answer, Admitted)
            await settled(first, 1)
            if bank is None:
                await until(failed)
            else:
                await settled(second, bank)
            return answer.seq

    async def failed() -> bool:
        return bool(records(open_folder(worlds / "bank"), Faulted))

    return run(story())


def document(path: Path, *words: str) -> Any:
    return json.loads(here("trace", *words, "--world", path, "--json").out)


def nodes(roots: list[Any]) -> Iterator[Any]:
    for node in roots:
        yield node
        yield from nodes(node["children"])


def kinds(trace: Any) -> list[tuple[str, str | None]]:
    """The kind and the world of each node, from the first root down."""
    return [(node["kind"], node["world"]) for node in nodes(trace["roots"])]


def delivery(path: Path) -> Event:
    """The event that a neighbour has delivered to a world."""
    [event] = [one for one in records(open_folder(path), Event) if one.submission_id]
    return event


STORY = [
    ("event", None), ("step", None), ("intent", None), ("receipt", None),
    ("event", "bank"), ("step", "bank"), ("intent", "bank"), ("receipt", "bank"),
    ("event", None), ("step", None),
    ("step", "bank"), ("step", None),
]  # fmt: skip
"""A question to the bank, its answer, and both receipts, as the shop sees them."""


@pytest.mark.parametrize("key", [None, "k-1"])
def test_a_trace_goes_there_and_back_with_the_events(worlds: Path, key: str | None) -> None:
    answer = sends("shop", event("back"), key)
    seq = conversation(worlds, sends("bank", tells("there", answer), key))

    story = document(worlds / "shop", str(seq))
    assert kinds(story) == STORY

    # The same story from its last event on, and from the world between.
    last = document(worlds / "shop", str(delivery(worlds / "shop").seq))
    assert kinds(last) == [*STORY[:3], *STORY[4:7], *STORY[8:10]]
    there = document(worlds / "bank", str(delivery(worlds / "bank").seq))
    names = {None: "shop", "bank": None}
    ahead = [(kind, names[world]) for kind, world in (*STORY[:3], *STORY[4:11])]
    assert kinds(there) == ahead
    [target] = [node for node in nodes(there["roots"]) if node["is_target"]]
    assert (target["kind"], target["world"]) == ("event", None)


def test_the_lines_name_the_world_of_a_record(worlds: Path) -> None:
    answer = sends("shop", event("back"))
    seq = conversation(worlds, sends("bank", tells("there", answer)))

    text = here("trace", str(seq), "--world", worlds / "shop").out

    there, back = delivery(worlds / "bank").seq, delivery(worlds / "shop").seq
    assert f"event {there} of bank: {DO}" in text
    assert f"event {back}: {DO}" in text
    assert " of bank: host/puppet@1 there → running" in text


def test_a_cell_of_a_neighbour_that_waits_is_a_case_without_advice(worlds: Path) -> None:
    seq = conversation(worlds, sends("bank", tells("there", b"\xff")), bank=None)
    [case] = document(worlds / "shop", str(seq))["cases"]
    assert (case["world"], case["key"], case["status"]) == ("bank", "there", "failed")
    assert [reason["next"] for reason in case["reasons"]] == [None]
    text = here("trace", str(seq), "--world", worlds / "shop").out
    assert "host/puppet@1 there of bank is failed" in text


def test_a_neighbour_that_is_gone_or_unreadable_ends_the_trace(worlds: Path) -> None:
    seq = conversation(worlds, sends("bank", event("there")), bank=0)
    shop, bank = worlds / "shop", worlds / "bank"
    there = delivery(bank).seq
    (bank / "world.json").rename(bank / "kept")

    assert {world for _, world in kinds(document(shop, str(seq)))} == {None}
    (bank / "kept").rename(bank / "world.json")
    data = bank / "store" / "data.mdb"
    data.rename(bank / "store" / "kept")
    answer = here("trace", str(seq), "--world", shop, "--json")
    assert {world for _, world in kinds(json.loads(answer.out))} == {None}
    assert "the trace does not go on into a neighbour: " in answer.err
    (bank / "store" / "kept").rename(data)
    (shop / "world.json").rename(shop / "kept")
    assert kinds(document(bank, str(there))) == [("event", None), ("step", None)]


def test_an_event_of_a_world_that_was_made_again_is_not_its_consequence(worlds: Path) -> None:
    """The record there is checked: it must be the delivery of this world."""
    seq = conversation(worlds, sends("bank", event("there")), bank=0)
    there = delivery(worlds / "bank")
    assert there.submission_id is not None
    assert there.submission_id.startswith(f"aos:{hash_text(open_folder(worlds / 'shop').world)}:")
    (worlds / "bank").rename(worlds / "kept")
    world_at(worlds / "bank")

    story = document(worlds / "shop", str(seq))

    # The folder of the first bank has another name now, and is still its world.
    assert ("event", "kept") in kinds(story)
