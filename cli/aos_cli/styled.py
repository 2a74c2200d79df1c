"""Text with styles, for results that are drawn on a terminal and plain elsewhere."""

from __future__ import annotations

from typing import Final, Self

CONTROLS: Final = {
    code: f"\\u{code:04x}"
    for code in (
        *range(9),
        *range(11, 32),
        *range(127, 160),
        0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A),
    )
}  # fmt: skip
"""Control characters, and marks that change the direction of writing. Values come from outside, so
these are printed as escapes and never sent to a terminal. Line ends and tabs are kept."""


class Styled:
    """Pieces of text, each with a style of rich's ("red", "bold"). ``str()`` is the plain text.

    Control characters are replaced as a piece is added, so that none can reach a terminal.
    """

    __slots__ = ("pieces",)

    def __init__(self, text: str = "", style: str = "") -> None:
        self.pieces = [(text.translate(CONTROLS), style)]

    def append(self, text: str, *, style: str = "") -> Self:
        self.pieces.append((text.translate(CONTROLS), style))
        return self

    def __str__(self) -> str:
        return "".join(text for text, _ in self.pieces)
