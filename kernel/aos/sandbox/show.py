"""Make text of modules and the engine safe for a terminal, a log and a journal."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_UNPRINTABLE: Final = "\N{REPLACEMENT CHARACTER}"

# Our own list (S-48), because the printable characters depend on Python's version of Unicode, and
# this text is hashed. Controls, line and paragraph separators, direction marks and invisible
# characters are removed; characters that only move the cursor become spaces.
_HARMLESS: Final[Mapping[int, str]] = MappingProxyType(
    dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), _UNPRINTABLE)
    | dict.fromkeys((0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F)), _UNPRINTABLE)
    | dict.fromkeys((*range(0x2060, 0x2070), 0xFEFF), _UNPRINTABLE)
    | dict.fromkeys((0x09, 0x0A, 0x0D), " ")
)


def printable(text: str) -> str:
    """The engine's text, which may contain the module's names, without control characters. Line
    breaks are kept."""
    return "".join(
        character if character.isprintable() or character == "\n" else _UNPRINTABLE
        for character in text
    )


def plain(words: bytes) -> str:
    """A module's UTF-8 as one line without control characters, the same in every process. Empty for
    bytes that are not UTF-8."""
    try:
        return words.decode().translate(_HARMLESS)
    except UnicodeDecodeError:
        return ""
