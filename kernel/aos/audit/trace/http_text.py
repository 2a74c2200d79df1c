"""Spell an HTTP request and its response for people: the part that a reader looks for comes first.

    POST http://bank/charges {"cents":900}; headers {"idempotency-key":"k-1"}
    201 {"charge":"ch-1"}; headers {"content-type":"application/json"}; timings {…}

See spec/audit.md, A-48a.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from aos.audit.lens.words import compact

_FIRST: Final = ("method", "url", "status", "body", "body_ref")

SizeOf = Callable[[str], int | None]
"""The size in bytes of the blob with this hash, or None if it is unknown."""


def http_text(value: object, size_of: SizeOf) -> str | None:
    """Return params or payload of ``sys/http.request@1`` as text; None for any other value, for
    example one that is too large to be shown. Nothing is left out except null fields."""
    if not isinstance(value, dict) or not ("url" in value or "status" in value):
        return None
    parts = [" ".join(_beginning(value, size_of))]
    parts += [
        f"{name} {compact(_header_texts(part) if name == 'headers' else part)}"
        for name, part in value.items()
        if name not in _FIRST and part not in (None, {})
    ]
    return "; ".join(parts)


def _beginning(value: Mapping[str, Any], size_of: SizeOf) -> list[str]:
    """Return method and URL, or status; then the body."""
    parts = [str(value[name]) for name in ("method", "url", "status") if name in value]
    if value.get("body") is not None:
        parts.append(compact(value["body"]))
    if value.get("body_ref") is not None:
        parts.append(_blob_text(value["body_ref"], size_of))
    return parts


def _header_texts(headers: object) -> object:
    """Return headers with plain texts; a header with a secret shows the name of the secret."""
    if not isinstance(headers, dict):
        return headers
    return {name: _header_text(value) for name, value in headers.items()}


def _header_text(value: object) -> object:
    match value:
        case {"$tag": "literal", "$value": text}:
            return text
        case {"$tag": "secret", "$value": secret}:
            return {"secret": secret}
        case _:
            return value


def _blob_text(ref: str, size_of: SizeOf) -> str:
    size = size_of(ref)
    of = "" if size is None else f" of {size:,} bytes"
    return f"(body: a blob{of}, aos inspect value {ref} --raw)"
