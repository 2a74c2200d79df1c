"""Parse JSON texts: our own strictly, for schemas and manifests, and those of others if they can be
written again (spec/values.md, V-50).

``parse_json``, for our own, refuses duplicate keys, numbers that are not integers of a Value, NaN
and Infinity, lone surrogates, anything after the value, and text over the limits.

It has two paths. The fast one is Python's own scanner, with hooks that give up at the first
doubt; it never explains. The slow one then reads the same text again, without recursion, and
reports the problem and its place, or accepts the text.
"""

from __future__ import annotations

import json
import math
import re
from typing import Final, Never, cast

from aos.values.cbor import INTEGER_MAX, INTEGER_MIN, is_within
from aos.values.errors import ValueProblem, quoted, segment

JSON_BYTES_MAX: Final = 1 << 20
JSON_DEPTH_MAX: Final = 64
JSON_ITEMS_MAX: Final = 1 << 20

_SPACE: Final = re.compile(r"[ \t\n\r]*+")
_STRING: Final = re.compile(
    r'"([^"\\\x00-\x1f]*+)(?:"|((?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)++)")'
)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_WORDS: Final = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_INTEGER_DIGITS_MAX: Final = len(str(INTEGER_MIN))


def parse_json(
    text: str,
    *,
    max_bytes: int = JSON_BYTES_MAX,
    max_depth: int = JSON_DEPTH_MAX,
    max_items: int = JSON_ITEMS_MAX,
) -> object:
    """Parse one JSON value into None, bool, int, str, list and dict (with text keys).

    ``max_bytes`` limits the text as UTF-8; each value and each key counts as an item. Raises
    ValueProblem with path, line and column.
    """
    # A character has at least one byte, so this bounds the copy that the exact check makes.
    if len(text) > max_bytes:
        raise ValueProblem(
            f"too large: expected at most {max_bytes} bytes of JSON, found at least {len(text)}"
        )
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ValueProblem(
            f"lone surrogate: expected Unicode text{_position_text(text, error.start)}"
        ) from None
    if size > max_bytes:
        raise ValueProblem(f"too large: expected at most {max_bytes} bytes of JSON, found {size}")
    # The scanner joins the two halves of a surrogate pair, but also accepts a lone half.
    if not _SURROGATE.search(text):
        try:
            value: object = _SCANNER.decode(text)
        except (ValueError, RecursionError):
            pass
        else:
            if is_within(value, levels=max_depth, items=max_items):
                return value
    return _Parser(text, max_depth, max_items).parse()


def finite_json(data: str | bytes) -> object:
    """The value of a JSON text of others, if all its numbers can be written as JSON again.

    Python's parser accepts ``NaN`` and ``Infinity``, and reads ``1e999`` as infinity. Written
    again, that is no JSON.

    Raises:
        ValueError: It is no JSON, or has a number that is too large for a float.
        RecursionError: Lists and objects are nested too deeply.
    """
    value: object = json.loads(data, parse_constant=_refuse_number, parse_float=_finite_float)
    return value


def _finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        return _refuse_number(text)
    return number


def _refuse_number(text: str) -> float:
    raise ValueError(f"{text:.40} is no number of JSON, or too large")


# The fast path


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members


def _integer(digits: str) -> int:
    if len(digits) <= _INTEGER_DIGITS_MAX:
        value = int(digits)
        if INTEGER_MIN <= value <= INTEGER_MAX:
            return value
    raise ValueError


def _doubtful(_: str) -> Never:
    raise ValueError


_SCANNER: Final = json.JSONDecoder(
    object_pairs_hook=_distinct,
    parse_int=_integer,
    parse_float=_doubtful,
    parse_constant=_doubtful,
)


# The slow path


def _position_text(text: str, offset: int) -> str:
    line = text.count("\n", 0, offset) + 1
    column = offset - text.rfind("\n", 0, offset)
    return f" at line {line}, column {column}"


