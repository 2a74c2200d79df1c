"""``evm/tx.submit@1``: sign and publish one fully specified transaction (EV-41)."""

from __future__ import annotations

import asyncio
from typing import Any

from aos.executors.evm.chain_reads import ChainReads
from aos.executors.evm.evm_keys import SignedTransaction, sign
from aos.executors.evm.hex_values import BadHex, hash32
from aos.executors.evm.inputs import SubmitParams
from aos.executors.evm.json_rpc import RpcError
from aos.executors.evm.rpc_connections import AnswerLost
from aos.executors.evm.submit_fates import ACCEPTED, NO_KEY, UNKNOWN, fate_of


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
