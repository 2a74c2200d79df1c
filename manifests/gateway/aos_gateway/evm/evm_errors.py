"""The error codes of these effects, each with the function that makes it."""

from __future__ import annotations

from functools import partial
from typing import Final

from aos.worker import EffectFailed, NotConfigured

unavailable: Final = partial(EffectFailed, "unavailable", retryable=True)
"""The node gave no usable answer: nothing is known about the chain (EV-10)."""

block_unknown: Final = partial(EffectFailed, "block_unknown", retryable=True)
"""The node does not have the block (EV-11)."""

wrong_chain: Final = partial(EffectFailed, "wrong_chain", retryable=True)
"""The node is on another chain; nothing was sent to it (EV-4)."""

bad_request: Final = partial(EffectFailed, "evm_bad_request")
"""The workflow's params are invalid; the same params will never work (EV-12)."""


def chain_not_configured(chain: int) -> NotConfigured:
    """This process has no node for the chain (EV-2)."""
    return NotConfigured(
        "chain_not_configured",
        f"AOS_EVM_RPC has no node for chain {chain}",
        f'add "{chain}=URL" to AOS_EVM_RPC and start the process again',
    )


def keys_malformed(message: str) -> NotConfigured:
    """A private key of the secret cannot be read. The message never shows it (EV-51)."""
    return NotConfigured(
        "keys_malformed",
        message,
        "write private keys of 64 hex digits, separated by commas, as the secret's value",
    )
