"""Read receipts as the SDK of AgentOS does: by the schemas of AIR 2 in ``air2_receipts.txt``, which
this reader interprets without code of the kernel.

The SDK ignores fields that it does not know, and takes an absent option for null. Everything else
must be there, in its type.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import cbor2

TEXT: Final = Path(__file__).with_name("air2_receipts.txt")
_TOKEN: Final = re.compile(r"\s*([\w/.]+(?:@\d+)?|[{}<>\[\]:|,])")
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")


def _lines(pattern: str) -> dict[str, str]:
    return dict(re.findall(pattern, TEXT.read_text("utf-8"), re.MULTILINE))


RECEIPTS: Final[Mapping[str, str]] = _lines(r"^(\S+) -> (\S+)$")
"""The receipt schema of each effect."""

SCHEMAS: Final[Mapping[str, str]] = _lines(r"^(sys/\S+): (.*)$")


def _items(tokens: Iterator[str], end: str) -> Iterator[str]:
    """The first token of each item up to ``end``; the caller takes the rest of the item."""
    for token in tokens:
        if token == end:
            return
        if token not in (",", "|"):
            yield token


def _type(tokens: Iterator[str], first: str) -> Any:
    """A type as a name, or a tuple of its kind and its inner types."""
    if first in ("{", "<"):
        fields = {}
        for name in _items(tokens, "}" if first == "{" else ">"):
            assert next(tokens) == ":"
            fields[name] = _type(tokens, next(tokens))
        return ("record" if first == "{" else "variant"), fields
    if first in ("option", "list", "map"):
        assert next(tokens) == "["
        return first, [_type(tokens, each) for each in _items(tokens, "]")]
    return first


def parsed(text: str) -> Any:
    tokens = iter(_TOKEN.findall(text))
    return _type(tokens, next(tokens))


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_LEAVES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "text": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, bytes),
    "bool": lambda value: isinstance(value, bool),
    "unit": lambda value: value is None,
    "int": _is_int,
    "nat": lambda value: _is_int(value) and value >= 0,
    "hash": lambda value: isinstance(value, str) and _HASH.fullmatch(value) is not None,
    "uuid": lambda value: isinstance(value, str) and str(UUID(value)) == value,
}


class DoesNotFitError(AssertionError):
    """The SDK would not decode this receipt."""


@dataclass
class Reading:
    """One receipt while it is read. ``hashes`` are those that it has, by their places."""

    hashes: dict[str, str] = field(default_factory=dict)

    def need(self, is_so: bool, place: str, expected: str, found: object) -> None:
        if not is_so:
            raise DoesNotFitError(f"{place or 'the receipt'}: expected {expected}, found {found!r}")

    def fit(self, type_: Any, value: Any, place: str = "") -> None:
        """Raises ``DoesNotFitError`` with the place of the first value of another type."""
        if isinstance(type_, tuple):
            getattr(self, f"_{type_[0]}")(type_[1], value, place)
        elif type_ in SCHEMAS:
            self.fit(parsed(SCHEMAS[type_]), value, place)
        else:
            self._leaf(type_, value, place)

    def _record(self, fields: Mapping[str, Any], value: Any, place: str) -> None:
        self.need(isinstance(value, dict), place, "a record", value)
        for name, type_ in fields.items():
            where = f"{place}.{name}".lstrip(".")
            is_option = isinstance(type_, tuple) and type_[0] == "option"
            self.need(is_option or name in value, where, "this field", sorted(value))
            self.fit(type_, value.get(name), where)

    def _variant(self, arms: Mapping[str, Any], value: Any, place: str) -> None:
        self.need(isinstance(value, dict) and value.get("$tag") in arms, place, "an arm", value)
        self.need(value.keys() <= {"$tag", "$value"}, place, "$tag and $value", value)
        self.fit(arms[value["$tag"]], value.get("$value"), f"{place}.{value['$tag']}")

    def _option(self, inside: Any, value: Any, place: str) -> None:
        if value is not None:
            self.fit(inside[0], value, place)

    def _list(self, inside: Any, value: Any, place: str) -> None:
        self.need(isinstance(value, list), place, "a list", value)
        for each in value:
            self.fit(inside[0], each, f"{place}[]")

    def _map(self, inside: Any, value: Any, place: str) -> None:
        self.need(isinstance(value, dict), place, "a map", value)
        for key, each in value.items():
            self.fit(inside[0], key, f"{place}[]")
            self.fit(inside[1], each, f"{place}[]")

    def _leaf(self, type_: str, value: Any, place: str) -> None:
        self.need(_LEAVES[type_](value), place, f"a value of type {type_}", value)
        if type_ == "hash":
            self.hashes[place] = value


def read(effect: str, payload: bytes) -> tuple[Any, dict[str, str]]:
    """Decode a receipt; return it and its hashes, by their places.

    Raises:
        DoesNotFitError: The payload is not of the effect's receipt schema.
    """
    stream = io.BytesIO(payload)
    value = cbor2.load(stream)
    reading = Reading()
    reading.need(stream.tell() == len(payload), "", "one value", payload)
    reading.fit(parsed(RECEIPTS[effect]), value)
    return value, reading.hashes


def _opened(major: int, parts: list[bytes]) -> bytes:
    return bytes([major << 5 | 31]) + b"".join(parts) + b"\xff"


def without_lengths(value: Any) -> bytes:
    """CBOR in which no map and no list has a length, as a serialiser writes that does not know how
    many fields come."""
    if isinstance(value, Mapping):
        return _opened(5, [without_lengths(each) for item in value.items() for each in item])
    if isinstance(value, list):
        return _opened(4, [without_lengths(each) for each in value])
    return cbor2.dumps(value)


def with_tags(value: Any) -> bytes:
    """CBOR with tag 55799 in front of the value and of each map in it."""
    if isinstance(value, Mapping):
        parts = [with_tags(each) for item in value.items() for each in item]
        return b"\xd9\xd9\xf7" + _opened(5, parts)
    return cbor2.dumps(value)
