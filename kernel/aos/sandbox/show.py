"""The engine's words -> words for a terminal and a log: names in them are the module's own."""

from __future__ import annotations

from typing import Final

_UNPRINTABLE: Final = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """``text`` without what a terminal would obey. Its lines stay lines."""
    return "".join(each if each.isprintable() or each == "\n" else _UNPRINTABLE for each in text)
