"""The layer-1 transaction that puts a bundle into the chain: format 2, signed by the wallet."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from aos.executors.arweave.base64url import decode_base64url, encode_base64url
from aos.executors.arweave.data_root import data_root
from aos.executors.arweave.deep_hash import deep_hash
from aos.executors.arweave.upload_keys import UploadKeys

FORMAT: Final = b"2"
NOTHING: Final = b"0"
BUNDLE_TAGS: Final = ((b"Bundle-Format", b"binary"), (b"Bundle-Version", b"2.0.0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleTransaction:
    """A signed transaction: its id, and the body of the request that posts it."""

    id: str
    body: bytes


def sign_transaction(
    bundle: bytes, *, anchor: str, reward: int, keys: UploadKeys
) -> BundleTransaction:
    """Make the transaction of ``bundle``. Its bytes are a function of the arguments alone (AW-14).

    It has no target and moves no tokens; its reward is what the wallet pays.
    """
    last = decode_base64url(anchor)
    assert last is not None  # the params were checked (AW-3)
    root = data_root(bundle)
    owner = keys.wallet.modulus
    size, price = str(len(bundle)).encode("ascii"), str(reward).encode("ascii")
    signature = keys.wallet.sign(
        deep_hash([FORMAT, owner, b"", NOTHING, price, last, BUNDLE_TAGS, size, root])
    )
    name = encode_base64url(sha256(signature).digest())
    document = {
        "format": int(FORMAT),
        "id": name,
        "last_tx": anchor,
        "owner": encode_base64url(owner),
        "tags": [
            {"name": encode_base64url(key), "value": encode_base64url(value)}
            for key, value in BUNDLE_TAGS
        ],
        "target": "",
        "quantity": NOTHING.decode("ascii"),
        "data_root": encode_base64url(root),
        "data_size": str(len(bundle)),
        "data": encode_base64url(bundle),
        "reward": str(reward),
        "signature": encode_base64url(signature),
    }
    return BundleTransaction(
        id=name, body=json.dumps(document, separators=(",", ":")).encode("ascii")
    )
