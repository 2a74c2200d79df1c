"""Hostile alphabets: values, types, values of a type, and other spellings of them."""

from __future__ import annotations

import random
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from aos.values.cbor import Value
from tests.values import naive

# Where one head becomes the next, where a sign or a word ends, and where i64 and u64 end.
EDGES: Final = sorted(
    {
        sign * (1 << bits) + step
        for bits in (0, 3, 4, 5, 8, 16, 31, 32, 53, 63, 64)
        for sign in (1, -1)
        for step in (-2, -1, 0, 1)
        if -(1 << 64) <= sign * (1 << bits) + step < 1 << 64
    }
    | {22, 23, 24, 25, -23, -24, -25, -26}
)
I64_MIN, I64_MAX, U64_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1

# NUL, quotes, escapes, C1, combining and precomposed (no normalisation), bidi, BOM, the characters
# around the surrogates, astral, the last code point, and names that mean something elsewhere.
TEXTS: Final = (
    "",
    "a",
    "\0",
    "\u0085",
    '"\\/',
    "\u00e9",
    "e\u0301",
    "\u202e",
    "\ufeff",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "\U00010000",
    "\U0010ffff",
    "x" * 23,
    "x" * 24,
    "\u00e9" * 12,
    "x" * 255,
    "x" * 256,
    "$tag",
    "$value",
    "null",
    "1",
    "-1",
    "__proto__",
)

integers: SearchStrategy[int] = st.one_of(
    st.sampled_from(EDGES), st.integers(-300, 300), st.integers(-(1 << 64), U64_MAX)
)
texts: SearchStrategy[str] = st.one_of(
    st.sampled_from(TEXTS), st.text(st.characters(codec="utf-8"), max_size=8)
)
byte_strings: SearchStrategy[bytes] = st.one_of(
    st.binary(max_size=8), st.sampled_from([bytes(23), bytes(24), bytes(256)])
)
keys: SearchStrategy[str | int] = st.one_of(integers, texts)

values: SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), integers, byte_strings, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)


# Types

SCALARS: Final[dict[str, SearchStrategy[Any]]] = {
    "bool": st.booleans(),
    "int": integers.filter(lambda n: I64_MIN <= n <= I64_MAX),
    "nat": integers.filter(lambda n: n >= 0),
    "time": integers.filter(lambda n: I64_MIN <= n <= I64_MAX),
    "duration": integers.filter(lambda n: I64_MIN <= n <= I64_MAX),
    "bytes": byte_strings,
    "text": texts,
    "unit": st.none(),
    "dec128": st.one_of(
        st.sampled_from(["0", "1", "-1", "0.1", "-0.5", "10", "100.01", "9" * 34, "-" + "9" * 34]),
        st.integers(1, 10**30).map(str),
        st.tuples(st.integers(-(10**15), 10**15), st.integers(1, 10**9)).map(
            lambda parts: f"{parts[0]}.{str(parts[1]).rstrip('0')}"
        ),
    ),
    "hash": st.one_of(
        st.binary(min_size=32, max_size=32).map(lambda data: f"blake3:{data.hex()}"),
        st.binary(min_size=32, max_size=32).map(lambda data: f"sha256:{data.hex()}"),
        st.binary(min_size=64, max_size=64).map(lambda data: f"sha512:{data.hex()}"),
    ),
    "uuid": st.uuids().map(str),
}
NAMES: Final = ("a", "b", "id", "state", "a b", "qty/1", "~", "x" * 24, "\u00e9", "0", "type", "Z")

_T = dict[str, Any]


def _can_be_optional(type_: _T) -> bool:
    return "option" not in type_ and "unit" not in type_


types: SearchStrategy[_T] = st.recursive(
    st.sampled_from(sorted(SCALARS)).map(lambda name: {name: {}}),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=4).map(lambda f: {"record": f}),
        st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3).map(
            lambda arms: {"variant": arms}
        ),
        inner.map(lambda item: {"list": item}),
        inner.map(lambda item: {"set": item}),
        inner.filter(_can_be_optional).map(lambda item: {"option": item}),
        st.tuples(st.sampled_from(["int", "nat", "text", "uuid", "hash"]), inner).map(
            lambda pair: {"map": {"key": {pair[0]: {}}, "value": pair[1]}}
        ),
    ),
    max_leaves=6,
)


