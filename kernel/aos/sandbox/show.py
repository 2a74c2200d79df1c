"""Words that are not ours -> words for a terminal, a log and a journal."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_UNPRINTABLE: Final = "\N{REPLACEMENT CHARACTER}"

# A list of our own (S-48): what Unicode calls printable changes with the version of Python, and
# these words are hashed. Controls, line and paragraph separators, directions and what hides in
# between; what only moves the pen is a space.
_HARMLESS: Final[Mapping[int, str]] = MappingProxyType(
    dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), _UNPRINTABLE)
    | dict.fromkeys((0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F)), _UNPRINTABLE)
    | dict.fromkeys((*range(0x2060, 0x2070), 0xFEFF), _UNPRINTABLE)
    | dict.fromkeys((0x09, 0x0A, 0x0D), " ")
)


def printable(text: str) -> str:
    """``text`` of the engine, with names that are the module's, without what a terminal would obey.
    Its lines stay lines."""
    return "".join(each if each.isprintable() or each == "\n" else _UNPRINTABLE for each in text)


def plain(words: bytes) -> str:
    """UTF-8 of a module in one line, without what a terminal would obey: the same in every
    process. Nothing for bytes that are not UTF-8."""
    try:
        return words.decode().translate(_HARMLESS)
    except UnicodeDecodeError:
        return ""
