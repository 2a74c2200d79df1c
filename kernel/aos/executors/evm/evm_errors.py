"""The error codes of these effects, each with the function that makes it."""

from __future__ import annotations

from typing import Final

from aos.worker import EffectFailed, NotConfigured

UNAVAILABLE: Final = "unavailable"
BLOCK_UNKNOWN: Final = "block_unknown"
WRONG_CHAIN: Final = "wrong_chain"
BAD_REQUEST: Final = "evm_bad_request"
CHAIN_NOT_CONFIGURED: Final = "chain_not_configured"
KEYS_MALFORMED: Final = "keys_malformed"


def unavailable(message: str) -> EffectFailed:
    """The node gave no usable answer: nothing is known about the chain (EV-10)."""
    return EffectFailed(UNAVAILABLE, message, retryable=True)


def block_unknown(message: str) -> EffectFailed:
    """The node does not have the block (EV-11)."""
    return EffectFailed(BLOCK_UNKNOWN, message, retryable=True)


def wrong_chain(message: str) -> EffectFailed:
    """The node is on another chain; nothing was sent to it (EV-4)."""
    return EffectFailed(WRONG_CHAIN, message, retryable=True)


def bad_request(message: str) -> EffectFailed:
    """The workflow's params are invalid; the same params will never work (EV-12)."""
    return EffectFailed(BAD_REQUEST, message)


def chain_not_configured(chain: int) -> NotConfigured:
    """This process has no node for the chain (EV-2)."""
    return NotConfigured(
        CHAIN_NOT_CONFIGURED,
        f"AOS_EVM_RPC has no node for chain {chain}",
        f'add "{chain}=URL" to AOS_EVM_RPC and start the process again',
    )


def keys_malformed(message: str) -> NotConfigured:
    """A private key of the secret cannot be read. The message never shows it (EV-51)."""
    return NotConfigured(
        KEYS_MALFORMED,
        message,
        "write private keys of 64 hex digits, separated by commas, as the secret's value",
    )
