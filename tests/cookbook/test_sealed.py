"""manifests/cookbook/sealed: a card number travels through a workflow that cannot read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from aos.errors import BadUsage
from aos.sealing import Keyring, SealingKey
from aos.sealing.keyring_file import new_keyring, rotate_keyring
from aos.testing import Effect, Fail, World, like
from tests.cookbook.worlds import executors, recipe

PAYMENT: Final = "card/payment@1"
KEEP, CHARGE = "card/keep@1", "card/charge@1"
NUMBER, BAD, DECLINED = "4929 7203 1187 6653", "4929 7203 1187 6654", "4000 0000 0000 0002"
ONE, TWO = bytes(range(32)), bytes(range(32, 64))
AT: Final = "2026-11-26T15:00:00Z"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cards.keyring"
    new_keyring(path, secret=ONE, created=AT)
    monkeypatch.setenv("CARDS_KEYRING", str(path))
    monkeypatch.setenv("CARDS_BOOKS", str(tmp_path / "charges.jsonl"))
    return path


@pytest.fixture
def world(file: Path) -> Iterator[World]:
    """With the executors of the cookbook."""
    with World(recipe("sealed"), executors=[executors("sealed", "cards")]) as world:
        yield world


def give(world: World, card: str = NUMBER, order: str = "o-1", **more: Any) -> Keyring:
    ring = Keyring([SealingKey(ONE)])
    sealed = more.pop("sealed", None) or ring.seal(card, submission_id=order, path="$.card")
    given = {"order_id": order, "cents": 4900, "card": sealed, **more}
    world.send("card/Given@1", given, id=order)
    world.run()
    return ring


def test_the_functions_get_plaintexts_and_the_journal_has_ciphertext(
    world: World, tmp_path: Path
) -> None:
    ring = give(world)

    [keep], [charge] = world.asked(KEEP), world.asked(CHARGE)
    assert ring.open(keep.params["card"]) == NUMBER
    token = ring.open(charge.params["token"])
    assert isinstance(token, str)
    assert token.startswith("tok-")
    assert world.status(PAYMENT, "o-1") == "completed"
    state = world.state(PAYMENT, "o-1")
    assert state == like({"token": charge.params["token"], "last_digits": "6653"})
    [line] = (tmp_path / "charges.jsonl").read_text().splitlines()
    assert json.loads(line)["cents"] == 4900
    for plain in (NUMBER, NUMBER.replace(" ", ""), token):
        assert plain not in world.trace()


def test_a_plaintext_is_refused(world: World) -> None:
    with pytest.raises(BadUsage, match=r"\$\.card: expected a sealed value") as problem:
        give(world, sealed=NUMBER.encode() * 4)

    assert NUMBER not in str(problem.value)
    assert world.asked(KEEP) == []


def test_a_workflow_decides_on_what_is_not_sealed(world: World) -> None:
    give(world, cents=1_000_001)

    assert world.state(PAYMENT, "o-1") == like({"phase": {"Refused": "too_much"}})
    assert world.asked(KEEP) == []


def test_the_code_of_an_error_reaches_the_workflow(world: World) -> None:
    give(world, BAD)

    assert world.state(PAYMENT, "o-1") == like({"phase": {"Refused": "card_invalid"}})
    assert BAD.replace(" ", "") not in world.trace()


def test_a_declined_card_ends_the_payment(world: World) -> None:
    give(world, DECLINED)

    assert world.state(PAYMENT, "o-1") == like({"phase": {"Refused": "card_declined"}})
    assert "tok-declined" not in world.trace()


def test_a_card_that_does_not_open_fails_no_instance(world: World, file: Path) -> None:
    """The effect is parked, and continues once the worker has the key."""
    other = Keyring([SealingKey(TWO)]).seal(NUMBER, submission_id="o-1", path="$.card")
    give(world, sealed=other)

    effect = world.effect(KEEP)
    assert effect.is_open
    assert world.status(PAYMENT, "o-1") == "waiting"
    assert "sealed_cannot_open" in world.trace()

    rotate_keyring(file, secret=TWO, created=AT)
    world.restart()
    world.run()
    assert world.status(PAYMENT, "o-1") == "completed"


def test_an_altered_card_fails_no_instance(world: World) -> None:
    sealed = bytearray(Keyring([SealingKey(ONE)]).seal(NUMBER))
    sealed[-1] ^= 1
    give(world, sealed=bytes(sealed))

    assert world.status(PAYMENT, "o-1") == "waiting"
    assert "it was altered or cut off" in world.trace()


def test_after_a_rotation_old_cards_are_charged_and_new_tokens_are_under_the_new_key(
    world: World, file: Path
) -> None:
    rotate_keyring(file, secret=TWO, created=AT)
    give(world)  # sealed under the old key

    charge: Effect = world.asked(CHARGE)[0]
    assert charge.params["token"][1:9] == SealingKey(TWO).id
    assert world.status(PAYMENT, "o-1") == "completed"


def test_a_resend_is_the_same_event(world: World) -> None:
    give(world)
    give(world)

    assert len(world.asked(KEEP)) == 1
    assert len(world.events("card/Charged@1")) == 1


def test_a_test_without_executors_answers_with_sealed_values(file: Path) -> None:
    ring = Keyring.read(file)
    with World(recipe("sealed")) as world:
        give(world)
        world.effect(KEEP).answer({"token": ring.seal("tok-1"), "last_digits": "6653"})
        world.on(CHARGE, Fail("card_declined"))
        world.run()

        assert world.state(PAYMENT, "o-1") == like({"phase": {"Refused": "card_declined"}})
