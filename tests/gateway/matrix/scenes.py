"""Scenes: the requests that a world gets in a run, and the transactions on its chain before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cbor2
from blake3 import blake3
from chain import Chain
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from tests.gateway.matrix.site import CHAIN_ID

SIGNER, OTHER, VALIDATOR, WORKER, RIVAL = 0, 1, 4, 6, 16
"""Accounts: the signer of both works and admin of the score, the signer of the epoch, the
validator, the submitter of earlier works, and one whose key no world has."""

EPOCH, LAST_EPOCH = 7, 8
STRANGE_GAS: Final = 458_753
"""The gas of transactions with a lane's key that no lane sends: their mark."""

POLICY: Final[Mapping[str, int]] = {
    "conf": 1,
    "wait_ms": 250,
    "bump_after": 2,
    "max_fee": 200 * 10**9,
    "retries": 6,
    "retry_base_ms": 20,
    "retry_cap_ms": 100,
    "stall_base_ms": 100,
    "stall_cap_ms": 400,
    "stall_cycles": 4,
    "arweave_conf": 1,
    "arweave_wait_ms": 500,
}

SCENES: Final = ("works", "score", "epoch", "all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request: ``name`` in the run, the record's key, and the event."""

    name: str
    key: str
    schema: str
    value: Mapping[str, Any]

    @property
    def item(self) -> list[str]:
        data = cbor2.dumps(self.value, canonical=True)
        return [self.schema, data.hex(), f"gateway/{self.key}"]


def calldata(signature: str, *values: Any) -> str:
    """The data of a call of the contract."""
    types = signature[signature.index("(") + 1 : -1].split(",")
    return "0x" + (keccak(text=signature)[:4] + encode(types, values)).hex()


def strange(chain: Chain, sender: int, *, to: str | None = None, data: str = "0x") -> list[Any]:
    """The params of ``eth_sendTransaction``, of an account whose key the node has: a call of the
    contract, or else a payment."""
    accounts = chain.accounts
    given = {"from": accounts[sender].address, "to": to or accounts[RIVAL].address, "data": data}
    return [{**given, "value": hex(0 if to else 1), "gas": hex(STRANGE_GAS)}]


def asked_in(
    chain: Chain, scene: str, *, number: int, is_revealed: bool, policy: Mapping[str, int]
) -> Sequence[Asked]:
    """The requests of a scene. ``number`` makes its works new; the chain gets what they need."""
    made: dict[str, Callable[[], list[Asked]]] = {
        "works": lambda: _works(chain, number, policy),
        "score": lambda: [_score(chain, number, policy, is_revealed=is_revealed)],
        "epoch": lambda: [_epoch(chain, number, policy)],
    }
    names = list(made) if scene == "all" else [scene]
    return [each for name in names for each in made[name]()]


def data_hash(evidence: str) -> str:
    return "0x" + blake3(evidence.encode()).hexdigest()


def _works(chain: Chain, number: int, policy: Mapping[str, int]) -> list[Asked]:
    """Two works of one signer. Someone else's is in their epoch, so that it can be closed."""
    _submitted(chain, data_hash(f"another work {number}"), EPOCH)
    return [_work(chain, f"work {each} of run {number}", each, policy) for each in (1, 2)]


def _work(chain: Chain, evidence: str, place: int, policy: Mapping[str, int]) -> Asked:
    key = f"{CHAIN_ID}/{chain.studio}/{data_hash(evidence)}"
    value = {
        "work": key,
        "chain": CHAIN_ID,
        "studio_address": chain.studio,
        "epoch": EPOCH,
        "signer_address": chain.accounts[SIGNER].address,
        "data_hash": data_hash(evidence),
        "arweave": "main",
        "content_type": "text/plain",
        "evidence": evidence.encode(),
        "policy": dict(policy),
    }
    return Asked(name=f"work {place}", key=key, schema="gw/WorkRequested@1", value=value)


def submit_work(chain: Chain, hash: str, epoch: int, sender: int) -> list[Any]:
    """The params of a transaction that submits a work as someone else."""
    data = calldata("submitWork(bytes32,uint64,string)", bytes.fromhex(hash[2:]), epoch, "item")
    return strange(chain, sender, to=chain.studio, data=data)


def close_epoch(chain: Chain, epoch: int, sender: int) -> list[Any]:
    return strange(chain, sender, to=chain.studio, data=calldata("closeEpoch(uint64)", epoch))


def _submitted(chain: Chain, hash: str, epoch: int) -> None:
    """An earlier work of the worker, in a block."""
    chain.rpc("eth_sendTransaction", submit_work(chain, hash, epoch, WORKER))
    chain.rpc("evm_mine")


def _score(chain: Chain, number: int, policy: Mapping[str, int], *, is_revealed: bool) -> Asked:
    hash = data_hash(f"scored {number}")
    _submitted(chain, hash, EPOCH)
    worker, validator = chain.accounts[WORKER].address, chain.accounts[VALIDATOR].address
    key = f"{CHAIN_ID}/{chain.studio}/{hash}/{worker}/{validator}"
    value = {
        "score": key,
        "chain": CHAIN_ID,
        "studio_address": chain.studio,
        "data_hash": hash,
        "worker_address": worker,
        "signer_address": validator,
        "admin_address": chain.accounts[SIGNER].address,
        "epoch": EPOCH,
        "scores": [80, 90],
        "mode": {"$tag": "CommitReveal" if is_revealed else "Direct"},
        "policy": dict(policy),
    }
    return Asked(name="score", key=key, schema="gw/ScoreRequested@1", value=value)


def _epoch(chain: Chain, number: int, policy: Mapping[str, int]) -> Asked:
    _submitted(chain, data_hash(f"of the last epoch {number}"), LAST_EPOCH)
    key = f"{CHAIN_ID}/{chain.studio}/{LAST_EPOCH}"
    value = {
        "epoch_key": key,
        "chain": CHAIN_ID,
        "studio_address": chain.studio,
        "epoch": LAST_EPOCH,
        "signer_address": chain.accounts[OTHER].address,
        "policy": dict(policy),
    }
    return Asked(name="epoch", key=key, schema="gw/EpochCloseRequested@1", value=value)
