"""The codecs of options, lists, sets, maps, records and variants, and ``build``, which makes the
codec of a Type (spec/values.md, V-39 to V-46)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from aos.values.cbor import NULL, Value, encode_key, encode_text, head
from aos.values.codec import Codec, JsonForm, Miss, Room, mismatch, read_length
from aos.values.errors import FieldsMissing, ValueProblem, quoted
from aos.values.expressions import (
    UNIT,
    ListOf,
    MapOf,
    Option,
    Record,
    Scalar,
    SetOf,
    Type,
    TypeRef,
    Variant,
)
from aos.values.scalars import SCALAR_CODECS
from aos.values.show import describe

Pairs: TypeAlias = dict[str | int, Value]


def build(type_: Type, codecs: Mapping[str, Codec]) -> Codec:
    """The codec of a type. ``codecs`` must have every schema that ``type_`` refers to."""
    match type_:
        case Scalar(name):
            return SCALAR_CODECS[name]
        case TypeRef(name):
            return codecs[name]
        case Option(item):
            return _Option(build(item, codecs))
        case ListOf(item):
            return _List(build(item, codecs))
        case SetOf(item):
            return _Set(build(item, codecs))
        case MapOf(key, item):
            kind = _IntegerMap if key.name in ("int", "nat") else _TextMap
            return kind(SCALAR_CODECS[key.name], build(item, codecs))
        case Record(fields):
            return _Record({name: build(field, codecs) for name, field in fields})
        case Variant(arms):
            return _Variant(
                {name: None if arm == UNIT else build(arm, codecs) for name, arm in arms}
            )


# Option


class _Option(Codec):
    __slots__ = ("item",)

    def __init__(self, item: Codec) -> None:
        super().__init__(f"{item.type_name} or null", may_be_absent=True)
        self.item = item

    def normal(self, value: Any, room: Room) -> Value:
        return None if value is None else self.item.normal(value, room)

    def from_json(self, value: Any, room: Room) -> Value:
        return None if value is None else self.item.from_json(value, room)

    def to_json(self, value: Any, *, form: JsonForm = JsonForm.NUMBERS) -> object:
        return None if value is None else self.item.to_json(value, form=form)

    def encode(self, value: Any) -> bytes:
        return b"\xf6" if value is None else self.item.encode(value)

    def read(self, data: bytes, at: int) -> tuple[Value, int]:
        return (None, at + 1) if data[at] == NULL else self.item.read(data, at)


# List and set


def _walk_list(
    expected: str, value: Any, read: Callable[[Any, Room], Value], room: Room
) -> list[Value]:
    """Apply ``read`` to each element of a list, decoded from CBOR or from JSON."""
    if type(value) is not list:
        raise mismatch(expected, value)
    out: list[Value] = []
    try:
        for element in value:
            out.append(read(element, room))  # noqa: PERF401  # its length is the bad index
    except ValueProblem as problem:
        raise problem.under(len(out)) from None
    return out


class _List(Codec):
    __slots__ = ("item",)

    def __init__(self, item: Codec, type_name: str = "list") -> None:
        super().__init__(type_name)
        self.item = item

    def normal(self, value: Any, room: Room) -> Value:
        return _walk_list("list", value, self.item.normal, room)

    def from_json(self, value: Any, room: Room) -> Value:
        return _walk_list("list, as an array", value, self.item.from_json, room)

    def to_json(self, value: Any, *, form: JsonForm = JsonForm.NUMBERS) -> object:
        return [self.item.to_json(element, form=form) for element in value]

    def encode(self, value: Any) -> bytes:
        item = self.item
        return head(0x80, len(value)) + b"".join([item.encode(element) for element in value])

    def read(self, data: bytes, at: int) -> tuple[Value, int]:
        n, at = read_length(data, at, 0x80)
        item = self.item
        out: list[Value] = []
        for _ in range(n):
            element, at = item.read(data, at)
            out.append(element)
        return out, at


class _Set(_List):
    """In CBOR a list whose elements ascend by their encoded bytes."""

    __slots__ = ()

    def __init__(self, item: Codec) -> None:
        super().__init__(item, "set")

    def normal(self, value: Any, room: Room) -> Value:
        return self._sorted(_walk_list("set", value, self.item.normal, room))

    def from_json(self, value: Any, room: Room) -> Value:
        return self._sorted(_walk_list("set, as an array", value, self.item.from_json, room))

    def _sorted(self, elements: list[Value]) -> list[Value]:
        by_bytes = {self.item.encode(element): element for element in elements}
        return [by_bytes[key] for key in sorted(by_bytes)]

    def read(self, data: bytes, at: int) -> tuple[Value, int]:
        n, at = read_length(data, at, 0x80)
        out: list[Value] = []
        last = b""
        for _ in range(n):
            start = at
            element, at = self.item.read(data, at)
            encoded = data[start:at]
            if encoded <= last:
                raise Miss
            last = encoded
            out.append(element)
        return out, at


# Map


class _Map(Codec):
    __slots__ = ("item", "key")

    def __init__(self, key: Codec, item: Codec) -> None:
        super().__init__("map")
        self.key = key
        self.item = item

    def normal(self, value: Any, room: Room) -> Value:
        return self._walk("map", value, self.item.normal, room)

    def _walk(
        self, expected: str, value: Any, read: Callable[[Any, Room], Value], room: Room
    ) -> Value:
        if type(value) is not dict:
            raise mismatch(expected, value)
        out: Pairs = {}
        for name, element in value.items():
            normal_name = self._name(name, room, out)
            try:
                out[normal_name] = read(element, room)
            except ValueProblem as problem:
                raise problem.under(name) from None
        return _in_order(out)

    def _name(self, value: Any, room: Room, pairs: Pairs) -> str | int:
        try:
            name = cast("str | int", self.key.normal(value, room))
        except ValueProblem as problem:
            raise ValueProblem(f"map key: {problem.message}") from None
        if name in pairs:
            raise ValueProblem(f"map key: duplicate {describe(name)}")
        return name

    def encode(self, value: Any) -> bytes:
        item = self.item
        # No encoded key is a prefix of another, so entries sort as their keys do.
        entries = sorted(
            [encode_key(name) + item.encode(element) for name, element in value.items()]
        )
        return head(0xA0, len(entries)) + b"".join(entries)

    def read(self, data: bytes, at: int) -> tuple[Value, int]:
        n, at = read_length(data, at, 0xA0)
        key, item = self.key, self.item
        out: Pairs = {}
        last = b""
        for _ in range(n):
            start = at
            name, at = key.read(data, at)
            encoded = data[start:at]
            if encoded <= last:
                raise Miss
            last = encoded
            out[cast("str | int", name)], at = item.read(data, at)
        return out, at


def _in_order(pairs: Pairs) -> Value:
    return {name: pairs[name] for name in sorted(pairs, key=encode_key)}


class _TextMap(_Map):
    """Text keys: in JSON it is an object."""

    __slots__ = ()

    def from_json(self, value: Any, room: Room) -> Value:
        return self._walk("a JSON object", value, self.item.from_json, room)

    def to_json(self, value: Any, *, form: JsonForm = JsonForm.NUMBERS) -> object:
        return {name: self.item.to_json(element, form=form) for name, element in value.items()}


class _IntegerMap(_Map):
    """Integer keys: in JSON, which has none, it is an array of pairs."""

    __slots__ = ()

    def from_json(self, value: Any, room: Room) -> Value:
        if type(value) is not list:
            raise mismatch("a JSON array of [key, value] pairs", value)
        out: Pairs = {}
        for index, pair in enumerate(value):
            try:
                self._pair(pair, room, out)
            except ValueProblem as problem:
                raise problem.under(index) from None
        return _in_order(out)

    def _pair(self, pair: object, room: Room, out: Pairs) -> None:
        if type(pair) is not list or len(pair) != 2:
            raise mismatch("a [key, value] pair", pair)
        name = self._name(pair[0], room, out)
        try:
            out[name] = self.item.from_json(pair[1], room)
        except ValueProblem as problem:
            raise problem.under(1) from None

    def to_json(self, value: Any, *, form: JsonForm = JsonForm.NUMBERS) -> object:
        return [
            [name, self.item.to_json(value[name], form=form)]
            for name in sorted(value, key=encode_key)
        ]


# Record


class _Field:
    """A field of a record: its name, the encoded key of its entry, and the codec of its value."""

    __slots__ = ("codec", "key", "name", "size")

    def __init__(self, name: str, codec: Codec) -> None:
        self.name = name
        self.key = encode_key(name)
        self.size = len(self.key)
        self.codec = codec


def _missing(name: str, codec: Codec) -> ValueProblem:
    return ValueProblem(f"missing: expected {codec.type_name}").under(name)


class _Record(Codec):
    __slots__ = ("fields", "head", "in_json", "in_order", "normally")

    def __init__(self, fields: Mapping[str, Codec]) -> None:
        super().__init__("record")
        self.fields = fields
        names = sorted(fields, key=encode_key)
        self.head = head(0xA0, len(names))
        self.in_order = [_Field(name, fields[name]) for name in names]
        self.normally = [(name, fields[name].normal) for name in names]
        self.in_json = [(name, fields[name].from_json) for name in names]

    def normal(self, value: Any, room: Room) -> Value:
        return self._walk("record", value, self.normally, room)

    def from_json(self, value: Any, room: Room) -> Value:
        try:
            return self._walk("a JSON object", value, self.in_json, room)
        except FieldsMissing as first:
            # The author of JSON sees all missing fields together. At the record gate the message is
            # part of a fault in the journal, so there it stays the first one.
            raise self._all_missing(value, first, room) from None

    def _all_missing(
        self, value: Mapping[Any, object], first: FieldsMissing, room: Room
    ) -> FieldsMissing:
        """``first`` together with all other missing fields. It reads no invalid value twice: that
        would take exponential time in deep values."""
        names = [name for name, _ in self.in_json]
        at = next(i for i, name in enumerate(names) if first.is_below(name))
        is_own = names[at] not in value
        problems = [] if is_own else [*first.problems()]
        for name, read in self.in_json if is_own else self.in_json[at + 1 :]:
            if name in value:
                try:
                    read(value[name], room)
                except FieldsMissing as inner:
                    problems += inner.under(name).problems()
                except ValueProblem:
                    pass  # it is reported once nothing is missing
            elif not self.fields[name].may_be_absent:
                problems.append(_missing(name, self.fields[name]))
        return FieldsMissing(problems[0], problems[1:])

    def _walk(
        self,
        expected: str,
        value: Any,
        parts: Sequence[tuple[str, Callable[[Any, Room], Value]]],
        room: Room,
    ) -> Value:
        if type(value) is not dict:
            raise mismatch(expected, value)
        members: Mapping[Any, object] = value
        # If there are as many keys as fields, and each field is among them, no other key is left.
        if len(members) != len(parts) or room.leaves_out:
            members = self._complete(members, room)
        out: Pairs = {}
        name = ""
        try:
            for name, read in parts:
                out[name] = read(members[name], room)
        except KeyError:
            self._complete(members, room)  # reports the unknown or the missing field
            raise
        except ValueProblem as problem:
            raise problem.under(name) from None
        return out

    def _complete(self, value: Mapping[Any, object], room: Room) -> Mapping[Any, object]:
        """``value`` with null for absent options, and without the fields that ``room`` lets it
        leave out. Raises ValueProblem for a wrong field."""
        names = [field.name for field in self.in_order]
        for name, part in value.items():
            if name not in self.fields and not (room.leaves_out and part is None):
                but = " that is not null" if room.leaves_out else ""
                raise ValueProblem(f"unknown field{but} (known: {_names_text(names)})").under(name)
        absent = [name for name in names if name not in value]
        for name in absent:
            if not self.fields[name].may_be_absent:
                raise FieldsMissing(_missing(name, self.fields[name]))
        room.take(len(absent))
        return {name: value.get(name) for name in names}

    def to_json(self, value: Any, *, form: JsonForm = JsonForm.NUMBERS) -> object:
        if form is JsonForm.PEOPLE:
            return {
                name: codec.to_json(value[name], form=form) for name, codec in self.fields.items()
            }
        return {
            field.name: field.codec.to_json(value[field.name], form=form) for field in self.in_order
        }

    def encode(self, value: Any) -> bytes:
        fields = self.in_order
        if len(value) != len(fields):
            raise TypeError(
                f"not in normal form: expected {len(fields)} fields, found {len(value)}"
            )
        return self.head + b"".join(
            [field.key + field.codec.encode(value[field.name]) for field in fields]
        )

    def read(self, data: bytes, at: int) -> tuple[Value, int]:
        if not data.startswith(self.head, at):
            raise Miss
        at += len(self.head)
        out: Pairs = {}
        for field in self.in_order:
            if not data.startswith(field.key, at):
                raise Miss
            out[field.name], at = field.codec.read(data, at + field.size)
        return out, at


# Variant

_TAG: Final = encode_key("$tag")
_VALUE: Final = encode_key("$value")
_VARIANT_KEYS: Final = frozenset({"$tag", "$value"})


class _Arm:
    """An arm of a variant: its tag, the bytes before its value, and the codec; None for unit."""

    __slots__ = ("codec", "prefix", "tag")

    def __init__(self, tag: str, codec: Codec | None) -> None:
        # "$tag" is shorter than "$value", so it comes first.
        opening = head(0xA0, 1 if codec is None else 2) + _TAG + encode_text(tag)
        self.tag = tag
        self.prefix = opening if codec is None else opening + _VALUE
        self.codec = codec

    @property
    def is_unit(self) -> bool:
        """Whether its value may be left out at ingress and in JSON: also behind a ref."""
        return self.codec is None or self.codec is SCALAR_CODECS["unit"]

    @property
    def type_name(self) -> str:
        return "" if self.codec is None else self.codec.type_name


class _Variant(Codec):
    __slots__ = ("arms", "by_opening")

    def __init__(self, arms: Mapping[str, Codec | None]) -> None:
        super().__init__("variant")
        self.arms = {tag: _Arm(tag, codec) for tag, codec in arms.items()}
        self.by_opening = {
            arm.prefix if arm.codec is None else arm.prefix.removesuffix(_VALUE): arm
            for arm in self.arms.values()
        }

    def _arm(self, tag: object) -> _Arm:
        if type(tag) is not str:
            raise mismatch("an arm name", tag)
        if tag not in self.arms:
            arm_names = _names_text(sorted(self.arms))
            raise ValueProblem(f"unknown arm {quoted(tag)} (known: {arm_names})")
        return self.arms[tag]

    def _tagged(self, value: Mapping[Any, object]) -> tuple[_Arm, object]:
        """(arm, the value at "$value") of the canonical form."""
        try:
            arm = self._arm(value["$tag"])
        except ValueProblem as problem:
            raise problem.under("$tag") from None
        for key in value:
            if key not in _VARIANT_KEYS:
                raise ValueProblem("unknown field of a variant (known: $tag, $value)").under(key)
        if arm.codec is None and "$value" in value:
            raise ValueProblem("expected no $value in a unit arm").under("$value")
        if "$value" not in value and not arm.is_unit:
            raise ValueProblem(f"missing: expected {arm.type_name}").under("$value")
        return arm, value.get("$value")

    def _short(self, value: Mapping[str, object]) -> tuple[_Arm, object]:
        """The same of the form ``{Arm: value}``."""
        if len(value) != 1:
            raise ValueProblem(
                'expected variant {"$tag", "$value"} or {Arm: value},'
                f" found an object of {len(value)} keys"
            )
        ((tag, inner),) = value.items()
        arm = self._arm(tag)
        if arm.codec is None and inner is not None:
            raise mismatch("null in a unit arm", inner).under(tag)
        return arm, inner

    def normal(self, value: Any, room: Room) -> Value:
        if type(value) is not dict or "$tag" not in value:
            raise mismatch('variant {"$tag", "$value"}', value)
        arm, inner = self._tagged(value)
        if arm.codec is None:
            return {"$tag": arm.tag}
        try:
            return {"$tag": arm.tag, "$value": arm.codec.normal(inner, room)}
        except ValueProblem as problem:
            raise problem.under("$value") from None

    def from_json(self, value: Any, room: Room) -> Value:
        if type(value) is str:
            if not self._arm(value).is_unit:
                raise ValueProblem(
                    f"arm {quoted(value)} has a value: expected {{{quoted(value)}: value}}"
                )
            value = {"$tag": value}
        if type(value) is not dict:
            raise mismatch('variant {"$tag", "$value"}, {Arm: value} or "Arm"', value)
        is_tagged = "$tag" in value
        arm, inner = self._tagged(value) if is_tagged else self._short(value)
        if arm.codec is None:
            return {"$tag": arm.tag}
        try:
            return {"$tag": arm.tag, "$value": arm.codec.from_json(inner, room)}
        except ValueProblem as problem:
            raise problem.under("$value" if is_tagged else arm.tag) from None

    def to_json(self, value: Any, *, form: JsonForm = JsonForm.NUMBERS) -> object:
        arm = self.arms[value["$tag"]]
        if arm.codec is None:
            return {"$tag": arm.tag}
        return {"$tag": arm.tag, "$value": arm.codec.to_json(value["$value"], form=form)}

    def encode(self, value: Any) -> bytes:
        arm = self.arms[value["$tag"]]
        if len(value) != (1 if arm.codec is None else 2):
            raise TypeError(f"not in normal form: arm {arm.tag} with {len(value)} fields")
        return arm.prefix if arm.codec is None else arm.prefix + arm.codec.encode(value["$value"])

    def read(self, data: bytes, at: int) -> tuple[Value, int]:
        # The head of the map is one byte, and the key "$tag" five.
        n, start = read_length(data, at + 6, 0x60)
        arm = self.by_opening.get(data[at : start + n])
        if arm is None:
            raise Miss
        at = start + n
        if arm.codec is None:
            return {"$tag": arm.tag}, at
        if not data.startswith(_VALUE, at):
            raise Miss
        inner, at = arm.codec.read(data, at + len(_VALUE))
        return {"$tag": arm.tag, "$value": inner}, at


def _names_text(names: list[str]) -> str:
    if not names:
        return "none"
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
