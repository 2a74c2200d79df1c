"""The key of an executor: read with care, never shown, and it signs what the core checks (X-48)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from aos.core.journal import merkle
from aos.core.journal.inputs import ReceiptInput
from aos.core.journal.signing import is_signed
from aos.errors import BadUsage
from aos.values.digests import content_hash
from aos.worker.executor_key import TOGETHER_MAX, read_key, tree
from tests.worker.stage import WORLD, intent_of

SEED = "ab" * 32


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "shop.key"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_receipt_is_signed_as_the_core_checks_it(tmp_path: Path) -> None:
    signer = read_key("shop", written(tmp_path, f"{SEED}\n"))
    receipt = ReceiptInput(
        intent=intent_of(1),
        effect="test/echo@1",
        attempt=2,
        status="ok",
        payload=b"\xf6",
        started_ns=5,
        finished_ns=6,
        executor="shop",
        key_id=signer.public_key,
        signature=b"",
        cost_cents=3,
    )

    (signed,) = signer.sign_receipts(WORLD, [receipt.message(WORLD)])
    signature = signed.signature

    assert signed.batch is None
    assert signer.public_key == bytes(SigningKey(bytes.fromhex(SEED)).verify_key)
    assert is_signed(receipt.message(WORLD), signature, signer.public_key)
    assert not is_signed(receipt.message(content_hash(b"other")), signature, signer.public_key)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o601])
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(BadUsage, match=f"expected mode 0600, found {mode:04o}: others may read"):
        read_key("shop", written(tmp_path, SEED, mode))


@pytest.mark.parametrize("text", ["", "ab" * 31, "zz" * 32, SEED + "00"])
def test_an_invalid_seed_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadUsage) as caught:
        read_key("shop", written(tmp_path, text))

    assert "expected an Ed25519 seed of 64 hex digits" in str(caught.value)
    assert not text or text not in str(caught.value)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match=r"key_file .*none\.key: cannot be read: No such file"):
        read_key("shop", tmp_path / "none.key")


@pytest.mark.parametrize("size", range(1, 34))
def test_the_tree_is_the_one_that_the_core_proves_by(size: int) -> None:
    """J-20, J-23."""
    leaves = [content_hash(b"%d" % n) for n in range(size)]

    root, paths = tree(leaves)

    assert root == merkle.root(leaves)
    assert [list(path) for path in paths] == [merkle.proof(leaves, n) for n in range(size)]


def test_many_receipts_have_few_signatures_and_each_is_proved_alone(tmp_path: Path) -> None:
    """J-40."""
    signer = read_key("shop", written(tmp_path, SEED))
    receipts = [
        ReceiptInput(
            intent=intent_of(n),
            effect="test/echo@1",
            attempt=1,
            status="ok",
            payload=b"\xf6",
            started_ns=5,
            finished_ns=6,
            executor="shop",
            key_id=signer.public_key,
            signature=b"",
        )
        for n in range(2 * TOGETHER_MAX + 1)
    ]

    signed = signer.sign_receipts(WORLD, [each.message(WORLD) for each in receipts])

    assert len({each.signature for each in signed}) == 3
    assert signed[-1].batch is None
    for receipt, each in zip(receipts, signed, strict=True):
        given = replace(receipt, signature=each.signature, batch=each.batch)
        message = given.signed_message(WORLD)
        assert message == each.message
        assert is_signed(message, each.signature, signer.public_key)
    moved = replace(receipts[0], signature=signed[1].signature, batch=signed[1].batch)
    assert moved.signed_message(WORLD) != signed[1].message


def test_nothing_to_sign_is_no_signature(tmp_path: Path) -> None:
    assert read_key("shop", written(tmp_path, SEED)).sign_receipts(WORLD, []) == []
