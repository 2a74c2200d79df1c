"""Keys: one spelling for each cell (C-120)."""

from __future__ import annotations

import uuid

import pytest
from Crypto.Hash import keccak

from aos.errors import BadUsage
from aos.values.cbor import INTEGER_MAX
from aos_gateway.keys import KINDS, Key, epoch_key, lane_key, owner_key, read_key, read_work_key
from tests.gateway.commands.samples import CHAIN, EPOCH, LANE, SCORE, STUDIO, WORK, arm, manifest

ALL = (WORK, SCORE, EPOCH, LANE)


@pytest.mark.parametrize("key", ALL, ids=lambda key: key.kind.name)
def test_a_key_is_read_back_in_any_case_of_its_letters(key: Key) -> None:
    assert read_key(key.text) == key
    assert read_key(f" {key.text.upper().replace('0X', '0x')}\n") == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "31337",
        f"0/{STUDIO}",
        f"031337/{STUDIO}",
        f"+1/{STUDIO}",
        f"{CHAIN}/{STUDIO}/07",
        f"{CHAIN}/{STUDIO}/-1",
        f"{CHAIN}/{STUDIO}/",
        f"{CHAIN}/{STUDIO[:-1]}",
        f"{WORK.text}0",
        f"{WORK.text}/{STUDIO}",
        f"{SCORE.text}/{STUDIO}",
        f"{INTEGER_MAX + 1}/{STUDIO}",
        f"{CHAIN}/{STUDIO}/{INTEGER_MAX + 1}",
    ],
)
def test_another_text_is_no_key(text: str) -> None:
    with pytest.raises(BadUsage, match="not the key of a record or a lane: expected one of CHAIN"):
        read_key(text)


def test_the_largest_numbers_are_keys() -> None:
    assert read_key(f"{INTEGER_MAX}/{STUDIO}") == lane_key(INTEGER_MAX, STUDIO)
    assert read_key(f"{CHAIN}/{STUDIO}/{INTEGER_MAX}") == epoch_key(CHAIN, STUDIO, INTEGER_MAX)
    assert read_key(f"{CHAIN}/{STUDIO}/0") == epoch_key(CHAIN, STUDIO, 0)


def test_only_the_key_of_a_work_names_a_work() -> None:
    assert read_work_key(WORK.text, "--work") == WORK
    with pytest.raises(BadUsage) as refused:
        read_work_key(EPOCH.text, "--work")
    assert str(refused.value) == (
        "--work: not the key of a work: expected CHAIN/0xSTUDIO/0xDATAHASH, found that of an epoch"
    )


@pytest.mark.parametrize("key", ALL[:3], ids=lambda key: key.kind.name)
def test_an_id_is_a_uuid_of_version_8_of_the_keccak_of_the_key(key: Key) -> None:
    found = uuid.UUID(key.id)
    hashed = keccak.new(digest_bits=256, data=key.text.encode()).digest()[:16]

    assert (found.version, found.variant) == (8, uuid.RFC_4122)
    kept = (1 << 128) - 1 & ~(0xF << 76 | 0x3 << 62)
    assert found.int & kept == int.from_bytes(hashed, "big") & kept


def test_an_owner_is_the_key_of_its_record() -> None:
    assert [owner_key(arm(str(key.kind.owner), key.text)) for key in ALL[:3]] == list(ALL[:3])


def test_the_names_of_each_kind_are_those_of_the_manifest() -> None:
    for kind in KINDS:
        assert kind.workflow in manifest().effective.workflows
        routes = {
            route.event: (route.key_field, route.creates)
            for route in manifest().effective.subscriptions
            if route.workflow == kind.workflow
        }
        assert routes[kind.created_by] == (kind.field, True)
        assert routes[kind.commanded_by] == (kind.field, False)
