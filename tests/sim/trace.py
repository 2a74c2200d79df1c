"""Print the events of a simulated world as lines for a person."""

from __future__ import annotations

import sys
from typing import Any, Final

LEFT_OUT: Final = {"stamp", "signature", "output", "fuel", "pages", "effect_hash", "key_id", "path"}


def line_of(happened: tuple[Any, ...], most: int = 240) -> str:
    """A command, an answer with its record, or a step's record, in one line."""
    what, *more = happened
    if what == "do":
        return f"> {more[0]}"
    text = " ".join(str(plain(each)) for each in more if each is not None)
    return f"{what} {text}"[:most]


def say(text: str, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


def plain(value: Any) -> Any:
    """Shorten the bytes in a value, and leave out fields that a person does not need."""
    if isinstance(value, bytes):
        return f"{value[:4].hex()}…" if len(value) > 8 else value.hex()
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if name not in LEFT_OUT}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value
