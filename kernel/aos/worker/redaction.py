"""Bytes of a server -> the same bytes with ``[secret NAME]`` where a secret stood (X-69).

A server that echoes what it was sent does so in the spellings of its trade, so each secret is
looked for as it is, percent-encoded, in base64 and hex, and escaped as JSON, HTML and Python do it.
This keeps an honest server's echo out of the journal. It cannot stop a server that wants to tell:
that one may spell a secret in a way of its own.
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final
from urllib.parse import quote_from_bytes

from aos.worker.worker_secrets import VALUE_BYTES_MIN, SecretValue

_AFTER_SCHEME: Final = re.compile(rb"(?P<scheme>[A-Za-z][A-Za-z0-9_-]*) +(?P<rest>.+)", re.DOTALL)
_PERCENT_SAFE: Final = ("", "/", "!'()*~", ";,/?:@&=+$#!'()*~", " ")
"""What encoders leave as it is: most of them, those of paths, encodeURIComponent, encodeURI."""


class Overlong(Exception):
    """Marks have made it longer than it may be."""


class Redactor:
    """Finds some secrets. Without any, it returns what it is given."""

    def __init__(self, secrets: Iterable[SecretValue]) -> None:
        self._names: dict[bytes, str] = {}
        for secret in secrets:
            for form in forms(secret.value):
                self._names.setdefault(form, secret.name)

    def redacted(self, data: bytes, *, bytes_max: int | None = None) -> bytes:
        """``data`` with marks. It must be whole: a form that is cut in two is not found.

        Raises:
            Overlong: It has marks, and more than ``bytes_max`` bytes.
        """
        found = [form for form in self._names if form in data]  # the usual end: nothing is there
        if not found:
            return data
        # Where several begin at one place, the longest: what is left of it would tell the rest.
        found.sort(key=len, reverse=True)
        pattern = re.compile(b"|".join(map(re.escape, found)))
        parts: list[bytes] = []
        size = end = 0
        for match in pattern.finditer(data):
            mark = b"[secret %s]" % self._names[match[0]].encode()
            parts += (data[end : match.start()], mark)
            size += match.start() - end + len(mark)
            end = match.end()
            if bytes_max is not None and size > bytes_max:
                raise Overlong
        parts.append(data[end:])
        if bytes_max is not None and size + len(parts[-1]) > bytes_max:
            raise Overlong
        return b"".join(parts)

    def text(self, text: str) -> str:
        return self.redacted(text.encode("utf-8", "replace")).decode("utf-8", "replace")


def forms(value: bytes) -> set[bytes]:
    """Every spelling of a value that is looked for, none of them shorter than a secret may be."""
    spelt = {form for part in _parts(value) for form in _spellings(part)}
    return {form for form in spelt if len(form) >= VALUE_BYTES_MIN}


def _parts(value: bytes) -> Iterator[bytes]:
    """The value; of ``Bearer X`` also X; of ``Basic X`` also user:password and the password."""
    yield value
    match = _AFTER_SCHEME.fullmatch(value)
    if match is None:
        return
    rest = match["rest"].strip()
    yield rest
    if match["scheme"].lower() == b"basic":
        with suppress(binascii.Error):
            pair = base64.b64decode(rest, validate=True)
            yield pair
            _, colon, password = pair.partition(b":")
            if colon:
                yield password


def _spellings(part: bytes) -> Iterator[bytes]:
    if len(part) < VALUE_BYTES_MIN:
        return
    yield part
    yield from _percent_encoded(part)
    yield from _base64(part)
    yield from (part.hex().encode(), part.hex().upper().encode())
    yield repr(part)[2:-1].encode()
    with suppress(UnicodeDecodeError):
        yield from _escaped(part.decode())


def _percent_encoded(part: bytes) -> Iterator[bytes]:
    for safe in _PERCENT_SAFE:
        upper = quote_from_bytes(part, safe=safe)
        lower = re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), upper)
        for each in (upper, lower):
            yield each.encode()
            yield each.replace("%20", "+").replace(" ", "+").encode()
    whole = part.hex()
    each_byte = [whole[at : at + 2] for at in range(0, len(whole), 2)]
    yield "".join(f"%{byte}" for byte in each_byte).encode()
    yield "".join(f"%{byte.upper()}" for byte in each_byte).encode()


def _base64(part: bytes) -> Iterator[bytes]:
    """By itself, with and without padding, and what is the same whatever stands around it."""
    alone = base64.b64encode(part)
    inner = [alone, alone.rstrip(b"=")]
    for before in range(3):
        shifted = base64.b64encode(bytes(before) + part)
        # Digits of six bits that hold bits of this part only.
        inner.append(shifted[-(-before * 8 // 6) : (before + len(part)) * 8 // 6])
    for each in inner:
        yield each
        yield each.replace(b"+", b"-").replace(b"/", b"_")


def _escaped(text: str) -> Iterator[bytes]:
    for is_ascii in (True, False):
        in_json = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
        yield in_json.encode()
        yield in_json.replace("/", "\\/").encode()
    for quotes in (True, False):
        yield html.escape(text, quote=quotes).encode()
    yield text.encode("utf-16-le")
    yield text.encode("utf-16-be")
