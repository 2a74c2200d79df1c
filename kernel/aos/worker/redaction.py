"""Replace secrets in bytes of a server or a function by ``[secret NAME]`` (X-69, X-77).

A server may echo a request in the usual encodings, so each secret is searched for unchanged,
percent-encoded, in base64 and hex, and escaped as in JSON, HTML and Python. A secret of several
parts (keys with commas, JSON) is searched for in its parts too. This keeps an honest server's echo
out of the journal. It cannot stop a malicious server, which may encode a secret in a way of its
own.

``Redactor.line`` is for all words from outside that a message quotes: it searches them for secrets
before it cuts them, because half of a secret is not found (X-69b).
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import ClassVar, Final

from aos.worker.worker_secrets import VALUE_BYTES_MIN, SecretValue

_AFTER_SCHEME: Final = re.compile(rb"(?P<scheme>[A-Za-z][A-Za-z0-9_-]*) +(?P<rest>.+)", re.DOTALL)
_PERCENT_ENCODED: Final = tuple(
    re.compile(rb"[^A-Za-z0-9_.~%s-]" % re.escape(safe))
    for safe in (b"", b"/", b"!'()*~", b";,/?:@&=+$#!'()*~", b" ")
)
"""Bytes that percent-encoders replace: most encoders, those of paths, encodeURIComponent,
encodeURI."""

SEARCHED_CHARS_MAX: Final = 64 * 1024
"""Characters of words from outside that are searched, at most. More are never shown."""

JSON_LEVELS: Final = 3

PART_CHARS_MIN: Final = 16
"""A shorter part of a secret may be a word that occurs anywhere."""

_BETWEEN_PARTS: Final = re.compile(r"""[\s,;|"'`(){}\[\]<>]+""")
_UNRESERVED: Final = re.compile(rb"[A-Za-z0-9._-]+")
_NOT_IN_ESCAPES: Final = re.compile(r"[^A-Za-z0-9 ]")
_HTML_ESCAPED: Final = re.compile(r"[<>&]")
_HEX: Final = re.compile(r"(?:0[xX])?((?:[0-9a-fA-F]{2})+)")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")

_PUBLIC_OF_JWK: Final = frozenset(
    {
        "alg",
        "crv",
        "e",
        "key_ops",
        "kid",
        "kty",
        "n",
        "use",
        "x",
        "x5c",
        "x5t",
        "x5t#S256",
        "x5u",
        "y",
    }
)
"""Members of a JSON Web Key that are public (RFC 7517, 7518): they may be in results."""


class Overlong(Exception):
    """The replacements have made the bytes longer than the limit."""


