"""The codecs of the scalar types (spec/values.md, V-31 to V-38)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from aos.values.cbor import FALSE, NULL, TRUE, Value, encode_bytes, encode_integer, encode_text
from aos.values.codec import (
    Codec,
    JsonForm,
    Miss,
    Room,
    mismatch,
    read_argument,
    read_bytes,
    read_text,
)
from aos.values.json_text import finite_json
from aos.values.spelling import (
    base64_bytes,
    base64_text,
    duration_ns,
    duration_text,
    normal_decimal,
    normal_hash,
    normal_uuid,
    time_ns,
    time_text,
)

_I64_LOW: Final = -(1 << 63)
_I64_HIGH: Final = (1 << 63) - 1


class _Bool(Codec):
    __slots__ = ()

    def normal(self, value: Any, _: Room) -> Value:
        if type(value) is bool:
            return value
        raise mismatch("bool", value)

    def encode(self, value: Any) -> bytes:
        return b"\xf5" if value else b"\xf4"

    def read(self, data: bytes, at: int) -> tuple[Value, int]:
        initial = data[at]
        if initial == TRUE:
            return True, at + 1
        if initial == FALSE:
            return False, at + 1
        raise Miss


class _Unit(Codec):
    __slots__ = ()

    def normal(self, value: Any, _: Room) -> Value:
        if value is None:
            return None
        raise mismatch(self.type_name, value)

    def encode(self, _: Any) -> bytes:
        return b"\xf6"

    def read(self, data: bytes, at: int) -> tuple[Value, int]:
        if data[at] == NULL:
            return None, at + 1
        raise Miss


class _Text(Codec):
    __slots__ = ()

    def normal(self, value: Any, _: Room) -> Value:
        if type(value) is str:
            return value
        raise mismatch("text", value)

    def encode(self, value: Any) -> bytes:
        return encode_text(value)

    def read(self, data: bytes, at: int) -> tuple[Value, int]:
        # Short texts are the most frequent values, and a call costs more than reading one.
        initial = data[at]
        if 0x60 <= initial < 0x78:
            end = at + initial - 0x5F
            return data[at + 1 : end].decode(), end
        return read_text(data, at)


class _Integer(Codec):
    """An integer. ``spelling`` reads the text that JSON may have instead, such as ``form``."""

    __slots__ = ("form", "high", "limits", "low", "spelling")

    def __init__(
        self,
        type_name: str,
        low: int,
        high: int,
        *,
        spelling: Callable[[str], int | None] | None = None,
        form: str = "",
    ) -> None:
        super().__init__(type_name)
        self.low = low
        self.high = high
        self.limits = f"{type_name} ({'0 to 2^64-1' if low == 0 else '-2^63 to 2^63-1'})"
        self.spelling = spelling
        self.form = form

    def normal(self, value: Any, _: Room) -> Value:
        if type(value) is int:
            if self.low <= value <= self.high:
                return value
            raise mismatch(self.limits, value)
        raise mismatch(self.type_name, value)

    def from_json(self, value: Any, room: Room) -> Value:
        if self.spelling is None or type(value) is not str:
            return self.normal(value, room)
        ns = self.spelling(value)
        if ns is None:
            raise mismatch(f"{self.type_name} as integer ns or as text such as {self.form}", value)
        if self.low <= ns <= self.high:
            return ns
        raise mismatch(f"{self.limits} in ns", value)

    def encode(self, value: Any) -> bytes:
        return encode_integer(value)

    def read(self, data: bytes, at: int) -> tuple[Value, int]:
        initial = data[at]
        if initial < 24:
            return initial, at + 1
        if initial >= 0x40:
            raise Miss
        n, end = read_argument(data, at)
        if initial >= 0x20:
            n = -1 - n
        if self.low <= n <= self.high:
            return n, end
        raise Miss


class _Nanoseconds(_Integer):
    """A time or a duration, which has a text form."""

    __slots__ = ("to_text",)

    def __init__(
        self, name: str, *, of: Callable[[str], int | None], to: Callable[[int], str], form: str
    ) -> None:
        super().__init__(name, _I64_LOW, _I64_HIGH, spelling=of, form=form)
        self.to_text = to

    def to_json(self, value: Any, *, form: JsonForm = JsonForm.NUMBERS) -> object:
        return value if form is JsonForm.NUMBERS else self.to_text(value)


class _FormattedText(Codec):
    """dec128, hash, uuid: text of a form, the same in CBOR and in JSON."""

    __slots__ = ("form", "normal_form")

    def __init__(self, type_name: str, normal_form: Callable[[str], str | None], form: str) -> None:
        super().__init__(type_name)
        self.normal_form = normal_form
        self.form = form

    def normal(self, value: Any, _: Room) -> Value:
        if type(value) is not str:
            raise mismatch(self.type_name, value)
        text = self.normal_form(value)
        if text is None:
            raise mismatch(f"{self.type_name} ({self.form})", value)
        return text

    def encode(self, value: Any) -> bytes:
        return encode_text(value)

    def read(self, data: bytes, at: int) -> tuple[Value, int]:
        text, end = read_text(data, at)
        if self.normal_form(text) == text:
            return text, end
        raise Miss


class _Bytes(Codec):
    __slots__ = ()

    def normal(self, value: Any, _: Room) -> Value:
        if type(value) is bytes:
            return value
        raise mismatch("bytes", value)

    def from_json(self, value: Any, _: Room) -> Value:
        data = base64_bytes(value) if type(value) is str else None
        if data is None:
            raise mismatch("bytes (base64 text, standard alphabet, padded)", value)
        return data

    def to_json(self, value: Any, *, form: JsonForm = JsonForm.NUMBERS) -> object:
        if form is JsonForm.PEOPLE:
            content = held_by(value)
            if content is not None:
                return content
        return base64_text(value)

    def encode(self, value: Any) -> bytes:
        return encode_bytes(value)

    def read(self, data: bytes, at: int) -> tuple[Value, int]:
        return read_bytes(data, at)


def held_by(data: bytes) -> object:
    """Return the JSON object or list that bytes hold, or their text; None for other bytes."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    if text.lstrip()[:1] in ("{", "["):
        # Any JSON, with fractions too: it is only shown.
        with contextlib.suppress(ValueError, RecursionError):
            return finite_json(text)
    return text if "".join(text.split()).isprintable() else None


SCALAR_CODECS: Final[Mapping[str, Codec]] = {
    "bool": _Bool("bool"),
    "int": _Integer("int", _I64_LOW, _I64_HIGH),
    "nat": _Integer("nat", 0, (1 << 64) - 1),
    "dec128": _FormattedText("dec128", normal_decimal, 'decimal such as "12.5", at most 34 digits'),
    "bytes": _Bytes("bytes"),
    "text": _Text("text"),
    "time": _Nanoseconds("time", of=time_ns, to=time_text, form='"2026-01-02T03:04:05.123456789Z"'),
    "duration": _Nanoseconds("duration", of=duration_ns, to=duration_text, form='"1m30s"'),
    "hash": _FormattedText("hash", normal_hash, "blake3:<64 lower-case hex digits>"),
    "uuid": _FormattedText("uuid", normal_uuid, "hex digits as 8-4-4-4-12"),
    "unit": _Unit("unit (null)"),
}
