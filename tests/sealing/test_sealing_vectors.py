"""The bytes of sealed values: spec/vectors/sealed.json (SL-20 to SL-26).

``REWRITE=1`` writes the file. The bytes are made here a second time, with cbor2, blake3 and
libsodium alone, in the words of the specification.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from typing import Any, Final

import cbor2
import pytest
from blake3 import blake3
from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_decrypt as opened,
)
from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_encrypt as sealed,
)

from aos.sealing import CannotOpen, Keyring, SealingKey
from aos.sealing.keyring import SealingOrigin
from tests.cookbook.worlds import ROOT

FILE: Final = ROOT / "spec/vectors/sealed.json"
SECRETS: Final = (bytes(range(32)), bytes(range(32, 64)))
INTENT: Final = bytes(range(64, 96))
RANDOM: Final = bytes(range(96, 128))

NUMBER: Final = "4111 1111 1111 1111"

Plain = Any
Case = tuple[str, int, str, str | bytes, str, Plain]
CASES: Final[tuple[Case, ...]] = (
    ("a text in an event", 0, "submission", "order-1", "$.card", NUMBER),
    ("the same text under another id", 0, "submission", "order-2", "$.card", NUMBER),
    ("the same text at another place", 0, "submission", "order-1", "$.old", NUMBER),
    ("the same text under another key", 1, "submission", "order-1", "$.card", NUMBER),
    ("a record in a result", 0, "intent", INTENT, '$["a b"][2]', {"name": "Ann", "age": 41}),
    ("bytes without an id", 0, "random", RANDOM, "$", b"\x00\xff"),
    ("the shortest value", 0, "random", RANDOM, "$", 0),
    ("an empty text", 0, "submission", "", "$.note", ""),
    ("a text outside of ASCII", 0, "submission", "ü", "$.name", "Zoë 漢字"),
)


def derived(context: str, secret: bytes, size: int) -> bytes:
    return blake3(secret, derive_key_context=context).digest(length=size)


def nonce_of(secret: bytes, kind: str, id: str | bytes, path: str, plaintext: bytes) -> bytes:
    """SL-23."""
    named = cbor2.dumps([kind, id, path, plaintext], canonical=True)
    return blake3(named, key=derived("aos/sealed/1 nonce", secret, 32)).digest(length=24)


def vector(case: Case) -> dict[str, Any]:
    name, key, kind, id, path, value = case
    secret = SECRETS[key]
    plaintext = cbor2.dumps(value, canonical=True)
    nonce = nonce_of(secret, kind, id, path, plaintext)
    key_id = derived("aos/sealed/1 key id", secret, 8)
    header = b"\x01" + key_id + nonce
    cipher = derived("aos/sealed/1 cipher", secret, 32)
    return {
        "name": name,
        "secret_hex": secret.hex(),
        "key_id": key_id.hex(),
        "origin": kind,
        "origin_id": id if isinstance(id, str) else id.hex(),
        "path": path,
        "plaintext_hex": plaintext.hex(),
        "nonce_hex": nonce.hex(),
        "sealed_hex": (header + sealed(plaintext, header, nonce, cipher)).hex(),
    }


def bad(good: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    data = bytes.fromhex(good["sealed_hex"])
    yield "empty", b""
    yield "a plaintext", b"4111 1111 1111 1111 4111 1111 1111 1111 4111 1111 1111 1111"
    yield "another version", b"\x02" + data[1:]
    yield "cut off in its header", data[:32]
    yield "without a plaintext", data[:49]
    yield "cut off by one byte", data[:-1]
    yield "one byte more", data + b"\x00"
    yield "an unknown key", data[:1] + bytes(8) + data[9:]
    yield "another nonce", data[:9] + bytes(24) + data[33:]
    yield "an altered ciphertext", data[:33] + bytes([data[33] ^ 1]) + data[34:]
    yield "an altered tag", data[:-1] + bytes([data[-1] ^ 0x80])


def made() -> dict[str, Any]:
    values = [vector(each) for each in CASES]
    refused = [{"name": name, "hex": data.hex()} for name, data in bad(values[0])]
    return {"sealed": values, "refused": refused}


@pytest.fixture(scope="module")
def vectors() -> dict[str, Any]:
    if os.environ.get("REWRITE") == "1":
        FILE.write_text(json.dumps(made(), indent=1, ensure_ascii=False) + "\n")
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def test_a_second_implementation_makes_the_file(vectors: dict[str, Any]) -> None:
    assert vectors == made()


def test_each_value_is_sealed_to_the_bytes_of_its_vector(vectors: dict[str, Any]) -> None:
    """SL-20 to SL-23"""
    for each in vectors["sealed"]:
        key = SealingKey(bytes.fromhex(each["secret_hex"]))
        id = each["origin_id"]
        given = id if each["origin"] == "submission" else bytes.fromhex(id)
        plaintext = bytes.fromhex(each["plaintext_hex"])
        found = key.seal(plaintext, SealingOrigin(each["origin"], given), each["path"])

        assert (key.id.hex(), found.hex()) == (each["key_id"], each["sealed_hex"]), each["name"]
        assert len(found) == 49 + len(plaintext)


def test_each_vector_opens_to_its_value(vectors: dict[str, Any]) -> None:
    """SL-24"""
    keyring = Keyring(map(SealingKey, SECRETS))
    for each in vectors["sealed"]:
        data = bytes.fromhex(each["sealed_hex"])
        value = cbor2.loads(bytes.fromhex(each["plaintext_hex"]))

        assert keyring.open(data) == value, each["name"]
        cipher = derived("aos/sealed/1 cipher", bytes.fromhex(each["secret_hex"]), 32)
        assert cbor2.loads(opened(data[33:], data[:33], data[9:33], cipher)) == value


def test_no_refused_vector_opens(vectors: dict[str, Any]) -> None:
    """SL-5, SL-25"""
    keyring = Keyring(map(SealingKey, SECRETS))
    for each in vectors["refused"]:
        with pytest.raises(CannotOpen) as problem:
            keyring.open(bytes.fromhex(each["hex"]))

        assert "4111" not in str(problem.value), each["name"]


def test_a_client_seals_as_the_vectors_do(vectors: dict[str, Any]) -> None:
    keyring = Keyring([SealingKey(SECRETS[0])])
    first, record = vectors["sealed"][0], vectors["sealed"][4]
    text = keyring.seal("4111 1111 1111 1111", submission_id="order-1", path="$.card")
    hash_ = f"blake3:{INTENT.hex()}"
    in_result = keyring.seal({"name": "Ann", "age": 41}, intent=hash_, path='$["a b"][2]')

    assert text.hex() == first["sealed_hex"]
    assert in_result.hex() == record["sealed_hex"]
    assert base64.b64encode(text)[:1] == b"A", "the first byte is the version"
