"""Addresses and hashes on the command line (C-120)."""

from __future__ import annotations

import re

import pytest
from eth_utils.address import to_checksum_address

from aos.errors import BadUsage
from aos_gateway.hex_text import checksummed, read_address, read_hash
from tests.gateway.commands.samples import HASH, SIGNER

EIP_55 = (
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
    "0xde709f2102306220921060314715629080e2fb77",
    "0x27b1fdb04752bbc536007a920d24acb045561c26",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
)


@pytest.mark.parametrize("address", EIP_55)
def test_the_addresses_of_eip_55_have_their_checksum(address: str) -> None:
    assert checksummed(address.lower()) == address == to_checksum_address(address)
    assert read_address(address, "--studio") == address.lower()


def test_one_case_alone_is_accepted_without_a_checksum() -> None:
    upper = "0x" + SIGNER[2:].upper()

    assert read_address(SIGNER, "--signer") == SIGNER
    assert read_address(upper, "--signer") == SIGNER


def test_a_mixed_address_is_refused_once_the_case_of_any_letter_changes() -> None:
    address = checksummed(SIGNER)
    letters = [match.start() for match in re.finditer("[a-fA-F]", address)]

    for place in letters:
        wrong = address[:place] + address[place].swapcase() + address[place + 1 :]
        with pytest.raises(BadUsage) as refused:
            read_address(wrong, "--signer")
        assert str(refused.value) == (
            "--signer: the checksum of the address fails (EIP-55): a character was mistyped: "
            f"expected {address}, found {wrong} (copy it again; in lower case it is not checked)"
        )
    assert len(letters) > 10


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0x" + "a" * 39, "39 digits"),
        ("0x" + "a" * 41, "41 digits"),
        ("0x", "0 digits"),
        (HASH, "64 digits"),
        ("a" * 40, repr("a" * 40)),
        ("0X" + "a" * 40, repr("0X" + "a" * 40)),
        ("0x" + "g" * 40, repr("0x" + "g" * 40)),
        ("0x" + "a" * 39 + "\n", repr("0x" + "a" * 39 + "\n")),
        ("0x" + "٣" * 40, repr("0x" + "٣" * 40)),
        ("", "''"),
    ],
)
def test_another_form_or_length_is_refused(text: str, found: str) -> None:
    with pytest.raises(BadUsage) as refused:
        read_address(text, "--admin")

    assert str(refused.value) == (
        f"--admin: not an address: expected 0x and 40 hex digits, found {found}"
    )


def test_the_zero_address_is_refused() -> None:
    with pytest.raises(BadUsage, match=r"expected an account or a contract: found 0x0{40}"):
        read_address("0x" + "0" * 40, "--signer")


def test_a_hash_is_read_in_any_case_and_has_64_digits() -> None:
    assert read_hash("0x" + HASH[2:].upper(), "--data-hash") == HASH
    with pytest.raises(BadUsage, match="--data-hash: not a hash: expected 0x and 64 hex digits"):
        read_hash(HASH[:-1], "--data-hash")
