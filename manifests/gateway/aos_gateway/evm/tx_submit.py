"""``evm/tx.submit@1``: sign and publish one fully specified transaction (EV-41). The node's answer
is only a hint at the transaction's fate (EV-43).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aos_gateway.evm.chain_reads import ChainReads
from aos_gateway.evm.evm_keys import SignedTransaction, sign
from aos_gateway.evm.hex_values import BadHex, hash32
from aos_gateway.evm.inputs import SubmitParams
from aos_gateway.evm.json_rpc import RpcError
from aos_gateway.evm.revert_data import cause_of
from aos_gateway.evm.rpc_connections import AnswerLost

ACCEPTED: Final = "Accepted"
KNOWN: Final = "Known"
NONCE_USED: Final = "NonceUsed"
UNDERPRICED: Final = "Underpriced"
NO_FUNDS: Final = "NoFunds"
REFUSED: Final = "Refused"
UNKNOWN: Final = "Unknown"
NO_KEY: Final = "NoKey"

# The first that matches decides: "replacement transaction underpriced" is no "known transaction".
_FATE_PHRASES: Final[Mapping[str, tuple[str, ...]]] = {
    UNDERPRICED: (
        "underpriced",
        "fee too low",
        "feetoolow",
        "less than block base fee",
        "is too low for the next block",
        "replacementnotallowed",
        "could not replace",
    ),
    KNOWN: ("already known", "alreadyknown", "already imported", "known transaction"),
    NONCE_USED: ("nonce too low", "nonce is too low", "oldnonce"),
    NO_FUNDS: ("insufficient", "enough funds", "upfront cost exceeds"),
}

_REFUSAL_CODES: Final = frozenset({-32000, -32003, -32010, -32602})
"""Codes of an error that is about the transaction. Any other may come after it was taken."""


async def submit(
    reads: ChainReads, params: SubmitParams, *, secret: str, name: str
) -> dict[str, Any]:
    """``evm/TxSubmitReceipt@1``. ``secret`` has the keys; ``name`` names it in errors.

    Raises:
        EffectFailed: ``unavailable`` or ``wrong_chain``: nothing was sent.
        NotConfigured: A key of the secret is malformed: nothing was sent.
    """
    signed = await asyncio.to_thread(sign, secret, name, params)
    if signed is None:
        message = f"{name} has no key of {params.signer}: nothing was sent"
        return _receipt(None, NO_KEY, message=message)
    try:
        answer = await reads.send(signed.raw)
    except AnswerLost as error:
        message = f"the node at {reads.host_port} {error}; it may have the transaction"
        return _receipt(signed, UNKNOWN, message=message)
    if isinstance(answer, RpcError):
        fate = fate_of(answer, signed.hash)
        return _receipt(signed, fate, code=answer.code, message=reads.redacted_line(answer.message))
    return _answered(reads, signed, answer)


def _answered(reads: ChainReads, signed: SignedTransaction, answer: Any) -> dict[str, Any]:
    """The node answered with a hash: it must be ours (EV-44)."""
    try:
        answered_hash = hash32(answer)
    except BadHex as error:
        return _receipt(signed, UNKNOWN, message=reads.redacted_line(f"the node answered: {error}"))
    if answered_hash != signed.hash:
        message = (
            f"the node at {reads.host_port} answered with hash {answered_hash}, which is not ours"
        )
        return _receipt(signed, UNKNOWN, message=message)
    return _receipt(signed, ACCEPTED)


def _receipt(
    signed: SignedTransaction | None, fate: str, *, code: int | None = None, message: str = ""
) -> dict[str, Any]:
    hash = None if signed is None else signed.hash
    return {"hash": hash, "fate": {"$tag": fate}, "code": code, "message": message}


def fate_of(error: RpcError, hash: str) -> str:
    """The fate that a node's error suggests for the transaction with this hash: a node's answer to
    ``eth_sendRawTransaction`` -> ``evm/SubmitFate@1``, which is a hint (EV-43).

    The fates come from the words of geth, anvil, hardhat, nethermind, erigon, besu and reth. A
    wrong guess costs a retry and nothing else: only ``evm/tx.receipt@1`` knows a transaction's
    fate.
    """
    if _mined_hash(error.data) == hash:
        return ACCEPTED  # hardhat mines a transaction that reverts, and answers with an error
    if cause_of(error) is not None:
        return UNKNOWN  # the node has executed it: it may be in a block
    message = error.message.lower()
    for fate, phrases in _FATE_PHRASES.items():
        if any(phrase in message for phrase in phrases):
            return fate
    return REFUSED if error.code in _REFUSAL_CODES else UNKNOWN


def _mined_hash(data: Any) -> str | None:
    mined_hash = data.get("txHash") if isinstance(data, dict) else None
    return mined_hash.lower() if isinstance(mined_hash, str) else None
