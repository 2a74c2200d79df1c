"""Rename the intents of a shadow to those that they are paired with (spec/shadow.md, SH-31).

The hash of an intent covers the definition of its workflow, so another version asks for the same
effect under another hash. A state that keeps such a hash is not different for that.
"""

from __future__ import annotations

import re
from typing import Final

from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import HASH_BYTES, Hash
from aos.values.errors import ValueProblem

_TEXT: Final = re.compile("blake3:[0-9a-f]{64}")
_DIGITS: Final = re.compile(b"blake3:[0-9a-f]{64}")
_HEAD: Final = b"\x58\x20"
"""The CBOR head of a byte string of 32 bytes."""


class Renames:
    """The hashes of the shadow's intents, each with the recorded one, where the two differ."""

    def __init__(self) -> None:
        self._recorded_by_shadow: dict[bytes, Hash] = {}

    def add(self, shadow: Hash, recorded: Hash) -> None:
        if shadow != recorded:
            self._recorded_by_shadow[shadow] = recorded

    def __bool__(self) -> bool:
        return bool(self._recorded_by_shadow)

    def text(self, text: str) -> str:
        return _TEXT.sub(self._of_text, text)

    def data(self, encoded: bytes) -> bytes:
        """Return CBOR with the recorded hashes, in the canonical order that they give; bytes that
        are no canonical CBOR, with the hashes replaced where they are."""
        try:
            return encode(self._value(decode_record(encoded)))
        except ValueProblem:
            return self._bytes(encoded)

    def _of_text(self, match: re.Match[str]) -> str:
        hash = self._recorded_by_shadow.get(bytes.fromhex(match[0].removeprefix("blake3:")))
        return match[0] if hash is None else f"blake3:{hash.hex()}"

    def _value(self, value: Value) -> Value:
        match value:
            case str():
                return self.text(value)
            case bytes():
                return self._bytes(value)
            case list():
                return [self._value(element) for element in value]
            case dict():
                return {
                    self.text(key) if isinstance(key, str) else key: self._value(member)
                    for key, member in value.items()
                }
            case _:
                return value

    def _bytes(self, data: bytes) -> bytes:
        if len(data) == HASH_BYTES:
            return self._recorded_by_shadow.get(data, data)
        data = _DIGITS.sub(lambda match: self.text(match[0].decode()).encode(), data)
        at = data.find(_HEAD)
        while at >= 0:
            begin = at + len(_HEAD)
            hash = self._recorded_by_shadow.get(data[begin : begin + HASH_BYTES])
            if hash is not None:
                data = data[:begin] + hash + data[begin + HASH_BYTES :]
            at = data.find(_HEAD, at + 1)
        return data
