"""Params of ``sys/http.request@1`` -> what goes over the wire, or what is wrong with it (X-63)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpcore
import httpx

from aos.worker.api import EffectContext
from aos.worker.failure import EffectFailed
from aos.worker.job import RequestContext

BAD_REQUEST: Final = "http_bad_request"

URL_CHARS_MAX: Final = 8192
HEADERS_MAX: Final = 128
HEADER_BYTES_MAX: Final = 64 * 1024

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
KEYED_METHODS: Final = frozenset({"POST", "PATCH"})
OURS: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that belong to the connection, not to the request."""

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_HEADER_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """``host`` is as the allow-list has it: lower case, no brackets."""

    method: str
    host: str
    port: int
    url: httpcore.URL
    headers: list[tuple[bytes, bytes]]
    content: bytes | None


def read_request(params: Mapping[str, Any], ctx: EffectContext) -> Request:
    """Check the params of one request.

    Raises:
        EffectFailed: ``http_bad_request``.
    """
    method, url = _method(params["method"]), _url(params["url"])
    port = url.port or (443 if url.scheme == "https" else 80)
    content = _content(params, ctx)
    headers = _headers(params["headers"], method, ctx)
    size = () if content is None else ((b"Content-Length", b"%d" % len(content)),)
    return Request(
        method=method,
        host=url.raw_host.decode("ascii"),
        port=port,
        url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=port, target=url.raw_path),
        headers=[(b"Host", url.netloc), *headers, *size],
        content=content,
    )


def _method(method: str) -> str:
    if method not in METHODS:
        raise EffectFailed(
            BAD_REQUEST,
            f"method: expected one of {', '.join(sorted(METHODS))}, found {method!r:.40}",
        )
    return method


def _url(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text) if len(text) <= URL_CHARS_MAX else None
    except (httpx.InvalidURL, ValueError) as error:
        raise EffectFailed(BAD_REQUEST, f"url: {error}") from error
    if url is None or url.scheme not in ("http", "https") or not url.raw_host:
        raise EffectFailed(BAD_REQUEST, f"url: expected http://… or https://…, found {text!r:.80}")
    if url.userinfo:
        # It would stand in the journal for ever.
        raise EffectFailed(BAD_REQUEST, "url: expected no user or password in it")
    return url


def _headers(
    given: Mapping[str, Any], method: str, ctx: EffectContext
) -> list[tuple[bytes, bytes]]:
    sent: dict[str, tuple[bytes, bytes]] = {}
    for name, header in given.items():
        if header["$tag"] != "literal":
            raise EffectFailed(BAD_REQUEST, f"header {name!r:.80}: secrets are not supported")
        value = header["$value"]
        lower = name.lower()
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise EffectFailed(BAD_REQUEST, f"header {name!r:.80}: expected a token and plain text")
        if lower in OURS or lower.startswith("proxy-"):
            raise EffectFailed(BAD_REQUEST, f"header {name}: the node sets it, or leaves it out")
        if lower in sent:
            raise EffectFailed(BAD_REQUEST, f"header {name}: it is there twice")
        sent[lower] = (name.encode("ascii"), value.strip().encode())
    sent.setdefault("accept", (b"Accept", b"*/*"))
    sent.setdefault("accept-encoding", (b"Accept-Encoding", b"gzip, deflate"))
    sent.setdefault("user-agent", (b"User-Agent", b"aos"))
    if method in KEYED_METHODS:
        key = ctx.idempotency_key.encode()
        sent.setdefault("idempotency-key", (b"Idempotency-Key", key))
    size = sum(len(name) + len(value) for name, value in sent.values())
    if len(sent) > HEADERS_MAX or size > HEADER_BYTES_MAX:
        raise EffectFailed(
            BAD_REQUEST,
            f"headers: expected at most {HEADERS_MAX} and {HEADER_BYTES_MAX} bytes, "
            f"found {len(sent)} and {size}",
        )
    return list(sent.values())


def _content(params: Mapping[str, Any], ctx: EffectContext) -> bytes | None:
    body: bytes | None = params["body"]
    if params["body_ref"] is None:
        return body
    if body is not None:
        raise EffectFailed(BAD_REQUEST, "expected body or body_ref, found both")
    assert isinstance(ctx, RequestContext), "the node sends the blob with the task"
    return ctx.blobs[0]