class _Parser:
    """The slow path. ``stack`` has the open containers; ``keys[i]`` is the key being read in
    ``stack[i]``."""

    __slots__ = ("depth_max", "items_left", "items_max", "keys", "pos", "stack", "text")

    def __init__(self, text: str, depth_max: int, items_max: int) -> None:
        self.text = text
        self.pos = 0
        self.depth_max = depth_max
        self.items_max = items_max
        self.items_left = items_max
        self.stack: list[list[object] | dict[str, object]] = []
        self.keys: list[str | None] = []

    def parse(self) -> object:
        stack, keys = self.stack, self.keys
        while True:
            value, is_open = self._value()
            if is_open:
                continue
            while stack:
                top = stack[-1]
                if type(top) is list:
                    top.append(value)
                else:
                    cast("dict[str, object]", top)[cast("str", keys[-1])] = value
                    keys[-1] = None
                if self._continues(top):
                    break
                value = stack.pop()
                keys.pop()
            else:
                if self._peek():
                    raise self._problem(
                        f"expected the end of the text, found {self._upcoming_text()}"
                    )
                return value

    def _value(self) -> tuple[object, bool]:
        """(value, False), or (None, True) after opening a container that is not empty."""
        mark = self._peek()
        self._count()
        if mark == '"':
            return self._string(), False
        if mark in ("{", "["):
            return self._open(mark)
        if mark == "-" or (mark.isascii() and mark.isdigit()):
            return self._integer(), False
        word = _WORDS.get(mark)
        if word and self.text.startswith(word[0], self.pos):
            self.pos += len(word[0])
            return word[1], False
        raise self._problem(f"expected a JSON value, found {self._upcoming_text()}")

    def _open(self, mark: str) -> tuple[object, bool]:
        if len(self.stack) >= self.depth_max:
            raise self._problem(f"nested too deep: expected at most {self.depth_max} levels")
        self.pos += 1
        value: list[object] | dict[str, object] = [] if mark == "[" else {}
        if self._peek() == ("]" if mark == "[" else "}"):
            self.pos += 1
            return value, False
        self.stack.append(value)
        self.keys.append(None)
        if type(value) is dict:
            self._key(value)
        return None, True

    def _continues(self, top: list[object] | dict[str, object]) -> bool:
        """Whether a comma follows in ``top`` (and then its next key), or else its end."""
        close = "]" if type(top) is list else "}"
        mark = self._peek()
        if mark not in (",", close):
            raise self._problem(f"expected a comma or {close}, found {self._upcoming_text()}")
        self.pos += 1
        if mark == close:
            return False
        if type(top) is dict:
            self._peek()
            self._key(top)
        return True

    def _key(self, into: dict[str, object]) -> None:
        if self.text[self.pos : self.pos + 1] != '"':
            raise self._problem(f"expected a key in double quotes, found {self._upcoming_text()}")
        self._count()
        at = self.pos
        key = self._string()
        if key in into:
            self.pos = at
            raise self._problem(f"duplicate key {quoted(key)}")
        if self._peek() != ":":
            raise self._problem(
                f"expected a colon after the key {quoted(key)}, found {self._upcoming_text()}"
            )
        self.pos += 1
        self.keys[-1] = key

    def _string(self) -> str:
        match = _STRING.match(self.text, self.pos)
        if match is None:
            raise self._problem(
                "bad string: expected a closing quote, no control characters and only the escapes"
                ' \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX'
            )
        value = match[1] if match[2] is None else cast("str", json.loads(match[0]))
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self._problem("lone surrogate in a string: expected Unicode text") from None
        self.pos = match.end()
        return value

    def _integer(self) -> int:
        match = _NUMBER.match(self.text, self.pos)
        if match is None:
            raise self._problem("bad number: expected digits after the minus sign")
        if match[1] or match[2]:
            raise self._problem(
                f"expected an integer, found {_cut(match[0])}"
                " (write a decimal as text, in double quotes)"
            )
        try:
            value = _integer(match[0])
        except ValueError:
            raise self._problem(
                f"expected an integer of -2^64 to 2^64-1, found {_cut(match[0])}"
            ) from None
        self.pos = match.end()
        return value

    def _count(self) -> None:
        self.items_left -= 1
        if self.items_left < 0:
            raise self._problem(f"too many items: expected at most {self.items_max}")

    def _peek(self) -> str:
        match = _SPACE.match(self.text, self.pos)
        assert match is not None
        self.pos = match.end()
        return self.text[self.pos : self.pos + 1]

    def _upcoming_text(self) -> str:
        upcoming = self.text[self.pos : self.pos + 13]
        if not upcoming:
            return "the end of the text"
        return quoted(upcoming[:12]) if len(upcoming) < 13 else quoted(upcoming[:12])[:-1] + '…"'

    def _problem(self, message: str) -> ValueProblem:
        path = "$"
        for container, key in zip(self.stack, self.keys, strict=True):
            if type(container) is list:
                path += f"[{len(container)}]"
            elif key is not None:
                path += segment(key)
        return ValueProblem(message + _position_text(self.text, self.pos), path=path)


def _cut(number: str) -> str:
    if len(number) <= 32:
        return number
    return f"{number[:12]}… ({len(number)} characters)"