class Redactor:
    """Replaces the given secrets. Without secrets it returns its input."""

    leak_code: ClassVar[str] = "secret_in_result"
    """The code of an effect whose result has one in it."""
    finds: ClassVar[str] = "a secret"

    def __init__(self, secrets: Iterable[SecretValue]) -> None:
        self._labels: dict[bytes, str] = {}
        for secret in secrets:
            for form in forms(secret.value):
                self._labels.setdefault(form, f"secret {secret.name}")

    def redacted(self, data: bytes, *, bytes_max: int | None = None) -> bytes:
        """Return ``data`` with secrets replaced. It must be complete: a split secret is not found.

        Raises:
            Overlong: Secrets were replaced, and the result has more than ``bytes_max`` bytes.
        """
        present_forms = [form for form in self._labels if form in data]  # usually none
        if not present_forms:
            return data
        # Where several begin at one position, replace the longest: a shorter one would leave part
        # of the secret.
        present_forms.sort(key=len, reverse=True)
        pattern = re.compile(b"|".join(map(re.escape, present_forms)))
        parts: list[bytes] = []
        size = end = 0
        for match in pattern.finditer(data):
            mark = b"[%s]" % self._labels[match[0]].encode()
            parts += (data[end : match.start()], mark)
            size += match.start() - end + len(mark)
            end = match.end()
            if bytes_max is not None and size > bytes_max:
                raise Overlong
        parts.append(data[end:])
        if bytes_max is not None and size + len(parts[-1]) > bytes_max:
            raise Overlong
        return b"".join(parts)

    def holds(self, data: bytes) -> bool:
        """Whether ``data`` has a secret in it, in one of its forms."""
        return any(form in data for form in self._labels)

    @property
    def longest(self) -> int:
        """Length of the longest form, in bytes."""
        return max(map(len, self._labels), default=0)

    def text(self, text: str) -> str:
        """As ``redacted``, for a header or the text of an error. Characters that are not UTF-8
        are replaced."""
        return self.code(text)

    def line(self, words: str | bytes, *, characters_max: int) -> str:
        """Words from outside for a message: one line of at most ``characters_max`` printable
        characters.

        Give the words as they came: shortened words may end with a part of a secret, which is not
        found. Words of more than ``SEARCHED_CHARS_MAX`` are taken for the beginning of longer ones.
        """
        if isinstance(words, bytes):
            words = words.decode("utf-8", "replace")
        text = self.text(words[:SEARCHED_CHARS_MAX])
        if len(words) > SEARCHED_CHARS_MAX:
            text = text[: self.begun_at(text)]
        line = "".join(
            character if character.isprintable() else " "
            for character in text[: 8 * characters_max]
        )
        line = " ".join(line.split())
        return line if len(line) <= characters_max else f"{line[:characters_max]}…"

    def redacting(self, report: Callable[[str], None]) -> Callable[[str], None]:
        """A function that gives ``report`` its texts without secrets."""

        def redacted_report(text: str) -> None:
            report(self.text(text))

        return redacted_report

    def begun_at(self, text: str) -> int:
        """Where the end of ``text`` may be the beginning of a secret; its length if nowhere."""
        data = text.encode("utf-8", "surrogatepass")
        forms = self._sorted_forms
        firsts = {form[:1] for form in forms}
        for at in range(max(0, len(data) - self.longest + 1), len(data)):
            if data[at : at + 1] not in firsts:
                continue
            tail = data[at:]
            index = bisect_left(forms, tail)
            if index < len(forms) and forms[index].startswith(tail):
                return len(data[:at].decode("utf-8", "ignore"))
        return len(text)

    @cached_property
    def _sorted_forms(self) -> list[bytes]:
        return sorted(self._labels)

    def code(self, text: str) -> str:
        """As ``text``, for the code of an error, which programs act on: it is never withheld."""
        return self.redacted(text.encode("utf-8", "replace")).decode("utf-8", "replace")


NO_SECRETS: Final = Redactor(())
"""Changes nothing."""


def forms(value: bytes) -> set[bytes]:
    """Every encoding of a value that is searched for; none is shorter than the shortest secret."""
    spelt = {form for part in _parts(value) for form in _spellings(part)}
    spelt.update(_inner_forms(value))
    return {form for form in spelt if len(form) >= VALUE_BYTES_MIN}


def _parts(value: bytes) -> Iterator[bytes]:
    """The value; of ``Bearer X`` also X; of ``Basic X`` also user:password and the password."""
    yield value
    match = _AFTER_SCHEME.fullmatch(value)
    if match is None:
        return
    credentials = match["rest"].strip()
    yield credentials
    if match["scheme"].lower() == b"basic":
        with suppress(binascii.Error):
            pair = base64.b64decode(credentials, validate=True)
            yield pair
            _, colon, password = pair.partition(b":")
            if colon:
                yield password


