"""The records that are created: works with evidence, and scores of works that a chain has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from chain import Account, Chain
from chain_parts import CHAIN_ID
from studio import receipt_of

from aos_gateway.keys import work_key
from aos_gateway.requests import Request, score_request, work_request
from benchmarks.gateway.bare_client import SCORES, calldata

EPOCH: Final = 7
WORKER: Final = 18
"""The account that submitted the works that are scored. No world has its key."""

EVIDENCE_BYTES: Final = 1_000
GAS: Final = hex(500_000)


def data_hash(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def work(chain: Chain, name: str, signer: Account, policy: Mapping[str, int]) -> Request:
    return work_request(
        chain=CHAIN_ID,
        studio=chain.studio,
        epoch=EPOCH,
        signer=signer.address,
        data_hash=None,
        arweave="main",
        content_type="text/plain",
        evidence=f"{name}\n".encode().ljust(EVIDENCE_BYTES, b"."),
        policy=policy,
    )


def score(chain: Chain, name: str, validator: Account, policy: Mapping[str, int]) -> Request:
    """A direct score, whose validator registers itself: two transactions of one signer."""
    hash = f"0x{data_hash(name).hex()}"
    return score_request(
        work=work_key(CHAIN_ID, chain.studio, hash),
        of_work={
            "chain": CHAIN_ID,
            "studio_address": chain.studio,
            "data_hash": hash,
            "epoch": EPOCH,
            "signer_address": chain.accounts[WORKER].address,
        },
        validator=validator.address,
        admin=None,
        scores=SCORES,
        mode="direct",
        policy=policy,
    )


def submit_work(chain: Chain, name: str) -> bytes:
    """Submit a work to a chain that mines each transaction, by an account whose key the node has,
    and wait until it is mined. Returns its hash."""
    hash = data_hash(name)
    data = calldata("submitWork(bytes32,uint64,string)", hash, EPOCH, "item")
    sender = chain.accounts[WORKER].address
    sent = {"from": sender, "to": chain.studio, "data": data, "gas": GAS}
    receipt_of(chain.rpc, chain.rpc("eth_sendTransaction", [sent]))
    return hash
