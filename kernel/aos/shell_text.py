"""Commands that a reader can see in full and copy into a shell (spec/cli.md, C-6a)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Final

_BYTES: Final = frozenset(map(chr, range(0xDC80, 0xDD00)))
"""The bytes 0x80 to 0xff of file names that are no UTF-8, as ``os.fsdecode`` returns them."""

_IGNORABLE: Final = frozenset(
    map(
        chr,
        (
            0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164,
            *range(0xFE00, 0xFE10), 0xFFA0, *range(0xE0100, 0xE01F0),
        ),
    )
)  # fmt: skip
"""Characters that are printable by their category, and of which nothing is shown: those that are
Default_Ignorable_Code_Point in Unicode, and the empty Braille pattern."""


def is_hidden(sign: str) -> bool:
    """Return whether a reader cannot see a character, or takes it for another one: controls, format
    characters, separators other than the space, and codes that are unassigned, private or half a
    surrogate pair (the categories that ``str.isprintable`` excludes), and ignorable ones."""
    return not sign.isprintable() or sign in _IGNORABLE


def has_hidden(text: str) -> bool:
    """Return whether one of the characters of a text is hidden."""
    return not text.isprintable() or not _IGNORABLE.isdisjoint(text)


def shell_text(words: Iterable[object]) -> str:
    """Return a command that can be copied into a shell."""
    return " ".join(map(shell_word, words))


def shell_word(word: object) -> str:
    """Return one word of a command. Where it has hidden characters, or bytes that are no UTF-8, it
    is written as ``$'…'`` with the bytes of these.

    >>> shell_word("it\\u200bs")
    "$'it\\\\xe2\\\\x80\\\\x8bs'"
    """
    text = str(word)
    if not has_hidden(text):
        return shlex.quote(text)
    return "$'" + "".join(map(_shell_sign, text)) + "'"


def _shell_sign(sign: str) -> str:
    if is_hidden(sign):
        errors = "surrogateescape" if sign in _BYTES else "surrogatepass"
        return "".join(f"\\x{byte:02x}" for byte in sign.encode(errors=errors))
    return f"\\{sign}" if sign in "\\'" else sign