def _inner_forms(value: bytes) -> Iterator[bytes]:
    """Forms of the parts of a value that are secrets of their own: each key of a list, each text of
    a JSON value, each line of a PEM file. Of a part in hex or base64 also the bytes that it
    encodes, and hex in both cases."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return
    for part in dict.fromkeys(_texts(text)):
        if len(part) < PART_CHARS_MIN:
            continue
        if encoded := _HEX.fullmatch(part):
            digits = encoded[1]  # a leading 0x is no secret
            yield from _spellings(digits.encode())
            yield from (digits.lower().encode(), digits.upper().encode())
            yield from _spellings_of_bytes(bytes.fromhex(digits))
            continue
        yield from _spellings(part.encode())
        if _BASE64.fullmatch(part):
            bare = part.rstrip("=").replace("-", "+").replace("_", "/")
            with suppress(binascii.Error):
                yield from _spellings_of_bytes(base64.b64decode(bare + "=" * (-len(bare) % 4)))


def _texts(text: str) -> Iterator[str]:
    """The texts in a JSON value, without the public members of a key; else the words between
    blanks, commas, quotes and brackets."""
    if text.lstrip()[:1] in ("{", "[", '"'):
        try:
            yield from _json_texts(json.loads(text))
        except (ValueError, RecursionError):
            pass  # it only looks like JSON
        else:
            return
    yield from _BETWEEN_PARTS.split(text)


def _json_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        yield from _BETWEEN_PARTS.split(value)
    elif isinstance(value, list):
        for item in value:
            yield from _json_texts(item)
    elif isinstance(value, dict):
        public = _PUBLIC_OF_JWK if "kty" in value else frozenset()
        for name, item in value.items():
            if name not in public:
                yield from _json_texts(item)


def _spellings(part: bytes) -> Iterator[bytes]:
    if len(part) < VALUE_BYTES_MIN:
        return
    yield from _spellings_of_bytes(part)
    yield from _each_byte_percent_encoded(part)
    if _UNRESERVED.fullmatch(part):
        # No encoder and no escape changes it.
        yield from (part.decode().encode(form) for form in ("utf-16-le", "utf-16-be"))
        return
    yield from _percent_encoded(part)
    with suppress(UnicodeDecodeError):
        yield from _escaped(part.decode())


def _spellings_of_bytes(part: bytes) -> Iterator[bytes]:
    if len(part) < VALUE_BYTES_MIN:
        return
    yield part
    yield from _base64(part)
    yield from (part.hex().encode(), part.hex().upper().encode())
    yield repr(part)[2:-1].encode()


def _percent_encoded(part: bytes) -> Iterator[bytes]:
    for encoded in _PERCENT_ENCODED:
        upper = encoded.sub(lambda match: b"%%%02X" % match[0][0], part)
        lower = encoded.sub(lambda match: b"%%%02x" % match[0][0], part)
        for spelling in (upper, lower):
            yield spelling
            yield spelling.replace(b"%20", b"+").replace(b" ", b"+")
            yield spelling.replace(b"%", b"%25")  # in a URL that is a part of another URL


def _each_byte_percent_encoded(part: bytes) -> Iterator[bytes]:
    each_byte = b"%" + part.hex("%").encode()
    yield each_byte
    yield each_byte.upper()


def _base64(part: bytes) -> Iterator[bytes]:
    """In base64: alone, with and without padding, and inside other data (the digits that do not
    depend on the bytes around it)."""
    alone = base64.b64encode(part)
    inner = [alone, alone.rstrip(b"=")]
    for lead_bytes in range(3):
        shifted = base64.b64encode(bytes(lead_bytes) + part)
        # Only the digits whose six bits all belong to this part.
        inner.append(shifted[-(-lead_bytes * 8 // 6) : (lead_bytes + len(part)) * 8 // 6])
    for spelling in inner:
        yield spelling
        yield spelling.replace(b"+", b"-").replace(b"/", b"_")


def _escaped(text: str) -> Iterator[bytes]:
    for is_ascii in (True, False):
        in_json = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
        for pattern in (None, _HTML_ESCAPED, _NOT_IN_ESCAPES):
            for escape in ("\\u{:04x}", "\\u{:04X}"):
                spelt = _in_json(text, pattern, escape) if pattern is not None else in_json
                for spelling in (spelt, spelt.replace("/", "\\/")):
                    yield from _nested(spelling)
    for quotes in (True, False):
        yield from _nested(html.escape(text, quote=quotes))
    yield from _nested(_NOT_IN_ESCAPES.sub(lambda match: f"&#{ord(match[0])};", text))
    yield repr(text)[1:-1].encode("utf-8", "replace")
    yield text.encode("utf-16-le")
    yield text.encode("utf-16-be")


def _nested(spelt: str) -> Iterator[bytes]:
    """A spelling, also in texts of JSON and in JSON inside of these: the arguments of a tool are
    JSON in an answer in JSON."""
    for _ in range(JSON_LEVELS):
        yield spelt.encode()
        spelt = json.dumps(spelt, ensure_ascii=False)[1:-1]


def _in_json(text: str, escaped: re.Pattern[str], escape: str) -> str:
    """In JSON, with these characters as numbers, as encoders for web pages write them."""

    def number(match: re.Match[str]) -> str:
        units = match[0].encode("utf-16-be")
        return "".join(
            escape.format(int.from_bytes(units[at : at + 2])) for at in range(0, len(units), 2)
        )

    parts = re.split(f"({escaped.pattern})", text)
    return "".join(
        escaped.sub(number, part) if index % 2 else json.dumps(part, ensure_ascii=False)[1:-1]
        for index, part in enumerate(parts)
    )
