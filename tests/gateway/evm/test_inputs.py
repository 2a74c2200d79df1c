"""Invalid params end an effect before any request (EV-12, EV-13)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aos.worker import EffectFailed
from aos_gateway.evm.inputs import checked_address, receipt_params, with_checksum
from tests.gateway.evm import stage
from tests.gateway.evm.fake_node import FakeNode
from tests.gateway.evm.stage import GUARD, SIGNER, Stage, direct

MIXED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
"""An example of EIP-55."""


@pytest.fixture
def effects() -> Stage:
    return direct(FakeNode())


def refused(effects: Stage, effect: str, **changes: Any) -> str:
    """The message of the refusal. Nothing was asked."""
    with pytest.raises(EffectFailed) as failed:
        asyncio.run(getattr(effects, effect)(**changes))
    assert (failed.value.code, failed.value.retryable) == ("evm_bad_request", False)
    assert effects.asked == []
    return failed.value.message


@pytest.mark.parametrize(
    "address",
    ["", "0x", SIGNER[:-1], SIGNER + "0", SIGNER[2:], "0X" + SIGNER[2:], SIGNER[:-1] + "g",
     SIGNER + "\n", " " + SIGNER[1:], "0x" + 64 * "1", "vitalik.eth"],
)  # fmt: skip
def test_an_address_has_20_bytes_of_hex(effects: Stage, address: str) -> None:
    for effect, field in (
        ("call", "to"), ("quote", "to"), ("quote", "signer"), ("submit", "to"),
        ("submit", "signer"), ("receipt", "to"), ("receipt", "signer"),
    ):  # fmt: skip
        message = refused(effects, effect, **{field: address})

        assert message.startswith(f"{field}: expected an address of 20 bytes")
    message = refused(effects, "quote", guard=GUARD | {"to": address})
    assert message.startswith("guard.to: expected an address of 20 bytes")


def test_a_mixed_case_address_has_the_checksum_of_eip_55(effects: Stage) -> None:
    assert checked_address(MIXED, "to") == MIXED.lower()
    assert checked_address(MIXED.lower(), "to") == MIXED.lower()
    assert checked_address("0x" + MIXED[2:].upper(), "to") == MIXED.lower()
    assert with_checksum(MIXED.lower()) == MIXED

    wrong = MIXED[:2] + MIXED[2:].swapcase()
    assert refused(effects, "submit", to=wrong).startswith(f"to: the checksum of {wrong} is wrong")


@pytest.mark.parametrize("hash", ["", "0x", "0x" + 63 * "1", "0x" + 65 * "1", 64 * "1"])
def test_a_hash_has_32_bytes_of_hex(effects: Stage, hash: str) -> None:
    message = refused(effects, "receipt", hashes=["0x" + 64 * "a", hash])

    assert message.startswith("hashes[1]: expected a hash of 32 bytes")


@pytest.mark.parametrize(
    ("effect", "changes", "words"),
    [
        ("quote", {"value": "0.5"}, "value: expected a whole number of wei"),
        ("quote", {"value": "-1"}, "value: expected a whole number of wei"),
        ("submit", {"value": "0.001"}, "value: expected a whole number of wei"),
        ("submit", {"gas": 20_999}, "gas: expected 21000 to"),
        ("submit", {"nonce": 2**64 - 1}, "nonce: expected 0 to"),
        ("submit", {"max_tip": 4 * stage.GWEI}, "max_tip: expected 0 to 3000000000"),
        ("submit", {"data": bytes(131_073)}, "data: expected at most 131072 bytes, found 131073"),
        ("call", {"data": bytes(131_073)}, "data: expected at most 131072 bytes"),
        ("receipt", {"nonce": 2**64 - 1}, "nonce: expected 0 to"),
        ("receipt", {"conf": 100_001}, "conf: expected 0 to 100000"),
        ("receipt", {"hashes": 257 * ["0x" + 64 * "1"]}, "hashes: expected at most 256, found 257"),
        ("quote", {"conf": 100_001}, "conf: expected 0 to 100000"),
        ("call", {"block": {"$tag": "Depth", "$value": 0}}, "block: expected a depth of 1"),
        ("call", {"block": {"$tag": "Depth", "$value": 100_001}}, "block: expected a depth of 1"),
    ],
)
def test_numbers_and_sizes_are_in_range(
    effects: Stage, effect: str, changes: dict[str, Any], words: str
) -> None:
    assert refused(effects, effect, **changes).startswith(words)


def test_repeated_hashes_are_one_hash_and_long_waits_are_cut() -> None:
    one = "0x" + 64 * "a"

    params = receipt_params(stage.receipt(one, one.upper().replace("X", "x"), one, wait_ms=10**9))

    assert params.hashes == (one,)
    assert params.wait_s == 45.0
