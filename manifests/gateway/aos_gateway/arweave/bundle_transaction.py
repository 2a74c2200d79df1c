"""The layer-1 transaction that puts a bundle into the chain: format 2, signed by the wallet, and
its fate once it is posted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import Final, Literal, TypeAlias

from aos.worker import EffectFailed
from aos_gateway.arweave.base64url import decode_base64url, encode_base64url
from aos_gateway.arweave.deep_hash import deep_hash
from aos_gateway.arweave.gateway_client import GatewayClient, InChain, NotInChain
from aos_gateway.arweave.upload_keys import UploadKeys

Fate: TypeAlias = Literal["Posted", "Known", "NoFunds", "Rejected", "Unknown", "NoKey"]

FORMAT: Final = b"2"
NOTHING: Final = b"0"
BUNDLE_TAGS: Final = ((b"Bundle-Format", b"binary"), (b"Bundle-Version", b"2.0.0"))

CHUNK_BYTES_MAX: Final = 256 * 1024
CHUNK_BYTES_MIN: Final = 32 * 1024
NOTE_BYTES: Final = 32

FATES: Final[dict[int, Fate]] = {
    HTTPStatus.OK: "Posted",
    HTTPStatus.ACCEPTED: "Posted",
    HTTPStatus.ALREADY_REPORTED: "Known",
    HTTPStatus.BAD_REQUEST: "Rejected",
    HTTPStatus.PAYMENT_REQUIRED: "NoFunds",
    HTTPStatus.FORBIDDEN: "Rejected",
    HTTPStatus.GONE: "NoFunds",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Rejected",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Rejected",
}
"""The fate by the status of the answer, before the look of AW-22. Any other is ``Unknown``."""

ONE_STATUS_FOR_TWO: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN)
"""Nodes answer these both to a wallet without funds and to an invalid transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleTransaction:
    """A signed transaction: its id, and the body of the request that posts it."""

    id: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PostFate:
    """``fate``, ``code`` and ``message`` of an upload receipt."""

    fate: Fate
    code: int | None
    message: str


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


@dataclass(frozen=True, slots=True)
class _ChunkNode:
    """A node of the tree, and the offset at which its bytes end."""

    id: bytes
    end: int


def data_root(data: bytes) -> bytes:
    """The Merkle root over the chunks of ``data``, split as Arweave's own client does (AW-14).

    A leaf is ``H(H(H(chunk)) H(end))``, a branch ``H(H(left) H(right) H(left's end))``, where H is
    SHA-256 and an offset has 32 bytes, big-endian. A node without a sibling moves up unchanged.
    """
    layer = [_leaf(data[start:end], end) for start, end in _chunks(len(data))]
    while len(layer) > 1:
        pairs = [layer[at : at + 2] for at in range(0, len(layer), 2)]
        layer = [_branch(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return layer[0].id


def _chunks(size: int) -> Iterator[tuple[int, int]]:
    """Start and end of each chunk: 256 KiB, the last two of equal size where the last would have
    less than 32 KiB. Content whose last chunk is full is followed by an empty one."""
    start = 0
    while size - start >= CHUNK_BYTES_MAX:
        remaining = size - start
        step = CHUNK_BYTES_MAX
        if 0 < remaining - CHUNK_BYTES_MAX < CHUNK_BYTES_MIN:
            step = (remaining + 1) // 2
        yield start, start + step
        start += step
    yield start, size


def _leaf(chunk: bytes, end: int) -> _ChunkNode:
    return _ChunkNode(_sha256(_sha256(_sha256(chunk)) + _sha256(_offset_bytes(end))), end)


def _branch(left_node: _ChunkNode, right_node: _ChunkNode) -> _ChunkNode:
    return _ChunkNode(
        _sha256(
            _sha256(left_node.id) + _sha256(right_node.id) + _sha256(_offset_bytes(left_node.end))
        ),
        right_node.end,
    )


def _offset_bytes(offset: int) -> bytes:
    return offset.to_bytes(NOTE_BYTES, "big")


def _sha256(data: bytes) -> bytes:
    return sha256(data).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """A transaction to post, and the wallet that pays ``reward`` winston for it. No answer of a
    gateway is taken for "not sent" without evidence."""

    gateway: GatewayClient
    transaction: BundleTransaction
    reward: int
    address: str

    async def post(self) -> PostFate:
        """Post the transaction unless the gateway has it already (AW-20).

        Raises:
            EffectFailed: The gateway cannot even be asked whether it has it. Nothing was sent.
        """
        if await self._is_known():
            message = f"the gateway {self.gateway.host} has the bundle already"
            return PostFate(fate="Known", code=None, message=message)
        try:
            answer = await self.gateway.post(self.transaction.body)
        except EffectFailed as error:  # AW-23
            return PostFate(fate="Unknown", code=None, message=error.message)
        return PostFate(
            fate=await self._fate(answer.status),
            code=answer.status,
            message=self.gateway.quoted(answer),
        )

    async def _fate(self, status: int) -> Fate:
        """The fate by the status of the answer to the post (AW-21). Nodes answer 400 to 499 also to
        a bundle that they have, and to a wallet that cannot pay, so these are checked (AW-22)."""
        fate = FATES.get(status, "Unknown")
        if not HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return fate
        try:
            if await self._is_known():
                return "Known"
            if status in ONE_STATUS_FOR_TWO and not await self._can_pay():
                return "NoFunds"
        except EffectFailed:
            return "Unknown"
        return fate

    async def _can_pay(self) -> bool:
        return await self.gateway.balance(self.address) >= self.reward

    async def _is_known(self) -> bool:
        chain_status = await self.gateway.chain_status(self.transaction.id)
        return isinstance(chain_status, InChain) or chain_status is NotInChain.PENDING
