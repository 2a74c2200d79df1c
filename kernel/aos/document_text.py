"""Write a document as the JSON text that ``--json`` prints (spec/cli.md, C-5, C-6)."""

from __future__ import annotations

import json
import sys
from typing import Final

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
these are shown as escapes. Line ends and tabs are kept."""

_JSON_DEPTH: Final = 20_000


def document_text(document: object, *, is_ascii: bool = False, indent: int | None = None) -> str:
    """Return JSON with a line end after it. With ``is_ascii`` every other character is an escape.

    A trace may be nested deeper than Python's default recursion limit, which is raised meanwhile.
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _JSON_DEPTH))
    try:
        text = json.dumps(document, ensure_ascii=is_ascii, indent=indent)
    finally:
        sys.setrecursionlimit(limit)
    return text.translate(CONTROLS) + "\n"
