"""Every error code of records and lanes: what it means, and what to do about it.

The only table of its kind: ``aos gateway show`` prints from it, and the operator's page of
``manifests/gateway/README.md`` has the same codes. ``{signer}``, ``{chain}``, ``{lane}``,
``{arweave}`` and ``{key}`` are filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

EXECUTORS: Final = "--executors aos.executors.evm:evm --executors aos.executors.arweave:arweave"
RUN: Final = f"aos run --secrets FILE {EXECUTORS}"


class Advice(NamedTuple):
    """``remedy`` is what removes the cause; None where nothing is left to do."""

    meaning: str
    remedy: str | None


CODES: Final[Mapping[str, Advice]] = {
    "INVALID_INPUT": Advice(
        "the input of the record is not valid", "create the record again with a corrected input"
    ),
    "CONFLICT": Advice(
        "another account did this on chain first",
        "compare that account with the record's signer; this record sends nothing more",
    ),
    "EPOCH_CLOSED": Advice(
        "the epoch is closed on chain",
        "submit under a new --data-hash in an open epoch; this record sends nothing more",
    ),
    "EPOCH_EMPTY": Advice(
        "the epoch has no work on chain, so the contract does not close it",
        "complete a work of this epoch first",
    ),
    "WORK_NOT_SUBMITTED": Advice(
        "the work is not on chain, or another account submitted it",
        "complete the work first: aos gateway show WORK",
    ),
    "WINDOW_CLOSED": Advice(
        "the time in which the score could be revealed is over",
        "a committed score cannot be replaced; the contract decides what follows",
    ),
    "TX_REVERTED": Advice(
        "the contract refuses the transaction, for the reason in the message",
        "remove that reason on chain",
    ),
    "INCONSISTENT": Advice(
        "the transaction is confirmed, and the contract does not have its result",
        "compare --studio with the deployed contract; the record never sends it again",
    ),
    "CANCELED": Advice("an operator canceled the record", None),
    "TX_CANCELED": Advice("the transaction was canceled at its lane", None),
    "PARKED": Advice("an operator parked it", None),
    "ARWEAVE_REJECTED": Advice(
        "Arweave refuses the upload, for the reason in the message",
        "remove that reason, for example too small a reward or an unsupported tag",
    ),
    "EVIDENCE_MISMATCH": Advice(
        "Arweave returns other bytes than the evidence",
        "check the gateway {arweave} of AOS_ARWEAVE with another gateway",
    ),
    "NO_FUNDS": Advice("the signer cannot pay for gas", "send funds to {signer} on chain {chain}"),
    "ARWEAVE_NO_FUNDS": Advice(
        "the wallet cannot pay for the upload",
        "send AR to the wallet of gateway.arweave-key; the message has its balance",
    ),
    "NO_KEY": Advice(
        "no key of the secrets file belongs to the signer",
        "add the key of {signer} to gateway.evm-keys in the file of aos run --secrets, which is "
        "read again when it changes",
    ),
    "ARWEAVE_NO_KEY": Advice(
        "the secrets file has no usable key for Arweave",
        "set gateway.arweave-key in the file of aos run --secrets, which is read again when it "
        "changes",
    ),
    "NODE_UNAVAILABLE": Advice(
        "the node gives no usable answer, so nothing is known",
        "check the node of chain {chain} in AOS_EVM_RPC: address, network, rate limits",
    ),
    "ARWEAVE_UNAVAILABLE": Advice(
        "the gateway gives no usable answer, so nothing is known",
        "check the gateway {arweave} in AOS_ARWEAVE: address, network, rate limits",
    ),
    "UNAVAILABLE": Advice(
        "an executor answered in a form that the effect does not have, so nothing is known",
        "use executors of this release of AOS",
    ),
    "STUDIO_UNKNOWN": Advice(
        "the contract at the studio's address does not answer as a studio does",
        "compare the studio's address and chain {chain} with the deployed contract",
    ),
    "WRONG_CHAIN": Advice(
        "the node belongs to another chain; nothing was sent to it",
        "give chain {chain} its own node in AOS_EVM_RPC, then run the world again",
    ),
    "BLOCK_UNKNOWN": Advice(
        "the node does not have the block that must be read",
        "let the node of chain {chain} catch up, or use one that keeps the state of old blocks",
    ),
    "LANE_FULL": Advice(
        "256 requests wait at the lane; it continues by itself when there is room",
        "look at the lane: aos gateway show {lane}",
    ),
    "FOREIGN": Advice(
        "another program consumed the nonce with the signer's key",
        "let no other program use the key of {signer}; the record asks the chain and continues",
    ),
    "UNDERPRICED": Advice(
        "the chain asks for more than --max-fee",
        "wait until the chain is cheaper: the policy of a record does not change",
    ),
    "REFUSED": Advice(
        "the node refuses the transaction, for the reason in the message",
        "remove that reason at the node of chain {chain}, or use another node",
    ),
    "CHAIN_REORGANISED": Advice(
        "the chain took back a block; the transaction is published again",
        "if this repeats, use a larger --conf for new records",
    ),
    "STORE_FAILED": Advice(
        "the world could not store the evidence", "check the disk of the world's folder"
    ),
    "TIMED_OUT": Advice(
        "an effect gave no answer in its time, so nothing is known",
        "check the node of chain {chain} and the gateway {arweave}",
    ),
}

HELD: Final[Mapping[str, str]] = {
    "chain_not_configured": "set AOS_EVM_RPC='{chain}=URL'",
    "gateway_not_configured": "set AOS_ARWEAVE='{arweave}=URL'",
    "secret_unavailable": "set gateway.evm-keys and gateway.arweave-key in the file of aos run "
    "--secrets (mode 0600)",
}
"""The remedy for an effect that is held with this code."""


class _Blank(dict[str, str]):
    """The values of a remedy. A name without a value stays as it is."""

    def __missing__(self, name: str) -> str:
        return f"{{{name}}}"


def remedy(code: str | None, values: Mapping[str, object]) -> str | None:
    """What to do about an error; None if nothing is left to do, or the code is not known."""
    advice = None if code is None else CODES.get(code)
    if advice is None or advice.remedy is None:
        return None
    return filled(advice.remedy, values)


def filled(text: str, values: Mapping[str, object]) -> str:
    """A remedy with the values that are known."""
    value_texts = {name: str(value) for name, value in values.items() if value is not None}
    return text.format_map(_Blank({"arweave": "main", **value_texts}))
