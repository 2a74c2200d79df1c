"""The secret of an upload, and signatures that depend on nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from math import lcm
from pathlib import Path
from typing import Any

import pytest
from Crypto.Hash import SHA256
from Crypto.PublicKey import RSA
from Crypto.Signature import pss

from aos_gateway.arweave.base64url import decode_base64url, encode_base64url
from aos_gateway.arweave.bundle_transaction import data_root, sign_transaction
from aos_gateway.arweave.deep_hash import deep_hash
from aos_gateway.arweave.rsa_pss import UnusableKey
from aos_gateway.arweave.upload_keys import read_keys
from tests.gateway.arweave.lab import ANCHOR, SECRET, keys

PRINT_IDS = """
import sys
from aos_gateway.arweave.bundle_transaction import sign_transaction
from aos_gateway.arweave.data_item import sign_item
from aos_gateway.arweave.data_item import pack_bundle
from aos_gateway.arweave.data_item import ItemTag
from aos_gateway.arweave.upload_keys import read_keys
keys = read_keys(open(sys.argv[1]).read())
item = sign_item(b"evidence", [ItemTag("Content-Type", "text/plain")], keys.item_seed)
signed = sign_transaction(pack_bundle(item), anchor=sys.argv[2], reward=7, keys=keys)
print(item.id, signed.id, signed.body.decode())
"""

Change = Callable[[dict[str, Any]], object]


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SECRET)
    return found


def number(text: str) -> int:
    data = decode_base64url(text)
    assert data is not None
    return int.from_bytes(data, "big")


def test_an_address_is_the_hash_of_the_modulus() -> None:
    modulus = decode_base64url(document()["jwk"]["n"])
    assert modulus is not None

    assert keys().address == encode_base64url(sha256(modulus).digest())
    assert keys().wallet.modulus == modulus
    assert keys().item_seed == bytes(range(32))


def test_two_processes_sign_the_same_bytes() -> None:
    """AW-9: nothing is drawn, and nothing depends on the process."""
    path = Path(__file__).parent / "worthless_keys.json"
    command = [sys.executable, "-c", PRINT_IDS, str(path), ANCHOR]

    first, second = (
        subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(2)
    )

    assert first == second
    assert len(first.split()) == 3


def test_a_signature_is_one_that_any_verifier_accepts() -> None:
    """AW-15: RSA-PSS with SHA-256 and a salt of 32 bytes, over the deep hash of format 2."""
    signed = json.loads(sign_transaction(b"bundle", anchor=ANCHOR, reward=7, keys=keys()).body)
    last = decode_base64url(ANCHOR)
    assert last is not None
    tags = [[b"Bundle-Format", b"binary"], [b"Bundle-Version", b"2.0.0"]]
    owner, root = keys().wallet.modulus, data_root(b"bundle")
    message = deep_hash([b"2", owner, b"", b"0", b"7", last, tags, b"6", root])
    signature = decode_base64url(signed["signature"])
    assert signature is not None

    public = RSA.construct((int.from_bytes(owner, "big"), 65537))
    pss.new(public, salt_bytes=32).verify(SHA256.new(message), signature)

    assert signed["id"] == encode_base64url(sha256(signature).digest())
    assert signed["data_root"] == encode_base64url(root)
    assert (signed["quantity"], signed["target"], signed["data_size"]) == ("0", "", "6")


def test_messages_that_differ_have_salts_that_differ() -> None:
    """AW-15: two signatures with one salt would differ in their masked hash alone."""
    wallet = keys().wallet

    assert wallet.sign(b"one") == wallet.sign(b"one")
    assert wallet.sign(b"one") != wallet.sign(b"two")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda found: found.pop("item_seed"), "item_seed: expected 64 hex digits"),
        (lambda found: found.update(item_seed="00" * 31), "item_seed: expected 64 hex digits"),
        (lambda found: found.update(item_seed="0x" + "00" * 31), "item_seed: expected 64"),
        (lambda found: found.update(item_seed=7), "item_seed: expected 64 hex digits"),
        (lambda found: found.pop("jwk"), "jwk: expected a JSON object"),
        (lambda found: found.update(jwk=[1]), "jwk: expected a JSON object"),
        (lambda found: found["jwk"].update(kty="EC"), 'jwk.kty: expected "RSA"'),
        (lambda found: found["jwk"].pop("q"), "jwk.q: expected a number in base64url"),
        (lambda found: found["jwk"].update(p="a+b"), "jwk.p: expected a number in base64url"),
        (lambda found: found["jwk"].update(p=""), "jwk.p: expected a number in base64url"),
        (lambda found: found["jwk"].update(n="AQAB"), "jwk.n: expected 2,048 to 4,096 bits"),
        (lambda found: found["jwk"].update(e="Aw"), "jwk.e: expected AQAB"),
        (lambda found: found["jwk"].update(p="Aw"), "jwk.p: expected the factors of n"),
        (lambda found: found["jwk"].update(p="AQ", q=found["jwk"]["n"]), "jwk.p: expected the"),
        (lambda found: found["jwk"].update(d="AQAB"), "jwk.d: expected the private exponent"),
    ],
)
def test_a_malformed_key_is_named_by_its_place_and_never_shown(
    change: Change, problem: str
) -> None:
    """AW-4."""
    found = document()
    change(found)

    with pytest.raises(UnusableKey) as raised:
        read_keys(json.dumps(found))

    shown = str(raised.value)
    assert shown.startswith(problem)
    assert raised.value.__cause__ is None
    secrets = [document()["item_seed"], *document()["jwk"].values()]
    assert not [each for each in secrets if len(each) > 8 and each in shown]


@pytest.mark.parametrize("secret", ["", "none", "[1]", '{"item_seed": "aa', "[" * 100_000])
def test_a_secret_that_is_no_object_is_named(secret: str) -> None:
    with pytest.raises(UnusableKey, match=r"^the value: expected a JSON object"):
        read_keys(secret)


def text_of(whole: int) -> str:
    return encode_base64url(whole.to_bytes((whole.bit_length() + 7) // 8, "big"))


def test_numbers_that_look_like_a_key_but_make_none_are_found_when_they_sign() -> None:
    """AW-4: ``p`` and ``q`` multiply to ``n`` and fit ``d``, but ``q`` is no prime."""
    p, q = number(document()["jwk"]["p"]), number(document()["jwk"]["q"]) + 2
    d = pow(65537, -1, lcm(p - 1, q - 1))
    numbers = {"n": p * q, "e": 65537, "d": d, "p": p, "q": q}
    jwk = {"kty": "RSA", **{name: text_of(each) for name, each in numbers.items()}}
    wallet = read_keys(json.dumps({"item_seed": "00" * 32, "jwk": jwk})).wallet

    with pytest.raises(UnusableKey, match=r"^jwk\.p: expected the prime factors"):
        wallet.sign(b"message")


def test_two_equal_factors_make_no_key() -> None:
    p = number(document()["jwk"]["p"])
    numbers = {"n": p * p, "e": 65537, "d": pow(65537, -1, p - 1), "p": p, "q": p}
    jwk = {"kty": "RSA", **{name: text_of(each) for name, each in numbers.items()}}

    with pytest.raises(UnusableKey, match=r"^jwk\.p: expected the factors of n"):
        read_keys(json.dumps({"item_seed": "00" * 32, "jwk": jwk}))