def values_of(type_: _T) -> SearchStrategy[Any]:
    """Normal values of a type: what V-30 to V-43 say is stored."""
    ((form, argument),) = type_.items()
    if form in SCALARS:
        return SCALARS[form]
    if form == "option":
        return st.one_of(st.none(), values_of(argument))
    if form == "list":
        return st.lists(values_of(argument), max_size=3)
    if form == "set":
        return st.lists(values_of(argument), max_size=3).map(ordered)
    if form == "map":
        return st.dictionaries(values_of(argument["key"]), values_of(argument["value"]), max_size=3)
    if form == "record":
        return st.fixed_dictionaries({name: values_of(field) for name, field in argument.items()})
    return st.one_of(
        [
            st.just({"$tag": name})
            if arm == {"unit": {}}
            else st.fixed_dictionaries({"$tag": st.just(name), "$value": values_of(arm)})
            for name, arm in argument.items()
        ]
    )


def ordered(elements: list[Value]) -> list[Value]:
    """The elements of a set in their order, each once."""
    by_bytes = {naive.encode(element): element for element in elements}
    return [by_bytes[key] for key in sorted(by_bytes)]


typed_values: SearchStrategy[tuple[_T, Any]] = types.flatmap(
    lambda type_: st.tuples(st.just(type_), values_of(type_))
)


# Other spellings


def loosen(type_: _T, value: Any, chance: random.Random) -> Any:
    """A value that the ingress gate may be given for ``value``, before it is encoded."""
    ((form, argument),) = type_.items()
    if form == "dec128":
        return respell_decimal(value, chance)
    if form == "uuid":
        return value.upper() if chance.random() < 0.5 else value
    if form == "option":
        return None if value is None else loosen(argument, value, chance)
    if form == "list":
        return [loosen(argument, item, chance) for item in value]
    if form == "set":
        items = [
            loosen(argument, item, chance) for item in value for _ in range(chance.randint(1, 2))
        ]
        chance.shuffle(items)
        return items
    if form == "map":
        pairs = [
            (loosen(argument["key"], key, chance), loosen(argument["value"], item, chance))
            for key, item in value.items()
        ]
        chance.shuffle(pairs)
        return dict(pairs)
    if form == "record":
        fields = [
            (name, loosen(argument[name], item, chance))
            for name, item in value.items()
            if not (item is None and "option" in argument[name] and chance.random() < 0.5)
        ]
        chance.shuffle(fields)
        return dict(fields)
    if form == "variant" and "$value" in value:
        return {
            "$value": loosen(argument[value["$tag"]], value["$value"], chance),
            "$tag": value["$tag"],
        }
    return value


def loosen_json(type_: _T, obj: Any, chance: random.Random) -> Any:
    """An authoring spelling of the JSON object that ``to_json`` gave."""
    ((form, argument),) = type_.items()
    if form in ("dec128", "uuid"):
        return loosen(type_, obj, chance)
    if form == "option":
        return None if obj is None else loosen_json(argument, obj, chance)
    if form in ("list", "set"):
        items = [loosen_json(argument, item, chance) for item in obj]
        return chance.sample(items, len(items)) + items[:1] if form == "set" else items
    if form == "map" and isinstance(obj, list):
        pairs = [[key, loosen_json(argument["value"], item, chance)] for key, item in obj]
        chance.shuffle(pairs)
        return pairs
    if form == "map":
        return {
            loosen(argument["key"], key, chance): loosen_json(argument["value"], item, chance)
            for key, item in obj.items()
        }
    if form == "record":
        return {
            name: loosen_json(argument[name], item, chance)
            for name, item in chance.sample(list(obj.items()), len(obj))
            if not (item is None and "option" in argument[name] and chance.random() < 0.5)
        }
    if form == "variant":
        tag = obj["$tag"]
        if "$value" not in obj:
            return chance.choice([obj, tag, {tag: None}])
        inner = loosen_json(argument[tag], obj["$value"], chance)
        return chance.choice([{"$value": inner, "$tag": tag}, {tag: inner}])
    return obj


def respell_decimal(text: str, chance: random.Random) -> str:
    """Zeros in front and behind, a plus, an exponent: the same number."""
    sign, digits = ("-", text[1:]) if text.startswith("-") else (chance.choice(["", "+"]), text)
    whole, _, fraction = digits.partition(".")
    if chance.random() < 0.3:
        shift = chance.randint(0, 9)
        return f"{sign}{whole}{fraction}{'0' * shift}e-{len(fraction) + shift}"
    fraction += "0" * chance.randint(0, 3)
    return sign + "0" * chance.randint(0, 3) + whole + (f".{fraction}" if fraction else "")
