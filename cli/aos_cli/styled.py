"""Text with styles, for results that are drawn on a terminal and plain elsewhere."""

from __future__ import annotations

from typing import Self

from aos.document_text import CONTROLS


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
