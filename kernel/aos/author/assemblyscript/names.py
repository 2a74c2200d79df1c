"""Unique AssemblyScript identifiers for the names of AIR (SA-20 to SA-22)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from aos.author.errors import BuildFailed


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED: Final = _words(
    """
    async await break case catch class const constructor continue debugger default delete do else
    enum export extends false finally for function if implements import in instanceof interface let
    new null of override package private protected public readonly return static super switch this
    throw true try typeof var void while with yield
    """
)
"""Names that the compiler refuses for members, parameters or constants (each was tried)."""

_OWN: Final = _words("aos readFrom schemaName tag writeTo r w")
"""Names that generated classes and their methods use themselves."""

GLOBALS: Final = _words(
    """
    Array ArrayBuffer Atomics BigInt Boolean DataView Date Error Float32Array Float64Array Function
    Infinity Int16Array Int32Array Int64Array Int8Array JSON LOG Map Math NaN Number Object Promise
    RangeError Reflect RegExp Set StaticArray String Symbol TypeError URIError Uint16Array
    Uint32Array Uint64Array Uint8Array Uint8ClampedArray aos console process
    """
)


def pascal(text: str) -> str:
    """``card.charge`` -> ``CardCharge``: characters that identifiers cannot have separate words."""
    words = [word for word in re.split(r"[^A-Za-z0-9]+", text) if word]
    joined = "".join(word[0].upper() + word[1:] for word in words)
    return f"_{joined}" if not joined or joined[0].isdigit() else joined


def short_name(name: str) -> str:
    """``shop/Placed@1`` -> ``Placed``; ``shop/Placed@2`` -> ``PlacedV2``."""
    local, version = name.split("/", 1)[1].rsplit("@", 1)
    return pascal(local) + (f"V{version}" if version != "1" else "")


def long_name(name: str) -> str:
    return pascal(name.split("/", 1)[0]) + short_name(name)


def class_names(names: Iterable[str]) -> Mapping[str, str]:
    """A class name for each definition: the short one, unless two would share it."""
    unique_names = sorted(set(names))
    uses = Counter(short_name(name) for name in unique_names)
    return {
        name: long_name(name)
        if uses[short_name(name)] > 1 or short_name(name) in GLOBALS
        else short_name(name)
        for name in unique_names
    }


def fields(names: Iterable[str]) -> Mapping[str, str]:
    """An identifier for each field of a record: its own name if that is an identifier.

    A name that begins with a capital gets a ``_``, because it would hide the class of that name.
    """
    return _members(names, lambda name: f"{name}_" if name[:1].isupper() else name)


def arms(names: Iterable[str]) -> Mapping[str, str]:
    """An identifier for each arm of a variant, for its tag and for its constructor function."""
    return _members(names, lambda name: name)


def getters(names: Iterable[str]) -> Mapping[str, str]:
    """An identifier for the value of each arm: the arm's, with a lower-case first letter."""
    return _members(names, lambda name: name[:1].lower() + name[1:])


def _members(names: Iterable[str], to_identifier: Callable[[str], str]) -> Mapping[str, str]:
    """Replace characters that identifiers cannot have by ``_``, and append ``_`` until the name is
    free."""
    identifiers: dict[str, str] = {}
    in_use: set[str] = set()
    for name in sorted(names):
        plain = re.sub(r"[^A-Za-z0-9_]", "_", to_identifier(name))
        if not plain or plain[0].isdigit():
            plain = f"_{plain}"
        while plain in in_use or plain in RESERVED or plain in _OWN:
            plain += "_"
        in_use.add(plain)
        identifiers[name] = plain
    return identifiers


class Claims:
    """The names in use in one generated file, and the purpose of each."""

    def __init__(self) -> None:
        self._purpose_by_name: dict[str, str] = {}

    def claim(self, name: str, purpose: str) -> str:
        """Reserve a name. Raises BuildFailed if it is in use."""
        first_purpose = self._purpose_by_name.setdefault(name, purpose)
        if first_purpose != purpose:
            raise BuildFailed(
                f"two definitions need the class name {name}: {first_purpose} and {purpose}",
                hint="rename one, or give an inline type its own schema",
            )
        return name
