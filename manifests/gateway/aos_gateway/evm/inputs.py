"""The params of the four effects as frozen values, each checked once (EV-13), with their addresses
and hashes (EV-12).

The kernel has checked the params against their schemas, so their types are correct; sizes, ranges
and addresses are checked here: an address or hash by its length, an address also by EIP-55.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from aos_gateway.evm.evm_errors import bad_request
from aos_gateway.evm.evm_packages import keccak
from aos_gateway.evm.hex_values import ADDRESS_BYTES, HASH_BYTES, U64_MAX, U256_MAX, excerpt_of

DATA_BYTES_MAX: Final = 128 * 1024
"""Nodes refuse transactions with more."""

HASHES_MAX: Final = 256
CONF_MAX: Final = 100_000
WAIT_MS_MAX: Final = 45_000
"""Below the effect's timeout of 60 s, so that a wait always ends with an answer."""

NONCE_MAX: Final = U64_MAX - 1
"""EIP-2681."""

_HEX_TEXT: Final = re.compile(r"0x[0-9a-fA-F]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallParams:
    """``evm/call@1``. ``block`` is the tag of ``evm/BlockAt@1`` and its number."""

    chain: int
    to: str
    data: bytes
    block: tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    to: str
    data: bytes
    undone: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteParams:
    """``evm/tx.quote@1``."""

    chain: int
    signer: str
    to: str
    data: bytes
    value: int
    conf: int
    guard: Guard | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitParams:
    """``evm/tx.submit@1``. ``keys`` is the reference of the secret."""

    keys: Any
    chain: int
    signer: str
    nonce: int
    to: str
    data: bytes
    value: int
    gas: int
    max_fee: int
    max_tip: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptParams:
    """``evm/tx.receipt@1``."""

    chain: int
    signer: str
    nonce: int
    hashes: tuple[str, ...]
    to: str
    data: bytes
    value: int
    conf: int
    since: int
    wait_s: float


def call_params(params: dict[str, Any]) -> CallParams:
    tag = params["block"]["$tag"]
    number = params["block"].get("$value", 0)
    if tag == "Depth" and not 1 <= number <= CONF_MAX:
        raise bad_request(f"block: expected a depth of 1 (the head) to {CONF_MAX}, found {number}")
    return CallParams(
        chain=params["chain"],
        to=checked_address(params["to"], "to"),
        data=_checked_data(params["data"], "data"),
        block=(tag, number),
    )


def quote_params(params: dict[str, Any]) -> QuoteParams:
    guard = params["guard"]
    return QuoteParams(
        chain=params["chain"],
        signer=checked_address(params["signer"], "signer"),
        to=checked_address(params["to"], "to"),
        data=_checked_data(params["data"], "data"),
        value=_checked_wei(params["value"]),
        conf=_in_range(params["conf"], "conf", 0, CONF_MAX),
        guard=None
        if guard is None
        else Guard(
            to=checked_address(guard["to"], "guard.to"),
            data=_checked_data(guard["data"], "guard.data"),
            undone=_checked_data(guard["undone"], "guard.undone"),
        ),
    )


def submit_params(params: dict[str, Any]) -> SubmitParams:
    max_fee = _in_range(params["max_fee"], "max_fee", 0, U64_MAX)
    return SubmitParams(
        keys=params["keys"],
        chain=params["chain"],
        signer=checked_address(params["signer"], "signer"),
        nonce=_in_range(params["nonce"], "nonce", 0, NONCE_MAX),
        to=checked_address(params["to"], "to"),
        data=_checked_data(params["data"], "data"),
        value=_checked_wei(params["value"]),
        gas=_in_range(params["gas"], "gas", 21_000, U64_MAX),
        max_fee=max_fee,
        max_tip=_in_range(params["max_tip"], "max_tip", 0, max_fee),
    )


def receipt_params(params: dict[str, Any]) -> ReceiptParams:
    hashes = params["hashes"]
    if len(hashes) > HASHES_MAX:
        raise bad_request(f"hashes: expected at most {HASHES_MAX}, found {len(hashes)}")
    unique = dict.fromkeys(
        checked_hash(hash_text, f"hashes[{index}]") for index, hash_text in enumerate(hashes)
    )
    return ReceiptParams(
        chain=params["chain"],
        signer=checked_address(params["signer"], "signer"),
        nonce=_in_range(params["nonce"], "nonce", 0, NONCE_MAX),
        hashes=tuple(unique),
        to=checked_address(params["to"], "to"),
        data=_checked_data(params["data"], "data"),
        value=_checked_wei(params["value"]),
        conf=_in_range(params["conf"], "conf", 0, CONF_MAX),
        since=params["since"],
        wait_s=min(params["wait_ms"], WAIT_MS_MAX) / 1000,
    )


def _checked_data(call_data: bytes, field: str) -> bytes:
    if len(call_data) > DATA_BYTES_MAX:
        raise bad_request(
            f"{field}: expected at most {DATA_BYTES_MAX} bytes, found {len(call_data)}"
        )
    return call_data


def _in_range(number: int, field: str, low: int, high: int) -> int:
    if not low <= number <= high:
        raise bad_request(f"{field}: expected {low} to {high}, found {number}")
    return number


def _checked_wei(wei_text: str) -> int:
    """Wei, which the kernel gives as the text of a decimal."""
    if not re.fullmatch(r"[0-9]{1,78}", wei_text, re.ASCII) or int(wei_text) > U256_MAX:
        raise bad_request(f"value: expected a whole number of wei, 0 or more, found {wei_text:.80}")
    return int(wei_text)


def checked_address(text: str, field: str) -> str:
    """An address in lower case. In mixed case it must have the checksum of EIP-55.

    Raises:
        EffectFailed: ``evm_bad_request``; ``field`` is the field.
    """
    _check_length(text, ADDRESS_BYTES, field, "an address")
    lower = text.lower()
    digits = text[2:]
    is_mixed = digits not in (digits.lower(), digits.upper())
    if is_mixed and text != with_checksum(lower):
        raise bad_request(
            f"{field}: the checksum of {text} is wrong (EIP-55): check the address for a mistyped "
            "character, or write it in lower case"
        )
    return lower


def checked_hash(text: str, field: str) -> str:
    """A transaction hash in lower case.

    Raises:
        EffectFailed: ``evm_bad_request``; ``field`` is the field.
    """
    _check_length(text, HASH_BYTES, field, "a hash")
    return text.lower()


def _check_length(text: str, size: int, field: str, kind: str) -> None:
    if len(text) != 2 + 2 * size or not _HEX_TEXT.fullmatch(text):
        raise bad_request(
            f"{field}: expected {kind} of {size} bytes as 0x and {2 * size} hex digits, "
            f"found {excerpt_of(text)}"
        )


@lru_cache(maxsize=1024)
def with_checksum(lower: str) -> str:
    """The address in the mixed case of EIP-55."""
    digits = lower[2:]
    nibbles = keccak(digits.encode("ascii")).hex()
    pairs = zip(digits, nibbles, strict=False)
    return "0x" + "".join(digit.upper() if nibble >= "8" else digit for digit, nibble in pairs)
