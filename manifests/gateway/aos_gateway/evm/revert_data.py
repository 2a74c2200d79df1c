"""The cause of a revert, from the revert's data and never from a node's words (EV-30).

Nodes nest the data differently. Examples of ``error`` in an answer of JSON-RPC:

    {"code": 3, "data": "0x08c379a0…"}                            geth, anvil, erigon, reth
    {"code": -32603, "data": {"data": "0x08c379a0…"}}             hardhat
    {"code": -32603, "data": {"originalError": {"data": "0x…"}}}  wallets and relays
    {"code": -32015, "data": "Reverted 0x08c379a0…"}              nethermind, openethereum
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from aos.worker.redaction import NO_SECRETS, Redactor
from aos_gateway.evm.hex_values import BadHex, data
from aos_gateway.evm.json_rpc import RpcError

TEXT_BYTES_MAX: Final = 1024
DATA_BYTES_MAX: Final = 4096

EXECUTION_REVERTED: Final = 3
"""The error code that geth introduced, and most nodes use."""

_ERROR: Final = bytes.fromhex("08c379a0")
_PANIC: Final = bytes.fromhex("4e487b71")
_WORD: Final = 32
_NESTINGS_MAX: Final = 4

_EXECUTION_FAILED: Final = re.compile(
    r"execution reverted|vm exception while processing transaction|evm error\b|reverted$"
    r"|(?:^|: )(?:out of gas|invalid opcode|invalid jump|stack (?:und|ov)erflow|write protection)",
    re.IGNORECASE,
)
"""Words for an execution that failed without data. They decide only that it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a call reverted (``evm/Cause@1``)."""

    kind: str
    text: str = ""
    data: bytes = b""

    def plain(self) -> dict[str, Any]:
        return {"kind": {"$tag": self.kind}, "text": self.text, "data": self.data}


EMPTY: Final = Cause(kind="Empty")


def cause_of(error: RpcError, redactor: Redactor = NO_SECRETS) -> Cause | None:
    """The cause of a call that the node answered with ``error``, without the secrets of
    ``redactor``; None if the error is about something else than the execution of the call
    (EV-31)."""
    revert = _revert_data(error.data)
    if revert is not None:
        return decode_cause(redactor.redacted(revert))
    if error.code == EXECUTION_REVERTED or _EXECUTION_FAILED.search(error.message):
        return EMPTY
    return None


def _revert_data(value: Any) -> bytes | None:
    for _ in range(_NESTINGS_MAX):
        if isinstance(value, str):
            return _bytes(value.removeprefix("Reverted "))
        if not isinstance(value, dict):
            return None
        value = next(
            (value[key] for key in ("data", "originalError", "result") if value.get(key)), None
        )
    return None


def _bytes(text: str) -> bytes | None:
    try:
        return data(text)
    except BadHex:
        return None


def decode_cause(revert: bytes) -> Cause:
    """The cause in a revert's data (EV-32). Data that breaks the form of its selector is ``Custom``
    (EV-33)."""
    excerpt = revert[:DATA_BYTES_MAX]
    if not revert:
        return EMPTY
    selector, arguments = revert[:4], revert[4:]
    if selector == _ERROR:
        text = _text(arguments)
        if text is not None:
            return Cause(kind="Error", text=text, data=excerpt)
    if selector == _PANIC and len(arguments) == _WORD:
        return Cause(kind="Panic", text=hex(int.from_bytes(arguments)), data=excerpt)
    return Cause(kind="Custom", data=excerpt)


def _text(arguments: bytes) -> str | None:
    """The one string in ABI-encoded arguments, cut; None if its offset or length is impossible."""
    if len(arguments) < 2 * _WORD:
        return None
    at = int.from_bytes(arguments[:_WORD])
    if not _WORD <= at <= len(arguments) - _WORD:
        return None
    size = int.from_bytes(arguments[at : at + _WORD])
    begin = at + _WORD
    if size > len(arguments) - begin:
        return None
    return cut(arguments[begin : begin + size].decode("utf-8", "replace"))


def cut(text: str) -> str:
    """At most ``TEXT_BYTES_MAX`` bytes of UTF-8, without a part of a character."""
    return text.encode("utf-8")[:TEXT_BYTES_MAX].decode("utf-8", "ignore")
