"""A node's answer to ``eth_sendRawTransaction`` -> ``evm/SubmitFate@1``, which is a hint (EV-43).

The fates come from the words of geth, anvil, hardhat, nethermind, erigon, besu and reth. A wrong
guess costs a retry and nothing else: only ``evm/tx.receipt@1`` knows a transaction's fate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aos.executors.evm.json_rpc import RpcError
from aos.executors.evm.revert_data import cause_of

ACCEPTED: Final = "Accepted"
KNOWN: Final = "Known"
NONCE_USED: Final = "NonceUsed"
UNDERPRICED: Final = "Underpriced"
NO_FUNDS: Final = "NoFunds"
REFUSED: Final = "Refused"
UNKNOWN: Final = "Unknown"
NO_KEY: Final = "NoKey"

# The first that matches decides: "replacement transaction underpriced" is no "known transaction".
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
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

_REFUSALS: Final = frozenset({-32000, -32003, -32010, -32602})
"""Codes of an error that is about the transaction. Any other may come after it was taken."""


def fate_of(error: RpcError, hash: str) -> str:
    """The fate that a node's error suggests for the transaction with this hash."""
    if _mined_hash(error.data) == hash:
        return ACCEPTED  # hardhat mines a transaction that reverts, and answers with an error
    if cause_of(error) is not None:
        return UNKNOWN  # the node has executed it: it may be in a block
    message = error.message.lower()
    for fate, phrases in _WORDS.items():
        if any(phrase in message for phrase in phrases):
            return fate
    return REFUSED if error.code in _REFUSALS else UNKNOWN


def _mined_hash(data: Any) -> str | None:
    mined_hash = data.get("txHash") if isinstance(data, dict) else None
    return mined_hash.lower() if isinstance(mined_hash, str) else None
